"""The Stanford bunny from points with normals.

    python -m benchmarks.bunny [--left-out 1000] [--resolution 150] [--depths 8 9 10] [--out DIR]

The 34,817 vertices of the data set bunny with their normals, but for some that are left out: how far the triangles of
the mesh are from those, in units of the mean spacing of the points; whether the mesh is closed, each edge being one of
two triangles; seconds and memory, each model in a process of its own.  The peer, where it is installed, is Open3D's
screened Poisson reconstruction on two threads, with its own depth (8) and finer ones.
"""

from __future__ import annotations

import argparse
import resource
import time
from concurrent.futures import ProcessPoolExecutor
from importlib.util import find_spec
from multiprocessing import get_context
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


def ours(points: Matrix, normals: Matrix, resolution: int) -> tuple[Matrix, Matrix, str]:
    """The corners and triangles of the mesh, and what else there is to say."""
    start = time.perf_counter()
    surface = rkhs.geometry.reconstruct_surface(points, normals)
    fitted = time.perf_counter() - start
    corners, triangles = surface.mesh(resolution)
    return corners, triangles, f"{len(surface.pieces)} pieces, {fitted:.0f} s before the mesh"


def poisson(points: Matrix, normals: Matrix, depth: int) -> tuple[Matrix, Matrix, str]:
    """The same by Open3D, with one thread: with two its depth 9 was seen to end the process."""
    import open3d

    cloud = open3d.geometry.PointCloud()
    cloud.points = open3d.utility.Vector3dVector(points)
    cloud.normals = open3d.utility.Vector3dVector(normals)
    mesh, _ = open3d.geometry.TriangleMesh.create_from_point_cloud_poisson(cloud, depth=depth, n_threads=1)
    return np.asarray(mesh.vertices), np.asarray(mesh.triangles), f"depth {depth}"


def measured(way: Any, setting: int, left_out: int) -> list[str]:
    """A row of the table."""
    data = arrays("bunny")
    points, normals = data["points"].astype(float), data["normals"].astype(float)
    order = np.random.default_rng(0).permutation(len(points))
    out, kept = order[:left_out], np.sort(order[left_out:])
    spacing = float(cKDTree(points[kept]).query(points[kept], k=2)[0][:, 1].mean())
    start, used = time.perf_counter(), time.process_time()
    corners, triangles, told = way(points[kept], normals[kept], setting)
    seconds, cpu = time.perf_counter() - start, time.process_time() - used
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    edges = np.sort(triangles[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), axis=1)
    closed = bool(np.all(np.unique(edges, axis=0, return_counts=True)[1] == 2))
    away = distances(points[out], corners, triangles) / spacing
    figures = [f"{away.mean():.4f}", f"{away.max():.3f}", f"{len(triangles)}", "yes" if closed else "no"]
    return [told, *figures, f"{seconds:.0f}", f"{cpu:.0f}", f"{peak:.2f}"]


def main() -> None:
    """Print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--left-out", type=int, default=1000)
    parser.add_argument("--resolution", type=int, default=150)
    parser.add_argument("--depths", nargs="+", type=int, default=[8, 9, 10])
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    options = parser.parse_args()
    runs: list[tuple[str, Any, int]] = [("rkhs", ours, options.resolution)]
    if find_spec("open3d") is not None:
        runs += [("Open3D Poisson", poisson, depth) for depth in options.depths]
    rows = []
    for name, way, setting in runs:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as alone:  # whose memory is its own
            rows.append([name, *alone.submit(measured, way, setting, options.left_out).result()])
        print(*rows[-1], flush=True)
    title = "The bunny: distance of points left out to the mesh, in units of the mean spacing of points"
    headings = ["model", "settings", "mean", "largest", "triangles", "closed", "seconds", "processor seconds", "GiB"]
    show(Console(), title, headings, rows)
    write(options.out, "bunny.md", markdown(title, headings, rows))


if __name__ == "__main__":
    main()
