"""Maps: points from tables, coordinates, Fourier grids, neighborhoods, and surfaces on regular grids.

`points` reads pandas, GeoPandas and xarray by the names of columns, and `grid` evaluates a fitted regressor.  Both need
the optional packages only for the objects of these: ``pip install 'rkhs[geo]'``.  The approximations `FourierGrid` and
`Neighbors` are written with `rkhs.extend` alone, as a user would write them.
"""

from rkhs.maps._coordinates import (
    LONLAT as LONLAT,
    Coordinates as Coordinates,
    LonLat as LonLat,
    Transformed as Transformed,
    are_degrees as are_degrees,
    as_coordinates as as_coordinates,
    check_degrees as check_degrees,
)
from rkhs.maps._fourier_grid import (
    FourierGrid as FourierGrid,
    FourierGridSpace as FourierGridSpace,
    spectra as spectra,
)
from rkhs.maps._grids import (
    STD as STD,
    GridMap as GridMap,
    axes_around as axes_around,
    coordinate_names as coordinate_names,
    grid,
    points,
)
from rkhs.maps._neighbors import (
    LocalFunction as LocalFunction,
    Neighbors as Neighbors,
)

__all__ = ["grid", "points"]
