"""Linear algebra that SciPy does not have: projections, saddle points, Krylov methods on blocks."""
