"""The experiments of Knowles, Van Gael and Ghahramani (2011), and what a search step costs.

    python benchmarks/diffusion.py --data DIR [--out DIR] [--only fractal,prior,skulls,genes,animals,steps,accuracy]

Answers are checked before times are reported. Figures go to --out.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from dtree.diffusion import laplace, mcmc, pool, prior, search
from dtree.diffusion.belief import leaves_from_data
from dtree.diffusion.em import log_evidence_em
from dtree.diffusion.estimator import DiffusionTree
from dtree.diffusion.message_passing import log_evidence_message_passing
from dtree.diffusion.objective import Hyper
from dtree.diffusion.tree import children_first, from_nested, structure_key, validate


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


def warm_up() -> None:
    leaves = leaves_from_data(prior.sample_data(8, 2, rng=np.random.default_rng(0))[0])
    state = search.build(leaves, Hyper(), np.random.default_rng(0))
    search.search(state, np.random.default_rng(0), 3)
    laplace.log_evidence_laplace(search.best_columns([state])[0][1], leaves, Hyper())


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
    builds = []
    ways = {
        "build + search subtrees": ("tab:blue", True, {}),
        "build + search leaves": ("tab:green", True, {"only_leaves": True}),
        "search greedy from a random tree": ("tab:orange", False, {}),
    }
    for name, (colour, building, options) in ways.items():
        for seed in range(8):
            rng = np.random.default_rng([seed, 1])  # not the stream that drew the true tree
            began = time.perf_counter()
            if building:
                state = search.build(leaves, hyper, rng)
                builds.append(time.perf_counter() - began)
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
    axis.set_xlabel("seconds")
    axis.set_ylabel("log evidence (search score)")
    axis.legend()
    axis.set_ylim(min(min(v) for v in ends.values()) - 120)
    figure.savefig(out / "diffusion_prior.png", dpi=110)
    return {
        "build_seconds_median": float(np.median(builds)),
        "after_1000_steps": {k: [round(float(np.mean(v)), 1), round(float(np.std(v)), 1)] for k, v in ends.items()},
        "true_tree_score": float(pool.score(pool.pool_of(truth, leaves, hyper))),
    }


def kernel_density(train: np.ndarray, test: np.ndarray) -> float:
    """Gaussian kernels with one bandwidth per column, chosen by leave-one-out likelihood."""
    from scipy.optimize import minimize

    scale = train.std(axis=0)
    z, t = train / scale, test / scale
    n = len(z)

    def scores(points: np.ndarray, h: np.ndarray, leave_out: bool) -> np.ndarray:
        gap = (points[:, None, :] - z[None]) / h
        logs = -0.5 * (gap**2).sum(axis=2) - np.log(h).sum() - 0.5 * z.shape[1] * np.log(2 * np.pi)
        if leave_out:
            np.fill_diagonal(logs, -np.inf)
        return np.logaddexp.reduce(logs, axis=1) - np.log(n - leave_out)

    start = np.full(z.shape[1], np.log(n ** (-1.0 / (z.shape[1] + 4))))
    best = minimize(lambda lh: -scores(z, np.exp(lh), True).mean(), start, method="L-BFGS-B")
    return float((scores(t, np.exp(best.x), False) - np.log(scale).sum()).mean())


def run_skulls(data: Path, out: Path) -> dict:
    """Density estimation, 200 training and 28 test rows in 10 dimensions, five splits; differences are paired."""
    from sklearn.covariance import LedoitWolf

    import dtree

    rows = np.load(data / "howells_skulls_substitute.npz")["X"][:, :10]
    splits = 5
    result: dict[str, list[float]] = {}
    spent: dict[str, float] = {}

    def axes(train: np.ndarray, test: np.ndarray) -> float:
        # an orthogonal change of basis leaves densities comparable and gives kernels the axes they need
        centre, basis = train.mean(axis=0), np.linalg.eigh(np.cov(train.T))[1]
        return kernel_density((train - centre) @ basis, (test - centre) @ basis)

    def scored(make: Callable[[], Any]) -> Callable[[np.ndarray, np.ndarray], float]:
        return lambda train, test: float(make().fit(train).score_samples(test).mean())

    methods: dict[str, Callable[[np.ndarray, np.ndarray], float]] = {
        "diffusion tree": scored(lambda: DiffusionTree(random_state=0)),
        "diffusion tree, best trees only": scored(lambda: DiffusionTree(random_state=0, posterior_sweeps=0)),
        "diffusion tree, columns standardized": scored(lambda: DiffusionTree(random_state=0, scaling="standardize")),
        "diffusion tree, mcmc": scored(lambda: DiffusionTree("mcmc", random_state=0, mcmc_draws=40, mcmc_warmup=40)),
        "BHC": scored(dtree.BHC),
        "variational mixture": scored(lambda: dtree.DPMixtureVB(random_state=0)),
        "kernel density": kernel_density,
        "kernel density, axes": axes,
        "one Gaussian": lambda train, test: float(LedoitWolf().fit(train).score(test)),
    }
    for split in range(splits):
        chosen = np.random.default_rng(split).permutation(len(rows))[:228]
        train, test = rows[chosen[:200]], rows[chosen[200:]]
        for name, score in methods.items():
            began = time.perf_counter()
            result.setdefault(name, []).append(score(train, test))
            spent[name] = spent.get(name, 0.0) + time.perf_counter() - began
    best = max(result, key=lambda name: float(np.mean(result[name])))
    behind = {name: np.subtract(result[best], values) for name, values in result.items()}
    return {
        "mean_log_density": {k: round(float(np.mean(v)), 3) for k, v in result.items()},
        "standard_error": {k: round(float(np.std(v, ddof=1) / np.sqrt(splits)), 3) for k, v in result.items()},
        "best": best,
        "behind_the_best": {k: round(float(v.mean()), 3) for k, v in behind.items()},
        "standard_error_paired": {k: round(float(v.std(ddof=1) / np.sqrt(splits)), 3) for k, v in behind.items()},
        "seconds_per_fit": {k: round(v / splits, 2) for k, v in spent.items()},
    }


def run_genes(data: Path, out: Path) -> dict:
    """Gene expression, 90/10 splits, build + 200 search steps; score per test row and dimension."""
    from sklearn.mixture import BayesianGaussianMixture

    rows = np.load(data / "prostate_yu2004.npz")["X"]
    rows = (rows - rows.mean()) / rows.std()
    scores: dict[str, list[float]] = {"ddt laplace": [], "variational mixture (sklearn, diagonal)": []}
    seconds = []
    for split in range(4):
        order = np.random.default_rng(split).permutation(len(rows))
        cut = int(0.9 * len(rows))
        train, test = rows[order[:cut]], rows[order[cut:]]
        began = time.perf_counter()
        model = DiffusionTree(random_state=0, n_permutations=1, search_steps=200).fit(train)
        seconds.append(time.perf_counter() - began)
        scores["ddt laplace"].append(model.score(test) / rows.shape[1])
        mixture = BayesianGaussianMixture(n_components=30, covariance_type="diag", max_iter=300, random_state=0).fit(
            train
        )
        scores["variational mixture (sklearn, diagonal)"].append(mixture.score(test) / rows.shape[1])
    chain = mcmc.init(model.tree_, model.prepared_.leaves, model.prepared_.hyper)
    rng = np.random.default_rng(0)
    began = time.perf_counter()
    for _ in range(5):
        chain = mcmc.step(chain, rng)
    per_sweep = (time.perf_counter() - began) / 5
    return {
        "rows": len(rows),
        "score_per_row_and_dimension": {k: round(float(np.mean(v)), 4) for k, v in scores.items()},
        "standard_deviation": {k: round(float(np.std(v)), 4) for k, v in scores.items()},
        "fit_seconds": [round(s, 1) for s in seconds],
        "mcmc_seconds_per_sweep": round(per_sweep, 2),
        "mcmc_1000_sweeps_over_fit": round(1000 * per_sweep / float(np.mean(seconds)), 1),
        "converged": model.converged_,
    }


ANIMALS = {
    "land mammals": "Elephant Rhino Horse Cow Camel Giraffe Chimp Gorilla Mouse Squirrel Tiger Lion Cat Dog Wolf Deer",
    "all mammals": "Elephant Rhino Horse Cow Camel Giraffe Chimp Gorilla Mouse Squirrel Tiger Lion Cat Dog Wolf Deer "
    "Seal Dolphin Whale",
    "sea mammals": "Seal Dolphin Whale",
    "birds that fly or walk": "Robin Eagle Chicken Finch Ostrich",
    "all birds": "Robin Eagle Chicken Finch Ostrich Penguin",
    "reptiles": "Iguana Alligator",
    "fish": "Salmon Trout",
    "insects": "Bee Butterfly Ant Cockroach",
}


def run_animals(data: Path, out: Path) -> dict:
    import matplotlib.pyplot as plt
    from scipy.cluster.hierarchy import dendrogram

    from dtree.diffusion.tree import to_linkage, to_newick

    archive = np.load(data / "animals33.npz")
    names = [str(name) for name in archive["row_names"]]
    began = time.perf_counter()
    model = DiffusionTree(likelihood="probit", random_state=0, search_steps=300).fit(archive["X"].astype(float))
    seconds = time.perf_counter() - began
    clades = structure_key(model.tree_)
    clean = {
        kind: frozenset(names.index(name) for name in members.split()) in clades for kind, members in ANIMALS.items()
    }
    figure, axis = plt.subplots(figsize=(7, 8))
    dendrogram(to_linkage(model.tree_), labels=names, orientation="left", ax=axis, color_threshold=0.0)
    axis.set_title("33 animals, 102 binary features, probit diffusion tree")
    axis.set_xlabel("1 - t")
    figure.tight_layout()
    figure.savefig(out / "diffusion_animals.png", dpi=110)
    return {
        "seconds": seconds,
        "log_evidence": model.log_evidence_,
        "converged": model.converged_,
        "sigma2": model.sigma2_,
        "clean_subtrees": clean,
        "newick": to_newick(model.tree_, names),
    }


def run_steps(data: Path, out: Path) -> dict:
    """Milliseconds of processor time per search step as the tree grows (D = 5)."""
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
        tree = search.current_tree(state)
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
    return {"per_size": rows_of}


def run_accuracy(data: Path, out: Path) -> dict:
    """Error of each evidence against quadrature, and how often each ranks the best of all 15 four-leaf structures
    first."""
    from tests.naive import diffusion as naive

    hyper = Hyper(1.0, 1.0)
    errors: dict[str, list[float]] = {}
    first: dict[str, int] = {}
    unconverged: dict[str, int] = {}
    data_sets = 12
    for seed in range(data_sets):
        rng = np.random.default_rng(seed)
        rows, _ = prior.sample_data(4, 3, rng=rng)
        leaves = leaves_from_data(rows)
        table: dict[str, list[float]] = {}
        for structure in naive.structures((0, 1, 2, 3)):
            columns = from_nested(structure, [0.2, 0.4, 0.6])
            exact = naive.log_evidence_given_structure(columns, rows, 1.0, 1.0, 0.0, nodes=32)
            exact += prior.log_structure_prior(columns)
            table.setdefault("exact", []).append(exact)
            fit = laplace.log_evidence_laplace(columns, leaves, hyper)
            corrected, _ = laplace.importance_correction(fit, leaves, hyper, rng, draws=512)
            em, mp = log_evidence_em(columns, leaves, hyper), log_evidence_message_passing(columns, leaves, hyper)
            for name, value, converged in (
                ("laplace", fit.log_evidence, fit.converged),
                ("laplace + 512 draws", corrected, fit.converged),
                ("em", em.log_evidence, em.converged),
                ("message-passing", mp.log_evidence, mp.converged),
            ):
                table.setdefault(name, []).append(value)
                unconverged[name] = unconverged.get(name, 0) + (not converged)
        for name, values in table.items():
            if name != "exact":
                gaps = np.subtract(values, table["exact"])
                errors.setdefault(name, []).extend(gaps[np.isfinite(gaps)])
                first[name] = first.get(name, 0) + int(np.argmax(values) == np.argmax(table["exact"]))
    return {
        "error_mean": {k: round(float(np.mean(v)), 3) for k, v in errors.items()},
        "error_range": {k: [round(float(np.min(v)), 2), round(float(np.max(v)), 2)] for k, v in errors.items()},
        "best_structure_found": {k: f"{v} of {data_sets}" for k, v in first.items()},
        "not_converged": {k: f"{v} of {15 * data_sets}" for k, v in unconverged.items()},
    }


def run_mcmc(data: Path, out: Path) -> dict:
    """Sweeps per second and acceptance of the reference sampler (N = 200, D = 5)."""
    rows, truth = prior.sample_data(200, 5, rng=np.random.default_rng(2))
    chain = mcmc.init(truth, leaves_from_data(rows), Hyper())
    rng = np.random.default_rng(0)
    chain = mcmc.step(chain, rng)
    began = time.perf_counter()
    for _ in range(20):
        chain = mcmc.step(chain, rng)
    return {
        "seconds_per_sweep": (time.perf_counter() - began) / 20,
        "accepted": float(chain.counts[1] / chain.counts[0]),
    }


EXPERIMENTS: dict[str, Callable[[Path, Path], dict]] = {
    "fractal": run_fractal,
    "prior": run_prior,
    "steps": run_steps,
    "animals": run_animals,
    "accuracy": run_accuracy,
    "mcmc": run_mcmc,
    "genes": run_genes,
    "skulls": run_skulls,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with the .npz data sets")
    parser.add_argument("--out", type=Path, default=Path("benchmark-results"), help="folder for figures and numbers")
    parser.add_argument("--only", default=",".join(EXPERIMENTS), help="comma-separated experiments")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    import matplotlib

    matplotlib.use("Agg")
    warm_up()
    results = {}
    for name in arguments.only.split(","):
        began = time.perf_counter()
        results[name] = EXPERIMENTS[name](arguments.data, arguments.out)
        print(f"{name} ({time.perf_counter() - began:.1f} s)", json.dumps(results[name], indent=1), flush=True)
    (arguments.out / "diffusion.json").write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
