"""Atoms of molecules: their elements, and which of them may change places.

Two geometries of a molecule are matched by the permutation of atoms of equal elements that makes their distance
matrices most alike, from the eigenvectors of both and linear assignments (Umeyama 1988; Chmiela et al. 2018).  A
permutation under which geometries match better than without it is a candidate.  It is a symmetry if permuted geometries
are as near to the data as the data are to themselves: exchanges of atoms that are not equivalent, and mirror images
that the molecule does not reach, lead away from the data.
"""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from rkhs.extend import Matrix, Vector, warn
from rkhs.kernels import generated_group, group_order

SYMBOLS = (
    "H He Li Be B C N O F Ne Na Mg Al Si P S Cl Ar K Ca Sc Ti V Cr Mn Fe Co Ni Cu Zn Ga Ge As Se Br Kr Rb Sr Y Zr Nb "
    "Mo Tc Ru Rh Pd Ag Cd In Sn Sb Te I Xe Cs Ba La Ce Pr Nd Pm Sm Eu Gd Tb Dy Ho Er Tm Yb Lu Hf Ta W Re Os Ir Pt Au "
    "Hg Tl Pb Bi Po At Rn Fr Ra Ac Th Pa U Np Pu Am Cm Bk Cf Es Fm Md No Lr Rf Db Sg Bh Hs Mt Ds Rg Cn Nh Fl Mc Lv Ts "
    "Og"
)
ELEMENTS = SYMBOLS.split()
MATCHED = 60  # geometries of which all pairs are matched
COMPARED = 200  # geometries from which distances to the nearest one are taken
# Distances of permuted geometries to the nearest one of the data, in units of those without permutation: 0.93 to 1.04
# for the symmetries of ethanol, malonaldehyde and toluene, 1.8 and more for other permutations that match.
SPREAD = 1.25
MOST_FOUND = 100  # permutations of a group that is found


def atomic_numbers(atoms: Any, count: int) -> Vector | None:
    """Return the atomic numbers (count,) of symbols or numbers; None without atoms."""
    if atoms is None:
        return None
    given = np.asarray(atoms)
    if given.dtype.kind in "US":
        unknown = sorted({str(symbol) for symbol in given.ravel()} - set(ELEMENTS))
        if unknown:
            raise ValueError(f"atoms contains {', '.join(map(repr, unknown))}, which are no symbols of elements.")
        given = np.array([ELEMENTS.index(str(symbol)) + 1 for symbol in given.ravel()])
    if given.dtype.kind not in "iu" or given.ndim != 1 or np.any((given < 1) | (given > len(ELEMENTS))):
        raise ValueError(
            "atoms must be a sequence, the same for all geometries, of symbols of elements, such as 'H', or of atomic "
            f"numbers from 1 to {len(ELEMENTS)}; got an array of {given.dtype} of shape {given.shape}."
        )
    if len(given) != count:
        raise ValueError(f"atoms has {len(given)} elements, but R has {count} atoms.")
    return given.astype(int)


def stated_symmetries(generators: Any, atoms: int) -> Matrix:
    """Return the group that the permutations of atoms generate."""
    given = np.atleast_2d(np.arange(atoms) if generators is None else np.asarray(generators))
    if given.dtype.kind not in "iu" or given.shape[1:] != (atoms,) or np.any(np.sort(given) != np.arange(atoms)):
        raise ValueError(
            f"symmetries must be permutations of the {atoms} atoms, each with the numbers 0 to {atoms - 1} once; got "
            f"{generators!r}."
        )
    return generated_group(given)


def found_symmetries(X: Matrix, numbers: Vector) -> Matrix:
    """Return the group of permutations of atoms of equal elements that leave the set of geometries unchanged.

    Parameters
    ----------
    X : ndarray of shape (t, 3 atoms)
        The positions of the atoms in each geometry.
    numbers : ndarray of int of shape (atoms,)
        The elements.

    Returns
    -------
    ndarray of int of shape (group, atoms)
        The group.
    """
    n = len(numbers)
    rows = np.random.default_rng(0).permutation(len(X))[:COMPARED]
    positions = X[rows].reshape(len(rows), n, 3)
    D = np.linalg.norm(positions[:, :, None] - positions[:, None], axis=-1)
    accepted = [g for g in _candidates(D[:MATCHED], numbers) if _is_symmetry(D, np.array(g))]
    kept: list[tuple[int, ...]] = [tuple(range(n))]
    skipped = False
    for g in accepted:  # those that match most pairs come first
        if group_order([*kept, g]) <= MOST_FOUND:
            kept.append(g)
        else:
            skipped = True
    group = generated_group(kept)
    if skipped:
        warn(
            f"The geometries are invariant under more than {MOST_FOUND} permutations of atoms; ForceFieldRegressor "
            f"uses {len(group)} of them, those of the most frequent exchanges. State others with symmetries=..."
        )
    return group


def _candidates(D: Matrix, numbers: Vector) -> list[tuple[int, ...]]:
    """Return the permutations under which pairs of distance matrices (t, atoms, atoms) match better, frequent first."""
    vectors = np.abs(np.linalg.eigh(D)[1])
    elements = [np.flatnonzero(numbers == number) for number in np.unique(numbers)]
    elements = [atoms for atoms in elements if len(atoms) > 1]
    count: Counter[tuple[int, ...]] = Counter()
    for a, b in combinations(range(len(D)), 2):
        likeness = vectors[a] @ vectors[b].T
        g = np.arange(len(numbers))
        for atoms in elements:
            g[atoms] = atoms[linear_sum_assignment(likeness[np.ix_(atoms, atoms)], maximize=True)[1]]
        if np.sum((D[a] - D[b][np.ix_(g, g)]) ** 2) < np.sum((D[a] - D[b]) ** 2):
            count[tuple(g.tolist())] += 1
    return [g for g, times in count.most_common() if times > 1]


def _is_symmetry(D: Matrix, g: Vector) -> bool:
    """Return whether permuted geometries are about as near to the data as the data are to themselves."""
    i, j = np.triu_indices(D.shape[1], 1)

    def nearest(images: Matrix) -> float:
        distances = cdist(D[:, i, j], images)
        np.fill_diagonal(distances, np.inf)
        return float(np.median(distances.min(axis=1)))

    return nearest(D[:, g[i], g[j]]) <= SPREAD * nearest(D[:, i, j])
