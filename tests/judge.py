"""An independent judge of solutions: J of the returned function, and the minimum of J, to about 30 digits.

Nothing here calls a kernel, a loss, a Gram matrix or a solver of the library.  From a problem the judge reads what it
says (kernels and losses by their parameters, functionals by their atoms: points, directions, blur), from a solution
the function it returned, and computes in `np.longdouble` (113 bits on ARM, 64 on x86):

* the Gram matrix, by Faa di Bruno's formula from the textbook derivatives of phi(|x - y|^2 / 2) and psi(<x, y>);
* `value(f)`, the true J;
* `lower` and `upper`, bounds of the true minimum, from the dual by an interior-point method (one Newton step where all
  losses are squared).  `upper` is J of a function, so it proves what exceeds it wrong however good the method was;
  `upper - lower` says how good it was.

Losses are all but Logistic and Poisson the distance of u from an interval [low, high], measured by a slope on each
side that bends over a width; see `_interval`.  The dual is  min 1/2 a'Ga + sum_i w_i loss_i*(-a_i / w_i)  subject to
Q'a = 0.  With losses of vectors `upper` is J of the function that Clarabel finds, and `lower` is 0.

In a space of waves amplitude cos(<w, x - center> + phase), with orthonormal coefficients, the Gram matrix is E E' with
the values E of the functionals on the waves.  If all losses are squared, they have the noise of the frequencies that a
Fourier grid misses, as `rkhs.FourierGrid` states.
"""

import warnings
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations_with_replacement, product as tuples
from math import comb, inf

import numpy as np
import scipy.sparse

import rkhs
from rkhs._core.calculus.function_spaces import SumOfSpaces
from rkhs.maps import FourierGridSpace

Real = np.longdouble
EPS = float(np.finfo(Real).eps)
ENOUGH = 1e-20  # relative width of the bounds
PI = Real("3.14159265358979323846264338327950288419717")


class Judge:
    """The minimum of a problem (one output), or of the problem in the span of other functionals or of waves."""

    def __init__(self, problem, span=None, waves=None):
        terms = [t for t in problem.terms if np.any(np.asarray(t.weights()) > 0)]
        rows = [np.flatnonzero(np.asarray(t.weights())[:, 0] > 0) for t in terms]
        self.kernel, self.dimension = problem.kernel, problem.terms[0].functional.dimension
        self.family = rkhs.stack([t.functional.take(r) for t, r in zip(terms, rows, strict=True)])
        self.weight = np.concatenate([np.asarray(t.weights(), Real)[r, 0] for t, r in zip(terms, rows, strict=True)])
        targets = [np.asarray(t.target, Real)[r] for t, r in zip(terms, rows, strict=True)]
        assert all(t.ndim == 1 for t in targets), "one output at a time"
        columns = [_interval(t.loss, b) for t, b in zip(terms, targets, strict=True)]
        self.low, self.high, self.below, self.above, self.width, self.logit = map(np.concatenate, zip(*columns))
        counted = [
            np.full(len(b), isinstance(t.loss, rkhs.losses.Poisson)) for t, b in zip(terms, targets, strict=True)
        ]
        self.counted, self.target = np.concatenate(counted), np.concatenate(targets)
        self.terms, self.targets, self.starts = terms, targets, np.cumsum([0, *map(len, targets)])
        self.vectors = [v for v in zip(terms, targets, self.starts) if isinstance(v[0].loss, rkhs.extend.BlockLoss)]
        degree = max(*(getattr(space, "degree", -1) for space in _spaces(problem.basis)), problem.kernel.order - 1)
        self.atoms = _flat(self.family)
        points = np.concatenate([p.points for p in self.atoms])
        self.center = points.mean(axis=0) if len(points) else np.zeros(self.dimension, Real)
        self.degree = degree
        self.Q = _orthonormal(_monomials(self.atoms, self.family.size, degree, self.center))
        self.span, self.waves, self.least = span, waves, Real(inf)
        if isinstance(waves, FourierGridSpace) and all(t.loss.quadratic for t in terms):
            noise = [waves.missing(t.functional.take(r)) for t, r in zip(terms, rows, strict=True)]
            self.weight = self.weight / (1 + 2 * self.weight * np.concatenate(noise))

    @cached_property
    def on_waves(self):
        """E: the functionals on the functions of the space."""
        return _on_waves(self.waves, self.atoms, self.family.size)

    @cached_property
    def gram(self):
        """<z_i, z_j> of all functionals."""
        if self.waves is not None:
            return self.on_waves @ self.on_waves.T
        return gram(self.kernel, self.atoms, self.family.size, self.atoms, self.family.size)

    @cached_property
    def projected(self):
        """The Gram matrix on Q'a = 0 (the basis takes up the rest), or of what the span sees of it."""
        G, Q = self.gram if self.span is None else self._seen, self.Q
        G = G - Q @ (Q.T @ G)
        G = G - (G @ Q) @ Q.T
        return (G + G.T) / 2

    @cached_property
    def _seen(self):
        """K_LZ K_ZZ^-1 K_ZL by a pivoted Cholesky factor: of functions in the span, up to those of no size."""
        assert self.kernel.order == 0, "spans of conditional kernels are not judged"
        Z = _flat(self.span)
        K, cross = gram(self.kernel, Z, self.span.size, Z, self.span.size), self._cross(self.span)
        rest, B, floor = K.copy(), cross.copy(), 1e6 * EPS * np.max(np.diag(K), initial=0.0)
        features = []
        while len(features) < len(K):
            j = int(np.argmax(np.diag(rest)))
            if rest[j, j] <= floor:
                break
            features.append(B[:, j] / np.sqrt(rest[j, j]))
            row = rest[j] / np.sqrt(rest[j, j])
            B -= features[-1][:, None] * row
            rest -= row[:, None] * row
        F = np.array(features, Real).reshape(-1, len(B)).T
        return F @ F.T

    def _cross(self, family):
        return gram(self.kernel, self.atoms, self.family.size, _flat(family), family.size)

    def value(self, f):
        """The true J of a function that the library returned, which is at least the minimum."""
        found = self._value_on_waves(f) if self.waves is not None else self._value(f)
        self.least = min(self.least, found if self.span is None else self.least)
        return found

    def _value_on_waves(self, f):
        tau = np.asarray(f.coefficients, Real).reshape(-1)
        return tau @ tau / 2 + self.risk(self.on_waves @ tau + self._on_basis(f))

    def violation(self, f):
        """The largest violation of a constraint relative to |z_i| |f| and the absolute values of the basis."""
        hard = np.concatenate([np.full(len(b), t.loss.hard) for t, b in zip(self.terms, self.targets, strict=True)])
        a, G, u = self._parts(f)
        squares = abs(self.gram).max(axis=1, initial=0) if self.kernel.order else np.diag(self.gram)
        reach = np.sqrt(np.maximum(squares, 0) * (a @ G @ a)) + abs(self._on_basis(f))
        far = np.maximum(np.maximum(self.low - u, u - self.high), 0)[hard]
        return np.max(far / np.where(far > 0, reach[hard], 1), initial=0)

    def _value(self, f):
        a, G, u = self._parts(f)
        return a @ (G @ a) / 2 + self.risk(u)

    def _parts(self, f):
        """The coefficients of f, their Gram matrix, and the values u of all functionals."""
        a = np.asarray(f.coefficients, Real).reshape(f.functionals.size)
        theirs = _flat(f.functionals)
        same = f.functionals.size == self.family.size and _same(theirs, self.atoms)
        G = self.gram if same else gram(self.kernel, theirs, len(a), theirs, len(a))
        if self.kernel.order and len(a):
            Q = _orthonormal(_monomials(theirs, len(a), self.kernel.order - 1, self.center))
            a = a - Q @ (Q.T @ a)  # what is outside is not in the space, and is missed in J if it matters
        return a, G, (G if same else self._cross(f.functionals)) @ a + self._on_basis(f)

    def _on_basis(self, f):
        """L_i of the part of a function in its basis."""
        if f.basis is None:
            return Real(0)
        c = np.asarray(f.basis_coefficients, Real).reshape(-1)
        return np.concatenate([self._on(space) for space in _spaces(f.basis)], axis=1) @ c

    def _on(self, space):
        """L_i of the functions of a space."""
        if not isinstance(space, rkhs.Polynomials) or space.linear is not None:
            return np.asarray(self.family.assemble(space.on), Real)
        origin = np.zeros(self.dimension, Real) if space.center is None else np.asarray(space.center, Real)
        scale = np.ones(self.dimension, Real) if space.scale is None else np.asarray(space.scale, Real)
        return _monomials(self.atoms, self.family.size, space.degree, origin, scale)

    def risk(self, u):
        """sum_i w_i loss_i(u_i)."""
        u = self._scalars(u)
        e = np.maximum(np.maximum(self.low - u, u - self.high), 0)
        slope = np.where(u < self.low, self.below, self.above)
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            bent = np.where(self.width > 0, e**2 / (2 * self.width), 0)
            straight = slope * (e - slope * self.width / 2)
            loss = np.where(e == 0, 0, np.where((self.width > 0) & (e <= slope * self.width), bent, straight))
        m = -self.logit * u
        logistic = np.log1p(np.exp(-abs(m))) + np.maximum(m, 0)
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            rates = np.exp(np.minimum(u, 64)) * (1 + np.maximum(u - 64, 0) + np.maximum(u - 64, 0) ** 2 / 2)
            b = self.target
            poisson = rates - b * u + np.where(b > 0, b * np.log(b) - b, 0)
            # exp(u) - b u + b log b - b = b (exp(v) - 1 - v) with v = u - log b, which does not cancel at the minimum
            v = u - np.where(b > 0, np.log(b), 0)
            poisson = np.where((b > 0) & (u <= 64), b * (np.expm1(np.minimum(v, 700)) - v), poisson)
        return np.sum(self.weight * np.where(self.counted, poisson, np.where(self.logit != 0, logistic, loss)))

    def _scalars(self, u):
        """u, but for losses of vectors the length or the margin in the first row of each vector and 0 in the others."""
        u = u.copy()
        for term, b, start in self.vectors:
            rows = slice(start, start + len(b))
            V, B = u[rows].reshape(-1, term.loss.size), b.reshape(-1, term.loss.size)
            first = np.sqrt(((V - B) ** 2).sum(axis=1))
            if isinstance(term.loss, rkhs.losses.RobustHinge):
                first = B[:, 0] * V[:, 0] - Real(term.loss.radius) * np.sqrt((V[:, 1:] ** 2).sum(axis=1))
            u[rows] = np.concatenate([first[:, None], np.zeros_like(V[:, 1:])], axis=1).reshape(-1)
        return u

    @cached_property
    def bounds(self):
        """(lower, upper) of the minimum."""
        if self.vectors:
            return Real(0), _by_clarabel(self)
        with np.errstate(all="ignore"):
            return _minimize(self)

    @property
    def lower(self):
        return self.bounds[0]

    @property
    def upper(self):
        return self.bounds[1]


def contradicts(problem, alpha):
    """Whether alpha proves that no f satisfies constraints: sum_i alpha_i L_i = 0, and they ask for more."""
    terms = [problem.terms[k] for k in alpha]
    family, a = rkhs.stack([t.functional for t in terms]), np.concatenate([*alpha.values()]).astype(Real)
    atoms = _flat(family)
    G = gram(problem.kernel, atoms, len(a), atoms, len(a))
    size = np.abs(G).max() ** Real(0.5) if problem.kernel.order else np.sqrt(np.maximum(np.diag(G), 0))
    basis = problem.represented.basis.space
    P = np.zeros((len(a), 0)) if basis is None else np.asarray(family.assemble(basis.on))
    ends = [_interval(t.loss.loss, np.asarray(t.target, Real)) for t in terms]
    low, high = (np.concatenate([pair[k] for pair in ends]) for k in (0, 1))
    required = np.where(a > 0, low, np.where(a < 0, high, 0)) @ a
    zero = abs(a @ G @ a) <= 1e-12 * np.sum((size * a) ** 2) and np.all(abs(P.T @ a) <= 1e-11 * np.abs(P.T) @ abs(a))
    return bool(zero and required > 1e-7 * np.abs(np.where(a > 0, low, np.where(a < 0, high, 0))) @ abs(a))


def _interval(loss, b):
    """(low, high, below, above, width, logit) of a loss: the interval, the slopes on its sides, the width over which
    they are reached (half the inverse curvature of e^2 / (2 width)), and the label where the loss is logistic.
    """
    if loss.hard:  # J does not contain the constraints, which `violation` and `contradicts` judge
        low, high, *_ = _interval(loss.loss, b)
        return low, high, *np.zeros((4, len(b)), Real)
    zero, half = np.zeros_like(b), Real(1) / 2
    far = np.full_like(b, inf)
    side = np.where(b > 0, 1, -far), np.where(b > 0, far, -1)
    match loss:
        case rkhs.Squared():
            found = b, b, inf, inf, half
        case rkhs.losses.EpsilonInsensitive():  # Absolute among them
            found = b - Real(loss.epsilon), b + Real(loss.epsilon), 1, 1, 0
        case rkhs.losses.SquaredEpsilonInsensitive():
            found = b - Real(loss.epsilon), b + Real(loss.epsilon), inf, inf, half
        case rkhs.Huber():
            found = b, b, 2 * Real(loss.delta), 2 * Real(loss.delta), half
        case rkhs.Quantile():
            found = b, b, Real(loss.tau), 1 - Real(loss.tau), 0
        case rkhs.losses.OneSided():
            found = b, far, 1, 1, 0
        case rkhs.losses.SquaredOneSided():
            found = b, far, inf, inf, half
        case rkhs.Hinge():
            found = *side, 1, 1, 0
        case rkhs.SquaredHinge():
            found = *side, inf, inf, half
        case rkhs.losses.SmoothedHinge():
            found = *side, 1, 1, Real(loss.width)
        case rkhs.losses.GroupNorm():  # of the length
            return _interval(loss.loss, zero)
        case rkhs.losses.RobustHinge():  # of the smallest margin; no loss in the other rows of a vector
            first = np.arange(len(b)) % loss.size == 0
            found = np.where(first, 1, -far), far, 1, 1, 0
        case rkhs.Logistic() | rkhs.losses.Poisson():
            found = -far, far, 1, 1, 0
        case _:
            raise NotImplementedError(loss)
    return *(zero + v for v in found), (b if isinstance(loss, rkhs.Logistic) else zero)


# The minimum.


def _minimize(judge):
    """Bounds of the minimum by Mehrotra's predictor and corrector on the dual, in variables x with a = S x."""
    G, Q, w = judge.projected, judge.Q, judge.weight
    N = len(w)
    at = np.arange(N)
    point = (judge.low == judge.high) & (judge.logit == 0)
    up, down = ~point & np.isfinite(judge.low), ~point & np.isfinite(judge.high)
    log, counted = judge.logit != 0, judge.counted
    # One variable where the interval is a point, one for each finite end of others, one in (0, w) for Logistic, and
    # w exp(u) for Poisson, where a = w (b - exp(u)).
    row = np.concatenate([at[point], at[up], at[down], at[log], at[counted]])
    kind = np.repeat(np.arange(5), [point.sum(), up.sum(), down.sum(), log.sum(), counted.sum()])
    sign = np.where((kind == 2) | (kind == 4), -1, np.where(kind == 3, judge.logit[row], 1)).astype(Real)
    lo = np.where(kind == 0, -w[row] * judge.above[row], 0)
    hi = np.where(kind == 2, w[row] * judge.above[row], np.where(kind == 3, w[row], w[row] * judge.below[row]))
    hi = np.where(kind == 4, inf, hi)
    q = np.where(kind >= 3, 0, judge.width[row] / w[row])
    with np.errstate(invalid="ignore"):
        l = np.select([kind == 2, kind >= 3], [judge.high[row], np.zeros(len(row), Real)], -judge.low[row])
    entropic, poisson, has_lo, has_hi = kind == 3, kind == 4, np.isfinite(lo), np.isfinite(hi)
    b = judge.target[row]
    own = np.where(poisson & (b > 0), b * np.log(np.where(b > 0, b, 1)) - b, 0)

    def combine(x):
        a = np.where(counted, w * judge.target, 0).astype(Real)
        np.add.at(a, row, sign * x)
        return a

    def cost(x):
        with np.errstate(invalid="ignore", divide="ignore"):
            t, v = x / w[row], 1 - x / w[row]
            half = np.where(t > 0, t * np.log(t), 0)
            entropy = w[row] * (half + np.where(v > 0, v * np.log(v), 0))
            divergence = w[row] * (half - t - own)
        return np.sum(np.where(poisson, divergence, np.where(entropic, entropy, q * x**2 / 2 + l * x)))

    size = np.maximum(np.diag(G), EPS * np.max(np.diag(G), initial=1e-300)) if N else np.zeros(0, Real)
    with np.errstate(invalid="ignore", divide="ignore"):
        typical = np.minimum((1 + abs(l)) / size[row], np.where(q > 0, (1 + abs(l)) / q, inf))
        x = np.select(
            [has_lo & has_hi, has_lo, has_hi],
            [(lo + hi) / 2 if len(lo) else lo, lo + typical, hi - typical],
            np.zeros(len(row), Real),
        )
        inner = np.minimum(lo + typical, lo + (hi - lo) / 4)
        x = np.where(has_lo & has_hi & (kind != 0) & ~entropic, inner, x)
        x = np.where(poisson, w[row] * (b + 1), x)
    c = np.zeros(Q.shape[1], Real)
    zl, zu = (1 + abs(l)) * has_lo, (1 + abs(l)) * has_hi
    count = max(1, int(has_lo.sum() + has_hi.sum()))
    best = [Real(0), inf]  # J is never negative
    idle, largest = 0, Real(0)

    def room():
        return np.where(has_lo, x - lo, 1), np.where(has_hi, hi - x, 1)

    for _ in range(120):
        a = combine(x)
        Ga = G @ a
        u = Ga + Q @ c
        energy = a @ Ga / 2
        upper, lower = energy + judge.risk(u), -energy - cost(x)
        outside, largest = np.sum(abs(Q.T @ a)), max(largest, np.sum(abs(a)))
        margin = 10 * outside * (np.sum(abs(c)) + np.max(abs(l), initial=0))  # J* >= D(a) - (Q'a)'c* for any a
        lower = lower - margin if outside <= 1e-8 * largest else -inf
        nothing = judge.risk(0 * u)  # f = 0
        before = best[1] - best[0]
        best = [max(best[0], lower), min(best[1], upper, nothing)]
        after = best[1] - best[0]
        idle = idle + 1 if after > before / 2 else 0
        if after <= max(1e4 * EPS, ENOUGH) * abs(best[1]) or best[1] <= EPS**2 * nothing or idle > 25:
            break
        left, right = room()
        mu = (np.sum(zl * left * has_lo) + np.sum(zu * right * has_hi)) / count
        with np.errstate(invalid="ignore", divide="ignore"):
            slope = np.where(entropic, np.log(x) - np.log(w[row] - x), q * x + l)
            bend = np.where(entropic, w[row] / (x * (w[row] - x)), q)
            slope, bend = np.where(poisson, np.log(x / w[row]), slope), np.where(poisson, 1 / x, bend)
        H = bend + zl / left + zu / right
        E = np.full(N, Real(0))
        np.add.at(E, row, 1 / H)
        E = 1 / E
        factor = _saddle(G + np.diag(E), Q, np.max(np.diag(G), initial=0) or Real(1))

        def direction(target, zl=zl, zu=zu, cl=0, cu=0):
            g = sign * u[row] + slope - (target - cl) / left * has_lo + (target - cu) / right * has_hi
            r = np.zeros(N, Real)
            np.add.at(r, row, sign * g / H)
            da, dc = factor(-E * r, -(Q.T @ a))
            du = G @ da + Q @ dc
            dx = -(g + sign * du[row]) / H
            dzl = ((target - cl - zl * dx) / left - zl) * has_lo
            dzu = ((target - cu + zu * dx) / right - zu) * has_hi
            return dx, dc, dzl, dzu

        def longest(dx, dzl, dzu):
            step = Real(1)
            for value, change, there in (
                (left, dx, has_lo),
                (right, -dx, has_hi),
                (zl, dzl, has_lo),
                (zu, dzu, has_hi),
            ):
                falls = there & (change < 0)
                step = min(step, np.min(-value[falls] / change[falls], initial=inf))
            return step

        if not (has_lo.any() or has_hi.any()):
            dx, dc, dzl, dzu = direction(Real(0))
            x, c = x + dx, c + dc
            continue
        dx, dc, dzl, dzu = direction(Real(0))
        s = longest(dx, dzl, dzu)
        ahead = np.sum((zl + s * dzl) * (left + s * dx) * has_lo) + np.sum((zu + s * dzu) * (right - s * dx) * has_hi)
        centring = min(Real(1), max(Real(0), ahead / count / mu)) ** 3
        dx, dc, dzl, dzu = direction(centring * mu, cl=dx * dzl * has_lo, cu=-dx * dzu * has_hi)
        s = Real(0.995) * longest(dx, dzl, dzu)
        if s < 0.05:  # the corrector went astray: center
            dx, dc, dzl, dzu = direction(mu)
            s = Real(0.9) * longest(dx, dzl, dzu)
        x, c, zl, zu = x + s * dx, c + s * dc, zl + s * dzl, zu + s * dzu
        if not (np.all(np.isfinite(x)) and np.all(np.isfinite(c))):
            break
    return best[0], best[1]


def _by_clarabel(judge):
    """J of the function that an interior-point method for second-order cones finds, infinite where it fails."""
    import cvxpy as cp

    import problems

    values, vectors = np.linalg.eigh(judge.projected.astype(np.float64))
    kept = values > 1e-13 * np.max(values, initial=0.0)
    root = np.concatenate([vectors[:, kept] * np.sqrt(values[kept]), judge.Q.astype(np.float64)], axis=1)
    if not root.shape[1]:
        return Real(inf)
    y, count = cp.Variable(root.shape[1]), int(kept.sum())
    u = root @ y
    J = cp.sum_squares(np.eye(count, len(root.T)) @ y) / 2 if count else 0.0
    for term, b, start in zip(judge.terms, judge.targets, judge.starts, strict=False):
        rows = slice(start, start + len(b))
        J = J + problems.cvxpy_risk(term.loss, u[rows], b.astype(np.float64), judge.weight[rows].astype(np.float64))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an inaccurate solution is a function, too
            cp.Problem(cp.Minimize(J)).solve(solver="CLARABEL")
    except cp.SolverError:
        return Real(inf)
    if y.value is None:
        return Real(inf)
    a = (vectors[:, kept] / np.sqrt(values[kept])).astype(Real) @ y.value[:count]
    Ga = judge.projected @ a
    return a @ Ga / 2 + judge.risk(Ga + judge.Q @ y.value[count:].astype(Real))


def _saddle(M, Q, t):
    """The solution of M x + Q y = r, Q'x = s: that of (M + tQQ') x + Q (y - ts) = r."""
    if Q.shape[1] == 0:
        solve = _cholesky(M)
        return lambda r, s: (solve(r), np.zeros(0, Real))
    solve = _cholesky(M + t * (Q @ Q.T))
    MQ = np.stack([solve(column) for column in Q.T], axis=1)
    schur = _cholesky(Q.T @ MQ)

    def solution(r, s):
        x = solve(r)
        y = schur(Q.T @ x - s)
        return x - MQ @ y, y + t * s

    return solution


def _cholesky(M):
    """The solver of M x = r for a positive definite M, scaled; directions lost in rounding are left out."""
    scale = 1 / np.sqrt(np.maximum(np.diag(M), np.finfo(Real).tiny))
    A = M * scale * scale[:, None]
    n = len(A)
    L = np.zeros_like(A)
    for k in range(n):
        lost = A[k, k] <= EPS * n
        L[k, k] = Real(1e30) if lost else np.sqrt(A[k, k])
        if not lost:
            L[k + 1 :, k] = A[k + 1 :, k] / L[k, k]
            A[k + 1 :, k + 1 :] -= L[k + 1 :, k, None] * L[k + 1 :, k]

    def solve(r):
        x = r * scale
        for k in range(n):
            x[k] /= L[k, k]
            x[k + 1 :] -= L[k + 1 :, k] * x[k]
        for k in reversed(range(n)):
            x[k] = (x[k] - L[k + 1 :, k] @ x[k + 1 :]) / L[k, k]
        return x * scale

    def refined(r):
        x = solve(r.copy())
        return x + solve(r - M @ x)

    return refined


# Functionals, polynomials and kernels.


@dataclass(frozen=True)
class Block:
    """Atoms (points (p, n), directions (p, m, n), blur variance) and the entries that put them in a family's rows."""

    points: np.ndarray
    directions: np.ndarray
    blur: Real
    rows: np.ndarray
    columns: np.ndarray
    entries: np.ndarray


def _flat(family):
    """The blocks of a family."""
    found = []
    for part in family.parts:
        atoms = part.atoms
        t, n = np.shape(atoms.points)
        k, m = atoms.per_point, atoms.order
        directions = np.broadcast_to(np.asarray(atoms.directions, Real), (t, k, m, n)).reshape(t * k, m, n)
        blur = np.unique(np.zeros(n) if atoms.blur is None else np.asarray(atoms.blur))
        assert len(blur) == 1, "one width for all features"
        matrix = scipy.sparse.eye_array(t * k) if part.matrix is None else part.matrix
        matrix = scipy.sparse.coo_array(matrix)
        entries = Real(part.weight) * matrix.data.astype(Real)
        points = np.repeat(np.asarray(atoms.points, Real), k, axis=0)
        found.append(Block(points, directions, Real(blur[0]), matrix.row + part.start, matrix.col, entries))
    return found


def _same(one, other):
    def fields(b):
        return b.points, b.directions, b.blur, b.rows, b.columns, b.entries

    return len(one) == len(other) and all(
        np.array_equal(p, q) for a, b in zip(one, other, strict=True) for p, q in zip(fields(a), fields(b), strict=True)
    )


def gram(kernel, left, rows, right, columns):
    """The inner products of two families, given by their blocks and sizes."""
    found = np.zeros((rows, columns), Real)
    for one in left:
        for other in right:
            if len(one.entries) == 0 or len(other.entries) == 0:
                continue
            values = sum(factor * _pair(k, one, other) for factor, k in _summands(kernel))
            half = np.zeros((len(values), columns), Real)
            np.add.at(half.T, other.rows, other.entries[:, None] * values.T[other.columns])
            np.add.at(found, one.rows, one.entries[:, None] * half[one.columns])
    return found


def _on_waves(space, blocks, rows):
    """The values (rows, p) of a family on the waves of a space: cos, or cos + sin on a grid, which is a cosine too."""
    if isinstance(space, FourierGridSpace):
        steps = np.meshgrid(*(np.arange(-m, m + 1) for m in space.limits), indexing="ij")
        W = 2 * PI * np.stack([h * j.reshape(-1) for h, j in zip(space.spacing.astype(Real), steps)], axis=1)
        center, phase, size = space.center.astype(Real), -PI / 4, np.sqrt(Real(2)) * space.amplitudes.reshape(-1)
    else:
        W, phase, size = space.W.astype(Real), space.b.astype(Real), space.amplitudes.astype(Real)
        center = space.center.astype(Real)
    found = np.zeros((rows, len(W)), Real)
    for block in blocks:
        order = block.directions.shape[1]
        values = size * np.exp(-block.blur * (W**2).sum(axis=1) / 2)
        values = values * np.cos((block.points - center) @ W.T + phase + order * PI / 2)
        for i in range(order):
            values = values * (block.directions[:, i] @ W.T)
        np.add.at(found, block.rows, block.entries[:, None] * values[block.columns])
    return found


def _summands(kernel):
    if isinstance(kernel, rkhs.kernels.Sum):
        return [pair for k in kernel.kernels for pair in _summands(k)]
    if isinstance(kernel, rkhs.kernels.Multiple):
        return [(Real(kernel.factor) * factor, k) for factor, k in _summands(kernel.kernel)]
    return [(Real(1), kernel)]


def _pair(kernel, one, other):
    """<D_u k(x, .), D_v k(y, .)>: Faa di Bruno's sum over the ways to pair some of the directions off."""
    if isinstance(kernel, rkhs.kernels.Composition):
        return _periodic(kernel, one, other)
    x, y, n = one.points, other.points, one.points.shape[1]
    left = [one.directions[:, i, :, None] for i in range(one.directions.shape[1])]  # (p, n, 1)
    right = [other.directions.transpose(1, 2, 0)[i][None] for i in range(other.directions.shape[1])]  # (1, n, q)
    order = len(left) + len(right)
    if isinstance(kernel, rkhs.kernels.Polynomial):
        if one.blur + other.blur > 0:
            raise NotImplementedError("local averages are judged for Gaussian kernels")
        derivatives = _power(x @ y.T + Real(kernel.offset), kernel.degree, order)
        slopes = [(u * y.T[None]).sum(axis=1) for u in left] + [(v * x[:, :, None]).sum(axis=1) for v in right]
        side, sign = [0] * len(left) + [1] * len(right), 1
    else:
        r = x[:, :, None] - y.T[None]
        derivatives = _radial(kernel, (r**2).sum(axis=1), n, order, one.blur + other.blur)
        slopes = [(u * r).sum(axis=1) for u in left] + [-(v * r).sum(axis=1) for v in right]
        side, sign = None, -1
    directions = left + right

    def product(i, j):
        if side is not None and side[i] == side[j]:
            return None  # <x, y> is linear in each
        value = (directions[i] * directions[j]).sum(axis=1)
        return value if (i < len(left)) == (j < len(left)) else sign * value if side is None else value

    def total(rest, used):
        """The sum over the pairings of the rest, when `used` derivatives of the outer function were taken."""
        if not rest:
            return derivatives[used]
        i, *others = rest
        found = slopes[i] * total(others, used + 1)
        for j in others:
            paired = product(i, j)
            if paired is not None:
                found = found + paired * total([m for m in others if m != j], used + 1)
        return found

    return np.broadcast_to(total(list(range(order)), 0), (len(x), len(y)))


def _periodic(kernel, one, other):
    """The same for k(x, y) = prod_j g(x_j - y_j), g(r) = exp((cos(w r) - 1) / (w scale)^2), w = 2 pi / period."""
    if one.blur + other.blur > 0:
        raise NotImplementedError("local averages are judged for Gaussian kernels")
    n, scale = one.points.shape[1], Real(kernel.kernel.scale)
    period = np.broadcast_to(np.asarray(kernel.map.period, Real), (n,))
    left, right = one.directions.transpose(1, 2, 0), other.directions.transpose(1, 2, 0)  # (m, n, p), (m', n, q)
    order = len(left) + len(right)
    waves = []  # [j][m]: the m-th derivative of g at x_j - y_j
    for j in range(n):
        w = 2 * Real(PI) / period[j]
        r = w * np.remainder(one.points[:, None, j] - other.points[None, :, j], period[j])
        turns = [np.cos, lambda t: -np.sin(t), lambda t: -np.cos(t), np.sin]
        h = [turns[k % 4](r) * w**k / (w * scale) ** 2 for k in range(order + 1)]
        g = [np.exp(h[0] - 1 / (w * scale) ** 2)]
        for m in range(order):
            g.append(sum(comb(m, k) * h[k + 1] * g[m - k] for k in range(m + 1)))
        waves.append(g)
    total = np.zeros((len(one.points), len(other.points)), Real)
    for chosen in tuples(range(n), repeat=order):
        ours = np.prod([left[i, j] for i, j in enumerate(chosen[: len(left)])], axis=0, initial=Real(1))
        theirs = np.prod([-right[i, j] for i, j in enumerate(chosen[len(left) :])], axis=0, initial=Real(1))
        factors = [waves[j][chosen.count(j)] for j in range(n)]
        total += np.prod(factors, axis=0) * np.reshape(ours, (-1, 1)) * np.reshape(theirs, (1, -1))
    return total


def _power(t, degree, order):
    """Derivatives 0..order of t^degree."""
    found, factor = [], Real(1)
    for k in range(order + 1):
        found.append(factor * t ** max(degree - k, 0) if k <= degree else 0 * t)
        factor *= max(degree - k, 0)
    return found


def _radial(kernel, squared, n, order, blur):
    """Derivatives 0..order by s = r^2 / 2 of the kernel; 0 at r = 0 where infinite (the slopes vanish faster)."""
    if isinstance(kernel, rkhs.Gaussian):
        scale = Real(kernel.scale) ** 2
        wide = scale + blur
        value = (scale / wide) ** (Real(n) / 2) * np.exp(-squared / (2 * wide))
        return [value * (-1 / wide) ** k for k in range(order + 1)]
    if blur > 0:
        raise NotImplementedError("local averages are judged for Gaussian kernels")
    if isinstance(kernel, rkhs.kernels.RationalQuadratic):
        alpha, scale = Real(kernel.alpha), Real(kernel.scale) ** 2
        below = 1 + squared / (2 * alpha * scale)
        rises = [np.prod([(alpha + j) / alpha for j in range(k)], initial=Real(1)) for k in range(order + 1)]
        return [rises[k] * (-1 / scale) ** k * below ** -(alpha + k) for k in range(order + 1)]
    r = np.sqrt(squared)
    safe = np.where(r > 0, r, 1)
    if isinstance(kernel, rkhs.Matern):  # (1/z) d/dz z^m K_m = -z^(m-1) K_(m-1), m = p + 1/2
        p, rate = round(kernel.nu - 0.5), 2 * Real(kernel.nu) / Real(kernel.scale) ** 2
        z = np.sqrt(rate) * r
        bessel = {0: np.ones_like(z), 1: 1 + z}
        for k in range(2, max(p, order - p) + 1):
            bessel[k] = (2 * k - 1) * bessel[k - 1] + z**2 * bessel[k - 2]
        for k in range(-1, p - order - 1, -1):  # K_-m = K_m
            bessel[k] = np.where(r > 0, bessel[-k - 1] / np.where(r > 0, z, 1) ** (-2 * k - 1), 0)
        start = np.prod([Real(2 * k - 1) for k in range(1, p + 1)], dtype=Real)
        return [(-rate) ** k * bessel[p - k] * np.exp(-z) / start for k in range(order + 1)]
    if not isinstance(kernel, rkhs.kernels.ThinPlate | rkhs.kernels.Polyharmonic):
        raise NotImplementedError(kernel)
    power = 2 * kernel.order - n if isinstance(kernel, rkhs.kernels.ThinPlate) else kernel.power
    even = power % 2 == 0
    sign = (-1) ** int(power // 2 + 1) if even else (-1) ** int(np.ceil(power / 2))
    on_log, alone, e, found = Real(sign if even else 0), Real(0 if even else sign), Real(power), []
    for _ in range(order + 1):  # on_log r^e log r + alone r^e
        at_zero = alone if e == 0 and on_log == 0 else 0
        found.append(np.where(r > 0, safe**e * (on_log * np.log(safe) + alone), at_zero))
        on_log, alone, e = on_log * e, alone * e + on_log, e - 2
    return found


def _monomials(blocks, rows, degree, center, scale=None):
    """L_i of the monomials of (x - center) / scale, by degree as rkhs.Polynomials has them."""
    n = len(center)
    exponents = [
        tuple(chosen.count(d) for d in range(n))
        for total in range(degree + 1)
        for chosen in combinations_with_replacement(range(n), total)
    ]
    found = np.zeros((rows, len(exponents)), Real)
    for block in blocks:
        x = block.points - center

        def value(e, directions, x=x, blur=block.blur):
            if directions:
                u, *others = directions
                parts = [u[:, d] * p * value(_less(e, d), others) for d, p in enumerate(e) if p]
                return sum(parts, start=np.zeros(len(x), Real))
            first = next((d for d, p in enumerate(e) if p), None)
            if first is None:
                return np.ones(len(x), Real)
            b = _less(e, first)
            average = blur * b[first] * value(_less(b, first), []) if b[first] and blur else 0
            return x[:, first] * value(b, []) + average

        directions = [block.directions[:, i] for i in range(block.directions.shape[1])]
        for j, e in enumerate(exponents):
            unit = 1 if scale is None else np.prod(scale ** np.asarray(e))
            np.add.at(found[:, j], block.rows, block.entries * value(e, directions)[block.columns] / unit)
    return found


def _spaces(space):
    """The spaces that a space is the sum of."""
    return list(space.spaces) if isinstance(space, SumOfSpaces) else [space]


def _less(e, d):
    return (*e[:d], e[d] - 1, *e[d + 1 :])


def _orthonormal(P):
    """An orthonormal basis of the columns, by Gram and Schmidt, twice; the largest that is left comes first."""
    sizes = np.sqrt((P**2).sum(axis=0))
    rest, found = P[:, sizes > 0] / sizes[sizes > 0], []
    while rest.shape[1]:
        left = np.sqrt((rest**2).sum(axis=0))
        j = int(np.argmax(left))
        if left[j] <= 1e-9 * np.sqrt(EPS):
            break
        v = rest[:, j] / left[j]
        for _ in range(2):
            for w in found:
                v = v - w * (w @ v)
            v = v / np.sqrt(v @ v)
        found.append(v)
        rest = np.delete(rest, j, axis=1)
        for _ in range(2):
            rest = rest - v[:, None] * (v @ rest)
    return np.array(found, Real).reshape(len(found), len(P)).T
