"""Test the HTML report on six kinds of tables: its numbers are those of the model, and it opens without errors."""

import json
import re
from html import unescape
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from running import check_words, command
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, KFold, PredefinedSplit
from sklearn.svm import SVR

import rkhs
from browser import Browser, needs_chromium
from rkhs._command.demo import customers
from rkhs.export import notes_of

RNG = np.random.default_rng(0)


def binary():
    X = RNG.standard_normal((60, 2))
    return pd.DataFrame(X, columns=["a", "<i>&"]).assign(
        label=np.where(X[:, 0] + X[:, 1] ** 2 > 0.7, "</script>", "no")
    )


def ten_classes():
    images, digits = load_digits(return_X_y=True)
    frame = pd.DataFrame(images[:60, 18:46:3], columns=[f"pixel {k}" for k in range(10)])
    return frame.assign(label=digits[:60])


def units():
    rate, depth = RNG.uniform(1, 9, 40), RNG.normal(100, 30, 40)
    y = 3 * rate + 0.02 * depth + 0.1 * RNG.standard_normal(40)
    return pd.DataFrame({"rate [/h]": rate, "depth [m]": depth, "label": y})


def missing():
    frame = binary()
    return frame.mask(RNG.random(frame.shape) < [0.2, 0.1, 0.0]).assign(hollow=None)


def dates_and_text():
    frame = customers(60).rename(columns={"churn": "label"})
    return frame[["customer", "joined", "contract", "complaints", "label"]]


def unlabeled():
    frame = binary()
    frame.loc[RNG.random(60) < 0.6, "label"] = None
    return frame


TABLES = {make.__name__: make() for make in (binary, ten_classes, units, missing, dates_and_text, unlabeled)}


# One of classes with missing cells and one of numbers; `make test-all` has the others.
CASES = [name if name in ("units", "missing") else pytest.param(name, marks=pytest.mark.slow) for name in TABLES]


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """A folder for the model and the report of each table."""
    return tmp_path_factory.mktemp("reports")


def fit_once(home, name):
    """Write the model, the report and what is printed of a table, unless they are there."""
    if (home / f"{name}.txt").exists():
        return
    TABLES[name].to_csv(home / f"{name}.csv", index=False)
    plain = ["--invariance", "none"]  # faster than what is tried by default for the other three
    options = {"units": [*plain, "--regression"], "ten_classes": plain, "missing": plain}.get(name, [])
    files = [f"{home}/{name}.csv", "--target", "label", "--out", f"{home}/{name}.skops"]
    (home / f"{name}.txt").write_text(command("fit", *files, *options, columns=400))


class Numbers(HTMLParser):
    """The numbers of each section in their order, and the text that is seen."""

    def __init__(self, content):
        super().__init__()
        self.section, self.found, self.text, self.held, self.inside = "top", {}, "", "", None
        self.feed(content)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.inside = tag if tag in ("style", "script") else None
        if tag == "section":
            self.section = attributes["id"]
        if tag == "data":
            self.found.setdefault(self.section, []).append(float(attributes["value"]))

    def handle_endtag(self, tag):
        if tag in ("style", "script"):
            self.inside = None

    def handle_data(self, data):
        if self.inside == "script":
            self.held += data
        elif self.inside is None:
            self.text += data


def opened(reports, name):
    fit_once(reports, name)
    content = (reports / f"{name}.html").read_text()
    path = reports / f"{name}.skops"
    return Numbers(content), rkhs.load(path), notes_of(path)["notes"], pd.read_csv(reports / f"{name}.csv")


@pytest.mark.parametrize("name", CASES)
def test_numbers_are_those_of_the_model(reports, name):
    page, model, notes, frame = opened(reports, name)
    assert json.loads(page.held) == notes
    check_words(notes)
    model = model[-1]
    assert (notes["C"], notes["nu"]) == (model.C_, model.nu_) == (model.best_params_["C"], model.best_params_["nu"])
    assert notes["settings tried"] == len(model.cv_results_["params"])
    assert notes["representers"] == model.function_.active
    compared = notes["comparison"]
    assert page.found["compared"] == [compared["error"], compared["its error"]] == page.found["top"][:2]
    known = int(frame["label"].notna().sum())
    assert page.found["top"][2:] == [known, len(frame) - known]


@pytest.mark.parametrize("name", CASES)
def test_the_terminal_prints_the_sentences_of_the_page(reports, name):
    notes = opened(reports, name)[2]
    content, printed = ((reports / f"{name}.{kind}").read_text() for kind in ("html", "txt"))
    sections = dict(re.findall(r'<section id="(\w+)">(.*?)</section>', content, re.DOTALL))
    shown = "".join(sections[one] for one in ("compared", "gained", "data", "better"))
    sentences = [unescape(text) for text in re.findall(r"<(?:p|li)>(.*?)</(?:p|li)>", shown)]
    assert {notes["comparison"]["sentence"], *notes["advice"]} <= set(sentences)
    assert len(sentences) >= 5 + len(notes["advice"])
    assert [printed.count(sentence) for sentence in sentences] == [1] * len(sentences)
    assert printed.index(notes["comparison"]["sentence"]) < printed.index("The data")
    assert printed.rstrip().endswith(notes["advice"][-1])


@pytest.mark.parametrize("name", [case for case in CASES if case != "units"])
def test_the_confusion_matrix_has_every_label_once_and_the_stated_error(reports, name):
    page, _, notes, frame = opened(reports, name)
    counts = np.array(page.found["mistakes"]).reshape(len(notes["classes"]), -1)
    assert counts.sum(axis=1).tolist() == list(notes["classes"].values())
    assert 1 - np.trace(counts) / counts.sum() == pytest.approx(notes["comparison"]["error"])
    stated, right, rows = np.reshape(page.found["calibration"], (-1, 3)).T
    assert rows.sum() == frame["label"].notna().sum()
    assert rows @ (1 - right) / rows.sum() == pytest.approx(notes["comparison"]["error"])
    assert list(stated) == sorted(stated)
    assert len(set(np.minimum(10 * stated, 9).astype(int))) == len(stated)  # one probability in each tenth


@pytest.mark.parametrize(
    "name", ["units", *(pytest.param(name, marks=pytest.mark.slow) for name in ("binary", "dates_and_text"))]
)
def test_average_slopes_are_differences_of_predictions(reports, name):
    """Compare with central differences of the predictions of the loaded model."""
    page, model, notes, frame = opened(reports, name)
    if "joined" in frame:
        frame["joined"] = (pd.to_datetime(frame["joined"]) - pd.Timestamp(0)) / pd.Timedelta(days=1)
    frame = frame.drop(columns="label")
    rows = frame.iloc[np.sort(np.random.default_rng(0).permutation(len(frame))[:100])]
    expected, names = set(), list(model.feature_names_in_)

    def f(rows):  # scores of classes are calibrated, slopes are those of f
        return model[-1].function_(np.asarray(model[:-1].transform(rows[names]), dtype=float))

    rough = model[-1].function_.kernel.smoothness(1) <= 1  # then the page has differences over 0.1 deviations
    for column in notes["numeric columns"] + list(notes["date columns"]):
        step = (0.05 if rough else 1e-4) * frame[column].std(ddof=0)
        up, down = (f(rows.assign(**{column: rows[column] + sign * step})) for sign in (1, -1))
        expected.add(float(np.mean(up - down) / (2 * step)))
    found = page.found["effects"]
    for slope in expected:
        assert min(abs(value - slope) for value in found) < 1e-5 * max(map(abs, expected)) + 1e-9  # of the differences


def test_residuals_and_intervals_of_numbers(reports):
    page, _, notes, _ = opened(reports, "units")
    quantiles = page.found["mistakes"]
    assert quantiles == sorted(quantiles)
    assert np.abs(quantiles).max() < 5 * notes["comparison"]["error"]
    stated, found = page.found["calibration"][::3], page.found["calibration"][1::3]
    assert stated == [0.25, 0.5, 0.75, 0.9, 0.95]
    assert all(0 <= share <= 1 for share in found)
    assert "rate [/h]" in page.text


def test_the_plain_svm_is_tuned_and_trained_without_the_fold_that_it_predicts(reports):
    """The folds are shuffled, since tables are often sorted."""
    _, model, notes, frame = opened(reports, "units")
    X, y, predicted = model[0].transform(frame.drop(columns="label")), frame["label"].to_numpy(), np.zeros(40)
    fold_of = np.zeros(40, dtype=int)
    for k, (_, test) in enumerate(KFold(5, shuffle=True, random_state=1).split(X)):
        fold_of[test] = k
    grid = {"gamma": [0.5 / (s * rkhs.kernels.median_scale(X)) ** 2 for s in (0.25, 0.5, 1.0, 2.0, 4.0)]}
    grid["C"] = y.std() * np.logspace(-1, 3, 5)
    for k in range(5):
        rest, svm = fold_of != k, SVR(epsilon=0.1 * y.std())
        search = GridSearchCV(svm, grid, cv=PredefinedSplit(fold_of[rest]), scoring="neg_mean_squared_error")
        predicted[~rest] = search.fit(X[rest], y[rest]).predict(X[~rest])
    assert notes["comparison"]["its error"] == pytest.approx(np.mean((predicted - y) ** 2) ** 0.5, rel=1e-6)


def test_intervals_are_deviations_times_a_factor(reports):
    _, model, notes, frame = opened(reports, "units")
    command("predict", reports / "units.skops", reports / "units.csv", "--out", reports / "units.out.csv", "--force")
    found = pd.read_csv(reports / "units.out.csv")
    points, machine = rkhs.Evaluation(model[:-1].transform(frame)), model[-1]
    expected = notes["interval"]["factor"] * machine.solution_.posterior.std(points, weight=machine.target_weight_)
    np.testing.assert_allclose(found["upper (90 %)"] - found["label"], expected, rtol=1e-6)
    np.testing.assert_allclose(found["label"] - found["lower (90 %)"], expected, rtol=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_nothing_is_fetched_and_cells_cannot_end_elements(reports, name):
    fit_once(reports, name)
    content = (reports / f"{name}.html").read_text()
    assert not re.findall(r"(?:src|href)=\"(?!data:)|https?://|@import|url\(", content)
    assert content.count("</script>") == 1
    assert "<i>&" not in content


@pytest.mark.slow
@needs_chromium
def test_reports_open_in_a_browser_without_errors(reports):
    with Browser() as browser:
        for name in TABLES:
            fit_once(reports, name)
            for width in (1280, 390):
                page = browser.open(f"file://{reports}/{name}.html", width)
                assert page.run("document.querySelector('h1').innerText") == "Predicting label"
                assert page.run("document.querySelectorAll('svg[role=img]').length") >= 3
                assert page.run("document.documentElement.scrollWidth") <= width
                assert page.complaints == []
