"""The Stanford bunny from points with normals.

    python -m benchmarks.bunny [--left-out 1000] [--resolution 150] [--out DIR]

The 34,817 vertices of the data set bunny with their normals, but for some that are left out: how far the surface passes
from those (|f|, which is about the distance), in units of the mean spacing of the points; how far the triangles of the
mesh are from them; whether the mesh is closed.  Polatory and Open3D, which do the same by other means, are not run
here.
"""

from __future__ import annotations

import argparse
import resource
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from scipy.spatial import cKDTree

import rkhs
from benchmarks.data import arrays
from benchmarks.timing import markdown, show, write

Matrix = np.ndarray[Any, Any]


def distances(points: Matrix, corners: Matrix, triangles: Matrix, near: int = 24) -> Matrix:
    """Of points (t, 3) to the triangles of a mesh, the nearest by their middles being looked at.

    In barycentric coordinates the nearest point of a triangle's plane, or of one of its three sides if that is outside.
    """
    candidates = triangles[cKDTree(corners[triangles].mean(axis=1)).query(points, k=near)[1]]  # (t, near, 3)
    a, b, c = (corners[candidates[..., k]] for k in range(3))
    p = points[:, None, :]
    sides = [_to_segment(p, u, v) for u, v in ((a, b), (b, c), (c, a))]
    e, g, w = b - a, c - a, p - a
    ee, eg, gg, we, wg = (np.sum(u * v, axis=-1) for u, v in ((e, e), (e, g), (g, g), (w, e), (w, g)))
    size = np.maximum(ee * gg - eg**2, np.finfo(float).tiny)
    s, t = (gg * we - eg * wg) / size, (ee * wg - eg * we) / size
    plane = np.linalg.norm(w - s[..., None] * e - t[..., None] * g, axis=-1)
    inside = (s >= 0) & (t >= 0) & (s + t <= 1)
    return np.min(np.where(inside, plane, np.min(sides, axis=0)), axis=1)


def _to_segment(p: Matrix, u: Matrix, v: Matrix) -> Matrix:
    along = v - u
    t = np.sum((p - u) * along, axis=-1) / np.maximum(np.sum(along**2, axis=-1), np.finfo(float).tiny)
    return np.linalg.norm(p - u - np.clip(t, 0, 1)[..., None] * along, axis=-1)


def main() -> None:
    """Print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--left-out", type=int, default=1000)
    parser.add_argument("--resolution", type=int, default=150)
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    options = parser.parse_args()
    data = arrays("bunny")
    points, normals = data["points"].astype(float), data["normals"].astype(float)
    order = np.random.default_rng(0).permutation(len(points))
    out, kept = order[: options.left_out], np.sort(order[options.left_out :])
    start, used = time.perf_counter(), time.process_time()
    surface = rkhs.surface(points[kept], normals[kept])
    fitted = time.perf_counter() - start, time.process_time() - used
    away = np.abs(surface(points[out]))
    print(
        f"{surface!r}: {fitted[0]:.0f} s, {fitted[1]:.0f} processor s; mean |f| {away.mean() / surface.spacing:.4f}",
        flush=True,
    )
    start, used = time.perf_counter(), time.process_time()
    corners, triangles = surface.mesh(options.resolution)
    meshed = time.perf_counter() - start, time.process_time() - used
    edges = np.sort(triangles[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), axis=1)
    counts = np.unique(edges, axis=0, return_counts=True)[1]
    to_mesh = distances(points[out], corners, triangles)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    rows = [
        ["points with normals", f"{len(kept)}"],
        ["pieces", f"{len(surface.pieces)}"],
        ["mean spacing", f"{surface.spacing:.5f}"],
        ["mean |f| at points left out / spacing", f"{away.mean() / surface.spacing:.4f}"],
        ["largest |f| at points left out / spacing", f"{away.max() / surface.spacing:.4f}"],
        ["mean distance of points left out to the mesh / spacing", f"{to_mesh.mean() / surface.spacing:.4f}"],
        ["mean |f| at corners of the mesh / spacing", f"{np.abs(surface(corners)).mean() / surface.spacing:.5f}"],
        ["triangles", f"{len(triangles)}"],
        ["closed", f"{bool(np.all(counts == 2))}"],
        ["seconds (processor) of the surface", f"{fitted[0]:.0f} ({fitted[1]:.0f})"],
        ["seconds (processor) of the mesh", f"{meshed[0]:.0f} ({meshed[1]:.0f})"],
        ["peak GiB", f"{peak:.1f}"],
    ]
    show(Console(), "The bunny", ["what", "figure"], rows)
    write(options.out, "bunny.md", markdown("The bunny", ["what", "figure"], rows))


if __name__ == "__main__":
    main()
