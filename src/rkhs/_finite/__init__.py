"""The finite convex problem that the representer theorem leaves, its certificate, and functions of the space."""
