"""The calculus, the finite problems and their solutions, on which everything else stands."""
