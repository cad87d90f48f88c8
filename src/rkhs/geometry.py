"""Points in space: surfaces, thin-plate splines, forces on atoms, and quadrature of integrals over regions."""

from rkhs._core.gram.integration import quadrature_error, quadrature_nodes
from rkhs.molecules._force_field import ForceFieldRegressor
from rkhs.surfaces._signed_distance import reconstruct_surface
from rkhs.surfaces._thin_plate import ThinPlateClassifier, ThinPlateRegressor

__all__ = ["ForceFieldRegressor", "ThinPlateClassifier", "ThinPlateRegressor"]
__all__ += ["quadrature_error", "quadrature_nodes", "reconstruct_surface"]
