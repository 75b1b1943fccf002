"""`dtree fit`: clusters and the tree above them, exactly over single rows or in passes over any number of them."""

from typing import Any

from dtree.cli.cluster import Cluster
from dtree.cli.command import fitting_command
from dtree.methods.settings import Option

LARGEST_EXACT = 10_000  # rows up to which the exact tree over single rows takes seconds
METHOD = Option(
    "method", str, True, None, "auto, exact, randomized or bayes-kmeans; the last two in passes when rows are many.",
    None, None, "", (),
)  # fmt: skip
METHODS = {"exact": "bhc", "randomized": "bhc", "bayes-kmeans": "bayes-kmeans-bhc"}


def choose(source: Any, given: dict[str, Any], cluster: Cluster) -> str:
    """The method of a fit: as asked for, or by the number of rows and whether workers were asked for."""
    wanted = given.pop("method", "auto")
    if wanted not in ("auto", *METHODS):
        raise ValueError(f"unknown method {wanted!r}: choose one of auto, {', '.join(METHODS)}")
    many = cluster.wanted or source.shape[0] > LARGEST_EXACT
    if wanted == "exact" and cluster.wanted:
        raise ValueError("--method exact runs in one process: leave out the options about workers")
    if wanted == "randomized" and many:
        return "randomized"
    if wanted == "bayes-kmeans" or (wanted == "auto" and many):
        if given.pop("optimize", False):
            raise ValueError(
                "a fit in passes does not take --optimize: it chooses the hyperparameters by the evidence of a sample; "
                f"to learn all of them, fit at most {LARGEST_EXACT:,} of the rows with --method exact --optimize"
            )
        return METHODS["bayes-kmeans"]
    given["method"] = "exact" if wanted == "auto" else wanted
    return "bhc"


command = fitting_command(
    ["bhc", "bayes-kmeans-bhc", "randomized"],
    """Fit a tree to a data file and write it as a run.

    Few rows get the exact tree over single rows in this process. Many rows (or any options about workers) are worked on
    in passes: Bayes K-means over the file, then the exact tree over its clusters. A stopped run can be resumed.

    Example: `dtree fit dtree-demo.csv --labels-column kind --out creatures.zarr` (`dtree demo` makes that file)
    """,
    choose,
    [METHOD],
)
