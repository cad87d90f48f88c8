"""Sample data for the command: customers of a telephone company, and whether they left.

Nobody's data: drawn from a seed.  Of most customers it is not known yet whether they leave, and some cells are empty.
Customers are of three groups, which the columns show, and who leaves depends on the group, contract and complaints.
"""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from rkhs.cli.outputs import check_outputs
from rkhs.cli.tables import write

ROWS, NEW = 250, 100
UNKNOWN = 0.8  # share of customers of whom it is not known yet
CONTRACTS, CHANNELS = ("monthly", "yearly", "two years"), ("shop", "web", "phone", "friend")


def run(out: Path, new: Path | None, force: bool) -> dict[str, Any]:
    """Write the table to learn from, and one with later customers, to predict."""
    import pandas as pd

    later = new or out.with_name("new" + (out.suffix or ".csv"))
    check_outputs({"OUT": out, "--new": later}, [], force)
    columns = customers(ROWS + NEW)
    known = np.arange(ROWS + NEW) < ROWS
    hidden = np.random.default_rng(1).random(ROWS + NEW) < UNKNOWN
    for path, rows, unlabelled in ((out, known, hidden), (later, ~known, np.zeros_like(hidden))):
        frame = pd.DataFrame(columns).astype({"age": "Int64"})
        frame.loc[unlabelled, "churn"] = None
        write(frame[rows], path)
    return {
        "table": str(out),
        "rows": ROWS,
        "rows with a label": int(np.sum(known & ~hidden)),
        "new rows": str(later),
        "next": f"rkhs fit {out} --target churn --out churn.skops",
    }


def customers(count: int, seed: int = 0) -> dict[str, list[Any]]:
    """Columns of so many customers, None for empty cells.

    Examples
    --------
    >>> {name: cells[0] for name, cells in customers(1).items()}["customer"]
    'C1001'
    """
    rng = np.random.default_rng(seed)
    group = rng.choice(3, count, p=[0.4, 0.35, 0.25])  # young and thrifty, families, heavy users
    age = np.clip(rng.normal(np.array([26, 47, 58])[group], 6), 18, 90).round().astype(int)
    days = np.clip(rng.normal(np.array([400, 1500, 900])[group], 250), 30, 2200).astype(int)
    fee = np.round(np.clip(rng.normal(np.array([19, 39, 62])[group], 5), 7, None), 2)
    hours = np.round(np.clip(rng.normal(np.array([4, 9, 21])[group], 3), 0, None), 1)
    contract = np.minimum(rng.binomial(2, np.array([0.15, 0.6, 0.4])[group]), 2)
    channel = rng.choice(4, count, p=[0.3, 0.4, 0.2, 0.1])
    complaints = rng.poisson(np.array([0.9, 0.7, 1.1])[group])
    leans = np.array([1.2, -1.6, -0.4])[group] + 0.9 * (complaints - 0.9) - 0.7 * (contract - 0.7)
    leans += 0.25 * rng.logistic(size=count)
    today = date(2025, 6, 30)
    columns: dict[str, list[Any]] = {
        "customer": [f"C{1001 + k}" for k in range(count)],
        "joined": [(today - timedelta(days=int(d))).isoformat() for d in days],
        "age": age.tolist(),
        "contract": [CONTRACTS[k] for k in contract],
        "channel": [CHANNELS[k] for k in channel],
        "fee [EUR/month]": fee.tolist(),
        "hours used": hours.tolist(),
        "complaints": complaints.tolist(),
        "churn": ["yes" if value > 0 else "no" for value in leans],
    }
    for name, share in (("age", 0.05), ("channel", 0.08), ("hours used", 0.04)):
        columns[name] = [
            None if gone else cell for cell, gone in zip(columns[name], rng.random(count) < share, strict=True)
        ]
    return columns
