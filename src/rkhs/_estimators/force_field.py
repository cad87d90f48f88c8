"""Energies of a molecule from forces, with a kernel that is chosen by held-out forces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from rkhs._backend.arrays import Matrix, Vector, as_array, double, to_numpy, unique_rows
from rkhs._calculus.function_spaces import Constant
from rkhs._estimators.base import transactional
from rkhs._estimators.search import Candidate, best_of, paired_test, search
from rkhs._finite.solution import CONVERGED
from rkhs._finite.term import Term
from rkhs._gram import gram
from rkhs._problem import Problem
from rkhs._warnings import warn
from rkhs.functionals import Evaluation, Gradient
from rkhs.kernels import Gaussian, InverseDistances, Kernel, Matern, Sum, Symmetrized, median_scale
from rkhs.kernels._symmetrized import generated
from rkhs.losses import Squared
from rkhs.solvers import Direct

# The candidates of kernel="auto": length scales in units of the median distance between descriptors, and variances of
# the noise in units of the mean square of a force.  Longer scales with less noise are nearly equivalent.
SCALES = (3.0, 10.0)
NOISES = (1e-8, 1e-6, 1e-4)
REFINED = (0.01, 0.1, 1.0, 10.0)  # factors on the chosen noise, of which more geometries need less
WHOLE = 0.01  # weight of the part of all atoms beside two parts that leave out distant atoms
LEARNED, REFINED_LEARNED, HELD_OUT = 100, 200, 50  # the most geometries of the choices of the kernel and of the noise
CHECKED = 50  # the most geometries from which energies and symmetries are checked, with the first kernel and this noise
CHECKED_NOISE = 1e-6
CONTRADICTION = 0.1  # relative deviation of energies from the integral of the forces that is reported

MANY = 100  # permutations above which a warning says how long the fit takes


@dataclass(eq=False, repr=False)
class ForceFieldRegressor(BaseEstimator):
    """Regressor that learns the energy of a molecule from the forces on its atoms.

    The energy f is a function of the inverse distances of atoms, which is invariant under rotations, translations and
    the given exchanges of atoms, and the forces are exactly minus its gradient.  It minimizes

        1/2 |f|^2 + 1 / (2 noise s^2) sum over geometries of |forces + gradient f|^2

    where s^2 is the mean square of a force, which is also its variance under the kernel: units do not matter.

    A fifth of the geometries is held out, and the mean absolute error of their forces chooses the kernel of the inverse
    distances: Gaussian, Matern 5/2 or 7/2, its length scale, and whether f is a sum of parts, each without one of the
    two sets of equivalent atoms that are the farthest apart, and a small part of all atoms.  This choice uses at most
    150 geometries.  The noise is chosen again with at most 250 of them, and f is learned from all geometries.

    Parameters
    ----------
    kernel : "auto" or Kernel, default="auto"
        "auto" compares kernels; or a kernel of the inverse distances, such as `rkhs.Matern(2.5, scale=3.0)`, for which
        only the noise is chosen.
    symmetries : array-like of shape (m, atoms), optional
        Permutations of atoms that leave the energy unchanged, with those that follow from them; for water, atoms O, H
        and H, this is [[0, 2, 1]].  The time of a fit grows with the number of permutations; groups of more than 1000
        are refused.
    tol : float, default=1e-3
        The relative duality gap to reach.
    random_state : int, RandomState or None, default=0
        The seed that draws the held-out geometries.
    verbose : bool, default=False
        Whether to print progress to standard error.

    Attributes
    ----------
    function_ : Function
        The energy, a function of rows with the coordinates of all atoms.
    solution_ : Solution
        The solution with its certificate.
    best_params_ : dict
        The chosen `kernel` of the inverse distances; `left_out`, the atoms that each part leaves out; and `noise`.
    cv_results_ : dict of lists
        The same for each candidate, with `learned`, the number of geometries, and `error`, the mean absolute error of a
        component of the held-out forces.
    n_atoms_ : int
        The number of atoms.

    Examples
    --------
    Learn a spring between two atoms at distance 1:

    >>> import numpy as np, rkhs
    >>> R = np.random.default_rng(0).normal([[0, 0, 0], [1, 0, 0]], 0.1, (30, 2, 3))
    >>> bonds = R[:, 1] - R[:, 0]
    >>> pull = (1 - 1 / np.linalg.norm(bonds, axis=1))[:, None] * bonds
    >>> model = rkhs.geometry.ForceFieldRegressor(symmetries=[[1, 0]]).fit(R, np.stack([pull, -pull], axis=1))
    >>> stretched = np.array([[[0.0, 0.0, 0.0], [1.1, 0.0, 0.0]]])
    >>> round(float(model.predict_forces(stretched)[0, 0, 0]), 2)
    0.1
    """

    kernel: Any = "auto"
    _: KW_ONLY
    symmetries: Any = None
    tol: float = 1e-3
    random_state: Any = 0
    verbose: bool = False

    @transactional
    def fit(self, R: Any, forces: Any, energies: Any = None) -> ForceFieldRegressor:
        """Choose the kernel and learn the energy.

        Parameters
        ----------
        R : array-like of shape (t, atoms, 3)
            The positions of the atoms in each geometry.
        forces : array-like of shape (t, atoms, 3)
            The forces on the atoms.
        energies : array-like of shape (t,), optional
            The energies, which also determine the constant of f.

        Returns
        -------
        ForceFieldRegressor
            The fitted estimator.
        """
        X = _geometries(R, "R")
        F = _geometries(forces, "forces")
        if F.shape != X.shape:
            raise ValueError(f"forces must have the shape of R, {np.shape(R)}, got {np.shape(forces)}.")
        E = None if energies is None else double(as_array(energies, "energies"))
        if E is not None and E.shape != (len(X),):
            raise ValueError(f"energies must be one number for each of the {len(X)} geometries, got shape {E.shape}.")
        if len(X) < 2 or not np.any(F):
            raise ValueError("fit needs at least two geometries, and forces that are not all zero.")
        if not isinstance(self.kernel, Kernel) and self.kernel != "auto":
            raise ValueError(f'kernel must be "auto" or a kernel of the inverse distances, got {self.kernel!r}.')
        self.n_atoms_ = X.shape[1] // 3
        molecule = _Molecule(X, F, E, _permutations(self.symmetries, self.n_atoms_), self.verbose)
        order = check_random_state(self.random_state).permutation(len(X))
        held_out, rows = np.split(order, [min(max(len(X) // 5, 1), HELD_OUT)])
        kernels = [self.kernel] if isinstance(self.kernel, Kernel) else list(_kernels(X))
        molecule.warn_of_energies(kernels[0], rows[:CHECKED], held_out)
        molecule.warn_of_symmetries(kernels[0], self.symmetries, rows[:CHECKED], held_out)
        parts = molecule.parts() if isinstance(self.kernel, str) else ()

        def candidates(found: list[Candidate]) -> Iterator[list[tuple[Kernel, Any]]]:
            yield from ([(kernel, ((),))] for kernel in kernels)
            if parts:
                yield [(best_of(found).params["kernel"], parts)]

        found, _ = search(candidates, lambda pair: molecule.scored(pair[0], pair[1], NOISES, rows[:LEARNED], held_out))
        best = best_of(found).params
        noises = [factor * best["noise"] for factor in REFINED]
        refined = molecule.scored(best["kernel"], best["left_out"], noises, rows[:REFINED_LEARNED], held_out)
        best, tried = best_of(refined).params, [{**one.params, "error": one.loss} for one in found + refined]
        self.cv_results_ = {key: [one[key] for one in tried] for key in tried[0]}
        self.best_params_ = {key: best[key] for key in ("kernel", "left_out", "noise")}
        problem = molecule.problem(best["kernel"], best["left_out"], best["noise"], order)
        self.solution_ = problem.solve(Direct(), tol=self.tol, verbose=self.verbose)
        self.function_ = self.solution_.function
        if self.solution_.status != CONVERGED:
            warn(
                f"ForceFieldRegressor stopped before tol={self.tol:g}: {self.solution_}. Give it a larger tol.",
                ConvergenceWarning,
            )
        return self

    def predict(self, R: Any) -> Vector:
        """Predict energies; without energies in `fit`, they are known up to a constant.

        Parameters
        ----------
        R : array-like of shape (t, atoms, 3)
            The positions of the atoms in each geometry.

        Returns
        -------
        ndarray of shape (t,)
            The energies.
        """
        X = self._checked(R)
        return to_numpy(self.function_(X))

    def predict_forces(self, R: Any) -> Matrix:
        """Predict forces, which are minus the gradient of `predict`.

        Parameters
        ----------
        R : array-like of shape (t, atoms, 3)
            The positions of the atoms in each geometry.

        Returns
        -------
        ndarray of shape (t, atoms, 3)
            The forces.
        """
        X = self._checked(R)
        return -to_numpy(Gradient(X)(self.function_)).reshape(len(X), -1, 3)

    def _checked(self, R: Any) -> Matrix:
        check_is_fitted(self, "function_")
        X = _geometries(R, "R")
        if X.shape[1] != 3 * self.n_atoms_:
            raise ValueError(f"R has {X.shape[1] // 3} atoms, but the model was fitted with {self.n_atoms_}.")
        return X


@dataclass(frozen=True, eq=False)
class _Molecule:
    """The data of a fit, from which problems with various kernels are made."""

    X: Matrix
    F: Matrix
    E: Vector | None
    group: Matrix  # of permutations of atoms
    verbose: bool

    def parts(self) -> tuple[tuple[int, ...], ...]:
        """Return the atoms that each part leaves out: none, and the two orbits of the group that are farthest apart."""
        atoms = self.group.shape[1]
        orbits = {tuple(sorted(set(self.group[:, atom].tolist()))) for atom in range(atoms)}
        orbits = {orbit for orbit in orbits if atoms - len(orbit) >= 3}
        positions = self.X.reshape(len(self.X), atoms, 3)

        def separation(pair: tuple[tuple[int, ...], ...]) -> float:
            differences = positions[:, pair[0]][:, :, None] - positions[:, pair[1]][:, None]
            return float(np.linalg.norm(differences, axis=-1).mean(axis=0).min())

        farthest = max(combinations(sorted(orbits), 2), key=separation, default=None)
        return () if farthest is None else ((), *farthest)

    def scored(
        self, kernel: Kernel, left_out: Any, noises: Sequence[float], rows: Any, held_out: Any
    ) -> list[Candidate]:
        """Return the candidate of each noise, with the mean absolute error of held-out forces."""
        problem = self.problem(kernel, left_out, 1.0, rows)
        terms = tuple(range(len(problem.terms)))
        solutions = problem.grid({terms: [1 / noise for noise in noises]}, tol=1e-3, verbose=self.verbose)
        errors = [float(self.errors(solution.function, held_out).mean()) for solution in solutions]
        params = {"kernel": kernel, "left_out": left_out, "learned": len(rows)}
        pairs = zip(noises, errors, strict=True)
        return [Candidate({**params, "noise": noise}, error, np.array([-error])) for noise, error in pairs]

    def errors(self, f: Any, rows: Any) -> Vector:
        """Return the mean absolute error (t,) of the forces of some geometries."""
        return np.abs(to_numpy(Gradient(self.X[rows])(f)) + self.F[rows]).mean(axis=1)

    def checked(self, group: Matrix, kernel: Kernel, rows: Any) -> Any:
        """Return f, learned from the forces of some geometries alone, with a group of permutations of atoms."""
        problem = replace(self, E=None, group=group).problem(kernel, (), CHECKED_NOISE, rows)
        return problem.solve(Direct(), tol=1e-3, verbose=self.verbose).function

    def warn_of_energies(self, kernel: Kernel, rows: Any, held_out: Any) -> None:
        """Warn if energies contradict the forces, with the factor on them, such as -1, that fits best.

        f is learned from forces alone, and its values at held-out geometries are those of the energies, up to a
        constant.  There is no warning if they do not determine a factor, with half of the variance explained by it.
        """
        if self.E is None or len(held_out) < 3:
            return
        f = self.checked(self.group, kernel, rows)
        predicted, given = to_numpy(f(self.X[held_out])), self.E[held_out]
        predicted, given = predicted - predicted.mean(), given - given.mean()
        energy = float(given @ given)
        factor = float(given @ predicted) / energy if energy > 0 else 1.0
        left, unchanged = (float(np.sum((predicted - b * given) ** 2)) for b in (factor, 1.0))
        explained = 2 * left < float(predicted @ predicted)
        if explained and abs(factor - 1) > CONTRADICTION and 4 * left < unchanged:
            wrong = ["have the wrong sign"] if factor < 0 else []
            wrong += ["are in other units"] if abs(abs(factor) - 1) > CONTRADICTION else []
            warn(
                "The energies contradict the forces, which are minus their slopes: the energies "
                f"{' and '.join(wrong)}. Multiply them by {factor:.3g}, or leave them out."
            )

    def warn_of_symmetries(self, kernel: Kernel, symmetries: Any, rows: Any, held_out: Any) -> None:
        """Warn if held-out forces have significantly larger errors with the stated symmetries than without them."""
        if len(self.group) == 1 or len(held_out) < 3:
            return

        def errors(group: Matrix) -> Vector:
            return self.errors(self.checked(group, kernel, rows), held_out)

        without, together = errors(self.group[:1]), errors(self.group)
        if not paired_test(together, without, sure=3.0):
            return
        given = np.atleast_2d(np.asarray(symmetries))
        wrong = [paired_test(errors(generated(exchange[None])), without) for exchange in given]
        named = given[wrong] if any(wrong) else given
        warn(
            f"With the given symmetries the errors of held-out forces are {together.mean():.3g}, and without them "
            f"{without.mean():.3g}: atoms seem not to be equivalent under {named.tolist()}. Leave these permutations "
            "out."
        )

    def problem(self, kernel: Kernel, left_out: Any, noise: float, rows: Any) -> Problem:
        """Return the problem of learning the energy from some of the geometries."""
        X, F = self.X[rows], self.F[rows]
        size = float(np.mean(self.F**2))
        descriptor, pairs = InverseDistances(), np.array(list(combinations(range(self.group.shape[1]), 2)))
        if len(left_out) > 1:
            parts = []
            for atoms in left_out:
                chosen = np.eye(len(pairs))[~np.isin(pairs, atoms).any(axis=1)]
                part = kernel @ (chosen * (len(pairs) / len(chosen)) ** 0.5)  # as far from each other as with all pairs
                parts.append(((1.0 if atoms else WHOLE) / self._variance(part @ descriptor)) * part)
            kernel = Sum(tuple(parts))
        if len(self.group) > 1:
            kernel = Symmetrized(kernel, unique_rows(descriptor.moved(self.group))[0])
        kernel = kernel @ descriptor
        kernel = (size / self._variance(kernel)) * kernel
        terms = [Term(Gradient(X), Squared(), -F, weight=1 / (2 * noise * size))]
        if self.E is None:
            return Problem(kernel, terms)
        spread = float(np.var(self.E)) or size  # if all energies are equal, any number will do
        terms.append(Term(Evaluation(X), Squared(), self.E[rows], weight=1 / (2 * noise * spread)))
        return Problem(kernel, terms, Constant())

    def _variance(self, kernel: Kernel) -> float:
        """Return the variance of a force under the kernel, at a few geometries."""
        return float(np.mean(to_numpy(gram(kernel, Gradient(self.X[:5])).diagonal())))


def _kernels(X: Matrix) -> Iterator[Kernel]:
    """Yield the kernels that are compared."""
    median = median_scale(InverseDistances().values(X[:1000]))
    for scale in SCALES:
        yield from (Gaussian(scale * median), Matern(2.5, scale * median), Matern(3.5, scale * median))


def _geometries(values: Any, name: str) -> Matrix:
    """Return an array (t, atoms, 3) as rows of coordinates."""
    try:
        array = double(as_array(values, name))
    except ValueError as error:
        if "inhomogeneous" not in str(error):
            raise
        raise ValueError(f"All geometries of {name} must have the same atoms in the same order.") from error
    if array.ndim != 3 or array.shape[1] < 2 or array.shape[2] != 3:
        raise ValueError(
            f"{name} must have the shape (geometries, atoms, 3), with two atoms or more; got {array.shape}."
        )
    return array.reshape(len(array), -1)


def _permutations(generators: Any, atoms: int) -> Matrix:
    """Return the group that the permutations of atoms generate."""
    given = np.atleast_2d(np.arange(atoms) if generators is None else np.asarray(generators))
    if given.dtype.kind not in "iu" or given.shape[1:] != (atoms,) or np.any(np.sort(given) != np.arange(atoms)):
        raise ValueError(
            f"symmetries must be permutations of the {atoms} atoms, each with the numbers 0 to {atoms - 1} once; got "
            f"{generators!r}."
        )
    group = generated(given)
    if len(group) > MANY:
        warn(
            f"The symmetries of ForceFieldRegressor generate {len(group)} permutations, so that the fit takes about as "
            "many times as long as without them. Leave out exchanges of atoms that do not change places in the data."
        )
    return group
