"""The sizes at which algorithms change their form, such as the number of rows up to which a matrix is stored.

They stand in one object so that a test can reach the code above a threshold with a problem of ten rows:

    with with_limits(tile_entries=8):
        ...

Only sizes belong here: what trades memory for time without changing the result beyond rounding, or what decides which
of two tested methods is used.  Constants of one algorithm stand beside it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from math import inf
from typing import Any


@dataclass(frozen=True)
class Limits:
    """Sizes at which algorithms change their form; each field says which one, its unit and where the number is from."""

    tile_entries: int = 2**19  # entries of a tile on a CPU, 4 MiB in float64; half and twice as many were slower
    feature_entries: int = 2**21  # entries of a tile of rows x functions of a space on a CPU, 16 MiB
    fold_patterns: int = 4  # rows are grouped by the folds that contain them up to this many groups per fold
    kinked_rows: int = 3000  # rows with kinks for elimination in stored features, whose Gram matrix is dense
    plain_iterations: int = 100  # of conjugate gradients, after which their preconditioner gets a leading block
    sampled_functions: int = 2**16  # functions of samples of a posterior in a space that is used by products
    map_compared: int = 600  # functionals of an evaluation of the evidence that compares kernels of maps
    map_tuned: int = 1500  # functionals of that for the chosen kernel
    map_fewest: int = 1000  # rows from which errors decide on a map; below, left-out regions are too few
    map_repeats: int = 8  # times that rows are left out to calibrate deviations of a map
    threads: int = 0  # threads that share tiles; 0 for as many as BLAS is configured to use
    shared_pairs: int = 2**20  # pairs of points from which on threads share a product of jets
    shared_entries: int = 10**5  # entries of a block of columns above which threads share the product of a filter
    sensitivity_entries: int = 2**18  # entries of a tile of coefficients in `sensitivity`
    # Columns, and rows at least as many, of a block of a factorization: 10,000 rows take 1.2 times the time of LAPACK.
    factor_columns: int = 2048
    factor_rows: int = 4096
    device_distances: int = 10**8  # distances of points that a device computes at once, 0.8 GB
    spectral_nodes: int = 2000  # nodes up to which an eigendecomposition (1 s) is faster than polynomials of a graph
    filter_degree: int = 2**18  # degree of the polynomial of a filter, about a minute for 10,000 nodes
    filtered_entries: int = 10**8  # entries of a block of columns under a graph kernel, 0.8 GB
    exact_neighbors: int = 200_000  # rows up to which neighbors on a CPU are exact: five minutes on two cores
    projected_rows: int = 20_000  # rows above which neighbors are those of the first principal components
    projected_features: int = 50  # the number of these components
    median_points: int = 5000  # points above which the median distance is that of a random sample
    tuning_gain: float = 1e-5  # smallest increase of a tuned criterion per functional in an iteration of L-BFGS
    tuned_functionals: int = 1000  # functionals of the sample that all starts of a search for hyperparameters use
    fold_gap: float = 1e-2  # relative duality gap of the models of folds; scores hardly change below it
    dense_labels: int = 5000  # labels up to which their matrix is inverted, to leave them out one by one
    sized_labels: int = 4000  # labels up to which all are left out to determine the size of error bars
    exact_labels: int = 10_000  # labels up to which f is learned without an approximation: 0.8 GB, 13 s on one core
    exact_seconds: float = 600.0  # of one core that an exact fit to more labels may take, if the loss is not squared
    compared_labels: int = 1000  # labels on which a search compares candidates by leaving them out
    many_labels: int = 2000  # labels from which a search compares candidates at held-out rows
    graph_entries: int = 10**8  # labels times points up to which a search tries graphs
    landmarks: int = 1000  # the smaller number of landmarks that a search compares
    landmark_work: float = 4e12  # rows times squared landmarks: about a minute on two cores
    proof_cells: int = 20_000  # cells of the proof of one claim about a shape
    proof_work: float = 1e9  # terms that are added up for the cells of all claims, two to four seconds
    shape_dense: int = 10_000  # functionals up to which points of shapes are found by one factorization of the data
    infeasible_rows: int = 1500  # constraints of which a contradiction is looked for: 20 s on one core
    shape_rounds: int = 18  # maximal number of rounds of solving a problem with a shape and of proving it
    stored_rows: float = inf  # functionals whose Gram matrix is stored in float64 at most; main memory decides before
    single_rows: float = inf  # the same in float32
    nonquadratic_rows: int = 1500  # rows up to which problems in a span are cheaper than products, unless squared
    single_side: int = 1024  # rows of a tile in float32: 4 MiB, which stays in the cache between its two products
    nearest: int = 400  # functionals that a variance is conditioned on, where all of them cannot be factorized
    sampled_rows: int = 4000  # functionals from which the share of variances is estimated that these do not explain


_limits: ContextVar[Limits] = ContextVar("limits", default=Limits())  # noqa: B039  (frozen)


def limits() -> Limits:
    """Return the limits of the enclosing block.

    Returns
    -------
    Limits
        The sizes at which algorithms change their form, as attributes.

    Examples
    --------
    >>> from rkhs.extend import limits
    >>> limits().proof_cells
    20000
    """
    return _limits.get()


@contextmanager
def with_limits(**changes: Any) -> Iterator[Limits]:
    """Change limits within the block, also in threads that it starts by `map_in_threads`."""
    token = _limits.set(replace(_limits.get(), **changes))
    try:
        yield _limits.get()
    finally:
        _limits.reset(token)
