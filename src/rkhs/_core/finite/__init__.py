"""The finite-dimensional convex problem of the representer theorem, its duality gap, and functions of the RKHS."""
