"""Cells in processes of their own.

A worker reads cells from its standard input and writes results to its standard output, so that it ends when the process
that asks for them is gone, in whatever way.  It has a session of its own: Ctrl-C is not for workers, which would keep
the best function so far for the solution.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread
from typing import Any

from rkhs.experiments.experiment import Cell, Record
from rkhs.stopping import ended_with

SERVE = "from rkhs.experiments.workers import serve; serve()"


def in_workers(name: str, cells: list[Cell], jobs: int) -> Iterator[Record]:
    """The records of an experiment's cells, in the order in which they are done."""
    todo: SimpleQueue[Cell | None] = SimpleQueue()
    for cell in [*cells, *[None] * jobs]:
        todo.put(cell)
    done: SimpleQueue[Any] = SimpleQueue()
    command = [sys.executable, "-c", SERVE, name]
    pipe = subprocess.PIPE
    workers = [subprocess.Popen(command, stdin=pipe, stdout=pipe, start_new_session=True) for _ in range(jobs)]
    threads = [Thread(target=_ask, args=(worker, todo, done), daemon=True) for worker in workers]
    try:
        with ended_with(workers):
            for thread in threads:
                thread.start()
            for _ in cells:
                found = done.get()
                if isinstance(found, BaseException):
                    raise found
                yield found
    finally:
        for thread in threads:
            if thread.ident is not None:
                thread.join()


def _ask(worker: Any, todo: SimpleQueue[Cell | None], done: SimpleQueue[Any]) -> None:
    """Have one worker compute cells until none is left."""
    with worker.stdout, suppress(OSError), worker.stdin:  # closing the pipe to a worker that was ended is an error
        while (cell := todo.get()) is not None:
            try:
                pickle.dump(cell, worker.stdin)
                worker.stdin.flush()
                done.put(pickle.load(worker.stdout))
            except (OSError, EOFError, pickle.UnpicklingError):
                done.put(ChildProcessError(f"A worker ended while it computed {cell}: had it too little memory?"))
                return


def serve() -> None:
    """What a worker does; what its cells print goes to the standard error."""
    from rkhs.experiments.runner import timed

    cells, results = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    while True:
        try:
            cell = pickle.load(cells)
        except EOFError:
            return
        try:
            _send(timed(sys.argv[1], cell), results)
        except BrokenPipeError:
            os._exit(1)
        except Exception as error:
            _send(error, results)


def _send(found: Any, results: Any) -> None:
    results.write(pickle.dumps(found))
    results.flush()
