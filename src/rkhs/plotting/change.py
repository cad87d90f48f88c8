"""How f changes along an invariance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rkhs._backend.arrays import Vector, as_points, to_numpy
from rkhs._finite.function import Function
from rkhs.plotting.axes import pyplot


@dataclass(eq=False)
class ChangeDisplay:
    """How f changes while points move along an invariance.

    f(T(x, a)) as a function of a, for each motion T: a flat line is what the invariance asks for.

    Build it with `from_estimator`.

    Attributes
    ----------
    amounts : (m,)
    values : for each model its values, (points, motions, amounts)
    axes_, figure_ : after `plot`

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> from rkhs.invariances import SignalTangents
    >>> X = np.exp(-((np.arange(20) - np.array([[5], [14]])) ** 2) / 8.0)
    >>> f = rkhs.Function(rkhs.Gaussian(scale=1.0), rkhs.Evaluation(X), [1.0, -1.0])
    >>> display = rkhs.plotting.ChangeDisplay.from_estimator(f, SignalTangents(kinds=["shift"]), X, amounts=[0, 2])
    >>> display.values["f"].shape
    (2, 1, 2)
    """

    amounts: Vector
    values: dict[str, Vector]
    names: tuple[str, ...]

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        tangents: Any,
        X: Any,
        *,
        amounts: Sequence[float] | None = None,
        output: int | None = None,
        axes: Any = None,
    ) -> ChangeDisplay:
        """Move the rows of X and follow the values of f.

        Parameters
        ----------
        estimator : a fitted classifier or regressor, an rkhs.Function, or a dict of several by name
        tangents : `ImageTangents`, `SignalTangents` or `Tangents`
        X : (t, n) points to move
        amounts : by how much; 21 from -2 to 2 when None
        output : which class to follow, when there are more than two
        axes : one for each motion
        """
        machines = dict(estimator) if isinstance(estimator, Mapping) else {_name(estimator): estimator}
        points = as_points(X)
        steps = np.linspace(-2, 2, 21) if amounts is None else np.asarray(amounts, dtype=float)
        moved = np.stack([to_numpy(tangents.moved(points, float(a))) for a in steps], axis=2)  # (t, k, m, n)
        flat = moved.reshape(-1, moved.shape[-1])
        values = {}
        for name, machine in machines.items():
            found = to_numpy(_decision(machine)(flat))
            if found.ndim == 2:
                if output is None:
                    raise ValueError(f"{name} has {found.shape[1]} outputs: say which one to follow with output=.")
                found = found[:, output]
            values[name] = found.reshape(moved.shape[:-1])
        return cls(steps, values, tuple(tangents.names)).plot(axes=axes)

    def plot(self, axes: Any = None) -> ChangeDisplay:
        """Draw on axes, one for each motion, or on new ones: a line for each model and point."""
        if axes is None:
            width = min(3.0 * len(self.names), 15)
            _, axes = pyplot().subplots(
                1, len(self.names), figsize=(width, 2.8), sharey=True, squeeze=False, layout="constrained"
            )
        axes = np.atleast_1d(np.asarray(axes, dtype=object)).ravel()
        if len(axes) != len(self.names):
            raise ValueError(f"There are {len(self.names)} motions and {len(axes)} axes: give one for each.")
        for k, (ax, name) in enumerate(zip(axes, self.names, strict=True)):
            for c, (machine, values) in enumerate(self.values.items()):
                lines = ax.plot(self.amounts, values[:, k].T, color=f"C{c}", alpha=0.8, linewidth=1.2)
                lines[0].set_label(machine)
            ax.axhline(0.0, color="0.7", linewidth=0.8, zorder=0)
            ax.set_title(name, fontsize=9)
        axes[0].set_ylabel("f")
        if len(self.values) > 1:
            axes[0].legend(fontsize="small")
        self.axes_, self.figure_ = axes, axes[0].figure
        return self


def _name(machine: Any) -> str:
    return "f" if isinstance(machine, Function) else type(machine).__name__


def _decision(machine: Any) -> Any:
    """The values of f: of a function itself, of a classifier's decision, of a regressor's prediction."""
    if isinstance(machine, Function):
        return machine
    return machine.decision_function if hasattr(machine, "decision_function") else machine.predict
