"""Force fields in ASE: a calculator for molecular dynamics and relaxation, and geometries from files.

`Calculator` gives ASE the energies and forces of a fitted `ForceFieldRegressor`, and `read` returns the arrays for its
`fit` from extended xyz and all other formats that ASE reads.  The units are those of ASE, eV and Angstrom.  Both need
ASE: ``pip install 'rkhs[ase]'``.
"""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from rkhs.extend import Matrix, Vector, import_optional
from rkhs.molecules import ForceFieldRegressor

try:
    from ase.calculators.calculator import Calculator as _Calculator
except ImportError:  # `Calculator` raises the error with its remedy when it is used
    _Calculator = object

__all__ = ["Calculator", "read"]

MISSING = "rkhs.ase needs ASE: pip install 'rkhs[ase]'."
NAMED = 5  # frames that an error lists


class Calculator(_Calculator):
    """ASE calculator of the energies and forces that a force field predicts, with standard deviations.

    The forces are minus the gradient of the energy, so that molecular dynamics conserves the total energy up to the
    error of the integrator.  ASE keeps in `results` what was asked for: `get_potential_energy` and `get_forces` cost
    one prediction each, and standard deviations are computed only by ``get_property("energy_std", atoms)``, a number,
    and ``get_property("forces_std", atoms)``, of shape (atoms, 3).

    Parameters
    ----------
    model : ForceFieldRegressor
        A fitted model, from positions in Angstrom and forces in eV/Angstrom.  Without energies in its `fit`, energies
        are known up to a constant.

    Examples
    --------
    Learn a spring between two hydrogen atoms, and relax it from 1.1 Angstrom to its rest length 1:

    >>> import numpy as np, rkhs
    >>> from ase import Atoms
    >>> from ase.optimize import BFGS
    >>> R = np.random.default_rng(0).normal([[0, 0, 0], [1, 0, 0]], 0.1, (30, 2, 3))
    >>> bonds = R[:, 1] - R[:, 0]
    >>> pull = (1 - 1 / np.linalg.norm(bonds, axis=1))[:, None] * bonds
    >>> model = rkhs.geometry.ForceFieldRegressor(rkhs.Matern(3.5, scale=2.0), atoms=["H", "H"])
    >>> model = model.fit(R, np.stack([pull, -pull], axis=1))
    >>> molecule = Atoms("H2", [[0, 0, 0], [1.1, 0, 0]], calculator=rkhs.ase.Calculator(model))
    >>> converged = BFGS(molecule, logfile=None).run(fmax=1e-3)
    >>> round(float(molecule.get_distance(0, 1)), 2)
    1.0
    >>> molecule.calc.get_property("forces_std", molecule).shape
    (2, 3)
    """

    name = "rkhs"
    implemented_properties: ClassVar = ["energy", "free_energy", "forces", "energy_std", "forces_std"]
    ignored_changes: ClassVar = {"cell", "initial_charges", "initial_magmoms"}  # no result depends on them

    def __init__(self, model: ForceFieldRegressor) -> None:
        import_optional("ase", MISSING)
        if not isinstance(model, ForceFieldRegressor):
            raise TypeError(f"Calculator needs a fitted ForceFieldRegressor, got {type(model).__name__}.")
        check_is_fitted(model, "function_")
        super().__init__()
        self.model = model

    def calculate(
        self, atoms: Any = None, properties: Sequence[str] = ("energy",), system_changes: Sequence[str] = ()
    ) -> None:
        super().calculate(atoms, properties, system_changes)
        _check_isolated(self.atoms, "the atoms")
        _check_same(self.atoms.numbers, self.model)
        R, asked = self.atoms.positions[None], set(properties)
        if "energy_std" in asked:
            self._keep(self.model.predict(R, return_std=True), "energy")
        elif asked & {"energy", "free_energy"}:
            self._keep((self.model.predict(R),), "energy")
        if "forces_std" in asked:
            self._keep(self.model.predict_forces(R, return_std=True), "forces")
        elif "forces" in asked:
            self._keep((self.model.predict_forces(R),), "forces")
        if "energy" in self.results:
            self.results["free_energy"] = self.results["energy"]

    def export_properties(self) -> Any:
        from ase.outputs import Properties, all_outputs

        return Properties({name: value for name, value in self.results.items() if name in all_outputs})

    def _keep(self, predicted: Sequence[Any], name: str) -> None:
        """Put a prediction of one geometry, and its standard deviation if there is one, into `results`."""
        for key, values in zip((name, f"{name}_std"), predicted, strict=False):
            self.results[key] = float(values[0]) if name == "energy" else np.asarray(values[0])


def read(source: Any, *, forces: str = "forces", energy: str | None = "energy") -> tuple[Matrix, Matrix, Any, Vector]:
    """Return positions, forces, energies and atomic numbers from a file, or from frames of ASE.

    Parameters
    ----------
    source : str, path or list of ase.Atoms
        A file with frames of one molecule in any format that ASE reads, such as extended xyz; or the frames.
    forces : str, default="forces"
        The name of the forces among the results of a frame or its arrays, such as "REF_forces".
    energy : str or None, default="energy"
        The name of the energy among the results of a frame or its `info`.  None leaves energies out.

    Returns
    -------
    R : ndarray of shape (t, atoms, 3)
        The positions.
    forces : ndarray of shape (t, atoms, 3)
        The forces, without those of constraints.
    energies : ndarray of shape (t,) or None
        The energies; None if they are left out, or if no frame has an "energy".
    atoms : ndarray of shape (atoms,)
        The atomic numbers.

    Examples
    --------
    >>> import io, rkhs
    >>> file = io.StringIO('''2
    ... Properties=species:S:1:pos:R:3:forces:R:3 energy=-1.5
    ... H 0.0 0.0 0.0  0.1 0.0 0.0
    ... H 0.8 0.0 0.0 -0.1 0.0 0.0
    ... ''')
    >>> from ase.io import read
    >>> R, forces, energies, atoms = rkhs.ase.read(read(file, ":", format="extxyz"))
    >>> R.shape, forces[0, :, 0], energies, atoms
    ((1, 2, 3), array([ 0.1, -0.1]), array([-1.5]), array([1, 1]))
    """
    import_optional("ase", MISSING)
    from ase.io import read as read_frames

    named = isinstance(source, (str, PathLike))
    frames = read_frames(source, index=":") if named else list(source)
    where = str(source) if named else "the frames"
    if not frames:
        raise ValueError(f"There is no geometry in {where}.")
    numbers = frames[0].numbers
    others = [i for i, frame in enumerate(frames) if not np.array_equal(frame.numbers, numbers)]
    if others:
        raise ValueError(
            f"A force field is learned from geometries of the same atoms in the same order: frame 0 of {where} is "
            f"{frames[0].symbols}, but frame {others[0]} is {frames[others[0]].symbols}. Read one molecule at a time, "
            f"without {_listed(others)}."
        )
    for i, frame in enumerate(frames):
        _check_isolated(frame, f"frame {i} of {where}")
    R = np.stack([frame.positions for frame in frames])
    F = _found(frames, forces, "arrays", where, f'pass another name, such as forces="REF_{forces}"')
    E: Any = None
    if energy is not None and (
        energy != "energy" or any(_stored(frame, energy, "info") is not None for frame in frames)
    ):
        E = _found(frames, energy, "info", where, "pass energy=None to do without energies")
    return R, F, E, numbers.copy()


def _found(frames: Sequence[Any], name: str, place: str, where: str, remedy: str) -> Matrix:
    """Return a result of each frame."""
    found = [_stored(frame, name, place) for frame in frames]
    missing = [i for i, value in enumerate(found) if value is None]
    if missing:
        frame = frames[missing[0]]
        there = {*getattr(frame, place), *(frame.calc.results if frame.calc else ())} - {"numbers", "positions"}
        raise ValueError(
            f"There is no {name!r} in {_listed(missing)} of {where}; frame {missing[0]} has "
            f"{', '.join(map(repr, sorted(there))) or 'nothing besides its positions'}. Leave these frames out, or "
            f"{remedy}."
        )
    return np.array(found, dtype=np.float64)


def _stored(frame: Any, name: str, place: str) -> Any:
    """Return a result of a calculator, if the atoms have not moved since, or else what is stored with the frame."""
    value = None
    if frame.calc is not None and name in frame.calc.results:
        value = frame.calc.get_property(name, frame, allow_calculation=False)
    return getattr(frame, place).get(name) if value is None else value


def _check_isolated(atoms: Any, which: str) -> None:
    """Raise ValueError for periodic boundary conditions."""
    if np.any(atoms.pbc):
        raise ValueError(
            f"A force field of a molecule has no periodic images: the pbc of {which} is {atoms.pbc.tolist()}. If the "
            "cell is only a box around one molecule, set atoms.pbc = False."
        )


def _check_same(numbers: Vector, model: ForceFieldRegressor) -> None:
    """Raise ValueError unless the atoms are those of the model, in the same order."""
    from ase.symbols import Symbols

    fitted = model.atoms_
    if len(numbers) != model.n_atoms_:
        of_model = "" if fitted is None else f", {Symbols(fitted)}"
        raise ValueError(
            f"The atoms are {Symbols(numbers)}, {len(numbers)} atoms, but the model was fitted with {model.n_atoms_} "
            f"atoms{of_model}. A force field is that of one molecule: fit another one."
        )
    if fitted is not None and not np.array_equal(numbers, fitted):
        remedy = "fit another one"
        if np.array_equal(np.sort(numbers), np.sort(fitted)):
            remedy = "give the atoms the order of the geometries of the fit"
        raise ValueError(
            f"The atoms are {Symbols(numbers)}, but the model was fitted with {Symbols(fitted)}, in this order. A "
            f"force field is that of one molecule: {remedy}."
        )


def _listed(rows: Sequence[int]) -> str:
    """Return the numbers of frames, as "frames 2, 5 and 40 others"."""
    more = f" and {len(rows) - NAMED} others" if len(rows) > NAMED else ""
    return f"frame{'s' if len(rows) > 1 else ''} {', '.join(map(str, rows[:NAMED]))}{more}"
