"""Points in space: surfaces, thin-plate splines, forces on atoms, and quadrature of integrals over regions."""

from rkhs._lazy import facade

__all__, __getattr__, __dir__ = facade(globals())
