"""Energies of a molecule from forces, with a kernel that is chosen by held-out forces."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from rkhs import Constant, Problem, Term, gram
from rkhs.extend import (
    Array,
    Expansion,
    Matrix,
    Outcome,
    Vector,
    as_array,
    best_of,
    choose,
    double,
    like,
    paired_test,
    placed,
    to_numpy,
    transactional,
    unique_rows,
    warn,
    warn_unless_converged,
)
from rkhs.functionals import Difference, Evaluation, Functional, Gradient
from rkhs.kernels import (
    Gaussian,
    InverseDistances,
    Kernel,
    Matern,
    Sum,
    Symmetrized,
    generated_group,
    median_scale,
)
from rkhs.losses import Squared
from rkhs.molecules._environments import BOND, AtomicEnvironments, AtomicSum
from rkhs.molecules._molecules import atomic_numbers, found_symmetries, stated_symmetries
from rkhs.results import Posterior
from rkhs.solvers import ConjugateGradients, Direct

# The candidates of kernel="auto".  Length scales are in units of the median distance between descriptors, and variances
# of the noise in units of the mean square of a force.  Longer scales with less noise are nearly equivalent.
GLOBAL = ((partial(Matern, 2.5), 10.0), (Gaussian, 10.0), (Gaussian, 3.0))  # kernels of the inverse distances
LOCAL_SCALES = (10.0, 30.0)  # of the Gaussian kernel of neighborhoods
SHARE, SHARES = 0.7, (0.0, 0.3, 0.95)  # of the variance of forces that neighborhoods explain: the first, and others
NOISES = (1e-7, 1e-5, 1e-3)
REFINED = (0.01, 0.1, 1.0, 10.0)  # factors on the chosen noise, of which more geometries need less
ENERGY_NOISES = (1e-6, 1e-4, 1e-2)  # in units of the variance of the energies

# The choices use at most as many geometries as have this many components of forces: of the kernel, and of its noise.
LEARNED, REFINED_LEARNED = 3000, 6000
HELD_OUT = 50  # the most geometries that are held out
CHECKED = 50  # the most geometries from which energies and symmetries are checked, with the first kernel and this noise
CHECKED_NOISE = 1e-6
CONTRADICTION = 0.1  # relative deviation of energies from the integral of the forces that is reported

DIRECT = 16_000  # functionals whose equations are factorized, in 2 GB; above, conjugate gradients
INDIFFERENT = 0.02  # relative difference of errors for which conjugate gradients may take a larger noise
PRECONDITIONER = 3e9  # bytes of the columns of landmark geometries
SPREAD = 3000  # components of forces that standard deviations are conditioned on
COVERAGE, NORMAL = 0.95, 1.959964  # the share of errors within this many calibrated standard deviations

MANY = 100  # permutations above which a warning says how long the fit takes
MADE_WHEN_NEEDED = ("_expansion", "_posterior_given_few")  # attributes that predictions make, and files do not keep


@dataclass(eq=False, repr=False)
class ForceFieldRegressor(BaseEstimator):
    """Regressor that learns the energy of a molecule from the forces on its atoms.

    The energy f is invariant under rotations, translations and exchanges of equivalent atoms, and the forces are
    exactly minus its gradient.  It minimizes

        1/2 |f|^2 + 1 / (2 noise s^2) sum over geometries of |forces + gradient f|^2

    where s^2 is the mean square of a force, which is also its variance under the kernel: units do not matter.

    f is a sum of two parts.  One is a function of the inverse distances of all atoms, the other one a sum over atoms of
    functions of their neighborhoods, which atoms of one element share (`atoms`).  A fifth of the geometries, at most
    50, is held out, and the mean absolute error of their forces chooses the kernels, their length scales, the share of
    each part, and the noise.  This choice uses at most 3,000 components of forces for the kernels, and 6,000 for the
    noise.  f is learned from all geometries; from more than 16,000 components, which are not factorized but iterated on
    by conjugate gradients with landmark geometries, it is learned from all but those that are held out.

    Standard deviations are those of the posterior given 3,000 components of forces, times a factor with which two
    of them cover 95 % of the held-out errors.

    Parameters
    ----------
    kernel : "auto" or Kernel, default="auto"
        "auto" compares kernels; or a kernel of the inverse distances, such as `rkhs.Matern(2.5, scale=3.0)`, for which
        only the noise is chosen, without neighborhoods.
    atoms : sequence of str or int, optional
        The symbols of the elements, such as ["O", "H", "H"], or their atomic numbers.  Without them, only atoms that
        `symmetries` exchange share what is learned about their neighborhoods.
    symmetries : "auto", None or array-like of shape (m, atoms), default="auto"
        Permutations of atoms that leave the energy unchanged, with those that follow from them; for water, atoms O, H
        and H, this is [[0, 2, 1]].  "auto" finds them in the geometries, given `atoms`; None uses none.  The time of a
        fit grows with the number of permutations; groups of more than 1000 are refused.
    device : str, optional
        A device of PyTorch such as "cuda", on which f is learned.
    tol : float, default=3e-2
        The relative duality gap to reach; factorizations reach rounding errors, left-out errors change little then.
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
        The chosen `kernel` of the inverse distances; that of `neighborhoods`; the `share` of the latter in the variance
        of forces; the `noise`, and with energies the `energy_noise` in units of their variance.
    cv_results_ : dict of lists
        The same for each candidate, with `learned`, the number of geometries, and `error`, the mean absolute error of a
        component of the held-out forces.
    atoms_ : ndarray of shape (atoms,) or None
        The atomic numbers.
    n_atoms_ : int
        The number of atoms.
    symmetries_ : ndarray of shape (group, atoms)
        The permutations of atoms under which f is invariant.

    Examples
    --------
    Learn a spring between two atoms at distance 1:

    >>> import numpy as np, rkhs
    >>> R = np.random.default_rng(0).normal([[0, 0, 0], [1, 0, 0]], 0.1, (30, 2, 3))
    >>> bonds = R[:, 1] - R[:, 0]
    >>> pull = (1 - 1 / np.linalg.norm(bonds, axis=1))[:, None] * bonds
    >>> model = rkhs.geometry.ForceFieldRegressor(atoms=["H", "H"]).fit(R, np.stack([pull, -pull], axis=1))
    >>> stretched = np.array([[[0.0, 0.0, 0.0], [1.1, 0.0, 0.0]]])
    >>> round(float(model.predict_forces(stretched)[0, 0, 0]), 2)
    0.1
    """

    kernel: Any = "auto"
    _: KW_ONLY
    atoms: Any = None
    symmetries: Any = "auto"
    device: str | None = None
    tol: float = 3e-2
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
        X, F, E = _checked_data(R, forces, energies)
        if not isinstance(self.kernel, Kernel) and self.kernel != "auto":
            raise ValueError(f'kernel must be "auto" or a kernel of the inverse distances, got {self.kernel!r}.')
        self.n_atoms_ = X.shape[1] // 3
        self.atoms_ = atomic_numbers(self.atoms, self.n_atoms_)
        median = median_scale(InverseDistances().values(X[:1000]))
        self.symmetries_, stated = self._group(X)
        molecule = _Molecule(X, F, E, self.symmetries_, self.atoms_, self.device, self.verbose)
        order = check_random_state(self.random_state).permutation(len(X))
        held_out, rows = np.split(order, [min(max(len(X) // 5, 1), HELD_OUT)])
        given = isinstance(self.kernel, Kernel)
        kernels = [self.kernel] if given else [kind(scale=scale * median) for kind, scale in GLOBAL]
        molecule.warn_of_energies(kernels[0], rows[:CHECKED], held_out)
        if stated is not None:
            molecule.warn_of_symmetries(kernels[0], stated, rows[:CHECKED], held_out)

        learned, refined = (rows[: max(most // X.shape[1], 2)] for most in (LEARNED, REFINED_LEARNED))
        tables = _Tables(molecule, learned, held_out)
        first = choose([lambda scorer, found: _candidates(molecule, kernels, given, found)], tables.scored)
        best = first.best
        tables = _Tables(molecule, refined, held_out)
        again = tables.scored({**best.params, "noises": [factor * best.params["noise"] for factor in REFINED]})
        every = rows if X.size > DIRECT else order
        chosen = best_of(again)
        if every is rows:  # conjugate gradients take fewer iterations with more noise
            near = [one for one in again if one.loss <= (1 + INDIFFERENT) * chosen.loss]
            chosen = max(near, key=lambda one: float(one.params["noise"]))
        tried = [{**one.params, "error": one.loss} for one in [*first.found, *again]]
        self.cv_results_ = {key: [one[key] for one in tried] for key in tried[0]}
        settings = {key: chosen.params[key] for key in ("kernel", "neighborhoods", "share", "noise")}
        if E is not None:
            settings["energy_noise"] = molecule.energy_noise(settings, learned, held_out)
        self.best_params_ = settings

        for name in MADE_WHEN_NEEDED:
            self.__dict__.pop(name, None)  # of an earlier fit
        self.solution_ = molecule.solution(settings, every, self.tol)
        self.function_ = self.solution_.function
        warn_unless_converged(self, self.solution_)
        # Standard deviations: of the posterior given few geometries, calibrated by the errors at held-out ones.  These
        # are the errors of f if they were left out, and otherwise those of fewer geometries, which fall on as they did.
        few = rows[: max(SPREAD // X.shape[1], 2)]
        self._few = molecule.problem(settings, few)
        self._reference = X[few[:1]]
        left = -to_numpy(Gradient(X[held_out])(self.function_)) - F[held_out] if every is rows else chosen.values
        fall = 1.0
        if every is order and len(refined) > len(learned):
            rate = np.log(max(best.loss / chosen.loss, 1.0)) / np.log(len(refined) / len(learned))
            fall = float((len(order) / len(refined)) ** -min(rate, 1.0))
        self._factor = fall * _calibration(left, to_numpy(self._spread.std(Gradient(X[held_out]))))
        self._energy_factor = self._factor
        if E is not None:
            values, f = Evaluation(X[held_out]), molecule.solution(settings, refined, self.tol, exact=True).function
            level = min(COVERAGE * (1 + 1 / len(held_out)), 1.0)  # of few numbers (split conformal prediction)
            left = to_numpy(values(f)) - E[held_out]
            self._energy_factor = fall * _calibration(left, to_numpy(self._spread.std(values)), level)
        return self

    def predict(self, R: Any, return_std: bool = False) -> Any:
        """Predict energies; without energies in `fit`, they are known up to a constant.

        Parameters
        ----------
        R : array-like of shape (t, atoms, 3)
            The positions of the atoms in each geometry.
        return_std : bool, default=False
            Whether to return standard deviations too: without energies in `fit`, those of differences to the energy of
            one of its geometries.

        Returns
        -------
        ndarray of shape (t,), or a tuple of two
            The energies, and their standard deviations.
        """
        X = self._checked(R)
        values = self._values(Evaluation(X))
        if not return_std:
            return values
        known = "energy_noise" in self.best_params_
        L = Evaluation(X) if known else Difference(X, np.repeat(self._reference, len(X), axis=0))
        return values, self._energy_factor * to_numpy(self._spread.std(L))

    def predict_forces(self, R: Any, return_std: bool = False) -> Any:
        """Predict forces, which are minus the gradient of `predict`.

        Parameters
        ----------
        R : array-like of shape (t, atoms, 3)
            The positions of the atoms in each geometry.
        return_std : bool, default=False
            Whether to return the standard deviations of the components of forces too.

        Returns
        -------
        ndarray of shape (t, atoms, 3), or a tuple of two
            The forces, and their standard deviations.
        """
        X = self._checked(R)
        shape = (len(X), self.n_atoms_, 3)
        forces = -self._values(Gradient(X)).reshape(shape)
        if not return_std:
            return forces
        return forces, self._factor * to_numpy(self._spread.std(Gradient(X))).reshape(shape)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name not in MADE_WHEN_NEEDED}

    @property
    def _spread(self) -> Posterior:
        """The posterior given few geometries, which standard deviations are multiples of."""
        if not hasattr(self, "_posterior_given_few"):
            self._posterior_given_few = self._few.solve(Direct(), tol=self.tol).posterior
        return self._posterior_given_few

    def _values(self, L: Functional) -> Vector:
        """Return L(f), by an expansion of f that is made once."""
        f = self.function_
        L = L.like(f.functionals.prototype)
        if not hasattr(self, "_expansion"):
            self._expansion = Expansion.of(f.kernel, f.functionals, f.coefficients.reshape(-1, 1))
        if self._expansion is None:
            return to_numpy(L(f))
        values = self._expansion(L)
        if f.basis is not None and L.order == 0:
            values = values + f.basis_coefficients.ravel()[0]  # of the constant
        return to_numpy(values)

    def _posterior(self) -> Posterior:
        """Return the posterior given all forces, from which `rkhs.acquisition` chooses geometries."""
        return self.solution_.posterior

    def _checked(self, R: Any) -> Matrix:
        check_is_fitted(self, "function_")
        X = _geometries(R, "R")
        if X.shape[1] != 3 * self.n_atoms_:
            raise ValueError(f"R has {X.shape[1] // 3} atoms, but the model was fitted with {self.n_atoms_}.")
        return X

    def _group(self, X: Matrix) -> tuple[Matrix, Any]:
        """Return the group of permutations, and the stated ones that generate it."""
        given, automatic = self.symmetries, isinstance(self.symmetries, str)
        if automatic and given != "auto":
            raise ValueError(f'symmetries must be "auto", None or permutations of atoms, got {given!r}.')
        if automatic and self.atoms_ is not None:
            return found_symmetries(X, self.atoms_), None
        group = stated_symmetries(None if automatic else given, self.n_atoms_)
        if len(group) > MANY:
            warn(
                f"The symmetries of ForceFieldRegressor generate {len(group)} permutations, so that the fit takes "
                "about as many times as long as without them. Leave out exchanges of atoms that do not change places "
                "in the data."
            )
        return group, None if automatic else given


def _candidates(
    molecule: _Molecule, kernels: Sequence[Kernel], given: bool, found: list[Outcome]
) -> Iterator[list[dict[str, Any]]]:
    """Yield settings to compare: first scales of neighborhoods, then other kernels of distances, then other shares."""
    first = {"kernel": kernels[0], "neighborhoods": None, "share": 0.0, "noises": NOISES}
    if given:
        yield [first]
        return
    for scale in LOCAL_SCALES:
        yield [{**first, "neighborhoods": Gaussian(scale * molecule.neighborhood_scale), "share": SHARE}]
    for kernel in kernels[1:]:
        yield [{**best_of(found).params, "kernel": kernel, "noises": NOISES}]
    best = best_of(found).params
    for share in SHARES:
        yield [{**best, "share": share, "noises": NOISES}]


class _Tables:
    """The Gram matrices of the parts of kernels, for some geometries and those that are held out."""

    def __init__(self, molecule: _Molecule, rows: Any, held_out: Any) -> None:
        self.molecule, self.rows, self.held_out = molecule, rows, held_out
        self.learned, self.asked = (Gradient(molecule.on_device(molecule.X[some])) for some in (rows, held_out))
        self.tables: dict[Any, list[Matrix]] = {}

    def _matrices(self, given: Kernel, part: Kernel) -> list[Matrix]:
        """Return the Gram matrix of a part with the setting `given`, and that of held-out and learned geometries."""
        if given not in self.tables:
            products = gram(part, self.learned), gram(part, self.asked, self.learned)
            self.tables[given] = [to_numpy(product.dense()) for product in products]
        return self.tables[given]

    def scored(self, settings: dict[str, Any]) -> list[Outcome]:
        """Return the outcome of each of the `noises`, with the mean absolute error of held-out forces."""
        weighted = [(weight, self._matrices(given, part)) for weight, given, part in self.molecule.parts(settings)]
        G, cross = (sum(weight * both[k] for weight, both in weighted) for k in range(2))
        F, truth = self.molecule.F[self.rows].ravel(), self.molecule.F[self.held_out]
        params = {key: settings[key] for key in ("kernel", "neighborhoods", "share")} | {"learned": len(self.rows)}
        result = []
        for noise in settings["noises"]:
            factor = cho_factor(G + noise * np.eye(len(F)), lower=True, overwrite_a=True, check_finite=False)
            left = (cross @ cho_solve(factor, F, check_finite=False)).reshape(truth.shape) - truth
            error = float(np.abs(left).mean())
            result.append(Outcome({**params, "noise": noise}, error, np.array([-error]), values=left))
        return result


@dataclass(frozen=True, eq=False)
class _Molecule:
    """The data of a fit, from which problems with various kernels are made."""

    X: Matrix
    F: Matrix
    E: Vector | None
    group: Matrix  # of permutations of atoms
    numbers: Vector | None  # of the elements
    device: str | None
    verbose: bool

    def on_device(self, X: Matrix) -> Array:
        """Return positions on the device."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # without the device, which the solution warns of
            prototype = placed(X, self.device)
        return X if prototype is None else like(X, prototype)

    @cached_property
    def environments(self) -> AtomicEnvironments:
        """The neighborhoods of atoms, whose kinds are elements, or else orbits of the group."""
        labels = self.group.min(axis=0) if self.numbers is None else self.numbers
        kinds = np.unique(labels, return_inverse=True)[1]
        positions = self.X[:100].reshape(-1, len(kinds), 3)
        distances = np.linalg.norm(positions[:, :, None] - positions[:, None], axis=-1)
        distances[:, np.arange(len(kinds)), np.arange(len(kinds))] = np.inf
        unit = float(np.median(distances.min(axis=2))) / BOND
        return AtomicEnvironments(kinds, unit).projected(self.X)

    @cached_property
    def neighborhood_scale(self) -> float:
        """The median distance between neighborhoods of one atom in different geometries."""
        found = self.environments
        jets = [x for kind in range(found.count) for x, _ in found.jets(self.X[:100], kind, slopes=False)]
        return float(np.median([median_scale(x) for x in jets]))

    def parts(self, settings: dict[str, Any]) -> list[tuple[float, Kernel, Kernel]]:
        """Return the shares of the parts of a kernel, their settings, and the parts, with forces of variance one."""
        kernel, share, result = settings["kernel"], settings["share"], []
        if share < 1:
            descriptor, inner = InverseDistances(), kernel
            if len(self.group) > 1:
                inner = Symmetrized(kernel, unique_rows(descriptor.moved(self.group))[0])
            result.append((1 - share, kernel, self._normalized(inner @ descriptor)))
        if share > 0:
            neighborhoods = settings["neighborhoods"]
            result.append((share, neighborhoods, self._normalized(AtomicSum(neighborhoods, self.environments))))
        return result

    def _normalized(self, kernel: Kernel) -> Kernel:
        """Return a multiple of a kernel under which forces have the variance one, at a few geometries."""
        return float(1 / np.mean(to_numpy(gram(kernel, Gradient(self.X[:5])).diagonal()))) * kernel

    def problem(self, settings: dict[str, Any], rows: Any) -> Problem:
        """Return the problem of learning the energy from some of the geometries."""
        X, F = self.X[rows], self.F[rows]
        size = float(np.mean(self.F**2))
        parts = [size * weight * part for weight, _, part in self.parts(settings)]
        kernel = parts[0] if len(parts) == 1 else Sum(tuple(parts))
        terms = [Term(Gradient(X), Squared(), -F, weight=1 / (2 * settings["noise"] * size))]
        if self.E is None:
            return Problem(kernel, terms, device=self.device)
        weight = 1 / (2 * settings["energy_noise"] * self.energy_variance)
        terms.append(Term(Evaluation(X), Squared(), self.E[rows], weight=weight))
        return Problem(kernel, terms, Constant(), device=self.device)

    @property
    def energy_variance(self) -> float:
        assert self.E is not None
        return float(np.var(self.E)) or float(np.mean(self.F**2))  # if all energies are equal, any number will do

    def solution(self, settings: dict[str, Any], rows: Any, tol: float, exact: bool = False) -> Any:
        """Solve the problem of some geometries, by conjugate gradients if they are many."""
        problem, coordinates = self.problem(settings, rows), self.X.shape[1]
        if exact or len(rows) * coordinates <= DIRECT:
            return problem.solve(Direct(), tol=tol, verbose=self.verbose)
        size = len(rows) * (coordinates + (self.E is not None))
        landmarks = int(min(PRECONDITIONER / (8 * size), size / 8)) // coordinates * coordinates
        return problem.solve(ConjugateGradients(landmarks), tol=tol, verbose=self.verbose)

    def energy_noise(self, settings: dict[str, Any], rows: Any, held_out: Any) -> float:
        """Return the noise of energies with the least errors of held-out energies and forces."""
        problem = self.problem({**settings, "energy_noise": 1.0}, rows)
        assert self.E is not None
        weights = [1 / (2 * noise * self.energy_variance) for noise in ENERGY_NOISES]
        errors = []
        for solution in problem.grid({(1,): weights}, tol=1e-3, verbose=self.verbose):
            energies = to_numpy(solution.function(self.X[held_out])) - self.E[held_out]
            errors.append([np.abs(energies).mean(), self.errors(solution.function, held_out).mean()])
        table = np.array(errors)
        return ENERGY_NOISES[int(np.argmin(np.sum(table / np.maximum(table.min(axis=0), 1e-300), axis=1)))]

    def errors(self, f: Any, rows: Any) -> Vector:
        """Return the mean absolute error (t,) of the forces of some geometries."""
        return np.abs(to_numpy(Gradient(self.X[rows])(f)) + self.F[rows]).mean(axis=1)

    def checked(self, group: Matrix, kernel: Kernel, rows: Any) -> Any:
        """Return f, learned from the forces of some geometries alone, with a group of permutations of atoms."""
        settings = {"kernel": kernel, "share": 0.0, "noise": CHECKED_NOISE}
        alone = replace(self, E=None, group=group, device=None)
        return alone.problem(settings, rows).solve(Direct(), tol=1e-3, verbose=self.verbose).function

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
        wrong = [paired_test(errors(generated_group(exchange[None])), without) for exchange in given]
        named = given[wrong] if any(wrong) else given
        warn(
            f"With the given symmetries the errors of held-out forces are {together.mean():.3g}, and without them "
            f"{without.mean():.3g}: atoms seem not to be equivalent under {named.tolist()}. Leave these permutations "
            "out."
        )


def _calibration(errors: Matrix, deviations: Matrix, level: float = COVERAGE) -> float:
    """Return the factor on standard deviations with which their 95 % intervals cover a share `level` of the errors."""
    ratios = np.abs(errors) / np.maximum(deviations, np.finfo(np.float64).tiny)
    return float(np.quantile(ratios, level)) / NORMAL


def _checked_data(R: Any, forces: Any, energies: Any) -> tuple[Matrix, Matrix, Vector | None]:
    """Return geometries and forces as rows (t, 3 atoms), and energies (t,), after validation."""
    X = _geometries(R, "R")
    F = _geometries(forces, "forces")
    if F.shape != X.shape:
        raise ValueError(f"forces must have the shape of R, {np.shape(R)}, got {np.shape(forces)}.")
    E = None if energies is None else double(as_array(energies, "energies"))
    if E is not None and E.shape != (len(X),):
        raise ValueError(f"energies must be one number for each of the {len(X)} geometries, got shape {E.shape}.")
    if len(X) < 2 or not np.any(F):
        raise ValueError("fit needs at least two geometries, and forces that are not all zero.")
    return X, F, E


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
