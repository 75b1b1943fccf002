"""`dtree fit`: clusters of any table, and the tree above them; other methods that give a tree are a word away."""

from typing import Any

from dtree.cli.cluster import Cluster
from dtree.cli.command import fitting_command
from dtree.methods import method_named
from dtree.methods.settings import Option, options_of

LARGEST_EXACT = 10_000  # rows up to which the exact tree over single rows takes seconds
METHOD = Option(
    "method", str, True, "tree", "tree (any size, any table), exact (a tree over single rows), approximate (the same "
    "for up to millions of rows), randomized, or bayes-kmeans (in passes, with a tree over its clusters).",
    None, None, "", (),
)  # fmt: skip
METHODS = {"tree": "tree-clustering", **dict.fromkeys(("exact", "approximate", "randomized"), "bhc")}
METHODS["bayes-kmeans"] = "bayes-kmeans-bhc"


def choose(source: Any, given: dict[str, Any], cluster: Cluster) -> str:
    """The method of a fit: as asked for; a randomized tree of many rows, or with workers, is one in passes."""
    wanted = given.pop("method", "tree")
    if wanted not in METHODS:
        raise ValueError(f"unknown method {wanted!r}: choose one of {', '.join(METHODS)}")
    if wanted == "tree":
        _refuse_others(given)
        return METHODS["tree"]
    if wanted in ("exact", "approximate") and cluster.wanted:
        raise ValueError(f"--method {wanted} runs in one process: leave out the options about workers")
    if wanted == "randomized" and (cluster.wanted or source.shape[0] > LARGEST_EXACT):
        return "randomized"
    if wanted == "bayes-kmeans":
        if given.pop("optimize", False):
            raise ValueError(
                "a fit in passes does not take --optimize: it chooses the hyperparameters by the evidence of a sample; "
                f"to learn all of them, fit at most {LARGEST_EXACT:,} of the rows with --method exact --optimize"
            )
        return METHODS["bayes-kmeans"]
    given["method"] = wanted
    return "bhc"


def _refuse_others(given: dict[str, Any]) -> None:
    """One sentence about an option that only other methods have, and which."""
    for name in given:
        known = [
            word for word, method in METHODS.items()
            if name in {option.name for option in options_of(method_named(method).Settings)}
        ]  # fmt: skip
        if "tree" not in known:
            words = " or ".join(f"--method {word}" for word in known if word != "randomized")
            raise ValueError(
                f"--{name.replace('_', '-')} is not an option of --method tree, the default: leave it out, or give "
                f"{words or '--method randomized'} too"
            )


command = fitting_command(
    ["tree-clustering", "bhc", "bayes-kmeans-bhc", "randomized"],
    """Find the clusters of a data file and the tree above them, and write them as a run.

    Nothing needs to be set. Components are fitted by evidence, those without a valley of the density between them are
    joined, and `dtree levels` shows other cuts of the same tree. Many rows (or any options about workers) are worked on
    in passes, and a stopped run can be resumed.

    Example: `dtree fit dtree-demo.csv --labels-column kind --out creatures.zarr` (`dtree demo` makes that file)
    """,
    choose,
    [METHOD],
)
