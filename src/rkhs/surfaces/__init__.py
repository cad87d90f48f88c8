"""Surfaces and thin plates."""
