"""From rows to leaves: units, summaries of many rows, observation noise. Everything a search needs, found before it."""

from typing import NamedTuple

import numpy as np

from dtree.diffusion.affine import Affine, free_numbers, standardizing, unchanged, whitening
from dtree.diffusion.atoms import Atoms, leaves_of_atoms, summarise_rows
from dtree.diffusion.belief import Leaves, leaves_from_data
from dtree.diffusion.noise import learn_noise, learn_sigma2, scale_leaves
from dtree.diffusion.objective import Hyper
from dtree.diffusion.probit import FIRST_SIGMA2, log_evidence_probit, signs_from_binary
from dtree.diffusion.search import best_columns, build, search
from dtree.diffusion.walk import Bits

TRIAL_ROWS = 400  # rows on which ways of scaling are compared
FIRST_NOISE = 0.01  # in units of sigma2, where learning it starts: the centre of its prior
PROBIT_ROUNDS = 6  # of tree and sites at most; they end when the evidence stops rising
NO_SIGNS = np.empty((0, 0))


class Prepared(NamedTuple):
    """What walks and predictions stand on.

    leaves, hyper : leaves in units of sigma2, and how sigma2 and c are treated from here on
    affine : the map between the tree's units and the original ones; probit: its offset is where all paths start
    noise : (n leaves,) observation variance of a row at each leaf, in units of sigma2
    rows : (n leaves,) how many rows each leaf stands for
    leaf_of_row : (n rows,) the leaf of every row
    signs : (n, d) -1, 0 (missing), +1 of the probit likelihood; (0, 0) otherwise
    log_volume : to be subtracted from an evidence in the tree's units
    constants : (d,) of every original column the value that all rows share, NaN where rows differ; a Gaussian can say
        nothing about a constant column, so leaves and units are those of the other columns only
    """

    leaves: Leaves
    hyper: Hyper
    affine: Affine
    noise: np.ndarray
    rows: np.ndarray
    leaf_of_row: np.ndarray
    signs: np.ndarray
    log_volume: float
    constants: np.ndarray

    @property
    def columns(self) -> np.ndarray:
        """Numbers of the original columns that the tree uses."""
        return np.flatnonzero(np.isnan(self.constants))

    @property
    def bits(self) -> Bits | None:
        """What the sampler of binary rows stands on; None when rows are real-valued."""
        return Bits(self.signs, float(self.affine.offset[0])) if self.signs.size else None


def prepare(
    X: np.ndarray,
    seed: int,
    hyper: Hyper,
    *,
    noise: float | str,
    scaling: str,
    max_leaves: int,
    likelihood: str = "gaussian",
    start: float | None = None,
) -> Prepared:
    """Leaves, units and noise for rows X (n, d), NaN where missing; `dtree.DiffusionTree` explains the options.

    >>> rows = np.array([[0.0], [0.1], [4.0], [4.2]])
    >>> prepare(rows, 0, Hyper(), noise=0.01, scaling="standardize", max_leaves=9).affine.offset
    array([2.075])
    """
    if X.shape[0] < 2:
        raise ValueError(f"A diffusion tree needs at least two rows, got {X.shape[0]}.")
    constants = np.full(X.shape[1], np.nan) if likelihood == "probit" else _constant_columns(X)
    X = np.ascontiguousarray(X[:, np.isnan(constants)])
    empty = np.isnan(X).all(axis=1)
    if empty.any():
        raise ValueError(f"Row {int(np.flatnonzero(empty)[0])} has no observed entry; remove it.")
    if likelihood == "probit":
        return _prepare_probit(X, seed, hyper, start, max_leaves)
    n = X.shape[0]
    many = n > max_leaves
    if many and np.isnan(X).any():
        raise ValueError(
            f"{n} rows are more than max_leaves={max_leaves} and summaries need complete rows: "
            "fill in the missing entries, or raise max_leaves."
        )
    affine = _choose_units(X, scaling, hyper, seed)
    z = affine.inward(X)
    log_volume = float(affine.log_volume(X).sum())
    if many:
        atoms, leaf_of_row = summarise_rows(z, max_leaves, seed)
        found = prepare_atoms(atoms, hyper, seed)._replace(affine=affine, log_volume=log_volume)
        return found._replace(leaf_of_row=leaf_of_row, constants=constants)
    if noise == 0.0:
        _refuse_duplicates(z)
    variance = _learned_noise(z, hyper, seed)[0] if isinstance(noise, str) else float(noise)
    leaves, own = leaves_from_data(z, variance), np.full(n, variance)
    return Prepared(leaves, hyper, affine, own, np.ones(n), np.arange(n), NO_SIGNS, log_volume, constants)


def prepare_atoms(atoms: Atoms, hyper: Hyper, seed: int) -> Prepared:
    """One leaf per atom. The noise is known in absolute units, so sigma2 is learned instead of integrated."""
    absolute = leaves_of_atoms(atoms)
    m, d = atoms.mean.shape
    sigma2 = 1.0 if hyper.sigma2 is None else hyper.sigma2
    if hyper.sigma2 is None:
        for _ in range(2):
            leaves = absolute._replace(var=absolute.var / sigma2)
            state = build(leaves, hyper._replace(sigma2=sigma2), np.random.default_rng(seed))
            sigma2 = learn_sigma2(best_columns([state], 1)[0][1], absolute, hyper.precision_prior)
    leaves = absolute._replace(var=absolute.var / sigma2)
    fixed, noise = hyper._replace(sigma2=sigma2), atoms.noise / sigma2
    return Prepared(leaves, fixed, unchanged(d), noise, atoms.rows, np.arange(m), NO_SIGNS, 0.0, np.full(d, np.nan))


def _choose_units(X: np.ndarray, scaling: str, hyper: Hyper, seed: int) -> Affine:
    """The map that `scaling` names; "auto" compares the evidence of a tree in each, charged for what it learned."""
    if scaling == "none":
        return unchanged(X.shape[1])
    plain = standardizing(X)
    if scaling == "standardize":
        return plain
    axes = whitening(X)
    if scaling == "whiten":
        if axes is None:
            raise ValueError(
                f"scaling='whiten' needs complete rows, at least {2 * X.shape[1]} of them, and two or more columns of "
                "which none is a combination of others; use scaling='standardize'."
            )
        return axes
    if axes is None:
        return plain
    trial = X
    if X.shape[0] > TRIAL_ROWS:
        trial = X[np.sort(np.random.default_rng(seed).choice(X.shape[0], TRIAL_ROWS, replace=False))]
    worth = []
    for affine in (plain, axes):
        _, log_evidence = _learned_noise(affine.inward(trial), hyper, seed, rounds=1)
        charge = 0.5 * free_numbers(affine) * np.log(trial.shape[0])
        worth.append(log_evidence - float(affine.log_volume(trial).sum()) - charge)
    return plain if worth[0] >= worth[1] else axes


def _learned_noise(z: np.ndarray, hyper: Hyper, seed: int, rounds: int = 2) -> tuple[float, float]:
    """The noise of highest evidence on a first tree built with it, and that evidence."""
    base = leaves_from_data(z, 1.0)
    noise, log_evidence = FIRST_NOISE, -np.inf
    for _ in range(rounds):
        state = build(scale_leaves(base, noise), hyper, np.random.default_rng(seed))
        noise, fit = learn_noise(best_columns([state], 1)[0][1], base, hyper, noise)
        log_evidence = fit.log_evidence
    return noise, log_evidence


def _prepare_probit(X: np.ndarray, seed: int, hyper: Hyper, known_start: float | None, max_leaves: int) -> Prepared:
    signs = signs_from_binary(X)
    n, d = signs.shape
    if n > max_leaves:
        raise ValueError(
            f"The probit likelihood works on at most max_leaves={max_leaves} rows, got {n}; fit a random subset."
        )
    sigma2 = FIRST_SIGMA2 if hyper.sigma2 is None else hyper.sigma2
    start = 0.0 if known_start is None else float(known_start)
    # a first tree on the signs themselves gives sites; sites give a better tree, which gives better sites
    found = leaves_from_data(np.where(signs == 0, np.nan, signs), 1.0 / sigma2)
    leaves = Leaves(found.mean - start, np.broadcast_to(found.var, signs.shape).copy(), found.n_observed)
    best = None
    for turn in range(PROBIT_ROUNDS):
        rng = np.random.default_rng([seed, turn])
        state = search(build(leaves, hyper._replace(sigma2=sigma2), rng), rng, 100 + n)
        fit = log_evidence_probit(
            best_columns([state], 1)[0][1],
            signs,
            hyper._replace(sigma2=sigma2),
            start=start,
            learn_sigma2=hyper.sigma2 is None,
            learn_start=known_start is None,
            max_iter=60,
        )
        if best is not None and fit.evidence.log_density <= best.evidence.log_density:
            break
        best = fit
        sigma2, start, leaves = fit.sigma2, fit.start, fit.sites
    affine = unchanged(d)._replace(offset=np.full(d, start))
    hyper, everywhere = hyper._replace(sigma2=sigma2), np.full(d, np.nan)
    return Prepared(leaves, hyper, affine, np.zeros(n), np.ones(n), np.arange(n), signs, 0.0, everywhere)


def _constant_columns(X: np.ndarray) -> np.ndarray:
    """The value (d,) of every constant column, NaN for the others; ValueError where nothing would be left."""
    empty = np.isnan(X).all(axis=0)
    if empty.any():
        raise ValueError(f"Column {int(np.flatnonzero(empty)[0])} has no observed entry; remove it.")
    lowest = np.nanmin(X, axis=0)
    constants = np.where(np.nanmax(X, axis=0) == lowest, lowest, np.nan)
    if not np.isnan(constants).any():
        raise ValueError("Column 0 is constant (1 distinct value), so it has no density; remove it before fitting.")
    return constants


def _refuse_duplicates(z: np.ndarray) -> None:
    order = np.lexsort(z.T)
    same = (z[order[1:]] == z[order[:-1]]).all(axis=1)
    if same.any():
        k = int(np.flatnonzero(same)[0])
        a, b = sorted((int(order[k]), int(order[k + 1])))
        raise ValueError(
            f"Rows {a} and {b} are identical, which a noise-free diffusion tree cannot explain: "
            "let it learn the noise (noise='auto', or no --noise) or give a positive one."
        )
