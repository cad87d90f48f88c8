"""Many threads that fit and predict together: is there ever a difference, or a failure?

    PYTHONPATH=src python tests/concurrency.py [seconds] [threads] [seed]

Each thread takes one case after the other, and compares what it finds with what one thread found alone.  Some machines
are shared: all threads ask them for predictions, probabilities (which are calibrated when they are first asked for) and
standard deviations, while one of the threads fits them again, now to these data and now to others: what they say is
what they said after the one fit or after the other.
"""

import faulthandler
import sys
import threading
import time
import traceback
import warnings

import numpy as np
from sklearn.base import clone
from sklearn.datasets import make_moons

import rkhs

NEAR = 1e-6  # predictions of solutions to a gap of 1e-12 differ by no more
HANGS = 600  # seconds after which threads show where they are
X, Y = make_moons(60, noise=0.25, random_state=0)
OTHER, OTHER_Y = make_moons(50, noise=0.1, random_state=1)
PLACES = np.random.default_rng(0).uniform(-1, 2, size=(30, 2))
TARGET = np.sin(X[:, 0]) + X[:, 1]
SPAN = rkhs.Landmarks(20)
TIGHT = {"scale": 0.5, "tol": 1e-12}
FITS = {
    "hinge": (rkhs.InvariantClassifier(nu=0.0, solver=rkhs.solvers.LibSVM(), **TIGHT), Y),
    "logistic": (rkhs.InvariantClassifier(loss="logistic", **TIGHT), Y),
    "three": (rkhs.InvariantClassifier(loss="squared_hinge", **TIGHT), Y + (X[:, 0] > 1)),
    "squared": (rkhs.InvariantRegressor(**TIGHT), TARGET),
    "iterating": (rkhs.InvariantRegressor(solver=rkhs.solvers.NonlinearCG(), **TIGHT), TARGET),
    "graph": (
        rkhs.InvariantClassifier(loss="squared_hinge", invariance="graph", C=100.0, nu=1000.0, **TIGHT),
        np.where(np.arange(60) % 3, Y, -1),
    ),
    "plate": (rkhs.geometry.ThinPlateRegressor(tol=1e-12), TARGET),
    "landmarks": (rkhs.InvariantRegressor(approximation=SPAN, **TIGHT), TARGET),
    "waves": (rkhs.InvariantClassifier(loss="squared", approximation=rkhs.FourierFeatures(20), **TIGHT), Y),
    "knowledge": (rkhs.InvariantClassifierCV(tol=1e-12), np.where(np.arange(60) % 3, Y, -1)),
    "search": (
        rkhs.InvariantClassifierCV(invariance="gradient", Cs=[1, 10], nus=[0.1], scales=0.5, cv=2, tol=1e-12),
        Y,
    ),
}
ASKED = ("decision_function", "predict", "predict_proba")


def said(model):
    """All that a model says at some places."""
    found = [np.asarray(getattr(model, name)(PLACES), dtype=float) for name in ASKED if hasattr(model, name)]
    if isinstance(model, rkhs.InvariantRegressor):
        found.append(model.predict(PLACES, return_std=True)[1])
    return found


def alike(one, other):
    return len(one) == len(other) and all(np.allclose(a, b, rtol=0, atol=NEAR) for a, b in zip(one, other, strict=True))


class Together:
    """The threads, what they compare with, and what went wrong."""

    def __init__(self):
        self.right = {name: said(clone(model).fit(X, y)) for name, (model, y) in FITS.items()}
        self.shared = {
            name: clone(FITS[name][0]).fit(X, FITS[name][1]) for name in ("logistic", "squared", "landmarks")
        }
        self.turns = {name: threading.Lock() for name in self.shared}
        self.others = {
            name: said(clone(FITS[name][0]).fit(OTHER, OTHER_Y if name == "logistic" else OTHER[:, 0]))
            for name in self.shared
        }
        self.failures, self.done = [], 0

    def fit(self, name):
        model, y = FITS[name]
        if not alike(said(clone(model).fit(X, y)), self.right[name]):
            self.failures.append(f"{name}: a fit differs from that of one thread")

    def ask(self, name):
        """What a shared model says, whole: what it learned from the one data or from the other."""
        model = self.shared[name]
        value = np.asarray(model.predict(PLACES) if name != "logistic" else model.decision_function(PLACES))
        if not any(np.allclose(value, known[name][0], rtol=0, atol=NEAR) for known in (self.right, self.others)):
            self.failures.append(f"{name}: a shared model says what it never learned")

    def fit_again(self, name, rng):
        with self.turns[name]:  # which of two fits is the last is not our matter
            data = (X, FITS[name][1]) if rng.random() < 0.5 else (OTHER, OTHER_Y if name == "logistic" else OTHER[:, 0])
            known = self.right if data[0] is X else self.others
            if not alike(said(self.shared[name].fit(*data)), known[name]):
                self.failures.append(f"{name}: a model that was fitted again differs")

    def run(self, seed, until, least):
        rng = np.random.default_rng(seed)
        try:
            while (time.perf_counter() < until or self.done < least) and not self.failures:
                kind = rng.integers(4)
                name = rng.choice(sorted(FITS if kind < 2 else self.shared))
                if kind < 2:
                    self.fit(name)
                elif kind == 2:
                    self.fit_again(name, rng)
                else:
                    for _ in range(20):
                        self.ask(name)
                self.done += 1
        except BaseException:
            self.failures.append(traceback.format_exc())


def campaign(seconds, threads=8, seed=0, least=0):
    """What went wrong in so many seconds, or longer until so much was done, and how much was done."""
    together = Together()
    until = time.perf_counter() + seconds
    workers = [
        threading.Thread(target=together.run, args=([seed, k], until, least), daemon=True) for k in range(threads)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(seconds + HANGS)
    if any(worker.is_alive() for worker in workers):
        together.failures.append("threads wait for each other")
    return together.failures, together.done


def main():
    seconds, threads, seed = (float(given) for given in sys.argv[1:] + ["60", "8", "0"][len(sys.argv) - 1 :])
    warnings.simplefilter("ignore")
    faulthandler.dump_traceback_later(seconds + HANGS)
    failures, done = campaign(seconds, int(threads), int(seed))
    print(*failures, sep="\n")
    print(f"{done} cases by {threads:.0f} threads in {seconds:.0f} s: {len(failures)} failures")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
