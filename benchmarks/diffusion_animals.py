"""33 animals, 102 binary features: the tree, the purity of each group, what clean groups would cost in evidence, and
what exact sampling says of it all."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import dtree
from benchmarks.diffusion_exact import clade_probabilities, corrected_evidence
from dtree.diffusion.prepare import Prepared
from dtree.diffusion.probit import ProbitFit, log_evidence_probit
from dtree.diffusion.tree import Columns, from_nested, structure_key, to_nested

GROUPS = {
    "land mammals": "Elephant Rhino Horse Cow Camel Giraffe Chimp Gorilla Mouse Squirrel Tiger Lion Cat Dog Wolf Deer",
    "sea mammals": "Seal Dolphin Whale",
    "mammals": "Elephant Rhino Horse Cow Camel Giraffe Chimp Gorilla Mouse Squirrel Tiger Lion Cat Dog Wolf Deer Seal "
    "Dolphin Whale",
    "birds": "Robin Eagle Chicken Finch Ostrich Penguin",
    "birds but the penguin": "Robin Eagle Chicken Finch Ostrich",
    "reptiles": "Iguana Alligator",
    "insects": "Bee Butterfly Ant Cockroach",
    "fish": "Salmon Trout",
}
CLASSES = ("mammals", "birds", "reptiles", "fish", "insects")


def group_purity(tree: Columns, members: frozenset[int]) -> float:
    """Mean over pairs of the group of its share in the smallest subtree that holds both."""
    clades = sorted(structure_key(tree), key=len)
    pairs = [(a, b) for a in members for b in members if a < b]
    shares = [next(len(c & members) / len(c) for c in clades if a in c and b in c) for a, b in pairs]
    return float(np.mean(shares))


def restricted(nested: Any, members: frozenset[int]) -> Any:
    """The structure that a tree gives to some of its leaves; None when it holds none of them."""
    if not isinstance(nested, list):
        return nested if nested in members else None
    left, right = (restricted(side, members) for side in nested)
    return right if left is None else left if right is None else [left, right]


def joins(parts: Sequence[Any], last: Any) -> Iterator[Any]:
    """All structures that join the parts, each whole, with `last` outermost: 15 for four parts."""
    marked: list[Any] = [("part", parts[0])]
    for part in parts[1:]:
        marked = [tree for old in marked for tree in _with(old, ("part", part))]
    return ([_plain(tree), last] for tree in marked)


def _with(tree: Any, part: Any) -> Iterator[Any]:
    yield [tree, part]
    if isinstance(tree, list):
        yield from ([left, tree[1]] for left in _with(tree[0], part))
        yield from ([tree[0], right] for right in _with(tree[1], part))


def _plain(tree: Any) -> Any:
    return [_plain(side) for side in tree] if isinstance(tree, list) else tree[1]


def with_first_times(structure: Any) -> Columns:
    """A tree of a structure whose times grow with depth: where the optimiser starts."""
    times: list[float] = []

    def walk(nested: Any, rest: float) -> None:
        if isinstance(nested, list):
            times.append(1.0 - rest)
            for side in nested:
                walk(side, 0.75 * rest)

    walk(structure, 0.9)
    return from_nested(structure, times)


def run_animals(data: Path, out: Path, *, exact: bool = False) -> dict:
    """Fit, draw, and compare with the ways to join clean classes at the same hyperparameters; `exact` (five minutes
    more) does the comparison and the tree's groups over again without approximation."""
    archive = np.load(data / "animals33.npz")
    rows, names = archive["X"].astype(float), [str(name) for name in archive["row_names"]]
    members = {kind: frozenset(names.index(name) for name in text.split()) for kind, text in GROUPS.items()}
    began = time.perf_counter()
    model = dtree.DiffusionTree(likelihood="probit", random_state=0).fit(rows)
    seconds = time.perf_counter() - began
    _tell(f"fitted in {seconds:.1f} s")
    _draw(model, names, out)
    prepared = model.prepared_

    def fitted(structure: Any) -> ProbitFit:
        tree, bits = with_first_times(structure), prepared.bits
        return log_evidence_probit(tree, bits.signs, prepared.hyper, start=bits.start, sites=prepared.leaves)

    found = to_nested(model.tree_)
    whole = {kind: restricted(found, members[kind]) for kind in CLASSES}
    insects = whole.pop("insects")
    clean = [fitted(structure) for structure in joins(list(whole.values()), insects)]
    best_clean = max(clean, key=lambda fit: fit.evidence.log_evidence)
    _tell("joined clean classes")
    at_zero = dtree.DiffusionTree(likelihood="probit", random_state=0, start=0.0).fit(rows)
    _tell("fitted with the start at 0")
    subtrees = structure_key(model.tree_)
    result = {
        "seconds": round(seconds, 1),
        "converged": model.converged_,
        "log_evidence": round(model.log_evidence_, 2),
        "log_evidence_with_start_at_zero": round(at_zero.log_evidence_, 2),
        "sigma2, c, start": [round(float(v), 2) for v in (model.sigma2_, model.c_, prepared.bits.start)],
        "best_with_all_five_classes_clean": round(best_clean.evidence.log_evidence, 2),
        "ways_to_join_them": len(clean),
        "clean": {kind: leaves in subtrees for kind, leaves in members.items()},
        "purity": {kind: round(group_purity(model.tree_, leaves), 3) for kind, leaves in members.items()},
        "newick": model.tree_.to_newick(names),
    }
    return result | _without_approximation(fitted(found), best_clean, prepared, members) if exact else result


def _without_approximation(
    found: ProbitFit, clean: ProbitFit, prepared: Prepared, members: dict[str, frozenset[int]]
) -> dict:
    """Evidences of two structures by importance sampling, and the probabilities of groups by sampling trees."""
    evidences = {}
    for name, fit in (("found", found), ("clean", clean)):
        corrected = corrected_evidence(fit, prepared.signs, prepared.hyper, np.random.default_rng(0))
        evidences[name] = {key: round(value, 2) for key, value in corrected._asdict().items()}
        _tell(f"evidence of the {name} tree: {evidences[name]}")
    water = members["sea mammals"] | (members["birds"] - members["birds but the penguin"])
    others = {"sea mammals and penguin": water, "sea mammals, penguin and fish": water | members["fish"]}
    probabilities, numbers = clade_probabilities(prepared.signs, members | others, tell=_tell)
    return {
        "evidence_by_importance_sampling": evidences,
        "posterior_probability_of_a_subtree_and_its_error": probabilities,
        "posterior_mean_of_sigma2, c, start": [round(float(v), 2) for v in numbers],
    }


def _tell(line: str) -> None:
    print(f"animals: {line}", file=sys.stderr, flush=True)


def _draw(model: dtree.DiffusionTree, names: list[str], out: Path) -> None:
    import matplotlib.pyplot as plt
    from scipy.cluster.hierarchy import dendrogram

    figure, axis = plt.subplots(figsize=(7, 7), layout="constrained")
    dendrogram(model.linkage_, labels=names, orientation="left", ax=axis, color_threshold=0.5)
    axis.set_title("33 animals, 102 binary features, probit diffusion tree")
    axis.set_xlabel("1 - t")
    figure.savefig(out / "diffusion_animals.png", dpi=90)
