"""Search: the fractal, ways to search on a draw from the prior (Figure 5 of the paper), and what a step costs."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from dtree.diffusion import laplace, pool, prior, search
from dtree.diffusion.belief import leaves_from_data
from dtree.diffusion.first_tree import bhc_tree
from dtree.diffusion.objective import Hyper
from dtree.diffusion.tree import children_first, structure_key, validate


def fractal(seed: int = 0) -> np.ndarray:
    """63 points: 7 groups of 3 groups of 3 points, each level a third of the size of the one above."""
    rng = np.random.default_rng(seed)
    rows = []
    for a in np.arange(7) * 2 * np.pi / 7:
        top = 3.0 * np.array([np.cos(a), np.sin(a)])
        for b in np.arange(3) * 2 * np.pi / 3 + a:
            middle = top + 0.55 * np.array([np.cos(b), np.sin(b)])
            for c in np.arange(3) * 2 * np.pi / 3 + b:
                rows.append(middle + 0.1 * np.array([np.cos(c), np.sin(c)]))
    return np.array(rows) + 0.01 * rng.standard_normal((63, 2))


def run_fractal(data: Path, out: Path) -> dict:
    import matplotlib.pyplot as plt

    rows = fractal()
    leaves = leaves_from_data(rows / rows.std(), 1e-4)
    began = time.perf_counter()
    state = search.build(leaves, Hyper(), np.random.default_rng(0))
    built = time.perf_counter()
    search.search(state, np.random.default_rng(1), 100)
    seconds = time.perf_counter() - began
    best = laplace.log_evidence_laplace(search.best_columns([state])[0][1], leaves, Hyper())
    validate(best.tree)
    groups = (
        recovered_groups(best.tree, np.repeat(np.arange(7), 9)),
        recovered_groups(best.tree, np.repeat(np.arange(21), 3)),
    )
    from dtree.diffusion.belief import posterior_locations

    mean, _ = posterior_locations(best.tree, leaves)
    mean = mean * rows.std()
    figure, axis = plt.subplots(figsize=(6, 6))
    for i in range(best.tree.parent.shape[0]):
        p = best.tree.parent[i]
        if p >= 0:
            axis.plot(*mean[[p, i]].T, color="0.4", lw=0.5 + 2 * best.tree.rest[p])
    axis.plot(*rows.T, "o", ms=4, color="tab:blue")
    axis.set_title(f"fractal, 63 points: build + 100 steps in {seconds:.2f} s")
    axis.set_aspect("equal")
    figure.savefig(out / "diffusion_fractal.png", dpi=110)
    return {
        "seconds": seconds,
        "build_seconds": built - began,
        "log_evidence": best.log_evidence,
        "converged": best.converged,
        "groups_of_nine_found": groups[0],
        "groups_of_three_found": groups[1],
    }


def recovered_groups(tree: object, labels: np.ndarray) -> str:
    """How many label groups are exactly the leaves under one node."""
    clades = structure_key(tree)  # type: ignore[arg-type]
    wanted = [frozenset(np.flatnonzero(labels == k).tolist()) for k in np.unique(labels)]
    return f"{sum(w in clades for w in wanted)} of {len(wanted)}"


def run_prior(data: Path, out: Path) -> dict:
    """Evidence against time on a draw from the prior (N = 200, D = 5), eight seeds for each way to search."""
    import matplotlib.pyplot as plt

    rows, truth = prior.sample_data(200, 5, rng=np.random.default_rng(2))
    leaves, hyper = leaves_from_data(rows), Hyper()
    figure, axis = plt.subplots(figsize=(7, 4.5))
    ends: dict[str, list[float]] = {}
    begins: dict[str, list[float]] = {}
    spent: dict[str, list[float]] = {}
    builds = []
    ways = {
        "build + search subtrees": ("tab:blue", True, {}),
        "build + search leaves": ("tab:green", True, {"only_leaves": True}),
        "search greedy from a random tree": ("tab:orange", False, {}),
        "from a BHC tree + search subtrees": ("tab:red", False, {}),
    }
    for name, (colour, building, options) in ways.items():
        for seed in range(8):
            if seed == 0 and "BHC" in name:
                bhc_tree(leaves)  # warm
            rng = np.random.default_rng([seed, 1])  # not the stream that drew the true tree
            began = time.perf_counter()
            if building:
                state = search.build(leaves, hyper, rng)
                builds.append(time.perf_counter() - began)
            elif "BHC" in name:
                state = search.start_from(bhc_tree(leaves), leaves, hyper)
            else:
                state = search.start_from(prior.sample_tree(200, 1.0, rng), leaves, hyper)
            times, values = [time.perf_counter() - began], [pool.score(state.pool)]
            for _ in range(20):
                for _ in range(50):
                    search.search_step(state, rng, **options)
                times.append(time.perf_counter() - began)
                values.append(pool.score(state.pool))
            axis.plot(times, values, color=colour, lw=1, label=name if seed == 0 else None)
            ends.setdefault(name, []).append(values[-1])
            begins.setdefault(name, []).append(values[0])
            spent.setdefault(name, []).append(times[-1])
    axis.set_xlabel("seconds")
    axis.set_ylabel("log evidence (search score)")
    axis.legend()
    axis.set_ylim(min(min(v) for v in ends.values()) - 120)
    axis.set_xscale("log")
    axis.set_xlim(left=0.05)
    figure.savefig(out / "diffusion_prior.png", dpi=110)
    return {
        "build_seconds_median": float(np.median(builds)),
        "seconds_with_1000_steps": {k: round(float(np.median(v)), 3) for k, v in spent.items()},
        "at_the_start": {k: round(float(np.mean(v)), 1) for k, v in begins.items()},
        "after_1000_steps": {k: [round(float(np.mean(v)), 1), round(float(np.std(v)), 1)] for k, v in ends.items()},
        "true_tree_score": float(pool.score(pool.pool_of(truth, leaves, hyper))),
    }


def run_steps(data: Path, out: Path) -> dict:
    """Milliseconds of processor time per search step as the tree grows (D = 5)."""
    import matplotlib.pyplot as plt

    rows_of = []
    for n in (200, 500, 1000, 2000, 5000):
        rows, _ = prior.sample_data(n, 5, rng=np.random.default_rng(0))
        began = time.process_time()
        state = search.build(leaves_from_data(rows), Hyper(), np.random.default_rng(0))
        built = time.process_time()
        rng = np.random.default_rng(1)
        for _ in range(1000):
            search.search_step(state, rng)
        milliseconds = time.process_time() - built
        tree = pool.columns_of(state.pool)
        depth = np.zeros(2 * n - 1)
        for i in children_first(tree.child, tree.root)[::-1]:
            depth[tree.child[i]] = depth[i] + 1
        rows_of.append(
            {
                "leaves": n,
                "build_s": round(built - began, 2),
                "step_ms": round(milliseconds, 3),
                "depth": round(float(depth[:n].mean()), 1),
            }
        )
    figure, axis = plt.subplots(figsize=(6, 4), layout="constrained")
    leaves = np.array([row["leaves"] for row in rows_of], dtype=float)
    for name, label, marker in (("step_ms", "time of a step", "o-"), ("depth", "mean depth of a leaf", "s--")):
        values = np.array([row[name] for row in rows_of], dtype=float)
        axis.loglog(leaves, values / values[0], marker, label=label)
    axis.loglog(leaves, leaves / leaves[0], ":", color="0.5", label="in proportion to leaves")
    axis.set_xticks(leaves, [f"{int(n):,}" for n in leaves])
    axis.minorticks_off()
    axis.set_xlabel("leaves")
    axis.set_ylabel(f"relative to {int(leaves[0])} leaves")
    axis.legend()
    figure.savefig(out / "diffusion_steps.png", dpi=100)
    return {"per_size": rows_of}
