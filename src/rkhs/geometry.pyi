"""List the names of points in space; `geometry.py` imports each when it is first used."""

from rkhs._core.gram.integration import quadrature_error as quadrature_error, quadrature_nodes as quadrature_nodes
from rkhs.molecules._force_field import ForceFieldRegressor as ForceFieldRegressor
from rkhs.surfaces._signed_distance import reconstruct_surface as reconstruct_surface
from rkhs.surfaces._thin_plate import (
    ThinPlateClassifier as ThinPlateClassifier,
    ThinPlateRegressor as ThinPlateRegressor,
)
