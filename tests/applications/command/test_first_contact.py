"""Test the commands of the README as printed, and options for dates, names of rows, decimals and monotone columns."""

import numpy as np
import pandas as pd
import pytest
from running import check_words, command, facts_of, refused
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.svm import SVC

import rkhs
from rkhs._command.demo import customers
from rkhs.export import notes_of


@pytest.fixture(scope="module")
def churn(tmp_path_factory):
    home = tmp_path_factory.mktemp("churn")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        command("sample churn.csv")
        (home / "printed.txt").write_text(command("fit churn.csv --target churn --out churn.skops"))
        command("predict churn.skops new.csv --out predictions.csv")
    return home


@pytest.mark.slow
def test_sample_fit_predict(churn):
    new, found = pd.read_csv(churn / "new.csv"), pd.read_csv(churn / "predictions.csv")
    assert list(found.columns) == ["customer", "churn", "decision", "P(no)", "P(yes)"]
    assert list(found["customer"]) == list(new["customer"])
    assert np.mean(found["churn"] != new["churn"]) < 0.2
    notes = notes_of(churn / "churn.skops")["notes"]
    assert notes["date columns"] == {"joined": "year-month-day"}
    assert notes["id columns"] == ["customer"]
    table = pd.read_csv(churn / "churn.csv")
    assert table["churn"].isna().mean() > 0.5
    assert "fee [EUR/month]" in table.columns


@pytest.mark.slow
def test_the_sample_shows_the_gain_and_prints_nothing_twice(churn):
    notes, printed = notes_of(churn / "churn.skops")["notes"], (churn / "printed.txt").read_text()
    assert notes["comparison"]["verdict"] == "better"
    assert notes["priors"][0]["compared with"] == "one without the unlabeled rows"
    assert notes["rows learned from"] == notes["rows of the choice"] == notes["rows"]
    assert "landmarks" not in printed
    lines = [line.strip() for line in printed.splitlines() if len(line.split()) > 3]
    assert len(set(lines)) == len(lines)


def errors_on_new_rows(seed):
    """Return the errors of `rkhs fit` and of a tuned SVM with the same labels on 2000 new rows, and the facts."""
    frame = customers(500 + 2000, seed)
    table, later = frame[:500], frame[500:]
    kept = np.random.default_rng(seed).permutation(500) < 60
    table = table.assign(churn=table["churn"].where(kept, None))
    table.to_csv("churn.csv", index=False)
    later.to_csv("new.csv", index=False)
    facts = facts_of("fit churn.csv --target churn --out churn.skops --force")
    ours = facts_of("predict churn.skops new.csv --force")["error"]
    days = (pd.to_datetime(frame["joined"]) - pd.Timestamp(0)) / pd.Timedelta(days=1)
    X = rkhs.load("churn.skops")[0].transform(frame.assign(joined=days))
    X, new, y = X[:500], X[500:], table["churn"].fillna("").to_numpy(str)
    grid = {
        "C": np.logspace(-1, 4, 6),
        "gamma": [0.5 / (s * rkhs.kernels.median_scale(X)) ** 2 for s in (0.25, 0.5, 1, 2, 4)],
    }
    folds = StratifiedKFold(5, shuffle=True, random_state=seed)
    svm = GridSearchCV(SVC(), grid, cv=folds).fit(X[y != ""], y[y != ""])
    plain = np.mean(svm.predict(new) != later["churn"])
    return ours, plain, facts


@pytest.mark.slow
def test_the_model_of_the_sample_beats_a_tuned_svm_over_ten_seeds(folder):
    gains = []
    for seed in range(10):
        ours, plain, facts = errors_on_new_rows(seed)
        check_words(facts)
        gains.append(plain - ours)
    print(np.round(gains, 4))
    assert np.sum(np.array(gains) > 0) >= 9
    assert np.mean(gains) > 2 * np.std(gains, ddof=1) / 10**0.5


def test_sample_replaces_nothing_and_can_write_parquet(folder):
    command("sample churn.csv")
    assert "churn.csv is there already" in refused("sample churn.csv")
    command("sample c.parquet --new later.parquet")
    assert len(pd.read_parquet("c.parquet")) == len(pd.read_csv("churn.csv"))
    assert list(pd.read_parquet("later.parquet").columns) == list(pd.read_csv("new.csv").columns)


@pytest.fixture
def table(folder):
    """y rises with a, a wiggle on top of it."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a [1/h]": rng.uniform(0, 10, 25).round(3), "b": rng.normal(size=25).round(3)})
    frame["y"] = (frame["a [1/h]"] + 3 * np.sin(frame["a [1/h]"]) + 0.1 * rng.normal(size=25)).round(3)
    frame.to_csv("table.csv", index=False)
    return frame


def slopes(model, frame, column):
    up, down = (model.predict(frame.assign(**{column: frame[column] + step})) for step in (1e-3, -1e-3))
    return (up - down) / 2e-3


def test_monotone_columns_are_monotone(table):
    fit = "fit table.csv --target y --regression --invariance none --C 1000"
    command(f"{fit} --out free.skops")
    command(f"{fit} --out rising.skops --increasing 'a [1/h]' --decreasing b")
    free, rising = rkhs.load("free.skops"), rkhs.load("rising.skops")
    assert slopes(free, table, "a [1/h]").min() < -0.5
    assert slopes(rising, table, "a [1/h]").min() > -0.01
    assert slopes(rising, table, "b").max() < 0.01
    notes = notes_of("rising.skops")["notes"]
    assert (notes["increasing"], notes["decreasing"]) == (["a [1/h]"], ["b"])
    assert [one["compared with"] for one in notes["priors"]] == ["one without --increasing 'a [1/h]' --decreasing 'b'"]
    command("predict rising.skops table.csv")
    found = pd.read_csv("predictions.csv")
    inside = (found["lower (90 %)"] <= table["y"]) & (table["y"] <= found["upper (90 %)"])
    assert inside.mean() > 0.8  # intervals of held-out rows, without a standard deviation


@pytest.mark.slow
def test_a_nu_of_zero_is_no_prior(table):
    out = command("fit table.csv --target y --regression --invariance gradient --nu 0 --out m.skops")
    assert "The model uses no prior." in out
    assert "only the plain SVM is tuned" in " ".join(out.split())
    notes = notes_of("m.skops")["notes"]
    assert (notes["prior"], notes["priors"]) == ("none", [])


def test_a_column_in_which_predictions_rise_is_suggested(table):
    table.assign(y=table["a [1/h]"] + 0.1 * table["b"]).to_csv("line.csv", index=False)
    out = command("fit line.csv --target y --regression --invariance none --out m.skops")
    assert "--increasing 'a [1/h]'" in " ".join(out.split())


def test_separators_and_decimal_signs(folder):
    rows = [f"{k},{k % 10}5%2.0{k % 7:02}%{'xy'[k % 2]}\n" for k in range(30)]
    (folder / "t.csv").write_text("a%b%label\n" + "".join(rows))
    command("fit t.csv --target label --separator % --decimal , --invariance none --out m.skops")
    table = notes_of("m.skops")["notes"]["table"]
    assert [row["cells"] for row in table[:2]] == ["0.05 to 29.95", "2000 to 2006"]
    command("predict m.skops t.csv --separator % --decimal ,")
    assert len(pd.read_csv("predictions.csv")) == 30


def test_tables_are_predicted_as_they_were_read(folder):
    """1.234 is a thousand and more with --decimal , which the model file keeps, as it keeps all options of reading."""
    rng = np.random.default_rng(0)
    a = rng.integers(1000, 9999, 40)
    lines = [f"{v // 1000}.{v % 1000:03}%{'NA' if k % 9 == 0 else k % 3}%{2 * v}" for k, v in enumerate(a.tolist())]
    (folder / "t.csv").write_text("\n".join(["a%b%y", *lines]))
    fit = "fit t.csv --target y --regression --invariance none --C 1e6 --separator % --decimal , --missing NA"
    command(f"{fit} --out m.skops")
    notes = notes_of("m.skops")["notes"]
    assert (notes["missing"], notes["separator"], notes["decimal"]) == (["NA"], "%", ",")
    error = facts_of("predict m.skops t.csv")["root mean squared error"]
    assert error < 0.05 * (2 * a).std()
    command("predict m.skops t.csv --force --missing ?,NA --separator %")  # which contradict nothing
    message = refused("predict m.skops t.csv --force --decimal . --separator ;")
    assert "--decimal is '.' here and was ',' when m.skops was fitted" in message
    assert "--separator is ';' here and was '%' when m.skops was fitted" in message


def test_a_text_that_was_learned_is_not_missing(folder):
    rows = [f"{k},{('red', 'NA', 'blue')[k % 3]},{'xy'[k % 2]}" for k in range(30)]
    (folder / "t.csv").write_text("\n".join(["a,color,label", *rows]))
    command("fit t.csv --target label --invariance none --out m.skops")
    message = refused("predict m.skops t.csv --missing NA,x")
    assert "--missing names 'NA' here, and was not given when m.skops was fitted" in message
    assert "learned 'NA' as a text of column 'color'" in message
    assert "learned 'x' as a text of column 'label'" in message
    command("predict m.skops t.csv --missing -999")


@pytest.mark.slow
def test_names_of_rows_are_left_out_and_kept(folder):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=40), "user_id": np.arange(40) + 7, "name": [f"n{k}" for k in range(40)]})
    frame["P(x)"] = rng.integers(5, size=40)
    frame["label"] = np.where(frame["a"] > 0, "x", "y")
    frame.to_csv("t.csv", index=False)
    command("fit t.csv --target label --invariance none --out m.skops --id 'P(x)'")
    notes = notes_of("m.skops")["notes"]
    assert notes["id columns"] == ["user_id", "name", "P(x)"]
    assert notes["numeric columns"] == ["a"]
    command("predict m.skops t.csv")
    found = pd.read_csv("predictions.csv")
    assert list(found.columns) == ["user_id", "name", "P(x)", "label", "decision", "P(x) (2)", "P(y)"]
    assert list(found["P(x)"]) == list(frame["P(x)"])
