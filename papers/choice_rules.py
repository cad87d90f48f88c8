"""Rules that choose C and nu of InvSVM under the protocol of Zhang et al. 2013, Table 1.

For all pairs (C, nu) of Table 1 a cell computes the test errors of a set's draws, and what a rule may know: errors and
hinge losses of labels that were held out, by the five folds or one at a time, and the leave-one-out squared error of
least squares on the same kernel matrix.  The page applies the rules to these grids, so that a new rule over the same
scores needs no new run.  The best pairs by test errors show how much a choice could gain.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import combinations, product
from pathlib import Path
from string import ascii_uppercase

import numpy as np
from sklearn.svm import _libsvm

from papers.experiment import Array, Cell, Experiment, Record, Result, p_value, table
from papers.few_labels import (
    CS,
    DRAWS,
    GRADIENT_NUS,
    SETS,
    best_index,
    candidates,
    ever_labeled_rows,
    fit_svm,
    fold_scores,
    labeled_rows,
    load_points,
    test_error,
)
from papers.printed_deviations import LABELS, PRINTED_DRAWS, printed_error

ALL_NUS = (0.0, *GRADIENT_NUS)
PRESENT = "errors of the folds (Table 1)"
LARGE = ("g241c", "g241n", "usps_ssl")  # 1,500 points with 241 features
SCORES = ("test error", "fold accuracy", "fold loss", "leave-one-out accuracy", "leave-one-out loss", "squared error")


@dataclass(frozen=True)
class Grid:
    """Scores of all pairs (C, nu) on one draw; each is an array (C, nu).

    Parameters
    ----------
    key : set, number of labels
    draw : number of the random draw
    test : test error in percent, which only the oracles may use
    accuracy, loss : of held-out labels, mean over the five folds
    loo_accuracy, loo_loss : of labels that were held out one at a time
    squared : leave-one-out squared error of least squares with the same kernel and C
    """

    key: tuple[str, int]
    draw: int
    test: Array
    accuracy: Array
    loss: Array
    loo_accuracy: Array
    loo_loss: Array
    squared: Array


Errors = dict[tuple[str, int], list[float]]  # set and number of labels: test errors of all draws
Choice = tuple[int, int]  # index of C, index of nu
Rule = Callable[[Grid, list[Grid], list[int]], Choice]  # (the draw, all draws, indices of nu to choose among)


def plan(quick: bool, _: list[Record]) -> list[Cell]:
    """Plan a cell for each set and number of labels, since all draws share the kernel matrices; large sets first."""
    if quick:
        return [{"set": "heart", "labels": LABELS[0], "draws": 2}]
    sets = sorted(SETS, key=lambda name: name not in LARGE)
    return [{"set": name, "labels": labels, "draws": DRAWS} for name in sets for labels in LABELS]


def compute(cell: Cell) -> Result:
    """Return the scores of all pairs (C, nu), a matrix for each draw."""
    points = load_points(cell["set"], "columns")
    found = candidates("InvSVM", cell["set"], "columns")
    scores = np.empty((len(SCORES), cell["draws"], len(CS), len(found)))
    for number in range(cell["draws"]):
        labeled = labeled_rows(points.y, cell["labels"], number)
        columns, y = np.searchsorted(ever_labeled_rows(points.y), labeled), points.y[labeled]
        for (i, C), (k, candidate) in product(enumerate(CS), enumerate(found)):
            K = candidate.matrix[np.ix_(labeled, columns)]
            predicted = fit_svm(K, y, C).predict(candidate.matrix[:, columns])
            accuracies, losses = fold_scores(K, y, C)
            margins = leave_one_out_margins(K, y, C)
            scores[:, number, i, k] = (
                test_error(predicted, points.y, labeled),
                accuracies.mean(),
                losses.mean(),
                np.mean(margins > 0),
                np.mean(np.maximum(0, 1 - margins)),
                np.mean(squared_residuals(K, y, C)),
            )
    return {name: own.tolist() for name, own in zip(SCORES, scores.round(6), strict=True)}


def leave_one_out_margins(K: Array, y: Array, C: float) -> Array:
    """Return y_i f(x_i) for each label, where f is the SVM of the others.

    A label that is no support vector does not change the SVM, so that only support vectors are left out.
    """
    support, coefficients, intercept = fast_svm(K, y, C)
    margins = y * (K[:, support] @ coefficients + intercept)
    for i in support:
        kept = np.delete(np.arange(len(y)), i)
        others, coefficients, intercept = fast_svm(K[np.ix_(kept, kept)], y[kept], C)
        margins[i] = y[i] * (K[i, kept[others]] @ coefficients + intercept)
    return np.asarray(margins)


def fast_svm(K: Array, y: Array, C: float) -> tuple[Array, Array, float]:
    """Return the support vectors, their coefficients and the intercept of `fit_svm`.

    This is the function that `sklearn.svm.SVC` calls after it has validated its arguments, which takes seven times as
    long as LIBSVM does for 90 labels.
    """
    fitted = _libsvm.fit(
        np.ascontiguousarray(K), (y > 0).astype(np.float64), svm_type=0, kernel="precomputed", C=C, tol=1e-4
    )
    return fitted[0], -fitted[3][0], -float(fitted[4][0])


def squared_residuals(K: Array, y: Array, C: float) -> Array:
    """Return the squared leave-one-out residuals of  min 1/2 |f|^2 + C sum_i (f(x_i) + b - y_i)^2.

    With the matrix M = [[K + I / (2 C), 1], [1', 0]] and (a, b) = M^-1 (y, 0) they are a_i / (M^-1)_ii, squared.

    Examples
    --------
    >>> squared_residuals(np.zeros((3, 3)), np.array([1.0, 1.0, -1.0]), C=1.0)  # f is the mean of the other two
    array([1., 1., 4.])
    """
    count = len(y)
    inverse = np.linalg.inv(
        np.block([[K + np.eye(count) / (2 * C), np.ones((count, 1))], [np.ones((1, count)), np.zeros((1, 1))]])
    )
    return np.asarray((inverse[:count, :count] @ y / np.diag(inverse)[:count]) ** 2)


def read_grids(records: list[Record]) -> list[Grid]:
    """Return the grids of all sets, numbers of labels and draws."""
    return [
        Grid((r.cell["set"], r.cell["labels"]), number, *(np.array(r.result[name][number]) for name in SCORES))
        for r in sorted(records, key=lambda r: (SETS.index(r.cell["set"]), r.cell["labels"]))
        for number in range(r.cell["draws"])
    ]


def _best(accuracy: Array, loss: Array, nus: list[int]) -> Choice:
    index = best_index(accuracy[:, nus].ravel(), loss[:, nus].ravel())
    return index // len(nus), nus[index % len(nus)]


def fold_errors(grid: Grid, _: list[Grid], nus: list[int]) -> Choice:
    """Choose the fewest held-out errors of the folds, among equal ones the smallest loss."""
    return _best(grid.accuracy, grid.loss, nus)


def fold_losses(grid: Grid, _: list[Grid], nus: list[int]) -> Choice:
    """Choose the smallest held-out hinge loss of the folds."""
    return _best(-grid.loss, grid.loss, nus)


def left_out_errors(grid: Grid, _: list[Grid], nus: list[int]) -> Choice:
    """Choose the fewest leave-one-out errors of the SVM, among equal ones the smallest leave-one-out loss."""
    return _best(grid.loo_accuracy, grid.loo_loss, nus)


def left_out_losses(grid: Grid, _: list[Grid], nus: list[int]) -> Choice:
    """Choose the smallest leave-one-out hinge loss of the SVM."""
    return _best(-grid.loo_loss, grid.loo_loss, nus)


def least_squares(grid: Grid, everything: list[Grid], nus: list[int]) -> Choice:
    """Choose nu by the leave-one-out squared error of least squares with its best C; then C of the SVM by folds."""
    nu = nus[int(np.argmin(grid.squared[:, nus].min(axis=0)))]
    return fold_errors(grid, everything, [nu])


def fixed_nu(nu: int, grid: Grid, everything: list[Grid], nus: list[int]) -> Choice:
    """Choose C by folds, with nu of this index; without an invariance, nu is 0."""
    return fold_errors(grid, everything, [nu] if nu in nus else nus)


def nu_of_other_sets(grid: Grid, everything: list[Grid], nus: list[int]) -> Choice:
    """Choose C by folds, with the nu whose best C has the fewest held-out errors over the draws of all other sets."""
    others = [own for own in everything if own.key[0] != grid.key[0]] or [grid]
    accuracy = np.mean([own.accuracy[:, nus].max(axis=0) for own in others], axis=0)
    return fold_errors(grid, everything, [nus[int(np.argmax(accuracy))]])


def best_pair(grid: Grid, everything: list[Grid], nus: list[int]) -> Choice:
    """Choose the pair with the smallest mean test error over the draws of the same set and number of labels."""
    mean = np.mean([own.test for own in everything if own.key == grid.key], axis=0)
    return _best(-mean, mean, nus)


def best_of_draw(grid: Grid, _: list[Grid], nus: list[int]) -> Choice:
    """Choose the pair with the smallest test error on this draw."""
    return _best(-grid.test, grid.test, nus)


RULES: dict[str, Rule] = {
    PRESENT: fold_errors,
    "loss of the folds": fold_losses,
    "leave-one-out errors": left_out_errors,
    "leave-one-out loss": left_out_losses,
    "nu by least squares, C by folds": least_squares,
    **{f"nu = {nu:g}, C by folds": partial(fixed_nu, k) for k, nu in enumerate(ALL_NUS) if nu},
    "nu of the other sets, C by folds": nu_of_other_sets,
}
ONE_PAIR, EACH_DRAW = "oracle, one pair (C, nu)", "oracle, a pair for each draw"
ORACLES: dict[str, Rule] = {ONE_PAIR: best_pair, EACH_DRAW: best_of_draw}
EXPLANATION = (
    "Leave-one-out refers to the SVM, trained again without each of its support vectors. Least squares has closed "
    "leave-one-out residuals on the same kernel matrix; it chooses nu together with a C of its own, and the folds "
    "choose the C of the SVM. nu of the other sets is the one with the fewest held-out errors in the folds of the "
    "other eight sets; no rule but the oracles uses test labels.\n\n"
)


def errors_of(rule: Rule, grids: list[Grid], nus: list[int]) -> Errors:
    """Return the test errors of the chosen pairs, for each set and number of labels in the order of the draws."""
    errors: Errors = {}
    for grid in grids:
        errors.setdefault(grid.key, []).append(float(grid.test[rule(grid, grids, nus)]))
    return errors


def overall_mean(errors: Errors) -> float:
    """Return the mean over sets and numbers of labels of the mean over draws."""
    return float(np.mean([np.mean(own) for own in errors.values()]))


def page(records: list[Record], _: Path) -> str:
    """Write the mean errors of all rules, then those of each set and number of labels."""
    grids = read_grids(records)
    nus = list(range(len(ALL_NUS)))
    errors = {name: errors_of(rule, grids, nus) for name, rule in (RULES | ORACLES).items()}
    plain = {name: errors_of(rule, grids, nus[:1]) for name, rule in (RULES | ORACLES).items()}
    return _overall(errors, plain) + _reach(errors) + _by_cell(errors, plain)


def _overall(errors: dict[str, Errors], plain: dict[str, Errors]) -> str:
    present, oracle = overall_mean(errors[PRESENT]), overall_mean(errors[ONE_PAIR])
    rows = []
    for name, own in errors.items():
        mean = overall_mean(own)
        change = recovered = ""
        if name != PRESENT and present > oracle:
            change = _change(own, errors[PRESENT])
            recovered = f"{100 * (present - mean) / (present - oracle):.0f} %"
        counts = [_comparison(own, other) for other in (errors[PRESENT], plain[PRESENT])]
        plain_mean = f"{overall_mean(plain[name]):.2f}"
        rows.append([_letter(name), name, f"{mean:.2f}", change, recovered, *counts, plain_mean])
    cells = len(errors[PRESENT])
    headings = ["", "rule", "InvSVM", "change", "recovered", "against A", "against SVM", "SVM with this rule"]
    return (
        f"Mean test error in percent over {cells} cells (sets with 30, 60 or 90 labels) of InvSVM, whose C and nu are "
        "chosen by a rule from the grid of Table 1. The change is that from rule A, which is the rule of Table 1, with "
        "its standard error over cells. What is recovered is the share of the step from rule A to the best pair "
        "(C, nu) of each cell by its test errors, which no rule can know. Wins, ties and losses are those of paired "
        "t tests at 5 percent on the same draws, against rule A and against the SVM of Table 1. The last column is the "
        "SVM, nu = 0, with C chosen by the same rule.\n\n" + table(headings, rows) + EXPLANATION
    )


def _change(errors: Errors, others: Errors) -> str:
    differences = [np.mean(own) - np.mean(others[key]) for key, own in errors.items()]
    if len(differences) < 2:
        return f"{np.mean(differences):+.2f}"
    return f"{np.mean(differences):+.2f} ± {np.std(differences, ddof=1) / len(differences) ** 0.5:.2f}"


def _comparison(errors: Errors, others: Errors) -> str:
    counts = Counter[str]()
    for key, own in errors.items():
        differs = p_value(own, others[key]) < 0.05
        counts["tie" if not differs else "win" if np.mean(own) < np.mean(others[key]) else "loss"] += 1
    return f"{counts['win']} / {counts['tie']} / {counts['loss']}"


def _reach(errors: dict[str, Errors]) -> str:
    """Write a table of the cells whose printed error is below that of the best pair (C, nu) for each draw."""
    rows = []
    for (name, labels), best in errors[EACH_DRAW].items():
        printed = printed_error(name, "InvSVM", labels)[0]
        if printed < np.mean(best):
            triples = [np.mean(own) <= printed for own in combinations(best, PRINTED_DRAWS)]
            rows.append(
                [name, str(labels), f"{printed:g}", f"{np.mean(best):.1f}", f"{sum(triples)} of {len(triples)}"]
            )
    return (
        "In these cells the printed mean of InvSVM is below that of the best pair for each draw, by its test errors. "
        f"The last column says how many triples of our draws have a mean of their best pairs that is as low, since the "
        f"printed deviations fit {PRINTED_DRAWS} draws:\n\n"
        + table(["set", "l", "printed", "best pair for each draw", "triples as low"], rows)
        if rows
        else ""
    )


def _by_cell(errors: dict[str, Errors], plain: dict[str, Errors]) -> str:
    columns = {"SVM": plain[PRESENT], **{_letter(name): own for name, own in errors.items()}}
    rows = [
        [name, str(labels), *(f"{np.mean(own[name, labels]):.1f}" for own in columns.values())]
        for name, labels in errors[PRESENT]
    ]
    text = "Mean test error in percent of each set and number of labels, by the letters of the rules:\n\n"
    return text + table(["set", "l", *columns], rows)


def _letter(name: str) -> str:
    return ascii_uppercase[list(RULES | ORACLES).index(name)]


CHOICE_RULES = Experiment(
    "choice-rules", "Rules of choice for InvSVM (sets of Zhang et al. 2013, Table 1)", plan, compute, page
)
