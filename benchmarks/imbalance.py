"""Rare classes: weights, margins and priors by class and the robust margin, compared with copies and boosting.

    python -m benchmarks.imbalance [--sets banana german .. 3-8] [--draws 5] [--out build/bench]

Tables of Raetsch: the smaller class is thinned to 5 % of at most 300 training rows (at least 10 rows are kept), and all
other rows are test rows.  Pairs of MNIST digits such as 3-8: 50 images of the first and 10 of the second digit, 20
principal components of these 60 images, and test images.  Features are standardized with training rows only.

Settings are chosen by three stratified folds of the training rows: the smallest balanced error, ties by the hinge loss
with classes of equal weight.  All support vector machines share the grid of scales and C.  Models that add something to
weights by class keep the scale and C that were chosen for these, and choose the strength of the addition, which may be
zero.

Where the hinge loss with weights by class leaves the constant of f undetermined, it is the one that favors the rare
class most.

The area under the precision-recall curve is computed with test rows weighted to the shares of the classes in training.

With --out, each draw is added to imbalance.jsonl, and a later run computes only draws that are missing.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
from rich.console import Console
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import average_precision_score
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import rkhs
from benchmarks.data import digits, load
from benchmarks.timing import markdown, show, write

Matrix = np.ndarray[Any, Any]
Values = Callable[[Matrix], Matrix]  # the decision values at points; positive for the rare class
Fit = Callable[[Matrix, Matrix, Any], Values]

TABLES = (
    "banana",
    "breast_cancer",
    "diabetes",
    "flare_solar",
    "german",
    "heart",
    "image",
    "ringnorm",
    "splice",
    "thyroid",
    "twonorm",
    "waveform",
)
PAIRS = ("4-9", "3-8")
ROWS, SHARE, FEWEST = 300, 0.05, 10  # training rows, share of the rare class, and its smallest number of rows
TEST_ROWS = 2000  # of each class at most
FACTORS, CS = (0.5, 1.0), (0.1, 1.0, 10.0, 100.0)  # of the median distance; of the hinge loss
MARGINS = (1.0, 2.0, 4.0, 8.0)  # of the rare class
NUS = (0.0, 0.01, 0.1, 1.0)  # the penalty of |scale * gradient|^2, in units of the weight of a rare label
RADII = (0.0, 0.03, 0.1, 0.3)  # in units of the scale
TOL, SECONDS = 1e-2, 30.0  # relative duality gap and time limit of a fit
MODELS = (
    "SVM",
    "threshold by folds",
    "margin by class",
    "weights by class",
    "weights, gradients at rare points",
    "weights, robust margin of the rare class",
    "SVC, balanced",
    "SVC, interpolated copies",
    "boosting, balanced",
)
REFERENCE = "weights by class"


def draw(name: str, seed: int) -> tuple[Matrix, Matrix, Matrix, Matrix]:
    """Return training points, their classes, test points and their classes; +1 is the rare class."""
    rng = np.random.default_rng(seed)
    if name in PAIRS:
        parts = []
        for which, counts in (("train", (50, 10)), ("test", (1000, 1000))):
            X, y = digits("mnist", which)
            chosen = zip(name.split("-"), counts, strict=True)
            rows = [rng.permutation(np.flatnonzero(y == int(digit)))[:count] for digit, count in chosen]
            parts += [X[np.concatenate(rows)] / 255, np.repeat([-1.0, 1.0], [len(r) for r in rows])]
        X, y, Z, truth = parts
        components = PCA(20, random_state=0).fit(X)
        return components.transform(X), y, components.transform(Z), truth
    X, y = load(f"raetsch_{name}")
    y = y if np.mean(y > 0) < 0.5 else -y
    frequent, rare = (rng.permutation(np.flatnonzero(side)) for side in (y < 0, y > 0))
    many = min(int(ROWS * (1 - SHARE)), int(0.6 * len(frequent)))
    few = max(FEWEST, round(many * SHARE / (1 - SHARE)))
    train = np.concatenate([frequent[:many], rare[:few]])
    test = np.concatenate([frequent[many:][:TEST_ROWS], rare[few:][:TEST_ROWS]])
    scaler = StandardScaler().fit(X[train])
    return scaler.transform(X[train]), y[train], scaler.transform(X[test]), y[test]


def class_weights(y: Matrix) -> Matrix:
    """Return the weights of class_weight="balanced"."""
    share = float(np.mean(y > 0))
    return np.where(y > 0, 0.5 / share, 0.5 / (1 - share))


def solved(X: Matrix, factor: float, terms: Callable[[float], list[rkhs.Term]]) -> Values:
    """Return the solution of a problem whose terms depend on the scale, with an unpenalized constant."""
    scale = factor * float(rkhs.kernels.median_scale(X))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # fits that the time limit stops
        solution = rkhs.Problem(rkhs.Gaussian(scale), terms(scale), rkhs.Constant()).solve(tol=TOL, time_limit=SECONDS)
    return solution.function


def favoring_rare(f: Values, X: Matrix, y: Matrix, reach: Any = 0.0) -> Values:
    """Return f plus the largest constant that minimizes the hinge loss with balanced weights.

    The constant is not unique if all points of a class are within the margin, since both classes have the same weight:
    solvers return some constant of an interval that may be long.  With `reach` the loss is max(0, 1 + reach - y f).
    """
    weights = class_weights(y)
    ends = y * (1 + reach) - f(X)  # the constants at which the losses of the points become zero
    ordered = np.sort(ends)
    below = [np.sum(weights[(y < 0) & (ends < c)]) - np.sum(weights[(y > 0) & (ends >= c)]) for c in ordered]
    flat = np.flatnonzero(np.array(below) <= 1e-9 * len(y))  # the loss does not increase just below these
    shift = float(ordered[flat[-1]])
    return lambda Z: f(Z) + shift


def labels(X: Matrix, y: Matrix, weight: Any) -> list[rkhs.Term]:
    """Return the hinge loss of the labels."""
    return [rkhs.Term(rkhs.Evaluation(X), rkhs.Hinge(), target=y, weight=weight)]


def plain(X: Matrix, y: Matrix, setting: tuple[float, float]) -> Values:
    """Fit an SVM; settings are the factor of the scale and C."""
    factor, C = setting
    return solved(X, factor, lambda scale: labels(X, y, C))


def weighted(X: Matrix, y: Matrix, setting: tuple[float, float]) -> Values:
    """Fit an SVM with balanced weights."""
    factor, C = setting
    return favoring_rare(solved(X, factor, lambda scale: labels(X, y, C * class_weights(y))), X, y)


def with_margin(X: Matrix, y: Matrix, setting: tuple[float, float, float]) -> Values:
    """Fit an SVM whose rare class has a larger margin m: the losses are max(0, m - f) and max(0, 1 + f).

    With f = (m + 1) / 2 g + (m - 1) / 2 these are (m + 1) / 2 times the hinge losses of g, and the constant is not
    penalized.  So g is an SVM with C / ((m + 1) / 2), and a margin is a threshold: `with_margin_term` has the same f.
    """
    factor, C, margin = setting
    half = (margin + 1) / 2
    g = plain(X, y, (factor, C / half))
    return lambda Z: half * g(Z) + (half - 1)


def with_margin_term(X: Matrix, y: Matrix, setting: tuple[float, float, float]) -> Values:
    """Fit the same function as `with_margin`, with a term for the margin of the rare class."""
    factor, C, margin = setting
    rare = y > 0

    def terms(scale: float) -> list[rkhs.Term]:
        far = rkhs.Term(rkhs.Evaluation(X[rare]), rkhs.losses.OneSided(), target=margin, weight=C)
        return [far, *labels(X[~rare], y[~rare], C)]

    return solved(X, factor, terms)


def with_gradients(at_rare: bool) -> Fit:
    """Return the weighted SVM with squared gradients at the rare points, or at as many frequent points."""

    def fit(X: Matrix, y: Matrix, setting: tuple[float, float, float]) -> Values:
        factor, C, nu = setting
        if nu == 0:
            return weighted(X, y, (factor, C))
        weights, rare = class_weights(y), np.flatnonzero(y > 0)
        points = X[rare] if at_rare else X[np.flatnonzero(y < 0)[: len(rare)]]  # rows are in random order

        def terms(scale: float) -> list[rkhs.Term]:
            weight = nu * C * float(weights[rare[0]]) * scale**2
            return [*labels(X, y, C * weights), rkhs.Term(rkhs.Gradient(points), rkhs.Squared(), weight=weight)]

        return favoring_rare(solved(X, factor, terms), X, y)

    return fit


def robust(X: Matrix, y: Matrix, setting: tuple[float, float, float]) -> Values:
    """Fit the weighted SVM with the smallest margin in balls around the points of the rare class."""
    factor, C, relative = setting
    if relative == 0:
        return weighted(X, y, (factor, C))
    weights, rare = C * class_weights(y), y > 0
    radius = relative * factor * float(rkhs.kernels.median_scale(X))
    target = np.zeros((int(rare.sum()), X.shape[1] + 1))
    target[:, 0] = 1
    jets = rkhs.functionals.Jet(X[rare])
    balls = rkhs.Term(jets, rkhs.losses.RobustHinge(radius), target=target, weight=float(weights[rare][0]))
    f = solved(X, factor, lambda scale: [balls, *labels(X[~rare], y[~rare], weights[~rare])])
    reach = np.zeros(len(y))
    reach[rare] = radius * np.linalg.norm(np.asarray(rkhs.Gradient(X[rare])(f)), axis=1)
    return favoring_rare(f, X, y, reach)


def svc(X: Matrix, y: Matrix, setting: tuple[float, float]) -> Values:
    """Fit scikit-learn's SVC with balanced weights."""
    factor, C = setting
    gamma = 0.5 / (factor * float(rkhs.kernels.median_scale(X))) ** 2
    found: Values = SVC(gamma=gamma, C=C, class_weight="balanced").fit(X, y).decision_function
    return found


def with_copies(X: Matrix, y: Matrix, setting: tuple[float, float]) -> Values:
    """Fit SVC to balanced classes: new rare points lie between a rare point and one of its five nearest (SMOTE)."""
    rng, rare = np.random.default_rng(0), X[y > 0]
    neighbors = NearestNeighbors(n_neighbors=min(6, len(rare))).fit(rare).kneighbors(rare, return_distance=False)
    first = rng.integers(len(rare), size=int(np.sum(y < 0)) - len(rare))
    second = neighbors[first, rng.integers(1, neighbors.shape[1], size=len(first))]
    copies = rare[first] + rng.uniform(size=(len(first), 1)) * (rare[second] - rare[first])
    return svc(np.concatenate([X, copies]), np.concatenate([y, np.ones(len(copies))]), setting)


def boosting(X: Matrix, y: Matrix, setting: tuple[float, int]) -> Values:
    """Fit boosted trees with balanced weights; settings are the learning rate and the smallest leaf."""
    rate, leaf = setting
    model = HistGradientBoostingClassifier(
        learning_rate=rate, min_samples_leaf=leaf, class_weight="balanced", early_stopping=False, random_state=0
    )
    found: Values = model.fit(X, y).decision_function
    return found


def balanced_error(values: Matrix, y: Matrix, threshold: float = 0.0) -> float:
    """Return the mean of the error rates of the classes."""
    wrong = (values > threshold) != (y > 0)
    return float((np.mean(wrong[y > 0]) + np.mean(wrong[y < 0])) / 2)


def best_threshold(values: Matrix, y: Matrix) -> float:
    """Return the threshold with the smallest balanced error, the nearest to zero of equally good ones."""
    ordered = np.sort(values)
    between = np.concatenate([[0.0], (ordered[1:] + ordered[:-1]) / 2])
    return float(min(between, key=lambda t: (round(balanced_error(values, y, t), 9), abs(t))))


def choose(
    fit: Fit, settings: Sequence[Any], X: Matrix, y: Matrix, threshold: Callable[..., float] = lambda values, y: 0.0
) -> tuple[Any, float]:
    """Return the setting with the smallest balanced error of held-out rows, and its threshold."""
    folds = list(StratifiedKFold(3, shuffle=True, random_state=0).split(X, y))
    found = []
    for k, setting in enumerate(settings):
        held_out = np.empty(len(y))
        for train, test in folds:
            held_out[test] = fit(X[train], y[train], setting)(X[test])
        loss = float(np.mean(class_weights(y) * np.maximum(0, 1 - y * held_out)))
        at = threshold(held_out, y)
        found.append((round(balanced_error(held_out, y, at), 9), loss, k, at))
    best = min(found)
    return settings[best[2]], best[3]


def measure(X: Matrix, y: Matrix, Z: Matrix, truth: Matrix) -> dict[str, Any]:
    """Return for each model the balanced error, the area under the precision-recall curve and processor seconds."""
    share = float(np.mean(y > 0))
    prevalence = np.where(truth > 0, share / np.mean(truth > 0), (1 - share) / np.mean(truth < 0))
    found: dict[str, Any] = {}

    def note(name: str, values: Values, setting: Any, start: float, threshold: float = 0.0) -> None:
        at = np.asarray(values(Z), dtype=np.float64)
        area = float(average_precision_score(truth > 0, at, sample_weight=prevalence))
        seconds = process_time() - start
        found[name] = {
            "error": 100 * balanced_error(at, truth, threshold),
            "area": 100 * area,
            "setting": setting,
            "s": seconds,
        }

    grid = list(product(FACTORS, CS))
    start = process_time()
    setting, _ = choose(plain, grid, X, y)
    note("SVM", plain(X, y, setting), setting, start)
    start = process_time()
    setting, threshold = choose(plain, grid, X, y, best_threshold)
    note("threshold by folds", plain(X, y, setting), [*setting, threshold], start, threshold)
    start = process_time()
    added, _ = choose(with_margin, list(product(FACTORS, CS, MARGINS)), X, y)
    note("margin by class", with_margin(X, y, added), added, start)
    weights: dict[str, Fit] = {
        "weights by class": weighted,
        "SVC, balanced": svc,
        "SVC, interpolated copies": with_copies,
    }
    for name, fit in weights.items():
        start = process_time()
        chosen, _ = choose(fit, grid, X, y)
        note(name, fit(X, y, chosen), chosen, start)
        setting = chosen if name == REFERENCE else setting
    additions: dict[str, tuple[Fit, Sequence[float]]] = {
        "weights, gradients at rare points": (with_gradients(at_rare=True), NUS),
        "weights, gradients at frequent points": (with_gradients(at_rare=False), NUS),
        "weights, robust margin of the rare class": (robust, RADII),
    }
    for name, (fit, strengths) in additions.items():
        start = process_time()
        if name in MODELS:
            added, _ = choose(fit, [(*setting, strength) for strength in strengths], X, y)
            note(name, fit(X, y, added), added, start)
        for strength in strengths[1:]:  # also without a choice, and at other points for comparison
            start = process_time()
            note(f"{name}: {strength:g}", fit(X, y, (*setting, strength)), [*setting, strength], start)
    start = process_time()
    chosen, _ = choose(boosting, list(product((0.03, 0.1), (5, 20))), X, y)
    note("boosting, balanced", boosting(X, y, chosen), chosen, start)
    return found


def table(results: dict[tuple[str, int], dict[str, Any]], names: Sequence[str]) -> list[list[str]]:
    """Return the rows of a table: means over sets of the means over draws, and comparisons with the reference."""
    sets = sorted({name for name, _ in results})

    def means(model: str, key: str) -> Matrix:
        return np.array([np.mean([r[model][key] for (s, _), r in results.items() if s == name]) for name in sets])

    rows = []
    for model in names:
        error, area = means(model, "error"), means(model, "area")
        gains, areas = means(REFERENCE, "error") - error, area - means(REFERENCE, "area")
        seconds = np.mean([r[model]["s"] for r in results.values()])
        rows.append(
            [
                model,
                f"{np.mean(error):.1f}",
                difference(-gains),
                f"{np.sum(gains > 0.5)} : {np.sum(gains < -0.5)}",
                f"{np.mean(area):.1f}",
                difference(areas),
                f"{np.sum(areas > 0.5)} : {np.sum(areas < -0.5)}",
                f"{seconds:.1f}",
            ]
        )
    return rows


def difference(values: Matrix) -> str:
    """Return the mean over sets and its standard error; nothing if all are zero."""
    return f"{np.mean(values):+.1f} ± {np.std(values, ddof=1) / len(values) ** 0.5:.1f}" if np.any(values) else ""


def by_set(results: dict[tuple[str, int], dict[str, Any]], key: str) -> list[list[str]]:
    """Return for each set the means over draws of all models."""
    rows = []
    for name in dict.fromkeys(s for s, _ in results):
        of_set = [r for (s, _), r in results.items() if s == name]
        rows.append([name, *(f"{np.mean([r[model][key] for r in of_set]):.1f}" for model in MODELS)])
    return rows


def main() -> None:
    """Print the tables, and write them."""
    parser = argparse.ArgumentParser(description="Rare classes: weights, margins, priors and the robust margin.")
    parser.add_argument("--sets", nargs="+", default=[*TABLES, *PAIRS], choices=[*TABLES, *PAIRS])
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--out", type=Path, help="a folder for imbalance.md, and for the draws that are done")
    options = parser.parse_args()
    console, results = Console(width=180), {}
    path = options.out and options.out / "imbalance.jsonl"
    if path and path.exists():
        for line in path.read_text().splitlines():
            one = json.loads(line)
            results[one["set"], one["draw"]] = one["models"]
    for seed, name in product(range(options.draws), options.sets):
        if (name, seed) not in results:
            start = perf_counter()
            results[name, seed] = models = measure(*draw(name, seed))
            console.print(f"{name} {seed}: {perf_counter() - start:.0f} s", {m: models[m]["error"] for m in MODELS})
            if path:
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("a") as file:
                    file.write(json.dumps({"set": name, "draw": seed, "models": models}) + "\n")
    results = {key: one for key, one in results.items() if key[0] in options.sets and key[1] < options.draws}
    compared = ("difference", "better : worse")  # than the reference, by more than half a point
    headings = ("model", "balanced error %", *compared, "area %", *compared, "processor s")
    fixed = [REFERENCE, *(m for m in next(iter(results.values())) if ": " in m)]
    texts = []
    for title, heads, rows in (
        (f"Rare classes, means over {len(options.sets)} sets", headings, table(results, MODELS)),
        ("The same strength on all sets", headings, table(results, fixed)),
        ("Balanced error in percent", ("set", *MODELS), by_set(results, "error")),
        ("Area under the precision-recall curve in percent", ("set", *MODELS), by_set(results, "area")),
    ):
        show(console, title, heads, rows)
        texts.append(markdown(title, heads, rows))
    if options.out:
        write(options.out, "imbalance.md", "".join(texts))


if __name__ == "__main__":
    main()
