"""Shapes that a learned function has everywhere on a box: claims, proofs, and the constraints that make them hold."""
