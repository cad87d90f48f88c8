"""Points in space: surfaces, thin-plate splines, forces on atoms, and quadrature of integrals over regions."""

from rkhs._estimators.force_field import ForceFieldRegressor
from rkhs._estimators.thin_plate import ThinPlateClassifier, ThinPlateRegressor
from rkhs._gram.integration import quadrature_error, quadrature_nodes
from rkhs._surfaces import reconstruct_surface

__all__ = ["ForceFieldRegressor", "ThinPlateClassifier", "ThinPlateRegressor"]
__all__ += ["quadrature_error", "quadrature_nodes", "reconstruct_surface"]
