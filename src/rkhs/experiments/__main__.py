"""`python -m rkhs.experiments NAME`: the same as `rkhs reproduce NAME`, where typer and rich are missing."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from rkhs.experiments import EXPERIMENTS, experiment_of, run
from rkhs.stopping import ended_when_asked


def main() -> None:
    """Run one experiment and print its facts as JSON."""
    parser = argparse.ArgumentParser(prog="python -m rkhs.experiments", description="The papers, reproduced.")
    parser.add_argument("name", choices=list(EXPERIMENTS))
    parser.add_argument("--quick", action="store_true", help="a small part of it")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--out", type=Path, default=Path("results"), help="folder for the results")
    parser.add_argument("--resume", action="store_true", help="go on where an earlier run was killed")
    parser.add_argument("--force", action="store_true", help="replace the files of an earlier run")
    given = parser.parse_args()
    options = {"quick": given.quick, "jobs": given.jobs, "resume": given.resume, "force": given.force}
    with ended_when_asked():
        try:
            facts = run(experiment_of(given.name), given.out, **options)
        except (ValueError, ImportError, OSError) as error:
            sys.exit(f"Error: {error}")
        print(json.dumps(facts, indent=2))


if __name__ == "__main__":
    main()
