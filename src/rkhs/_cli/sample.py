"""Write a sample table for `rkhs fit`: customers of a telephone company, most of them without a label.

There are six kinds of customers, by when in the year they use most data, and who leaves depends on the kind.  A few
labels do not reveal the kinds in sixteen noisy columns; hundreds of rows without a label do.  In addition, customers
leave the more readily the more often they complained.
"""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rkhs._cli.options import check_outputs, write_table

ROWS, LABELED, NEW = 500, 60, 100  # customers in the table, those whose answer is known, and later ones to predict
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def write_sample(out: Path, new: Path | None, force: bool) -> dict[str, Any]:
    """Write a table of customers to learn from, and one of later customers to predict."""
    later = new or out.with_name("new" + (out.suffix or ".csv"))
    check_outputs({"OUT": out, "--new": later}, [], force)
    frame = customers(ROWS + NEW)
    write_table(frame[ROWS:], later)
    write_table(unlabeled(frame[:ROWS]), out)
    return {
        "table": str(out),
        "rows": ROWS,
        "rows with a label": LABELED,
        "new rows": str(later),
        "next": f"rkhs fit {out} --target churn --out churn.skops",
    }


def unlabeled(frame: pd.DataFrame, seed: int = 0) -> pd.DataFrame:
    """Return the customers with all but LABELED of their labels removed at random."""
    kept = np.random.default_rng(seed).permutation(len(frame))[:LABELED]
    return frame.assign(churn=frame["churn"].where(np.isin(np.arange(len(frame)), kept), None))


def customers(count: int, seed: int = 0) -> pd.DataFrame:
    """Draw customers, and whether they left."""
    rng = np.random.default_rng(seed)
    year = 2 * np.pi * np.arange(12) / 12
    trend = np.linspace(-1, 1, 12)
    for wave in (np.cos(year), np.sin(year)):
        trend = trend - (trend @ wave) / (wave @ wave) * wave
    # Use peaks in January, July, April or October, grows or fades; the patterns have norm one.
    shapes = np.stack([np.cos(year), -np.cos(year), np.sin(year), -np.sin(year), trend, -trend])
    shapes /= np.linalg.norm(shapes, axis=1, keepdims=True)
    leaves = np.array([1.0, 1.0, -1.0, -1.0, -1.0, 1.0])
    kind = rng.integers(6, size=count)
    use = np.clip(10 + 6 * shapes[kind] + 2 * rng.standard_normal((count, 12)), 0, None).round(1)
    days = np.clip(rng.gamma(2.0, 450, count), 30, 3000).astype(int)
    contract, channel = rng.choice(3, count, p=[0.5, 0.3, 0.2]), rng.choice(4, count, p=[0.3, 0.4, 0.2, 0.1])
    complaints = rng.poisson(0.8, count)
    lean = leaves[kind] + 0.25 * (complaints - 0.8) - 0.2 * (contract - 0.7) + 0.2 * rng.logistic(size=count)
    frame = pd.DataFrame(
        {
            "customer": [f"C{1001 + k}" for k in range(count)],
            "joined": [(date(2025, 6, 30) - timedelta(days=d)).isoformat() for d in days.tolist()],
            "age": pd.array(np.clip(rng.normal(44, 14, count), 18, 90).round(), dtype="Int64"),
            "contract": np.array(["monthly", "yearly", "two years"], dtype=object)[contract],
            "channel": np.array(["shop", "web", "phone", "friend"], dtype=object)[channel],
            "fee [EUR/month]": np.clip(rng.normal(35, 12, count), 7, None).round(2),
            **{f"{month} [GB]": use[:, k] for k, month in enumerate(MONTHS)},
            "complaints": complaints,
            "churn": np.where(lean > 0, "yes", "no").astype(object),
        }
    )
    for name, share in (("age", 0.05), ("channel", 0.08), ("Mar [GB]", 0.04)):
        frame[name] = frame[name].mask(rng.random(count) < share, None)
    return frame
