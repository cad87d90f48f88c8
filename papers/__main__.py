"""`python -m papers NAME`: the same as `rkhs reproduce NAME`, for computers without typer and rich."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from papers.check import check_cells
from papers.run import EXPERIMENTS, experiment_of, run
from rkhs.extend import exit_on_signals


def reproduce(name: str | None, out: Path, *, check: bool = False, jobs: int = 1, **options: Any) -> dict[str, Any]:
    """List the experiments if none is named; else run it, or compare a few cells of it, or of all, with the results."""
    if check:
        return check_cells([experiment_of(name)] if name else [*EXPERIMENTS.values()], jobs)
    if not name:
        return {name: experiment.title for name, experiment in EXPERIMENTS.items()}
    return run(experiment_of(name), out, jobs=jobs, **options)


def main() -> None:
    """Run one experiment and print a summary as JSON."""
    parser = argparse.ArgumentParser(prog="python -m papers", description="Reproduce a table or figure of the papers.")
    parser.add_argument("name", choices=list(EXPERIMENTS), nargs="?", help="without it, the experiments are listed")
    parser.add_argument("--quick", action="store_true", help="compute a small part of it")
    parser.add_argument("--jobs", type=int, default=1, help="number of processes")
    parser.add_argument("--out", type=Path, default=Path("results"), help="folder for the results")
    parser.add_argument("--resume", action="store_true", help="continue an earlier run that was stopped")
    parser.add_argument("--force", action="store_true", help="replace the results of an earlier run")
    parser.add_argument(
        "--check", action="store_true", help="compare a few cells of it, or of all, with the committed ones"
    )
    with exit_on_signals():
        try:
            print(json.dumps(reproduce(**vars(parser.parse_args())), indent=2))
        except (ValueError, RuntimeError, ImportError, OSError) as error:
            sys.exit(f"Error: {' '.join(str(error).split())}")


if __name__ == "__main__":
    main()
