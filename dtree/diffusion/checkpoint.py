"""Whether a walk that was read from somewhere is one that `walk.advance` could leave.

The kernels that go on from a walk follow its numbers without looking, so each is looked at here.
"""

from typing import NamedTuple

import numpy as np

from dtree.diffusion.pool import ROOT, TREE_KEY, pool_of
from dtree.diffusion.prepare import Prepared
from dtree.diffusion.records import check_trees
from dtree.diffusion.search import empty_best
from dtree.diffusion.tree import Columns
from dtree.diffusion.walk import Plan, Walk, nothing_drawn

SCRATCH = ("path", "saved", "shift", "place", "meeting", "base")  # of a pool: written before they are read
INFINITE = ("var", "down_var")  # where an entry of a row is missing


def check_walk(walk: Walk, prepared: Prepared, plan: Plan) -> None:
    """ValueError unless this is a walk over the prepared leaves, as long as the plan at most."""
    if not 0 <= walk.done <= plan.length:
        raise ValueError(f"its walk has done {walk.done} of {plan.length} steps")
    _check_search(walk, prepared, plan)
    n = prepared.leaves.mean.shape[0]
    if walk.chain is not None:
        check_trees(Columns(*(column[None] for column in walk.chain)), n)
    empty = nothing_drawn(plan, 2 * n - 1, prepared.bits)
    _require_like(walk.draws, empty.draws, "draws")
    for name in ("log_joint", "latent", "numbers", "drawn_latent"):
        _require_shape(getattr(walk, name), getattr(empty, name), name)
    drawn = max(0, walk.done - plan.length + plan.draws)
    check_trees(Columns(*(column[:drawn] for column in walk.draws)), n)
    known = (walk.log_joint[:drawn], walk.latent, walk.numbers, walk.drawn_latent[:drawn])
    if not all(np.all(np.isfinite(values)) for values in known):
        raise ValueError("the draws of its walk hold NaN or infinity")


def _check_search(walk: Walk, prepared: Prepared, plan: Plan) -> None:
    """The tree of the search with its messages, and the best trees so far."""
    pool, best = walk.state
    n, missing = prepared.leaves.mean.shape[0], bool(np.isinf(prepared.leaves.var).any())
    tree = Columns(pool.parent, pool.child, pool.rest)
    check_trees(Columns(*(column[None] for column in tree)), n)
    fresh = pool_of(tree, prepared.leaves, prepared.hyper)
    _require_like(pool, fresh, "search")
    for name in pool._fields:
        values = getattr(pool, name)
        if name in SCRATCH or values.dtype.kind != "f":
            continue
        if np.isnan(values).any() or (not (missing and name in INFINITE) and np.isinf(values).any()):
            raise ValueError(f"the column '{name}' of its search holds NaN or infinity")
    same = all(np.array_equal(getattr(pool, name), getattr(fresh, name)) for name in ("size", "key", "table", "hyper"))
    same = same and all(np.array_equal(getattr(pool, name)[:n], getattr(fresh, name)[:n]) for name in ("mean", "var"))
    if not same or any(pool.meta[at] != fresh.meta[at] for at in (ROOT, TREE_KEY)):
        raise ValueError("the tree of its search and the messages in it do not belong together")
    _require_like(best, empty_best(n, plan.n_trees), "best trees")
    found = best.score > -np.inf
    if not np.all(np.isfinite(best.score[found])) or np.isnan(best.score).any() or not found.any():
        raise ValueError("the scores of its best trees are none")
    check_trees(Columns(best.parent[found], best.child[found], best.rest[found]), n)


def _require_like(found: NamedTuple, wanted: NamedTuple, what: str) -> None:
    for name, values, like in zip(found._fields, found, wanted, strict=True):
        _require_shape(values, like, f"{what}: {name}")


def _require_shape(values: np.ndarray, like: np.ndarray, what: str) -> None:
    if values.shape != like.shape or values.dtype != like.dtype:
        raise ValueError(f"the column '{what}' of its walk has the wrong shape or type")
