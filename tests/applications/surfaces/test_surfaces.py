"""Surfaces from points with normals."""

import numpy as np
import pytest

import rkhs
from refusals import refused

rng = np.random.default_rng(0)


def sphere(t, radius=1.0):
    directions = rng.standard_normal((t, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    return radius * directions, directions


@pytest.mark.slow
@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_a_ball_in_several_pieces(unit):
    points, normals = sphere(600)
    f = rkhs.geometry.reconstruct_surface(unit * points, 3 * normals, piece=60)
    assert len(f.pieces) > 5
    assert np.abs(f(unit * points)).max() < 1e-4 * unit
    new = sphere(300)[0]
    spacing = f.spacing
    assert np.abs(f(unit * new)).max() < 0.1 * spacing
    assert np.all(f(0.95 * unit * new) < 0)
    np.testing.assert_allclose(f(1.02 * unit * new), 0.02 * unit, rtol=0.2)
    assert np.isnan(f([[100 * unit, 0.0, 0.0]])[0])


@pytest.mark.slow
def test_noisy_points_are_smoothed():
    points, normals = sphere(400)
    noisy = points + 0.02 * rng.standard_normal((400, 3))
    through, smooth = (rkhs.geometry.reconstruct_surface(noisy, normals, smoothing=s) for s in (0.0, 10.0))
    new = sphere(200)[0]
    assert np.abs(smooth(new)).mean() < 0.7 * np.abs(through(new)).mean()


@pytest.mark.slow
def test_corners_are_moved_onto_the_zeros():
    """From within a cell of the surface, whichever way the normals of marching cubes point."""
    points, normals = sphere(600)
    f = rkhs.geometry.reconstruct_surface(points, normals)
    near, across = sphere(100)
    off = near * (1 + rng.uniform(-0.05, 0.05, (100, 1)))
    moved = f._project(off, rng.choice([-1.0, 1.0], (100, 1)) * across, 0.1)
    assert np.abs(f(off)).max() > 0.02
    assert np.abs(f(moved)).max() < 1e-6


def test_mesh_is_closed_and_near():
    pytest.importorskip("skimage")
    points, normals = sphere(300)
    corners, triangles = rkhs.geometry.reconstruct_surface(points, normals).mesh(resolution=20)
    edges = np.sort(triangles[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), axis=1)
    counts = np.unique(edges, axis=0, return_counts=True)[1]
    assert np.all(counts == 2)
    np.testing.assert_allclose(np.linalg.norm(corners, axis=1), 1.0, atol=0.02)


test_what_is_no_surface = refused(
    (lambda: rkhs.geometry.reconstruct_surface(np.zeros((5, 2)), np.zeros((5, 2))), r"shape \(t, 3\)"),
    (lambda: rkhs.geometry.reconstruct_surface(np.zeros((5, 3)), np.ones((4, 3))), r"got \(5, 3\) and \(4, 3\)"),
    (lambda: rkhs.geometry.reconstruct_surface(np.eye(4)[:, :3], np.eye(4)[:, :3]), "Normal 3 has length zero"),
    (lambda: rkhs.geometry.reconstruct_surface(np.zeros((5, 3)), np.ones((5, 3))), "given at least twice"),
    (lambda: rkhs.geometry.reconstruct_surface(np.full((5, 3), np.nan), np.ones((5, 3))), "NaN"),
)
