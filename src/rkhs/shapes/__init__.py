"""Shape constraints that hold everywhere on a box: claims, proofs, and constraints at points that enforce them."""
