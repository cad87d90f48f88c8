"""Graphs of nearest neighbors: search, Laplacians, and polynomial filters of them."""
