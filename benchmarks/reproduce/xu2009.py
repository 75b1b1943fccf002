"""Xu, Heller & Ghahramani, Tree-based inference for Dirichlet process mixtures, AISTATS 2009."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np

import dtree
from benchmarks.measure import load, seconds
from benchmarks.reproduce.record import (
    REPRODUCED,
    Experiment,
    Paper,
    Row,
    Sample,
    Setting,
    number_verdict,
    threshold_verdict,
    wins_verdict,
)
from dtree.core.tree import Tree
from dtree.hierarchy.bhc import build_tree
from dtree.hierarchy.defaults import choose_model
from dtree.hierarchy.statistics import node_statistics
from dtree.kmeans.greedy import sequential_kmeans

# Columns and largest number of rows of the paper's real data.
REAL = {"iris": (slice(None), 150), "abalone": (slice(0, 5), 600), "wine": (slice(0, 6), 120)}
VARIATIONAL = ("TSB", "O-TSB", "CTSB", "O-CTSB")  # bounds on the same evidence; FSD's and CFSD's model is another


def real_rows(setting: Setting, name: str) -> np.ndarray:
    """The rows of a real set, in a fixed random order, as many as the paper had."""
    columns, largest = REAL[name]
    X = load(setting.data, name)["X"].astype(np.float64)[:, columns]
    return X[np.random.default_rng(1).permutation(len(X))[:largest]]


def increments(model: Any) -> np.ndarray:
    """What the relocations at each merge (m-1,) add to the bound, relative to it."""
    tree: Tree = model.tree_
    m, statistics = tree.n_leaves, node_statistics(tree, model.atoms_)
    above = np.zeros(2 * m - 1)  # log phi_t of everything that hangs off the path to the root
    for i in range(m - 2, -1, -1):
        a, b = tree.left[i], tree.right[i]
        above[a], above[b] = above[m + i] + tree.log_phi_t[b], above[m + i] + tree.log_phi_t[a]
    added = np.zeros(m - 1)
    for i in range(m - 1):
        inner, other = (tree.left[i], tree.right[i]) if tree.left[i] >= m else (tree.right[i], tree.left[i])
        if inner < m:
            continue
        pair = (int(tree.left[inner - m]), int(tree.right[inner - m]))
        for moved, stays in (pair, pair[::-1]):
            joined = model.model_.log_phi_h((statistics[moved] + statistics[other])[None])[0]
            added[i] += np.exp(joined + tree.log_phi_t[stays] + above[m + i] - tree.log_phi_t[-1])
    return added


def figure_2(setting: Setting) -> tuple[list[Row], str | None]:
    """Nine points in three equidistant groups of three: where relocations add most."""
    corner = np.array([[np.cos(a), np.sin(a)] for a in 2 * np.pi * np.arange(3) / 3])
    X = np.vstack([4.0 * group + corner for group in corner])
    model = dtree.BHC(dtree.Gaussian([0.0, 0.0], 0.1, 8.0, np.eye(2)), dtree.DirichletProcess(1.0)).fit(X)
    added = increments(model)
    bounds = dtree.evidence_bounds(model)
    whole = float(np.exp(bounds["alternative"] - bounds["bhc"]) - 1.0)
    order = [9 + int(i) for i in np.argsort(-added)]
    top = 9 + added.size  # the paper numbers nodes from 1: its root is 17
    note = "nodes numbered from 1 as in the paper; those that join or lie beside equidistant points"
    raised = [node + 1 for node in order if added[node - 9] > 0.05 * added.max()]
    verdict = threshold_verdict(len({13, 14, 15, 17} & set(raised)), 3)
    rows = [
        Row("nodes with raised increments", "13, 14, 15 and 17", ", ".join(map(str, sorted(raised))), verdict, note),
        Row("increments together", "the new bound is higher", f"{100 * whole:.1f}% of the BHC bound's mass", REPRODUCED if whole > 0 else "differs", f"sum over nodes {100 * added.sum():.1f}%"),
    ]  # fmt: skip
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
    axes[0].scatter(*X.T)
    axes[0].set(title="nine points", aspect="equal")
    axes[1].bar(np.arange(10, top + 1), added)
    axes[1].set(title="increment of the bound at each inner node", xlabel="node", ylabel="relative to BHC's")
    figure.savefig(setting.pictures / "xu2009-figure-2.png", dpi=130)
    plt.close(figure)
    return rows, "xu2009-figure-2.png"


def figures_5_and_6(setting: Setting) -> tuple[list[Row], str | None]:
    """BHC's bound and predictive density beside the variational ones."""
    from benchmarks.evidence_comparison import draw, panels

    found = panels(setting.data, setting.pick(2, 10), setting.quick)
    rows = []
    for name, (sizes, results) in found.items():
        best = {v: [float(bounds["bhc"][0] - bounds[v].mean()) for bounds, _ in results] for v in VARIATIONAL}
        nearest = min(best, key=lambda v: float(np.mean(best[v])))
        gaps = " ".join(f"{float(b['exact'][0] - b['bhc'][0]):.2f}" for b, _ in results if "exact" in b)
        text = f"BHC above {nearest} by {Sample.of(best[nearest]).mean:.2f} nats (mean over {len(sizes)} sizes)"
        text += f"; exact less BHC: {gaps}" if gaps else ""
        claim = "BHC is nearer the exact evidence" if gaps else "BHC's bound is higher"
        rows.append(Row(f"Figure 5, {name}", claim, text, wins_verdict(best[nearest])))
        scores = {v: [float((s["bhc"] - s[v]).mean()) for _, s in results] for v in VARIATIONAL}
        rival = min(scores, key=lambda v: float(np.mean(scores[v])))
        ahead = Sample.of(scores[rival])
        text = f"BHC less {rival}: {ahead.text()} nats a point"
        rows.append(Row(f"Figure 6, {name}", "BHC predicts better", text, wins_verdict(scores[rival]), "the best variational method by its mean is the rival"))  # fmt: skip
    draw(setting.pictures, found)
    return rows, "evidence_bounds.png evidence_heldout.png"


def figure_7(setting: Setting) -> tuple[list[Row], str | None]:
    """What the alternative trees add to the bound: small sets, real sets, binary sets."""
    rows = []
    random = np.random.default_rng(0)
    family, prior = dtree.Gaussian([5.0, 5.0], 0.1, 8.0, np.eye(2)), dtree.DirichletProcess(1.0)
    for name, centres in (("Set I", [[2, 2], [8, 8]]), ("Set II", [[5, 5], [7, 5]]), ("Set III", [[5, 5]])):
        gaps: dict[int, list[float]] = {3: [], 9: []}
        closer = []
        for _ in range(setting.pick(5, 30)):
            for n in gaps:
                at = np.array(centres, dtype=float)[np.arange(n) % len(centres)]
                X = at + np.sqrt(0.5) * random.normal(size=(n, 2))
                bounds, exact = dtree.evidence_bounds(X, family, prior), dtree.exact_log_evidence(X, family, prior)
                gaps[n].append(exact - bounds["alternative"])
                closer.append(bounds["alternative"] - bounds["bhc"])
        largest = float(np.max(np.abs(gaps[3])))
        rows.append(Row(f"{name}, 3 points: exact less new bound", "0", f"{largest:.1e} at most", threshold_verdict(-largest, -1e-8), "threshold 1e-8"))  # fmt: skip
        text = f"above the old by {np.mean(closer):.3f} nats; below the exact by {np.mean(gaps[9]):.3f} at 9 points"
        rows.append(Row(f"{name}: new bound", "closer to the exact evidence", text, wins_verdict(closer)))
    for name in REAL:
        gain = _gain(dtree.BHC().fit(real_rows(setting, name)))
        rows.append(Row(f"{name}: new bound less old", "an improvement", f"{gain:.3f} nats", wins_verdict([gain])))
    for name, X, size in _binary(setting):
        gains = []
        for draw in range(setting.pick(1, 5)):
            for n in (size // 2, size):
                some = np.random.default_rng([draw, n]).choice(len(X), n, replace=False)
                gains.append(_gain(dtree.BHC("bernoulli").fit(X[some])))
        text = f"{Sample.of(gains).text(2)} nats, from {min(gains):.2f} to {max(gains):.2f}"
        verdict = number_verdict(Sample.of(gains), 0.6, 0.1)
        rows.append(Row(f"{name}: new bound less old", "0.4 to 0.8 nats", text, verdict, f"taken as 0.6 ± 0.1; {len(gains)} draws, {size // 2} or {size} rows; ours relocates at every node, the paper from one close to the root"))  # fmt: skip
    return rows, None


def _gain(model: Any) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the bounds that ran out of budget are not used here
        bounds = dtree.evidence_bounds(model, budget=1)
    return bounds["alternative"] - bounds["bhc"]


def _binary(setting: Setting) -> list[tuple[str, np.ndarray, int]]:
    """Digits, posts with the 500 words most telling of their group, and mails, all as zeros and ones, and the paper's
    rows."""
    digits, spam, news = (load(setting.data, name) for name in ("digits", "spambase", "newsgroups4"))
    has = np.asarray((news["X"].toarray() > 0), dtype=float)
    share = np.array([has[news["y"] == k].mean(axis=0) for k in np.unique(news["y"])])
    telling = np.argsort(-share.var(axis=0) / np.maximum(share.mean(axis=0), 1e-9))[:500]
    return [
        ("digits, 64 attributes", (digits["X"] > 7).astype(float), 300),
        ("newsgroups, 500 attributes", has[:, telling], 300),
        ("spambase, 57 attributes", (spam["X"] > 0).astype(float), 200),
    ]


def figure_8(setting: Setting) -> tuple[list[Row], str | None]:
    """Bayes K-means BHC as printed beside BHC: evidence, clusters, time, with full covariances and with independent
    features."""
    rows = []
    clusters = {"iris": 4, "abalone": 31, "wine": 5}
    for kind, words in (("gaussian", "full covariance"), ("gaussian-diag", "independent features")):
        for name in REAL:
            X = real_rows(setting, name)
            race = _race(X, kind, setting.pick(5, 20))
            n, gap, counts = len(X), Sample.of(race.gaps), Sample.of(race.clusters)
            verdict = threshold_verdict(gap.mean, -0.1) if gap.mean < 0 else REPRODUCED
            rows.append(Row(f"{name}, {words}, {n} rows: log evidence a row", "close to BHC's", f"BHC {race.bound / n:.3f}; less BHC: Bayes K-means BHC as printed {gap.text()}, with dtree's further passes {Sample.of(race.gaps_after_passes).text()}", verdict, "as printed is judged; threshold -0.1 nats a row"))  # fmt: skip
            rows.append(Row(f"{name}, {words}: clusters of Bayes K-means", str(clusters[name]), f"{counts.text(1)}, from {min(race.clusters)} to {max(race.clusters)}", number_verdict(counts, clusters[name]), "the paper says neither which covariances nor which prior; ours is chosen by the evidence"))  # fmt: skip
        whole = load(setting.data, "abalone")["X"].astype(np.float64)[:, REAL["abalone"][0]]
        for X in (real_rows(setting, "abalone"), whole):
            race = _race(X, kind, setting.pick(5, 20))
            text = f"{race.seconds[0] / race.seconds[1]:.0f}-fold ({1e3 * race.seconds[0]:.0f} ms against {1e3 * race.seconds[1]:.1f} ms)"
            verdict = threshold_verdict(race.seconds[0] / race.seconds[1], 30.0) if len(X) == 600 else ""
            rows.append(Row(f"abalone, {words}, {len(X):,} rows: speed-up", "about 30-fold" if verdict else "", text, verdict, "threshold 30-fold" if verdict else "all rows, for comparison"))  # fmt: skip
    return rows, None


class Race(NamedTuple):
    """BHC beside Bayes K-means BHC: BHC's bound, what the other's is above it a row (as printed, as dtree does it),
    clusters, seconds."""

    bound: float
    gaps: list[float]
    gaps_after_passes: list[float]
    clusters: list[int]
    seconds: tuple[float, float]


def _race(X: np.ndarray, kind: str, repeats: int) -> Race:
    """Bayes K-means exactly as section 5 has it, then BHC over its clusters, in orders of rows of their own."""
    model = choose_model(X, kind)
    atoms, orders = model.atoms(X), [np.random.default_rng(seed).permutation(len(X)) for seed in range(repeats)]

    def quick(order: np.ndarray) -> Tree:
        return build_tree(model, sequential_kmeans(model, atoms, order).statistics)

    quick(orders[0])  # compiles
    exact = build_tree(model, atoms)
    took = seconds(lambda: build_tree(model, atoms), 3)[0]
    timed = [seconds(lambda order=order: quick(order), 3) for order in orders]
    gaps = [float(tree.log_phi_t[-1] - exact.log_phi_t[-1]) / len(X) for _, tree in timed]
    bound = model.prior.log_normaliser(len(X)) + float(exact.log_phi_t[-1])
    passes = [dtree.BayesKMeansBHC(model.family, model.prior, random_state=k).fit(X) for k in range(repeats)]
    further = [(found.log_evidence_bound_ - bound) / len(X) for found in passes]
    return Race(
        bound, gaps, further, [tree.n_leaves for _, tree in timed], (took, float(np.median([t for t, _ in timed])))
    )


PAPER = Paper(
    "xu2009",
    "Xu, Heller & Ghahramani, Tree-based inference for Dirichlet process mixtures, AISTATS 2009",
    [
        Experiment("figure-2", "Figure 2", "alternative trees show where the clustering is uncertain", figure_2),
        Experiment("figures-5-6", "Figures 5 and 6", "BHC's bounds are tighter and it predicts better than variational methods", figures_5_and_6),
        Experiment("figure-7", "Figure 7", "alternative trees tighten the bound, and make it exact at three points", figure_7),
        Experiment("figure-8", "Figure 8", "Bayes K-means BHC is faster and nearly as good", figure_8),
    ],
    [
        ("Figures 1, 3 and 4", "a drawing and two algorithms: nothing measured; Figure 4's loop must include the root, see dtree.guide.algorithms"),
        ("The very points and hyperparameters", "not printed: sets I to III are drawn anew, rows of real data are our own draw; the paper's wine has 4 classes, UCI's has 3"),
        ("Times in Figure 8", "only the 30-fold speed-up is in the text"),
    ],
    remark="The paper says neither whether a cluster of iris, abalone or wine has a full covariance matrix or independent features, nor with "
    "which prior, so both are shown, with priors chosen by the evidence. Independent features come nearer to its numbers of clusters, and "
    "with them BHC's bound is ahead everywhere. With full matrices abalone needs few clusters that overlap, and BHC's greedy tree is "
    "caught: methods whose rows can move find a higher bound at 600 rows and predict better.",
)  # fmt: skip
