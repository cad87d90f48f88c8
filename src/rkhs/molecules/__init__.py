"""Force fields: energies and forces of molecules and crystals."""

from rkhs.molecules._force_field import ForceFieldRegressor

__all__ = ["ForceFieldRegressor"]
