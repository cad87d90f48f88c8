"""`python -m papers NAME`: the same as `rkhs reproduce NAME`, for computers without typer and rich."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from papers.check import check_cells
from papers.run import EXPERIMENTS, experiment_of, run
from rkhs._files import exit_on_signals


def main() -> None:
    """Run one experiment and print a summary as JSON."""
    parser = argparse.ArgumentParser(prog="python -m papers", description="Reproduce a table or figure of the papers.")
    parser.add_argument("name", choices=list(EXPERIMENTS), nargs="?")
    parser.add_argument("--quick", action="store_true", help="compute a small part of it")
    parser.add_argument("--jobs", type=int, default=1, help="number of processes")
    parser.add_argument("--out", type=Path, default=Path("results"), help="folder for the results")
    parser.add_argument("--resume", action="store_true", help="continue an earlier run that was stopped")
    parser.add_argument("--force", action="store_true", help="replace the results of an earlier run")
    parser.add_argument(
        "--check", action="store_true", help="compare a few cells of it, or of all, with the committed ones"
    )
    options = vars(parser.parse_args())
    name, out, check = options.pop("name"), options.pop("out"), options.pop("check")
    if not (name or check):
        parser.error(f"name one of {', '.join(EXPERIMENTS)}")
    with exit_on_signals():
        try:
            if check:
                chosen = [experiment_of(name)] if name else [*EXPERIMENTS.values()]
                facts = check_cells(chosen, options["jobs"])
            else:
                facts = run(experiment_of(name), out, **options)
            print(json.dumps(facts, indent=2))
        except (ValueError, RuntimeError, ImportError, OSError) as error:
            sys.exit(f"Error: {' '.join(str(error).split())}")


if __name__ == "__main__":
    main()
