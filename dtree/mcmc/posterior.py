"""What draws say as a whole: a table in ArviZ's schema, its summary, and a tree over the leaves."""

import warnings
from typing import Any

import numpy as np

from dtree.core.model import Model
from dtree.core.priors import Prior
from dtree.core.tree import Tree
from dtree.hierarchy.bhc import build_tree
from dtree.hierarchy.incremental_forest import incremental_tree
from dtree.mcmc.hyperparameters import from_parameter_vector
from dtree.mcmc.run import Draws

_MOST_EXACT_LEAVES = 5_000  # larger trees are grown by insertion: the exact ones take time quadratic in the leaves


def stack_chains(chains: list[list[Draws]]) -> Draws:
    """The blocks of every chain joined, chains as a new first axis; labels in the smallest type that holds them all."""
    joined = [[np.concatenate(values) for values in zip(*blocks)] for blocks in chains]
    return Draws(*(np.stack(values) for values in zip(*joined)))


def as_datatree(prior: Prior, draws: Draws) -> Any:
    """An xarray DataTree in ArviZ's schema: n_clusters, log_joint and the prior's parameters by chain and draw."""
    from arviz_base import from_dict

    arrays = {"n_clusters": draws.n_clusters, "log_joint": draws.log_joint}
    for column, name in enumerate(prior.parameters()):
        values = np.ascontiguousarray(draws.prior[:, :, column])
        if not np.all(np.isnan(values)):
            arrays[name] = values
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Found chain dimension to be longer")  # few draws are no mistake
        return from_dict({"posterior": arrays})


def with_checksums(posterior: Any) -> dict[str, Any]:
    """How xarray is to write a DataTree into zarr: every chunk ends with a checksum, as in the rest of a run."""
    from zarr.codecs import Crc32cCodec, ZstdCodec

    codecs = {"compressors": (ZstdCodec(), Crc32cCodec())}
    return {f"/{name}": {str(array): codecs for array in node.variables} for name, node in posterior.children.items()}


def summary_of(posterior: Any) -> Any:
    """Mean, deviation, R-hat and effective sample sizes of the scalar draws, by arviz_stats."""
    from arviz_stats import summary

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)  # chains that never moved have no R-hat; NaN says so
        return summary(posterior, round_to="none")


def tree_at_medians(model: Model, atoms: np.ndarray, priors: np.ndarray) -> Tree:
    """A tree over atoms (m, s) at the medians of drawn prior vectors (draws, p): exact BHC where that is quick."""
    middle = from_parameter_vector(model.prior, np.median(priors, axis=0))
    grow = build_tree if atoms.shape[0] <= _MOST_EXACT_LEAVES else incremental_tree
    return grow(Model(model.family, middle, model.coarsening), atoms)
