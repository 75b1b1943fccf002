"""The folder of a variational run: what a pass starts from, and the fitted mixture at the end.

    run/                        a zarr group (format 3), method "variational"
      zarr.json                 attributes: settings of the estimator, source, columns, status, shown (order of components), row_names
      model/                    the family and alpha
      checkpoints/gen-00000003  sums after pass 3: statistics (T, s), gram, log_zero; entropy, rows, alpha, trace as attributes
      labels, trace/            the results, written at the end

Sums determine the state of the next pass, so a checkpoint is T x s numbers whatever the number of rows.
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import numpy as np

from dtree.engine.folder import RunFolder
from dtree.engine.variational_estimator import DPMixtureVB
from dtree.variational.fitting import Fit
from dtree.variational.steps import Rule, Sums
from dtree.variational.variants import variant_named

METHOD = "variational"


class PassStep(NamedTuple):
    """What a progress callback is told after every pass."""

    number: int
    elbo: float
    n_clusters: int  # components expected to hold at least half a row
    rows: int
    seconds: float

    @property
    def rows_per_second(self) -> float:
        """How fast the pass went."""
        return self.rows / max(self.seconds, 1e-9)


class Checkpoint(NamedTuple):
    """Where a run stands after a pass."""

    sums: Sums
    alpha: float
    is_bound: bool
    trace: list[PassStep]

    @property
    def bounds(self) -> list[float]:
        """The bound after each pass."""
        return [step.elbo for step in self.trace]


class VariationalRun(RunFolder):
    """A run's folder; opening it reads nothing but its configuration."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(path)
        if self.attributes.get("method") != METHOD:
            raise ValueError(f"{self.path} holds a run of the method {self.attributes.get('method')}, not {METHOD}")

    @property
    def settings(self) -> dict[str, Any]:
        """Parameters of the estimator, all but its family."""
        return dict(self.attributes["settings"])

    @property
    def columns(self) -> np.ndarray:
        """The columns of the data that the family uses."""
        return np.asarray(self.attributes["columns"], dtype=np.int64)

    def rows(self, chunk: int) -> Any:
        """The used columns of one chunk of rows."""
        return self.used(self.source.read(*self.bounds(chunk)))

    def used(self, X: Any) -> Any:
        """The used columns of some rows, as float64."""
        X = X.astype(np.float64)
        return X if self.columns.shape[0] == X.shape[1] else np.ascontiguousarray(X[:, self.columns])

    def rule(self, alpha: float) -> Rule:
        """What is being fitted."""
        settings = self.settings
        corrected = settings["expectation"] != "taylor"
        return Rule(self.model().family, variant_named(settings["variant"]), alpha, corrected, settings["order"])

    def commit(self, number: int, point: Checkpoint) -> None:
        """Make the sums after a pass permanent."""
        sums = point.sums
        arrays = {"statistics": sums.statistics, "gram": sums.gram, "log_zero": sums.log_zero}
        attributes = {
            "entropy": sums.entropy,
            "rows": sums.rows,
            "alpha": point.alpha,
            "is_bound": point.is_bound,
            "trace": [list(step) for step in point.trace],
        }
        self.commit_generation(number, arrays, attributes, {number, number - 1})

    def checkpoint(self, number: int) -> Checkpoint:
        """Where the run stood after a pass."""
        arrays, at = self.read_generation(number)
        sums = Sums(arrays["statistics"], float(at["entropy"]), arrays["gram"], arrays["log_zero"], float(at["rows"]))
        return Checkpoint(sums, float(at["alpha"]), bool(at["is_bound"]), [PassStep(*step) for step in at["trace"]])

    def mixture(self, number: int | None = None) -> DPMixtureVB:
        """The mixture after a pass (by default the last one), without labels."""
        number = self.generations()[-1] if number is None else number
        point = self.checkpoint(number)
        rule = self.rule(point.alpha)
        estimator = DPMixtureVB(family=rule.family, **self.settings)
        estimator.n_features_in_, estimator.columns_ = self.source.shape[1], self.columns
        elbo = point.bounds[-1] if point.trace else float("nan")
        estimator._adopt(
            Fit(point.sums, rule, elbo, point.is_bound, point.bounds, bool(self.attributes.get("converged")))
        )
        estimator.n_iter_ = max(1, len(point.trace))
        if self.done:
            estimator._present(np.asarray(self.attributes["shown"], dtype=np.int64))
            estimator.n_clusters_ = int(self.attributes["n_clusters"])
        return estimator
