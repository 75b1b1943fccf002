"""What is said of fitted diffusion trees: evidence, hyperparameters, clusters, and the tree as it is drawn."""

import numpy as np

from dtree.core.families.profile import Profile
from dtree.core.shape import Shape
from dtree.diffusion.predictive import path_counts
from dtree.diffusion.tree import Columns, canonical
from dtree.methods.diffusion_fitted import Fitted
from dtree.methods.facts import Facts, counted


def facts_of(fitted: Fitted) -> Facts:
    """The facts of fitted diffusion trees."""
    prepared, posterior, tree = fitted.prepared, fitted.posterior, fitted.tree
    m, rows = tree.n_leaves, prepared.rows
    if fitted.inference == "mcmc":
        name, value = "highest log joint density", float(posterior.log_joint.max()) - prepared.log_volume
    else:
        name, value = "log evidence of the best tree", float(fitted.log_evidences[0])
    lines = {
        "leaves": f"{m:,}",
        "trees": f"{len(posterior.best)} best, density over {len(posterior.averaged)}",
        "sigma2": f"{fitted.sigma2:.4g}",
        "c": f"{fitted.c:.4g}",
    }
    if fitted.is_probit:
        lines["start of paths"] = f"{prepared.affine.offset[0]:.4g}"
    else:
        units = "each column" if prepared.affine.by_column else "principal axes"
        lines["noise"] = f"{np.average(prepared.noise, weights=rows):.4g} of sigma2, scaled by {units}"
    bad = [fit.message for fit in posterior.best if not fit.converged]
    remark = "A diffusion tree has no clusters of its own; they are its branches below a cut in time."
    if m < prepared.leaf_of_row.shape[0]:
        remark += " A leaf may be a summary of several rows."
    evidence, kept = {}, {}
    if fitted.inference != "mcmc":
        evidence[name] = value
        if len(posterior.weights) == len(fitted.log_evidences):
            import pandas

            columns = {"log evidence": fitted.log_evidences, "weight": posterior.weights}
            kept["Kept trees"] = pandas.DataFrame(columns).rename_axis("tree")
    return Facts(
        title=f"Dirichlet diffusion tree ({fitted.inference})",
        n_clusters=fitted.n_clusters,
        headline=f"{counted(fitted.n_clusters, 'cluster')} at the cut of a tree with {counted(m, 'leaf')}, "
        f"{name} {value:.6g} ({fitted.inference})",
        shape=lambda: _shape(tree, prepared.rows),
        leaf_clusters=fitted.node_labels[:m],
        row_leaf=prepared.leaf_of_row,
        lines=lines,
        warnings=(f"not converged on {len(bad)} of {len(posterior.best)} trees: {bad[0]}",) if bad else (),
        remark=remark,
        tree=tree,
        profile=_profile(fitted),
        evidence=evidence,
        traces={"log joint": ("draw", list(posterior.log_joint))} if posterior.log_joint.size else {},
        tables=kept,
    )


def _profile(fitted: Fitted) -> Profile:
    """Where the leaves are believed to be: latent units for binary rows, whatever was missing filled in."""
    rows = fitted.prepared.rows
    means = fitted.node_locations()[0][: fitted.tree.n_leaves, fitted.columns]
    centre = rows @ means / rows.sum()
    spread = np.sqrt(rows @ (means - centre) ** 2 / rows.sum())
    spread = np.where(spread > 1e-12, spread, 1.0)  # a column in which the leaves do not differ has no unit
    return Profile("standard", (means - centre) / spread * rows[:, None], rows, centre, spread)


def _shape(tree: Columns, rows: np.ndarray) -> Shape:
    """The tree with forks at the time that was left when they parted, and `rows` (m,) behind each leaf."""
    tree = canonical(tree)
    m = tree.n_leaves
    left, right = (tree.child[m:, side].astype(np.int64) for side in (0, 1))
    size = path_counts(tree, np.rint(rows)).astype(np.int64)
    return Shape(left, right, size, tree.rest[m:].copy(), "time")
