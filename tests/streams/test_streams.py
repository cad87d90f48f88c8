"""Rows in blocks: the same model wherever they come from, and blocks that cannot be used."""

import numpy as np
import pandas as pd
import pytest

import rkhs
from refusals import refused

RNG = np.random.default_rng(0)
X = RNG.normal(size=(1000, 4))
TARGET = np.sin(2 * X[:, 0]) + 0.1 * RNG.normal(size=1000)
LABELS = np.where(RNG.random(1000) < 0.2, (X[:, 0] > 0).astype(int) + (X[:, 1] > 1), -1)
FIXED = rkhs.Landmarks(rkhs.stack([rkhs.Evaluation(X[:60]), rkhs.Gradient(X[60:65])]))


def regressor(**options):
    return rkhs.InvariantRegressor(**{"scale": 2.0, "C": 10.0, "approximation": FIXED} | options)


def classifier(**options):
    return rkhs.InvariantClassifier(**{"scale": 2.0, "C": 10.0, "approximation": FIXED} | options)


def pieces(*columns, size=300):
    for start in range(0, len(columns[0]), size):
        some = tuple(column[start : start + size] for column in columns)
        yield some if len(some) > 1 else some[0]


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic", "squared"])
def test_blocks_are_the_problem_in_one(loss):
    """The estimator on blocks of 300 rows, beside `Problem` with the same landmarks."""
    model = classifier(loss=loss, nu=0.1, tol=1e-8).fit(rkhs.streams.blocks(X, LABELS, rows=300))
    rows = np.flatnonzero(LABELS >= 0)
    target = np.where(LABELS[rows, None] == np.arange(3), 1.0, -1.0)
    labels = rkhs.Term(rkhs.Evaluation(X[rows]), rkhs.estimators._formulation.LOSSES[loss], target, 10.0)
    flat = rkhs.Term(rkhs.Gradient(X), rkhs.Squared(), weight=0.1 * 2.0**2 / len(X))
    problem = rkhs.Problem(rkhs.Gaussian(2.0), [labels, flat], rkhs.Constant(), approximation=FIXED)
    np.testing.assert_allclose(model.decision_function(X[:50]), problem.solve(tol=1e-8).function(X[:50]), atol=1e-5)
    assert model.solution_.span is not None


def test_terms_of_a_block_share_points():
    """Values and gradients at the same rows cost one evaluation of the kernel."""
    calls = []

    class Watched(rkhs.Gaussian):
        def form(self, dimension):
            form = super().form(dimension)

            def radial_derivatives(q, orders):
                calls.append(q.shape)
                return form.radial_derivatives(q, orders)

            return type(form)(form.rho, radial_derivatives, form.smooth, form.linear)

    regressor(kernel=Watched(2.0), scale="auto", approximation=rkhs.Landmarks(rkhs.Evaluation(X[:60]))).fit(X, TARGET)
    assert calls.count((1000, 60)) == 1


def test_all_sources_give_one_machine(tmp_path):
    whole = regressor().fit(X, TARGET)
    path = tmp_path / "rows.npy"
    np.save(path, X)
    frame = pd.DataFrame(X, columns=list("abcd")).assign(y=TARGET)
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=250)
    streams = [
        rkhs.streams.blocks(X, TARGET, rows=128),
        rkhs.streams.blocks(np.load(path, mmap_mode="r"), TARGET),
        rkhs.streams.blocks(lambda: pieces(X, TARGET)),
        rkhs.streams.blocks(pieces(X, TARGET)),
        rkhs.streams.read_parquet(tmp_path / "rows.parquet", target="y", rows=200),
    ]
    for stream in streams:
        fitted = regressor().fit(stream)
        rows = frame[list("abcd")] if hasattr(fitted, "feature_names_in_") else X
        np.testing.assert_allclose(fitted.predict(rows), whole.predict(X), atol=1e-8)
    mapped = regressor().fit(np.load(path, mmap_mode="r"), TARGET)
    np.testing.assert_allclose(mapped.predict(X), whole.predict(X), atol=1e-8)


def test_chosen_landmarks_do_not_depend_on_where_blocks_are_read():
    """A sample by random keys: the same for an array and for a function that yields its slices."""
    chosen = rkhs.Landmarks(80)
    one = regressor(approximation=chosen).fit(rkhs.streams.blocks(X, TARGET, rows=300))
    other = regressor(approximation=chosen).fit(rkhs.streams.blocks(lambda: pieces(X, TARGET)))
    np.testing.assert_array_equal(one.function_.coefficients, other.function_.coefficients)
    assert one.score(X, TARGET) > 0.85


def test_few_labels_are_landmarks():
    """Rows without a label outnumber the others a hundred times, and yet no label is lost."""
    y = np.full(1000, -1)
    y[::100] = (X[::100, 0] > 0).astype(int)
    model = classifier(approximation=rkhs.Landmarks(50), C=100.0).fit(rkhs.streams.blocks(X, y, rows=200))
    points = model.function_.functionals.parts[0].atoms.points
    assert {tuple(x) for x in X[::100]} <= {tuple(x) for x in points}


@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_partial_fit_is_fit(loss):
    whole = regressor(loss=loss, tol=1e-9).fit(X, TARGET, sample_weight=1 + (np.arange(1000) % 2))
    model = regressor(loss=loss, tol=1e-6)  # sums know no more digits, and say so
    for some, target, weight in pieces(X, TARGET, 1 + (np.arange(1000) % 2)):
        model.partial_fit(some, target, sample_weight=weight)
    np.testing.assert_allclose(model.predict(X), whole.predict(X), atol=1e-6)


def test_partial_fit_of_classes():
    whole = classifier(loss="logistic").fit(X, LABELS)
    model = classifier(loss="logistic")
    for some, labels in pieces(X, LABELS):
        model.partial_fit(some, labels, classes=[0, 1, 2])
    np.testing.assert_allclose(model.decision_function(X), whole.decision_function(X), atol=1e-6)
    assert np.allclose(model.predict_proba(X).sum(axis=1), 1)
    assert np.array_equal(model.predict(X), model.classes_[model.predict_proba(X).argmax(axis=1)])
    with pytest.raises(rkhs.exceptions.BlockError, match=r"Block 4 cannot be used: y has the class 7"):
        model.partial_fit(X[:3], [7, 0, 1])


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (lambda: X[:10, :3], "X has 3 features, but .* is expecting 4 features"),
        (lambda: np.where(np.arange(40).reshape(10, 4) == 6, np.nan, 1.0), "NaN or infinity in row 1, feature 2"),
        (lambda: np.full((10, 4), "a"), "not numbers"),
        (lambda: X[:10, 0], "shape"),
    ],
)
def test_a_broken_block_is_named_and_nothing_is_lost(broken, message):
    model = regressor()
    for some, target in pieces(X, TARGET):
        model.partial_fit(some, target)
    before = model.predict(X)
    with pytest.raises(rkhs.exceptions.BlockError, match=rf"Block 4 .*{message}") as caught:
        model.partial_fit(broken(), TARGET[:10])
    assert caught.value.block == 4
    np.testing.assert_array_equal(model.predict(X), before)
    model.partial_fit(X[:10], TARGET[:10])  # and on it goes

    def stream():
        yield from pieces(X, TARGET)
        yield broken(), TARGET[:10]

    fitted = regressor().fit(X, TARGET)
    before = fitted.predict(X)
    for source in (stream, stream()):
        with pytest.raises(rkhs.exceptions.BlockError, match=rf"Block 4 .*{message}"):
            fitted.fit(rkhs.streams.blocks(source))
    np.testing.assert_array_equal(fitted.predict(X), before)


def test_a_block_that_cannot_be_read():
    def stream():
        yield X[:10], TARGET[:10]
        raise OSError("the disk is gone")

    with pytest.raises(rkhs.exceptions.BlockError, match="Block 1 could not be read: OSError: the disk is gone"):
        regressor().fit(rkhs.streams.blocks(stream))


PARTS = {
    "two blocks": [slice(0, 30), slice(30, 60)],
    "a block without labels": [slice(0, 250), slice(250, 500), slice(500, 1000)],
    "blocks without rows": [slice(0, 0), slice(0, 500), slice(0, 0), slice(500, 1000)],
}


@pytest.mark.parametrize(
    ("loss", "name"),
    [pytest.param("hinge", "two blocks", marks=pytest.mark.slow), *(("logistic", name) for name in PARTS)],
)
def test_rows_too_many_to_keep_are_read_again(loss, name, monkeypatch):
    """E is never held: Newton's method reads the stream anew, and comes to the same."""
    y = np.where((np.arange(1000) >= 250) & (np.arange(1000) < 500), -1, LABELS) if "labels" in name else LABELS
    stream = rkhs.streams.blocks(lambda: ((X[rows], y[rows]) for rows in PARTS[name]))
    kept = classifier(loss=loss, tol=1e-5).fit(stream)
    monkeypatch.setattr("rkhs._core.finite.sums.KEPT_BYTES", 1000)
    read = classifier(loss=loss, tol=1e-5).fit(stream)
    tolerance = 5e-3 if name == "two blocks" else 1e-6
    np.testing.assert_allclose(read.decision_function(X), kept.decision_function(X), atol=tolerance)
    assert read.solution_.relative_gap <= 1e-5
    with pytest.raises(MemoryError, match=r"(?s)squared loss.*read again"):
        classifier(loss=loss).fit(rkhs.streams.blocks(pieces(X, LABELS)))


def test_balanced_classes_are_those_of_all_rows():
    balanced = classifier(class_weight="balanced", loss="squared").fit(rkhs.streams.blocks(X, LABELS, rows=100))
    counts = np.bincount(LABELS[LABELS >= 0])
    weights = {c: counts.sum() / (3 * counts[c]) for c in range(3)}
    own = classifier(class_weight=weights, loss="squared").fit(X, LABELS)
    np.testing.assert_allclose(balanced.decision_function(X), own.decision_function(X), atol=1e-7)


def test_missing_targets_of_a_file_are_no_labels_where_that_is_said(tmp_path):
    names = np.where(LABELS == -1, None, np.array(["a", "b", "c", "?"])[LABELS])
    frame = pd.DataFrame(X, columns=list("abcd"))
    frame.assign(y=names).to_parquet(tmp_path / "rows.parquet")
    rows = rkhs.streams.read_parquet(tmp_path / "rows.parquet", target="y", rows=300)
    with pytest.raises(
        rkhs.exceptions.BlockError, match=r"y contains NaN, or no value, at row \d+: .*unlabeled=np.nan"
    ):
        classifier().fit(rows)
    model = classifier(unlabeled=np.nan).fit(rows)
    assert model.classes_.tolist() == ["a", "b", "c"]
    np.testing.assert_allclose(
        model.decision_function(frame), classifier().fit(X, LABELS).decision_function(X), atol=1e-6
    )


EMPTY = [np.zeros((0, 4)), pd.DataFrame(columns=list("abcd")), np.zeros(0), []]


@pytest.mark.parametrize("nothing", EMPTY, ids=lambda value: type(value).__name__ + str(np.shape(value)))
@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_blocks_without_rows_are_passed_over(nothing, loss):
    whole = regressor(loss=loss).fit(rkhs.streams.blocks(lambda: pieces(X, TARGET)))
    empty = (nothing, [])

    def read():
        yield empty
        for piece in pieces(X, TARGET):
            yield piece
            yield empty

    for stream in (read, read()):
        found = regressor(loss=loss).fit(rkhs.streams.blocks(stream))
        np.testing.assert_allclose(found.predict(X), whole.predict(X), atol=1e-6)
    model = regressor(loss=loss, tol=1e-6)
    for piece in read():
        model.partial_fit(*piece)
    np.testing.assert_allclose(model.predict(X), whole.predict(X), atol=1e-4)
    with pytest.raises(ValueError, match="no blocks of rows"):
        regressor(loss=loss).fit(rkhs.streams.blocks(lambda: iter([empty, empty])))
    with pytest.raises(rkhs.exceptions.BlockError, match=r"Block 0 has 0 rows, but its y have shape \(2,\)"):
        regressor(loss=loss).fit(rkhs.streams.blocks(lambda: iter([(nothing, [1.0, 2.0])])))


CHANGED = [
    {"C": 1.0},
    {"nu": 1.0},
    {"scale": 1.0},
    {"kernel": "matern"},
    {"loss": "huber"},
    {"loss": rkhs.Huber(0.2)},
    {"invariance": None},
    {"invariance": rkhs.Invariance("gradient", loss="absolute")},
    {"fit_intercept": False},
    {"unlabeled": 0.0},
    {"approximation": rkhs.Landmarks(rkhs.stack([rkhs.Evaluation(X[:60] + 1), rkhs.Gradient(X[60:65])]))},
    {"approximation": rkhs.Landmarks(60)},
]


@pytest.mark.every
@pytest.mark.parametrize("change", CHANGED, ids=lambda change: next(iter(change)))
def test_parameters_that_change_between_blocks_are_refused(change):
    model = regressor().partial_fit(X[:500], TARGET[:500])
    before = model.predict(X)
    (name,) = change
    with pytest.raises(ValueError, match=rf"Parameters have changed.*: {name} was .* and is .*clone"):
        model.set_params(**change).partial_fit(X[500:], TARGET[500:])
    np.testing.assert_array_equal(model.predict(X), before)


def started(weights=None):
    return classifier(loss="squared", class_weight=weights).partial_fit(X[:500], LABELS[:500], classes=[0, 1, 2])


def other_weights():
    weights = {0: 1.0, 1: 2.0, 2: 1.0}
    model = started(weights)
    weights[0] = 5.0
    model.partial_fit(X[500:], LABELS[500:])


def other_classes():
    model = started().partial_fit(X[500:600], LABELS[500:600], classes=[2, 1, 0])
    model.partial_fit(X[600:], LABELS[600:], classes=[0, 1, 2, 3])


test_errors_name_the_remedy = refused(
    (lambda: regressor(invariance="graph").fit(X, TARGET), "all points at once"),
    (lambda: regressor().fit(rkhs.streams.blocks(X, TARGET), TARGET), "bring y"),
    (lambda: rkhs.streams.blocks(iter([X]), TARGET), "yield"),
    (lambda: regressor().fit(rkhs.streams.blocks(iter([]))), "no blocks"),
    (lambda: classifier().fit(X, np.zeros(1000, dtype=int)), "only one class"),
    (lambda: classifier(class_weight="balanced").partial_fit(X, LABELS, classes=[0, 1, 2]), "dict"),
    (other_weights, "class_weight was"),
    (other_classes, r"differ from those of the first partial_fit, \[0, 1, 2\]"),
)


def test_parameters_that_may_change_between_blocks():
    copied = rkhs.Landmarks(rkhs.stack([rkhs.Evaluation(X[:60].copy()), rkhs.Gradient(X[60:65].copy())]))
    model = regressor().partial_fit(X[:500], TARGET[:500])
    model.set_params(tol=1e-3, C=10, approximation=copied).partial_fit(X[500:], TARGET[500:])
    np.testing.assert_allclose(model.predict(X), regressor().fit(X, TARGET).predict(X), atol=1e-5)


def test_partial_fit_after_fit_says_that_it_starts_anew():
    model = regressor().fit(X, TARGET)
    with pytest.warns(UserWarning, match="starts anew"):
        model.partial_fit(X[:500], TARGET[:500])
    np.testing.assert_allclose(model.predict(X), regressor().fit(X[:500], TARGET[:500]).predict(X), atol=1e-5)


def test_no_more_than_a_block_is_alive():
    """Each block is forgotten before the next is asked for."""
    import gc
    import weakref

    alive = []
    gc.collect()
    gc.freeze()  # what the other tests have left is not looked at again

    def stream():
        for some, target in pieces(X, TARGET):
            own = np.array(some)
            gc.collect()
            assert sum(ref() is not None for ref in alive) <= 1
            alive.append(weakref.ref(own))
            yield own, target
            del own

    regressor(invariance="gradient").fit(rkhs.streams.blocks(stream))
    gc.unfreeze()
    assert len(alive) == 8  # looked at, and summed up


@pytest.mark.parametrize("approximation", [rkhs.Landmarks(40), rkhs.FourierFeatures(40)], ids=repr)
def test_model_files(approximation, tmp_path):
    """Also of a model that goes on learning where it was."""
    model = classifier(approximation=approximation, loss="squared").partial_fit(
        X[:500], LABELS[:500], classes=[0, 1, 2]
    )
    rkhs.save(model, tmp_path / "model.skops")
    opened = rkhs.load(tmp_path / "model.skops")
    np.testing.assert_array_equal(opened.predict_proba(X), model.predict_proba(X))
    for one in (opened, model):
        one.partial_fit(X[500:], LABELS[500:])
    np.testing.assert_array_equal(opened.decision_function(X), model.decision_function(X))
