"""Where would a new row go? The predictive density of a diffusion tree as a normalised mixture over branches.

A new path follows the tree, takes branches in proportion to the rows that took them before, stays on a segment
followed by m rows with probability ((1-t_b)/(1-t_a))^(c/m), and once it has left diffuses freely. Within a branch the
time of leaving is integrated by Gauss-Legendre nodes over its own distribution function, so the weights of all
components sum to one exactly. With sigma2 integrated each component is a Student t; with c integrated the stay
probabilities are averaged in closed form.
"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.polynomial.legendre import leggauss

from dtree.core.jit import kernel
from dtree.diffusion.affine import Affine
from dtree.diffusion.belief import Leaves, all_messages, data_sums
from dtree.diffusion.objective import C_SUM, Hyper, Workspace
from dtree.diffusion.tree import Columns, children_first

NODES = 16  # per branch: densities within 2e-3 of those with 64


class BranchMixture(NamedTuple):
    """One tree's predictive mixture: for branch e and node k a Gaussian (or Student t) between the branch's two ends.

    log_weight (e, k) sums to one; share (e, k, q) weights the lower end; spread (e, k, q) is the variance in units
    of sigma2; top, bottom (e, d) the ends; dof = 0 for a Gaussian with `scale` = sigma2, else a t with that scale.
    """

    log_weight: np.ndarray
    share: np.ndarray
    spread: np.ndarray
    top: np.ndarray
    bottom: np.ndarray
    dof: float
    scale: float

    def on_branches(self, chosen: np.ndarray) -> "BranchMixture":
        """The components of some branches only, their weights unchanged."""
        parts = [np.ascontiguousarray(part[chosen]) for part in self[:5]]
        return BranchMixture(parts[0], parts[1], parts[2], parts[3], parts[4], self.dof, self.scale)


def path_counts(tree: Columns, rows: np.ndarray | None = None) -> np.ndarray:
    """Rows under each node (2n-1,): one per leaf, or the given number of rows of each leaf (atoms)."""
    n = tree.n_leaves
    count = np.ones(2 * n - 1)
    if rows is not None:
        count[:n] = rows
    for i in children_first(tree.child, tree.root):
        count[i] = count[tree.child[i, 0]] + count[tree.child[i, 1]]
    return count


class _Survival(NamedTuple):
    """P(a path is still on the tree) as a function of x = sum over segments of log(rest_a/rest_b)/m, averaged over
    c."""

    shape: float  # infinite for a fixed c
    rate: float  # the rate of c's Gamma, or c itself when fixed

    def at(self, x: np.ndarray) -> np.ndarray:
        return np.exp(-self.rate * x) if math.isinf(self.shape) else np.exp(-self.shape * np.log1p(x / self.rate))

    def inverse(self, probability: np.ndarray) -> np.ndarray:
        if math.isinf(self.shape):
            return -np.log(probability) / self.rate
        return self.rate * np.expm1(-np.log(probability) / self.shape)


def posterior_of_c(tree: Columns, leaves: Leaves, hyper: Hyper) -> tuple[float, float]:
    """Gamma(shape, rate) of c given the times; (inf, c) when c is fixed."""
    if hyper.c is not None:
        return math.inf, hyper.c
    work = Workspace(tree, leaves, hyper)
    return hyper.c_prior[0] + work.n - 1, hyper.c_prior[1] - work.sums()[C_SUM]


def posterior_of_precision(tree: Columns, leaves: Leaves, hyper: Hyper) -> tuple[float, float]:
    """Gamma(shape, rate) of 1/sigma2 given the times; (inf, 1/sigma2) when sigma2 is fixed."""
    if hyper.sigma2 is not None:
        return math.inf, 1.0 / hyper.sigma2
    _, quad = data_sums(tree, leaves)
    return hyper.precision_prior[0] + 0.5 * leaves.n_observed, hyper.precision_prior[1] + 0.5 * quad


def _stay(tree: Columns, count: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For each branch: probability of choosing it, x at its top and x at its bottom."""
    m = tree.parent.shape[0]
    chosen, x_bottom = np.ones(m), np.zeros(m)
    x_top = np.zeros(m)
    with np.errstate(divide="ignore"):
        log_rest = np.log(tree.rest)
    for i in [*children_first(tree.child, tree.root)[::-1], *range(tree.n_leaves)]:
        p = tree.parent[i]
        if p >= 0:
            chosen[i] = chosen[p] * count[i] / (count[tree.child[p, 0]] + count[tree.child[p, 1]])
            x_top[i] = x_bottom[p]
        above = log_rest[p] if p >= 0 else 0.0
        x_bottom[i] = x_top[i] + (above - log_rest[i]) / count[i]
    return chosen, x_top, x_bottom


def branch_mixture(
    tree: Columns,
    leaves: Leaves,
    hyper: Hyper,
    *,
    noise: float | np.ndarray = 0.0,
    rows: np.ndarray | None = None,
    nodes: int = NODES,
) -> BranchMixture:
    """The predictive mixture of one tree.

    `noise`: observation variance of a new row in units of sigma2, or one value per leaf (a new row that leaves on a
    leaf's branch gets that leaf's noise, elsewhere the average). `rows`: how many rows each leaf stands for.
    """
    n = tree.n_leaves
    count = path_counts(tree, rows)
    survival = _Survival(*posterior_of_c(tree, leaves, hyper))
    chosen, x_top, x_bottom = _stay(tree, count)
    top_level, bottom_level = survival.at(x_top), survival.at(x_bottom)
    mass = chosen * (top_level - bottom_level)
    x, weight = leggauss(nodes)
    u, weight = 0.5 * (x + 1.0), 0.5 * weight
    # on a leaf's branch the density of a row close to the leaf comes from the last moments: nodes crowd there (u =
    # 1-(1-v)^3)
    left = np.where(tree.child[:, :1] < 0, (1.0 - u) ** 3, 1.0 - u)
    weights = np.where(tree.child[:, :1] < 0, 3.0 * (1.0 - u) ** 2 * weight, weight)
    level = bottom_level[:, None] + left * (top_level - bottom_level)[:, None]
    above = tree.above
    with np.errstate(divide="ignore", over="ignore"):
        left_at = survival.inverse(np.maximum(level, 1e-300))
        rest = above[:, None] * np.exp(-count[:, None] * np.maximum(left_at - x_top[:, None], 0.0))
    rest = np.clip(rest, tree.rest[:, None], above[:, None])
    messages = all_messages(tree, leaves)
    upper = messages.down_var[:, None, :] + (above[:, None] - rest)[:, :, None]
    lower = messages.var[:, None, :] + (rest - tree.rest[:, None])[:, :, None]
    seen = np.isfinite(lower)
    safe = np.where(seen, lower, 1.0)
    both = upper + safe
    share = np.where(seen, np.where(both > 0, upper / np.where(both > 0, both, 1.0), 0.0), 0.0)
    own_noise = np.broadcast_to(np.asarray(noise, dtype=np.float64), (n,))
    branch_noise = np.full(2 * n - 1, np.average(own_noise, weights=count[:n]))
    branch_noise[:n] = own_noise
    spread = np.where(seen, share * safe, upper) + (rest + branch_noise[:, None])[:, :, None]
    with np.errstate(divide="ignore"):
        log_weight = np.log(mass)[:, None] + np.log(weights)
    shape, rate = posterior_of_precision(tree, leaves, hyper)
    dof, scale = (0.0, 1.0 / rate) if math.isinf(shape) else (2.0 * shape, rate / shape)
    return BranchMixture(log_weight, share, np.maximum(spread, 1e-300), messages.down_mean, messages.mean, dof, scale)


@kernel
def _peaks(mixture: BranchMixture, d: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Log height (e, k) of every component at its centre, up to a constant of all; the largest (e,) of each branch, and
    the largest spread (e, q) of its components."""
    log_weight, spread = mixture.log_weight, mixture.spread
    n_branches, n_nodes, q = spread.shape
    g = d // q
    peak, best_peak = np.full((n_branches, n_nodes), -np.inf), np.full(n_branches, -np.inf)
    widest = np.zeros((n_branches, q))
    for e in range(n_branches):
        for k in range(n_nodes):
            if log_weight[e, k] == -np.inf:
                continue
            peak[e, k] = log_weight[e, k]
            for j in range(q):
                peak[e, k] -= 0.5 * g * math.log(spread[e, k, j])
                widest[e, j] = max(widest[e, j], spread[e, k, j])
            best_peak[e] = max(best_peak[e], peak[e, k])
    return peak, best_peak, widest


@kernel
def mixture_log_density(x: np.ndarray, mixture: BranchMixture) -> np.ndarray:
    """Log density (r,) of each row of x (r, d); NaN entries are marginalised.

    A branch is left out when even its best component could not matter: the bound combines its largest weight over
    spread with the distance to the segment between its ends and its widest spread. The error is below 1e-12 of the
    density.
    """
    log_weight, share, spread, top, bottom, dof, scale = mixture
    d = x.shape[1]
    n_branches, n_nodes, q = spread.shape
    g = d // q
    to_top, to_bottom, length = np.empty((n_branches, q)), np.empty((n_branches, q)), np.empty((n_branches, q))
    bound = np.empty(n_branches)
    peak, best_peak, widest = _peaks(mixture, d)
    seen = np.empty(q, np.int64)
    out = np.empty(x.shape[0])
    for r in range(x.shape[0]):
        n_seen = 0
        for j in range(q):
            seen[j] = 0
            for k in range(j * g, (j + 1) * g):
                if not math.isnan(x[r, k]):
                    seen[j] += 1
            n_seen += seen[j]
        if dof > 0.0:
            constant = math.lgamma(0.5 * (dof + n_seen)) - math.lgamma(0.5 * dof)
            constant -= 0.5 * n_seen * math.log(dof * math.pi * scale)
        else:
            constant = -0.5 * n_seen * math.log(2 * math.pi * scale)
        first = 0
        for e in range(n_branches):
            away = 0.0
            for j in range(q):
                a, b, c = 0.0, 0.0, 0.0
                for k in range(j * g, (j + 1) * g):
                    if not math.isnan(x[r, k]):
                        from_top = x[r, k] - top[e, k]
                        from_bottom = x[r, k] - bottom[e, k]
                        step = bottom[e, k] - top[e, k]
                        a += from_top * from_top
                        b += from_bottom * from_bottom
                        c += step * step
                to_top[e, j], to_bottom[e, j], length[e, j] = a, b, c
                lam = min(max(0.5 * (a - b + c) / c, 0.0), 1.0) if c > 0.0 else 0.0
                if widest[e, j] > 0.0:
                    away += max((1.0 - lam) * a + lam * b - lam * (1.0 - lam) * c, 0.0) / widest[e, j]
            if n_seen < d:
                bound[e] = np.inf  # peaks are for complete rows
            elif dof > 0.0:
                bound[e] = best_peak[e] - 0.5 * (dof + n_seen) * math.log1p(away / (scale * dof))
            else:
                bound[e] = best_peak[e] - 0.5 * away / scale
            if bound[e] > bound[first]:
                first = e
        highest = -np.inf
        total = 0.0
        for turn in range(-1, n_branches):
            e = first if turn < 0 else turn
            if turn == first or bound[e] < highest - 40.0:
                continue
            for k in range(n_nodes):
                if log_weight[e, k] == -np.inf:
                    continue
                value = peak[e, k]
                distance = 0.0
                for j in range(q):
                    lam = share[e, k, j]
                    gap = (1.0 - lam) * to_top[e, j] + lam * to_bottom[e, j] - lam * (1.0 - lam) * length[e, j]
                    distance += max(gap, 0.0) / spread[e, k, j]
                    if seen[j] < g:
                        value += 0.5 * (g - seen[j]) * math.log(spread[e, k, j])
                if dof > 0.0:
                    value -= 0.5 * (dof + n_seen) * math.log1p(distance / (scale * dof))
                else:
                    value -= 0.5 * distance / scale
                if value > highest:
                    total = total * math.exp(highest - value) + 1.0
                    highest = value
                elif value > highest - 45.0:
                    total += math.exp(value - highest)
        out[r] = constant + highest + math.log(total)
    return out


def log_density_of_tree(x: np.ndarray, mixture: BranchMixture) -> np.ndarray:
    """Log predictive density (r,) of rows x (r, d) under one tree."""
    return mixture_log_density(np.ascontiguousarray(x, dtype=np.float64), mixture)


def log_density(x: np.ndarray, mixtures: Sequence[BranchMixture], log_weights: Sequence[float]) -> np.ndarray:
    """Log predictive density (r,) of rows x (r, d) under several trees weighted by exp(log_weights), normalised."""
    weights = np.asarray(log_weights, dtype=np.float64)
    weights = weights - np.logaddexp.reduce(weights)
    total = np.full(x.shape[0], -np.inf)
    for mixture, weight in zip(mixtures, weights, strict=True):
        total = np.logaddexp(total, weight + log_density_of_tree(x, mixture))
    return total


def seen_mixtures(
    x: np.ndarray, affine: Affine, mixtures: Sequence[BranchMixture]
) -> Iterator[tuple[np.ndarray, np.ndarray, list[BranchMixture], np.ndarray]]:
    """Rows x (r, d) of the original units in groups that a kernel can score: (their numbers, the rows in units where
    components spread equally, the mixtures in those units, log volume to subtract per row).

    A map by columns leaves missing entries to the kernel. A map along axes mixes columns: for each pattern of missing
    entries the components' covariance over the observed ones, spread * basis' basis, gets a square root of its own.
    """
    if affine.by_column or not np.isnan(x).any():
        yield np.arange(x.shape[0]), affine.inward(x), list(mixtures), affine.log_volume(x)
        return
    patterns, which = np.unique(np.isnan(x), axis=0, return_inverse=True)
    for k, missing in enumerate(patterns):
        rows = np.flatnonzero(which.ravel() == k)
        seen = np.flatnonzero(~missing)
        root = np.linalg.cholesky(affine.basis.T @ affine.basis)[seen]
        root = np.linalg.cholesky(root @ root.T)

        def inward(points: np.ndarray, seen: np.ndarray = seen, root: np.ndarray = root) -> np.ndarray:
            return np.ascontiguousarray(np.linalg.solve(root, (points[:, seen] - affine.offset[seen]).T).T)

        parts = [
            m._replace(top=inward(affine.outward(m.top)), bottom=inward(affine.outward(m.bottom))) for m in mixtures
        ]
        yield rows, inward(x[rows]), parts, np.full(rows.size, np.log(np.diag(root)).sum())


def sample_rows(
    count: int,
    tree: Columns,
    leaves: Leaves,
    hyper: Hyper,
    rng: np.random.Generator,
    *,
    noise: float | np.ndarray = 0.0,
    rows: np.ndarray | None = None,
) -> np.ndarray:
    """New rows (count, d) from the predictive distribution of one tree, by following new paths."""
    n, d = leaves.mean.shape
    c_shape, c_rate = posterior_of_c(tree, leaves, hyper)
    p_shape, p_rate = posterior_of_precision(tree, leaves, hyper)
    messages = all_messages(tree, leaves)
    paths = path_counts(tree, rows)
    own_noise = np.broadcast_to(np.asarray(noise, dtype=np.float64), (n,))
    average_noise = float(np.average(own_noise, weights=paths[:n]))
    out = np.empty((count, d))
    for k in range(count):
        c = c_rate if math.isinf(c_shape) else rng.gamma(c_shape, 1.0 / c_rate)
        precision = p_rate if math.isinf(p_shape) else rng.gamma(p_shape, 1.0 / p_rate)
        node, above = tree.root, 1.0
        while True:
            rest = above * rng.random() ** (paths[node] / c)
            if rest > tree.rest[node] or node < n:
                break
            above = tree.rest[node]
            left, right = tree.child[node]
            node = left if rng.random() * (paths[left] + paths[right]) < paths[left] else right
        upper = messages.down_var[node] + above - rest
        lower = messages.var[node] + rest - tree.rest[node]
        with np.errstate(invalid="ignore"):
            share = np.where(np.isfinite(lower), upper / (upper + lower), 0.0)
            var = np.where(np.isfinite(lower), share * lower, upper)
        var = var + rest + (own_noise[node] if node < n else average_noise)
        wide = d // var.shape[0]
        mean = messages.down_mean[node] + np.repeat(share, wide) * (messages.mean[node] - messages.down_mean[node])
        out[k] = mean + np.sqrt(np.repeat(var, wide) / precision) * rng.standard_normal(d)
    return out
