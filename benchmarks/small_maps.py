"""Maps of 149 to 12,636 points by the default regressor, and SciPy's thin plates.

    python -m benchmarks.small_maps [--names "wind east" ..] [--draws 3] [--out DIR]

Wind and temperature over Texas (data set texas_wind, a fifth of the stations held out), the motion of sites in
California (california_gps, a tenth, one row for each site), and heights of Mount St. Helens (mount_st_helens, a tenth),
1,500 of them and all.  Each quantity is a map of its own.  The model is `InvariantRegressorCV()`; coverage is the share
of held-out values within 1.96 standard deviations.  The peer is `RBFInterpolator` with its thin plate and 100
neighbors.  Root mean squared errors, and processor seconds with the predictions.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from rich.console import Console
from scipy.interpolate import RBFInterpolator

import rkhs
from benchmarks.data import arrays
from benchmarks.timing import markdown, show, write

Matrix = np.ndarray[Any, Any]
NEIGHBORS = 100


def in_degrees(data: dict[str, Matrix]) -> Matrix:
    """Return coordinates in degrees of latitude."""
    longitude, latitude = data["longitude"], data["latitude"]
    return np.stack([longitude * np.cos(np.radians(latitude.mean())), latitude], axis=1)


def sets() -> dict[str, tuple[Matrix, Matrix, float]]:
    """Return points, values and the share of them to hold out, by name."""
    wind, sites, mountain = (arrays(name) for name in ("texas_wind", "california_gps", "mount_st_helens"))
    stations, places = in_degrees(wind), in_degrees(sites)
    once = np.unique(np.round(places, 3), axis=0, return_index=True)[1]  # many rows are the same site again
    found = {f"wind {name}": (stations, wind[name], 0.2) for name in ("east", "north", "air_temperature")}
    found |= {f"gps {name}": (places[once], sites[name][once], 0.1) for name in ("east", "north", "up")}
    some = np.random.default_rng(1).permutation(len(mountain["X"]))[:1500]
    found["terrain, 1,500"] = mountain["X"][some], mountain["height"][some].astype(float), 0.1
    found["terrain, all"] = mountain["X"], mountain["height"].astype(float), 0.1
    return found


def main() -> None:
    """Print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--names", nargs="+", default=None)
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    options = parser.parse_args()
    console, rows = Console(), []
    for name, (X, y, share) in sets().items():
        if options.names is not None and name not in options.names:
            continue
        results = []
        for draw in range(options.draws if len(X) < 10_000 else 1):
            order = np.random.default_rng(draw).permutation(len(X))
            new, known = np.split(order, [int(share * len(X))])
            start = process_time()
            model = rkhs.InvariantRegressorCV().fit(X[known], y[known])
            predicted, std = model.predict(X[new], return_std=True)
            seconds = process_time() - start
            peer = RBFInterpolator(X[known], y[known], neighbors=min(NEIGHBORS, len(known)))(X[new])
            errors = [float(np.sqrt(np.mean((values - y[new]) ** 2))) for values in (predicted, peer)]
            results.append([*errors, float(np.mean(np.abs(predicted - y[new]) <= 1.96 * std)), seconds])
        ours, theirs, coverage, seconds = np.mean(results, axis=0)
        rows.append([name, f"{len(known):,}", f"{ours:.4g}", f"{theirs:.4g}", f"{coverage:.3f}", f"{seconds:.1f}"])
        console.print(*rows[-1])
    headings = ["map", "points", "rkhs", "RBFInterpolator", "coverage", "processor s"]
    show(console, "Maps", headings, rows)
    write(options.out, "small_maps.md", markdown("Maps", headings, rows))


if __name__ == "__main__":
    main()
