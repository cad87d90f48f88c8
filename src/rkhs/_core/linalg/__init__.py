"""Linear algebra that SciPy lacks: saddle point systems, block conjugate gradients, projections onto boxes."""
