"""The records of chains over partitions: what they sample, where each stands, and what they found."""

from typing import Any, NamedTuple

import msgspec
import numpy as np

from dtree.core.model import Model
from dtree.core.priors import Prior
from dtree.mcmc.hyperparameters import parameter_vector
from dtree.mcmc.run import Checkpoint, Draws, sampler_named
from dtree.methods.facts import counted
from dtree.methods.fitted_checks import check_columns, check_statistics


class Prepared(msgspec.Struct, frozen=True):
    """What the chains sample."""

    columns: np.ndarray  # (d',) the columns that the model uses
    fingerprint: str
    model: Model
    atoms: np.ndarray  # (m, s) statistics of the leaves
    leaves: np.ndarray  # (n,) the leaf of each row, -1 for a row of weight 0


class Part(msgspec.Struct, frozen=True):
    """Where a chain stands after a block, and what it drew in it."""

    number: int  # blocks done
    checkpoint: Checkpoint
    kept: Draws
    seconds: float  # since the chain began


class Fitted(msgspec.Struct, frozen=True):
    """All draws of all chains, and the partition nearest to them."""

    columns: np.ndarray
    model: Model  # that the chains started from
    sampler: str
    atoms: np.ndarray  # (m, s)
    draws: Draws  # chains stacked: labels (chains, draws, m), prior (chains, draws, p), others (chains, draws)
    stops: list[Checkpoint]  # where each chain stopped
    leaf_clusters: np.ndarray  # (m,) the point estimate
    warmup: int

    @property
    def partitions(self) -> np.ndarray:
        """The partitions (draws, m) of all chains, one chain after the other."""
        return self.draws.labels.reshape(-1, self.atoms.shape[0])

    @property
    def priors(self) -> np.ndarray:
        """The vectors of the prior's parameters (draws, p) of all chains."""
        return self.draws.prior.reshape(-1, self.draws.prior.shape[2])


class ChainStatus(NamedTuple):
    """Where a chain stands after a block, and the numbers it drew in it."""

    chain: int
    block: int
    sweep: int
    n_clusters: np.ndarray  # (draws of the block,)
    log_joint: np.ndarray  # (draws of the block,)
    now_clusters: int  # at the last sweep, also during warm-up
    now_log_joint: float

    def line(self) -> str:
        """Where the chain stands, for a log."""
        clusters = counted(self.now_clusters, "cluster")
        return f"chain {self.chain}: sweep {self.sweep}, {clusters}, log joint {self.now_log_joint:.1f}"


def status_of(chain: int, part: Part) -> ChainStatus:
    """What there is to tell of a chain after a block."""
    point = part.checkpoint
    now = int(point["state_labels"].max()) + 1, float(point["state_log_joint"])
    return ChainStatus(chain, part.number - 1, int(point["sweep"]), part.kept.n_clusters, part.kept.log_joint, *now)


def check_fitted(fitted: Fitted, header: Any) -> None:
    """ValueError unless the pieces of a fitted record, read from somewhere, fit together."""
    model, draws = fitted.model, fitted.draws
    check_statistics(model, fitted.atoms, "of its leaves")
    m = fitted.atoms.shape[0]
    labels = draws.labels
    if labels.ndim != 3 or labels.shape[2] != m or 0 in labels.shape:
        raise ValueError("its partitions are not labels by chain, draw and leaf")
    check_draws(draws, m, model.prior)
    best = fitted.leaf_clusters
    check_columns(model, fitted.columns, header)
    if best.shape != (m,) or not _are_labels(best, m) or np.unique(best).shape[0] != best.max() + 1:
        raise ValueError("its point estimate is not one cluster per leaf, numbered 0, 1, 2, ...")
    if len(fitted.stops) != labels.shape[0]:
        raise ValueError("its chains have not each a checkpoint")
    sampler_named(fitted.sampler)
    for chain, checkpoint in enumerate(fitted.stops):
        check_checkpoint(chain, checkpoint, fitted.sampler, m, model.prior)


def _are_labels(values: np.ndarray, below: int) -> bool:
    return values.dtype.kind in "iu" and bool(values.min(initial=0) >= 0 and values.max(initial=0) < below)


def _are_parameters(values: np.ndarray, shape: tuple[int, ...], prior: Prior) -> bool:
    """Whether these are parameters of the prior, NaN where it leaves one open."""
    like = parameter_vector(prior)
    if values.shape != (*shape, *like.shape) or values.dtype.kind != "f":
        return False
    return bool(np.array_equal(np.isnan(values), np.broadcast_to(np.isnan(like), values.shape)))


def check_draws(draws: Draws, m: int, prior: Prior) -> None:
    """ValueError unless these are draws of partitions of m leaves and of the parameters of the prior."""
    labels = draws.labels
    if labels.ndim < 2 or labels.shape[-1] != m or not _are_labels(labels, m):
        raise ValueError(f"its partitions hold impossible labels, or not one for each of {m} leaves")
    if not _are_parameters(draws.prior, labels.shape[:-1], prior):
        raise ValueError("its draws of the prior's parameters do not fit its prior")
    for name in ("log_joint", "n_clusters", "seconds"):
        if getattr(draws, name).shape != labels.shape[:-1]:
            raise ValueError(f"its draws of {name} are not one per partition")
    if not (np.all(np.isfinite(draws.log_joint)) and np.all(np.isfinite(draws.seconds))):
        raise ValueError("its draws hold NaN or infinity")


def check_checkpoint(chain: int, found: Checkpoint, sampler: str, m: int, prior: Prior) -> None:
    """ValueError unless compiled steps, which do not look at what they index, may go on from there over m leaves."""
    state: Any = sampler_named(sampler).function("State")
    if set(found) != {"generator", "sweep", *(f"state_{name}" for name in state._fields)}:
        raise ValueError(f"chain {chain} has no complete checkpoint")
    shapes = {"generator": (6,), "sweep": (), "state_labels": (m,), "state_log_joint": ()}
    shapes |= {"state_age": (), "state_guide_visit": (m,), "state_guide_block": (m,), "state_roots": (m,)}
    shapes |= dict.fromkeys(("state_guide_left", "state_guide_right", "state_left", "state_right"), (m - 1,))
    shapes |= dict.fromkeys(("state_guide_weight", "state_guide_birth"), (2 * m - 1,))
    right = found["generator"].dtype == np.uint64 and _are_labels(found["state_labels"], m)
    right = right and _are_parameters(found["state_prior"], (), prior)
    for name, values in found.items():
        if name == "state_prior":
            continue
        right = right and values.shape == shapes[name] and bool(np.all(np.isfinite(values)))
        if values.dtype.kind == "i" and values.ndim > 0 and values.size:  # numbers of nodes, or -1 for none
            right = right and bool(values.min() >= -1 and values.max() < 2 * m)
    if not right:
        raise ValueError(f"the checkpoint of chain {chain} does not fit its leaves")
