"""The one survey of the rows of a job: every row checked, moments, a sample and a fingerprint, chunk by chunk."""

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from dtree.core.columns import Column
from dtree.core.families import AUTO, Expected, Family, Moments, Resolved, expected, family_type, resolve
from dtree.core.families.moments import with_reserved
from dtree.core.priors import prior_of
from dtree.kmeans.fit import sample_size
from dtree.kmeans.survey import Survey, combine_surveys, share_of_sample, survey_chunk
from dtree.methods.contract import Job, Workers
from dtree.methods.seen import Look, look, see
from dtree.storage.ahead import reads


def survey_of(job: Job, workers: Workers, family: str | Family, sample_rows: int | None = None) -> Survey:
    """The first pass over the data; `sample_rows` None for as many as a start needs."""
    kind = expected_of(job, family)
    prior_of(getattr(job.settings, "prior", "dp"))  # a misspelt name must not wait for a pass
    if job.source.is_sparse and not kind.accepts_sparse:
        raise ValueError(f"the {kind.name} family takes dense rows: convert the data with toarray()")
    n, d = job.source.shape
    most = min(sample_size(d, statistics_per_row(family, d, kind), n) if sample_rows is None else sample_rows, n)
    share = share_of_sample(most, job.chunk_rows, n)
    arguments = [(job, kind, chunk, share) for chunk in job.chunks]
    survey, looks = workers.map_reduce(
        survey_task, arguments, combine_surveys_task, (most,), job.stage("first reading")
    )
    see(job, looks)
    return survey


def expected_of(job: Job, family: str | Family) -> Expected:
    """What the rows of a job may hold for a family, by the kinds of its columns."""
    return expected(family, kinds_of(job.source), job.n_features)


def kinds_of(source: Any) -> tuple[Column, ...]:
    """What the columns of a source hold; () when nothing is known of them."""
    return tuple(getattr(source, "kinds", ()))


def resolved(job: Job, family: str | Family, survey: Survey) -> Resolved:
    """The family that is fitted and the columns it uses, now that the rows have been seen."""
    return resolve(family, kinds_of(job.source), survey.low, survey.high, survey.has_holes)


def statistics_per_row(family: str | Family, d: int, kind: Expected) -> int:
    """Statistics per row, as far as they are known before the rows are read."""
    if not isinstance(family, Family):
        covariance = np.eye(d) if kind.needs_covariance else None
        name = kind.name if family == AUTO else family
        levels = with_reserved(tuple(np.ones(len(column.levels)) for column in kind.kinds))
        moments = Moments(2.0, np.full(d, 0.5), np.ones(d), covariance, kinds=kind.kinds, levels=levels)
        family = family_type(name).defaults(moments)
    return family.statistics(np.zeros((1, family.n_features))).shape[1]


@reads(lambda job, kind, chunk, share: job.ahead(chunk))
def survey_task(job: Job, kind: Expected, chunk: int, sample_rows: int) -> tuple[Survey, list[Look]]:
    """Check one chunk and take its moments, sample and checksum."""
    rows = job.source.read(*job.bounds(chunk))
    survey = survey_chunk(rows, kind, job.seed, chunk, job.bounds(chunk)[0], sample_rows)
    return survey, [look(job, chunk, rows)]


def combine_surveys_task(sample_rows: int, parts: Sequence[tuple[Survey, list[Look]]]) -> tuple[Survey, list[Look]]:
    """Join the surveys of up to eight chunks or groups of chunks."""
    surveys, looks = zip(*parts, strict=True)
    return combine_surveys(surveys, sample_rows), [look for many in looks for look in many]


def fingerprint(source: Any, survey: Survey) -> str:
    """A hash of shape, type and moments: it changes when any value does, for the price of the first pass."""
    digest = hashlib.sha256(f"{source.shape} {source.dtype}".encode())
    for column in (survey.mean, survey.second, survey.low, survey.high):
        digest.update(np.ascontiguousarray(column).tobytes())
    return digest.hexdigest()
