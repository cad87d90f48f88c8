"""The displays: decision boundaries, heat maps of grids and metrics, changes of f along an invariance, and tangents.

The boundary is drawn in the plane, with the labels and the active representers.  The helpers of all displays follow it:
the import of matplotlib, axes to draw on, and heat maps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rkhs.extend import Matrix, Vector, as_points, double, import_optional, to_numpy
from rkhs.results import Function, Solution

COLORS = ("tab:blue", "tab:red", "tab:green", "tab:orange", "tab:purple", "tab:brown", "tab:pink", "tab:olive")


@dataclass(frozen=True, eq=False)
class ActiveRepresenters:
    """The points of the largest representers of values and slopes in a function; of several outputs the largest ones.

    Parameters
    ----------
    values : ndarray of shape (v, n)
        The points of representers of values.
    coefficients : ndarray of shape (v,)
        Their coefficients.
    slopes : ndarray of shape (s, n)
        The points of representers of slopes.
    vectors : ndarray of shape (s, n)
        The sums of coefficient times direction there.

    Examples
    --------
    >>> import rkhs
    >>> f = rkhs.results.Function(rkhs.Gaussian(), rkhs.Evaluation([[0.0], [1.0]]), [2.0, 1e-9])
    >>> rkhs.plotting.ActiveRepresenters.of(f).values
    array([[0.]])
    """

    values: Vector
    coefficients: Vector
    slopes: Vector
    vectors: Vector

    @classmethod
    def of(cls, f: Function, share: float = 1e-3) -> ActiveRepresenters:
        """Return the representers whose size exceeds a share of the largest one of their kind.

        Parameters
        ----------
        f : Function
            The function.
        share : float, default=1e-3
            The share.

        Returns
        -------
        ActiveRepresenters
            Their points and sizes.
        """
        values, sizes = _largest(f, 0, share)
        slopes, vectors = _largest(f, 1, share)
        return cls(values, sizes[:, 0], slopes, vectors)


def _largest(f: Function, order: int, share: float) -> tuple[Vector, Vector]:
    """Return the points (t, n) of representers of an order, with their coefficients (t, 1) or vectors (t, n).

    These are the largest over the outputs; those below a share of the maximum are left out.
    """
    dimension = f.functionals.dimension
    width = dimension if order else 1
    points, vectors = [np.zeros((0, dimension))], [np.zeros((0, f.outputs or 1, width))]
    table = to_numpy(f.coefficients).reshape(-1, f.outputs or 1)
    for part in f.functionals.parts:
        atoms = part.atoms
        if atoms.order == order:
            coefficients = to_numpy(part.adjoint(table)).reshape(len(atoms.points), atoms.per_point, -1)
            directions = to_numpy(atoms.u(0)) if order else np.ones((1, 1, 1))
            directions = np.broadcast_to(directions, (*coefficients.shape[:2], width))
            points.append(to_numpy(atoms.points))
            vectors.append(np.einsum("tkc,tkn->tcn", coefficients, directions))
    found = np.concatenate(vectors)
    sizes = np.linalg.norm(found, axis=2)
    largest = found[np.arange(len(found)), sizes.argmax(axis=1)]
    kept = sizes.max(axis=1) > share * sizes.max(initial=0.0)
    return np.concatenate(points)[kept], largest[kept]


@dataclass(eq=False)
class BoundaryDisplay:
    """Decision boundary of a classifier of two features; create it with `from_estimator`.

    The display shows f on a rectangle in the plane with the labeled points, the unlabeled points and the active
    representers.  Circles are representers of values.  Arrows are those of slopes: they point in the direction in which
    the slope of f was penalized, and their length is proportional to the coefficient.

    Parameters
    ----------
    xx0, xx1 : ndarray of shape (rows, columns)
        The coordinates of the grid.
    response : ndarray of shape (rows, columns)
        The values of f for two classes, the indices of the predicted classes for more.
    classes : ndarray
        The classes.
    X : ndarray of shape (t, 2)
        The points.
    codes : ndarray of shape (t,)
        The index of the class of each point, -1 for unlabeled points.
    active : object or None
        The active representers; None if the estimator has no `function_`, as a pipeline.
    names : tuple of str
        The names of the two features.

    Attributes
    ----------
    ax_, figure_ : Axes, Figure
        The matplotlib axes and figure, after `plot`.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X, y = np.array([[0.0, 0.0], [1.0, 1.0], [0.9, 1.2]]), np.array([0, 1, 1])
    >>> model = rkhs.InvariantClassifier().fit(X, y)
    >>> display = rkhs.plotting.BoundaryDisplay.from_estimator(model, X, y, grid_resolution=20)
    >>> display.response.shape
    (20, 20)
    """

    xx0: Vector
    xx1: Vector
    response: Vector
    classes: Vector
    X: Vector
    codes: Vector
    active: ActiveRepresenters | None
    names: tuple[str, str]

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any = None,
        *,
        grid_resolution: int = 150,
        eps: float = 0.1,
        ax: Any = None,
        **options: Any,
    ) -> BoundaryDisplay:
        """Evaluate a fitted classifier of two features on a grid around X, and draw it.

        Parameters
        ----------
        estimator : estimator
            A fitted classifier of two features, or a pipeline that ends in one.
        X : array-like of shape (t, 2)
            The points.
        y : array-like of shape (t,), optional
            The labels; values that are not among the classes are drawn as unlabeled points.
        grid_resolution : int, default=150
            The number of grid points along each axis.
        eps : float, default=0.1
            The margin around X, as a share of its extent.
        ax : Axes, optional
            The matplotlib axes to draw on; new ones by default.
        **options
            As in `plot`.

        Returns
        -------
        BoundaryDisplay
            The display.
        """
        points = to_numpy(as_points(X))
        if points.shape[1] != 2:
            raise ValueError(f"A decision boundary can be drawn for 2 features, but X has {points.shape[1]} features.")
        low, high = points.min(axis=0), points.max(axis=0)
        margin = eps * np.where(high > low, high - low, 1.0)
        axes = [np.linspace(low[a] - margin[a], high[a] + margin[a], grid_resolution) for a in (0, 1)]
        xx0, xx1 = np.meshgrid(*axes)
        grid: Any = np.column_stack([xx0.ravel(), xx1.ravel()])
        names = getattr(estimator, "feature_names_in_", None)
        if names is not None and hasattr(X, "columns"):
            grid = type(X)(dict(zip(names, grid.T, strict=True)))
        values = to_numpy(estimator.decision_function(grid))
        response = values if values.ndim == 1 else values.argmax(axis=1).astype(float)
        classes = np.asarray(estimator.classes_)
        labels = np.full(len(points), None) if y is None else np.asarray(to_numpy(y), dtype=object)
        codes = np.array([next((k for k, c in enumerate(classes) if c == label), -1) for label in labels])
        f = getattr(estimator, "function_", None)
        active = None if f is None else ActiveRepresenters.of(f)
        axis_names = ("", "") if names is None else tuple(names)
        display = cls(xx0, xx1, response.reshape(xx0.shape), classes, points, codes, active, axis_names)
        return display.plot(ax=ax, **options)

    def plot(self, ax: Any = None, *, representers: bool = True, legend: bool = True) -> BoundaryDisplay:
        """Draw the display.

        Parameters
        ----------
        ax : Axes, optional
            The matplotlib axes to draw on; new ones by default.
        representers : bool, default=True
            Whether to draw the active representers.
        legend : bool, default=True
            Whether to draw a legend.

        Returns
        -------
        BoundaryDisplay
            The display, with `ax_` and `figure_`.
        """
        ax = axes_of(ax)
        colors = [COLORS[k % len(COLORS)] for k in range(len(self.classes))]
        grid = self.xx0, self.xx1, self.response
        if len(self.classes) == 2:
            size = float(np.abs(self.response).max()) or 1.0
            ax.contourf(*grid, levels=np.linspace(-size, size, 15), cmap="RdBu_r", alpha=0.5)
            if self.response.min() < 0 < self.response.max():
                ax.contour(*grid, levels=[0.0], colors="k", linewidths=1.2)
        else:
            ax.contourf(*grid, levels=np.arange(len(self.classes) + 1) - 0.5, colors=colors, alpha=0.35)
        unlabeled = self.codes < 0
        if unlabeled.any():
            ax.scatter(*self.X[unlabeled].T, s=8, color="0.35", label="no label", zorder=2)
        if representers and self.active is not None:
            values, slopes, vectors = self.active.values, self.active.slopes, self.active.vectors
            if len(values):
                ax.scatter(*values.T, s=120, facecolor="none", edgecolor="k", label="active value", zorder=3)
            if len(slopes):
                extent = float(np.ptp(self.xx0) + np.ptp(self.xx1)) / 2
                arrows = vectors * (0.08 * extent / float(np.linalg.norm(vectors, axis=1).max()))
                style = {"angles": "xy", "scale_units": "xy", "scale": 1.0, "width": 0.003, "color": "0.2"}
                ax.quiver(*slopes.T, *arrows.T, label="active slope", zorder=3, **style)
        for k, name in enumerate(self.classes):
            members = self.codes == k
            if members.any():
                ax.scatter(*self.X[members].T, s=60, color=colors[k], edgecolor="k", label=f"{name}", zorder=4)
        ax.set(xlabel=self.names[0], ylabel=self.names[1])
        if legend and ax.get_legend_handles_labels()[0]:
            ax.legend(loc="best", fontsize="small")
        self.ax_, self.figure_ = ax, ax.figure
        return self


@dataclass(eq=False, repr=False)
class HistoryDisplay:
    """The relative duality gap and the objective of each solver of a race over time; create it with `from_solution`.

    Parameters
    ----------
    history : tuple of Record
        The states after all iterations.
    solver : str
        The name of the solver, for records without a name.

    Attributes
    ----------
    axes_ : ndarray of Axes
        The two axes, after `plot`.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.linspace(0, 1, 30)[:, None]
    >>> term = rkhs.Term(rkhs.Evaluation(X), rkhs.Logistic(), target=np.sign(X[:, 0] - 0.4))
    >>> solution = rkhs.Problem(rkhs.Gaussian(scale=0.3), [term]).solve()
    >>> display = rkhs.plotting.HistoryDisplay.from_solution(solution)
    >>> display.axes_[0].get_ylabel()
    'relative gap'
    """

    history: Sequence[Any]
    solver: str

    @classmethod
    def from_solution(cls, solution: Solution, *, axes: Any = None) -> HistoryDisplay:
        """Plot the history of a solution.

        Parameters
        ----------
        solution : Solution
            The solution.
        axes : sequence of two Axes, optional
            The axes to draw on; new ones by default.

        Returns
        -------
        HistoryDisplay
            The display.
        """
        return cls(solution.history, solution.solver).plot(axes)

    def plot(self, axes: Any = None) -> HistoryDisplay:
        """Draw the gap, logarithmically, and the objective.

        Parameters
        ----------
        axes : sequence of two Axes, optional
            The axes to draw on; new ones by default.

        Returns
        -------
        HistoryDisplay
            This display.
        """
        self.axes_ = axes = pyplot().subplots(1, 2, layout="constrained")[1] if axes is None else axes
        for name in dict.fromkeys(record.solver or self.solver for record in self.history):
            records = [record for record in self.history if (record.solver or self.solver) == name]
            seconds = [record.seconds for record in records]
            axes[0].semilogy(
                seconds, [record.gap if record.gap > 0 else np.nan for record in records], ".-", label=name
            )
            axes[1].plot(seconds, [record.primal for record in records], ".-", label=name)
        for ax, label in zip(axes, ("relative gap", "objective"), strict=True):
            ax.set(xlabel="seconds", ylabel=label)
        axes[0].legend()
        return self


def pyplot() -> Any:
    """Import matplotlib's pyplot, or raise an error that explains how to install it."""
    return import_optional("matplotlib.pyplot", "Displays need matplotlib: pip install 'rkhs[plot]'.")


def axes_of(ax: Any) -> Any:
    """Return the given axes, or new ones for None."""
    return pyplot().subplots()[1] if ax is None else ax


def heat_map(ax: Any, table: Matrix, label: str, numbers: str | None, dark: Matrix, **options: Any) -> None:
    """Draw a table as a heat map with a color bar and, in the format `numbers`, its values, in white if `dark`."""
    image = ax.imshow(table, **options)
    ax.figure.colorbar(image, ax=ax, label=label)
    if numbers is not None:
        for (row, column), value in np.ndenumerate(table):
            if np.isfinite(value):
                color = "w" if dark[row, column] else "k"
                ax.text(column, row, f"{value:{numbers}}", ha="center", va="center", fontsize=7, color=color)


@dataclass(eq=False)
class GridDisplay:
    """Heat map of the scores of a grid search over two parameters, by default C and nu.

    Each cell has the best cross-validated score over the other parameters.  The chosen cell has a frame and the score
    of the chosen candidate: that of `best_index_`, since with few labels many cells share the best score, or else that
    of the largest score.  A search with `invariance="auto"` chooses by squared errors, so the framed score need not be
    the largest.  Create it with `from_estimator` from a CV estimator of this library or a `GridSearchCV`, or with
    `from_results` from a dict like `cv_results_`.

    Parameters
    ----------
    first, second : ndarray
        The values of the two parameters.
    scores : ndarray of shape (len(second), len(first))
        The scores, NaN for cells that the search did not visit.
    names : tuple of str
        The names of the two parameters.
    title : str
        The name of the score.
    chosen : tuple of int, optional
        The row and column of the chosen cell.

    Attributes
    ----------
    ax_, figure_ : Axes, Figure
        The matplotlib axes and figure, after `plot`.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> results = {"param_C": [1, 1, 10, 10], "param_nu": [0, 1, 0, 1], "mean_test_score": [0.8, 0.9, 0.85, 0.8]}
    >>> rkhs.plotting.GridDisplay.from_results(results).scores
    array([[0.8 , 0.85],
           [0.9 , 0.8 ]])
    """

    first: Vector
    second: Vector
    scores: Vector
    names: tuple[str, str]
    title: str
    chosen: tuple[int, int] | None = None

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None, **options: Any) -> GridDisplay:
        """Draw the heat map of a fitted grid search.

        Parameters
        ----------
        estimator : estimator
            A fitted search with `cv_results_`.
        ax : Axes, optional
            The matplotlib axes to draw on; new ones by default.
        **options
            As in `from_results`.

        Returns
        -------
        GridDisplay
            The display.
        """
        results = getattr(estimator, "cv_results_", None)
        if results is None:
            raise ValueError(f"{type(estimator).__name__} has no cv_results_: pass a fitted grid search.")
        return cls.from_results(results, best=getattr(estimator, "best_index_", None), ax=ax, **options)

    @classmethod
    def from_results(
        cls,
        results: Mapping[str, Any],
        *,
        x: str = "C",
        y: str = "nu",
        score: str = "mean_test_score",
        best: int | None = None,
        ax: Any = None,
    ) -> GridDisplay:
        """Draw the heat map of the results of a grid search.

        Parameters
        ----------
        results : dict
            The results, with the keys "param_<x>", "param_<y>" and the name of the score.
        x : str, default="C"
            The parameter along the horizontal axis.
        y : str, default="nu"
            The parameter along the vertical axis.
        score : str, default="mean_test_score"
            The key of the scores.
        best : int, optional
            The index of the chosen candidate.
        ax : Axes, optional
            The matplotlib axes to draw on; new ones by default.

        Returns
        -------
        GridDisplay
            The display.
        """
        columns = [_column(results, name) for name in (x, y)]
        (first, i), (second, j) = (np.unique(column, return_inverse=True) for column in columns)
        scores = np.full((len(second), len(first)), -np.inf)
        np.maximum.at(scores, (j, i), np.asarray(results[score], dtype=float))
        scores[np.isneginf(scores)] = np.nan  # cells that the search did not visit
        chosen = None if best is None else (int(j[best]), int(i[best]))
        if chosen is not None:
            scores[chosen] = results[score][best]
        return cls(first, second, scores, (x, y), score.replace("_", " "), chosen).plot(ax=ax)

    def plot(self, ax: Any = None, *, cmap: str = "viridis", numbers: bool = True) -> GridDisplay:
        """Draw the display.

        Parameters
        ----------
        ax : Axes, optional
            The matplotlib axes to draw on; new ones by default.
        cmap : str, default="viridis"
            The color map.
        numbers : bool, default=True
            Whether to write the scores into the cells, if there are at most 120.

        Returns
        -------
        GridDisplay
            The display, with `ax_` and `figure_`.
        """
        from matplotlib.patches import Rectangle

        ax = axes_of(ax)
        dark = self.scores <= (np.nanmin(self.scores) + np.nanmax(self.scores)) / 2
        form = ".3g" if numbers and self.scores.size <= 120 else None  # more numbers are not readable
        heat_map(ax, self.scores, self.title, form, dark, origin="lower", aspect="auto", cmap=cmap)
        ax.set_xticks(range(len(self.first)), [f"{value:.3g}" for value in self.first])
        ax.set_yticks(range(len(self.second)), [f"{value:.3g}" for value in self.second])
        ax.set(xlabel=self.names[0], ylabel=self.names[1])
        row, column = self.chosen or np.unravel_index(np.nanargmax(self.scores), self.scores.shape)
        ax.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, fill=False, edgecolor="r", linewidth=2))
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _column(results: Mapping[str, Any], name: str) -> Vector:
    key = f"param_{name}"
    if key not in results:
        known = ", ".join(k.removeprefix("param_") for k in results if k.startswith("param_"))
        raise ValueError(f"The search has no parameter {name!r}; it has {known}.")
    return np.asarray(np.ma.filled(results[key], np.nan), dtype=float)


@dataclass(eq=False)
class MetricDisplay:
    """Heat map of the metric M of a learned distance; create it with `from_estimator`.

    The squared distance of a model is (x - y)'M(x - y).  The display shows M for standardized features, divided by its
    trace.  The diagonal has the share of each feature in the mean squared distance of points with independent features;
    an off-diagonal cell is nonzero if the distance depends on a combination of two features, with the same sign or with
    opposite signs.

    Parameters
    ----------
    shares : ndarray of shape (n, n)
        The metric for standardized features, divided by its trace.
    names : tuple of str
        The names of the features.

    Attributes
    ----------
    ax_, figure_ : Axes, Figure
        The matplotlib axes and figure, after `plot`.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.random.default_rng(0).standard_normal((60, 2))
    >>> model = rkhs.InvariantRegressor(scale=[1.0, 2.0]).fit(X, X[:, 0])
    >>> np.diag(rkhs.plotting.MetricDisplay.from_estimator(model, X / X.std(axis=0)).shares).round(2)
    array([0.8, 0.2])
    """

    shares: Matrix
    names: tuple[str, ...]

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, *, names: Any = None, ax: Any = None) -> MetricDisplay:
        """Draw the metric of a fitted model.

        Parameters
        ----------
        estimator : estimator
            A fitted model with a learned metric (`scale="agop"`) or a length scale for each feature.
        X : array-like of shape (t, n)
            Points whose standard deviations are the units of the features, such as the training points.
        names : sequence of str, optional
            The names of the features; by default those that the model was fitted with, or their indices.
        ax : Axes, optional
            The matplotlib axes to draw on; new ones by default.

        Returns
        -------
        MetricDisplay
            The display.
        """
        M = getattr(estimator, "metric_", None)
        if M is None:
            scale = getattr(getattr(getattr(estimator, "function_", None), "kernel", None), "scale", None)
            if scale is None or np.ndim(scale) != 1:
                raise ValueError(
                    f"{type(estimator).__name__} has neither a learned metric nor a scale for each feature: fit it "
                    'with scale="agop" or scale="evidence".'
                )
            M = np.diag(1 / np.asarray(scale, dtype=np.float64) ** 2)
        names = getattr(estimator, "feature_names_in_", range(len(M))) if names is None else names
        spread = double(np.asarray(X)).std(axis=0)
        if spread.shape != (len(M),) or len(list(names)) != len(M):
            raise ValueError(
                f"The metric has {len(M)} features, but X has {spread.size}, and there are {len(list(names))} names."
            )
        standardized = M * np.outer(spread, spread)
        total = float(np.trace(standardized))
        if not total > 0:
            raise ValueError("All features of X with a weight in the metric are constant: pass points that differ.")
        return cls(standardized / total, tuple(map(str, names))).plot(ax=ax)

    def plot(self, ax: Any = None, *, cmap: str = "RdBu_r") -> MetricDisplay:
        """Draw the display.

        Parameters
        ----------
        ax : Axes, optional
            The matplotlib axes to draw on; new ones by default.
        cmap : str, default="RdBu_r"
            The color map.

        Returns
        -------
        MetricDisplay
            The display, with `ax_` and `figure_`.
        """
        ax = axes_of(ax)
        largest = float(np.abs(self.shares).max())
        form = ".2f" if len(self.names) <= 12 else None  # more numbers are not readable
        dark = np.abs(self.shares) > largest / 2
        heat_map(ax, self.shares, "share", form, dark, cmap=cmap, vmin=-largest, vmax=largest)
        ax.set_xticks(range(len(self.names)), self.names, rotation=90)
        ax.set_yticks(range(len(self.names)), self.names)
        self.ax_, self.figure_ = ax, ax.figure
        return self


@dataclass(eq=False)
class ChangeDisplay:
    """Values of f at points that are transformed along an invariance; create it with `from_estimator`.

    The display shows f(T(x, a)) as a function of the amount a for each transformation T.  If f is invariant, the lines
    are flat.

    Parameters
    ----------
    amounts : ndarray of shape (m,)
        The amounts a.
    values : dict of str to ndarray of shape (t, transformations, m)
        The values of f for each model, by name.
    names : tuple of str
        The names of the transformations.

    Attributes
    ----------
    axes_, figure_ : ndarray of Axes, Figure
        The matplotlib axes and figure, after `plot`.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> from rkhs.invariances import SignalTangents
    >>> X = np.exp(-((np.arange(20) - np.array([[5], [14]])) ** 2) / 8.0)
    >>> f = rkhs.results.Function(rkhs.Gaussian(scale=1.0), rkhs.Evaluation(X), [1.0, -1.0])
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
        """Transform the rows of X by several amounts, evaluate f, and draw the values.

        Parameters
        ----------
        estimator : estimator, Function or dict
            A fitted classifier or regressor, an `rkhs.results.Function`, or a dict of several of these by name.
        tangents : ImageTangents, SignalTangents or Tangents
            The transformations.
        X : array-like of shape (t, n)
            The points.
        amounts : sequence of float, optional
            The amounts of the transformations; by default 21 values from -2 to 2.
        output : int, optional
            The index of the class or output to show; needed if there are several.
        axes : sequence of Axes, optional
            The matplotlib axes to draw on, one for each transformation; new ones by default.

        Returns
        -------
        ChangeDisplay
            The display.
        """
        name = "f" if isinstance(estimator, Function) else type(estimator).__name__
        models = dict(estimator) if isinstance(estimator, Mapping) else {name: estimator}
        points = as_points(X)
        steps = np.linspace(-2, 2, 21) if amounts is None else np.asarray(amounts, dtype=float)
        moved = np.stack([to_numpy(tangents.moved(points, float(a))) for a in steps], axis=2)  # (t, k, m, n)
        flat = moved.reshape(-1, moved.shape[-1])
        values = {}
        for name, model in models.items():
            f = model if isinstance(model, Function) else getattr(model, "decision_function", None) or model.predict
            predictions = to_numpy(f(flat))
            if predictions.ndim == 2:
                if output is None:
                    raise ValueError(f"{name} has {predictions.shape[1]} outputs: pass the index of one as output=.")
                predictions = predictions[:, output]
            values[name] = predictions.reshape(moved.shape[:-1])
        return cls(steps, values, tuple(tangents.names)).plot(axes=axes)

    def plot(self, axes: Any = None) -> ChangeDisplay:
        """Draw the display, with a line for each model and point.

        Parameters
        ----------
        axes : sequence of Axes, optional
            The matplotlib axes to draw on, one for each transformation; new ones by default.

        Returns
        -------
        ChangeDisplay
            The display, with `axes_` and `figure_`.
        """
        if axes is None:
            width = min(3.0 * len(self.names), 15)
            _, axes = pyplot().subplots(
                1, len(self.names), figsize=(width, 2.8), sharey=True, squeeze=False, layout="constrained"
            )
        axes = np.atleast_1d(np.asarray(axes, dtype=object)).ravel()
        if len(axes) != len(self.names):
            raise ValueError(
                f"There are {len(self.names)} transformations and {len(axes)} axes: pass one for each transformation."
            )
        for k, (ax, name) in enumerate(zip(axes, self.names, strict=True)):
            for c, (model, values) in enumerate(self.values.items()):
                lines = ax.plot(self.amounts, values[:, k].T, color=f"C{c}", alpha=0.8, linewidth=1.2)
                lines[0].set_label(model)
            ax.axhline(0.0, color="0.7", linewidth=0.8, zorder=0)
            ax.set_title(name, fontsize=9)
        axes[0].set_ylabel("f")
        if len(self.values) > 1:
            axes[0].legend(fontsize="small")
        self.axes_, self.figure_ = axes, axes[0].figure
        return self


@dataclass(eq=False)
class TangentsDisplay:
    """The tangents of an image and the transformed images; create it with `from_image`.

    The display has a row for each tangent: the tangent as an image, and the image transformed by several amounts.

    Parameters
    ----------
    image : ndarray of shape (rows, columns)
        The image.
    vectors : ndarray of shape (k, rows, columns)
        The tangents.
    orbit : ndarray of shape (k, amounts, rows, columns)
        The transformed images.
    amounts : tuple of float
        The amounts of the transformations.
    names : tuple of str
        The names of the tangents.

    Attributes
    ----------
    axes_, figure_ : ndarray of Axes, Figure
        The matplotlib axes and figure, after `plot`.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> from rkhs.invariances import ImageTangents
    >>> tangents = ImageTangents(shape=(8, 8), kinds=["rotation", "thickness"])
    >>> display = rkhs.plotting.TangentsDisplay.from_image(tangents, np.eye(8), amounts=[-1, 0, 1])
    >>> display.orbit.shape
    (2, 3, 8, 8)
    """

    image: Vector
    vectors: Vector
    orbit: Vector
    amounts: tuple[float, ...]
    names: tuple[str, ...]

    @classmethod
    def from_image(
        cls, tangents: Any, image: Any, *, amounts: Sequence[float] = (-2.0, -1.0, 0.0, 1.0, 2.0), figure: Any = None
    ) -> TangentsDisplay:
        """Transform an image by the transformations of an `ImageTangents`, and draw the result.

        Parameters
        ----------
        tangents : ImageTangents
            The transformations.
        image : array-like of shape (rows, columns) or (rows * columns,)
            The image.
        amounts : sequence of float, default=(-2.0, -1.0, 0.0, 1.0, 2.0)
            The amounts of the transformations.
        figure : Figure, optional
            The matplotlib figure to draw on; a new one by default.

        Returns
        -------
        TangentsDisplay
            The display.
        """
        x = np.asarray(to_numpy(image), dtype=float).reshape(1, -1)
        shape = tangents.shape
        vectors = tangents.vectors(x)[0].reshape(-1, *shape)
        orbit = np.stack([tangents.moved(x, a)[0].reshape(-1, *shape) for a in amounts], axis=1)
        return cls(x.reshape(shape), vectors, orbit, tuple(float(a) for a in amounts), tuple(tangents.names)).plot(
            figure
        )

    def plot(self, figure: Any = None, *, cmap: str = "gray_r") -> TangentsDisplay:
        """Draw the display.

        Parameters
        ----------
        figure : Figure, optional
            The matplotlib figure to draw on; a new one by default.
        cmap : str, default="gray_r"
            The color map of the images.

        Returns
        -------
        TangentsDisplay
            The display, with `axes_` and `figure_`.
        """
        rows, columns = len(self.names), len(self.amounts) + 1
        if figure is None:
            figure = pyplot().figure(figsize=(1.3 * columns, 1.35 * rows), layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False)
        low, high = float(self.image.min()), float(self.image.max())
        for k, name in enumerate(self.names):
            size = float(np.abs(self.vectors[k]).max()) or 1.0
            axes[k, 0].imshow(self.vectors[k], cmap="RdBu_r", vmin=-size, vmax=size)
            axes[k, 0].set_ylabel(name.replace(" along ", "\nalong "), fontsize=8)
            for j, image in enumerate(self.orbit[k]):
                axes[k, j + 1].imshow(image, cmap=cmap, vmin=low, vmax=high)
        axes[0, 0].set_title("tangent", fontsize=8)
        for j, amount in enumerate(self.amounts):
            axes[0, j + 1].set_title(f"{amount:+g}" if amount else "0", fontsize=8)
        for ax in axes.flat:
            ax.set(xticks=[], yticks=[])
        self.axes_, self.figure_ = axes, figure
        return self
