"""Tables with columns of several kinds and missing values in every method: by name, in memory, on workers, saved."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import dtree
from dtree.core.families import expected
from dtree.core.model import Model
from dtree.engine.cluster import cluster_client
from dtree.engine.drive import Given, Place, drive
from dtree.kmeans.scoring import Scorer
from dtree.kmeans.scoring.any_family import assign_atoms, atom_tables
from dtree.kmeans.survey import combine_surveys, survey_chunk
from dtree.methods import METHODS, method_named
from dtree.methods.settings import checked
from dtree.variational.fitting import InMemory, ascend
from dtree.variational.steps import Rule, make_block
from dtree.variational.variants import VARIANTS
from tests.engine.test_features import METHODS as QUICK
from tests.engine.test_features import SEED, bits
from tests.naive.variational import log_evidence
from tests.tables import KINDS, as_frame, family, people_with_holes, table, with_kinds

TAKING = [name for name in METHODS if "family" in method_named(name).Settings.__struct_fields__]


def settings(method: str, **more: Any) -> Any:
    return checked(method_named(method).Settings, {**QUICK[method], **more})


@pytest.fixture(scope="module")
def client():
    with cluster_client(n_workers=2, processes=False, warm=False) as found:
        yield found


@pytest.mark.parametrize("method", TAKING)
def test_tables_by_name_in_every_method_and_place(method, client, tmp_path):
    X, chosen = table(), settings(method, family="auto")
    here = drive(method_named(method), chosen, Given(with_kinds(X), chunk_bytes=900), seed=SEED)
    there = drive(method_named(method), chosen, Given(with_kinds(X), chunk_bytes=900), Place(client=client), SEED)
    assert bits(there) == bits(here)
    dtree.save(getattr(dtree, method_named(method).estimator).from_run(here), tmp_path / "run")
    model = dtree.open(tmp_path / "run")
    assert model.family_.name == "mixed"
    assert [block.family.name for block in model.family_.blocks] == ["gaussian-diag", "bernoulli", "poisson", "categorical"]  # fmt: skip  # noqa: E501
    new = X[[0, 5, 59]]
    new[0, 4] = len(KINDS[4].levels)  # a level that no training row has
    assert np.all(np.isfinite(model.score_samples(as_frame(new))))
    assert model.predict(as_frame(new)).shape == (3,)
    assert model.predict(as_frame(X[:1])) != model.predict(as_frame(X[-1:]))
    with pytest.raises(ValueError, match="give new rows as a table too"):
        model.predict(new)
    dtree.report(tmp_path / "run", tmp_path / "page.html")


@pytest.mark.parametrize("form", ["frame", "csv", "parquet"])
def test_staged_tables_keep_their_kinds(form, client, tmp_path):
    """A table copied to where workers can read it has the labels, kinds and levels of the frame in memory."""
    people = people_with_holes()
    here = dtree.BayesKMeansBHC(random_state=0).fit(people)
    people.to_csv(tmp_path / "x.csv", index=False)
    people.to_parquet(tmp_path / "x.parquet", index=False)
    data = people if form == "frame" else tmp_path / f"x.{form}"
    for place, where in enumerate(({}, {"client": client})):
        out = tmp_path / f"run{place}.zarr"
        there = dtree.BayesKMeansBHC(random_state=0, out=out, **where).fit(data)
        for model in (there, dtree.open(out)):
            assert (model.kinds_, model.left_out_) == (here.kinds_, here.left_out_)
            assert np.array_equal(model.labels_, here.labels_)
            assert np.array_equal(model.predict(people), here.predict(people))
            assert np.array_equal(model.impute(people), here.impute(people))


@pytest.mark.parametrize("chosen", ["auto", "gaussian-diag", "mixed"])
def test_numbers_with_holes_need_no_kinds(chosen, tmp_path):
    X = table()[:, :2]
    model = dtree.BayesKMeansBHC(chosen, random_state=0).fit(X)
    assert model.family_.name == "mixed"
    dtree.save(model, tmp_path / "saved.zarr")
    again = dtree.open(tmp_path / "saved.zarr")
    assert np.array_equal(again.predict(X), model.predict(X))
    assert np.array_equal(again.impute(X), model.impute(X))
    assert not np.isnan(model.impute(X)).any()
    assert np.array_equal(np.isnan(model.surprisal(X)), np.isnan(X))
    assert dtree.column_influence(model)[0] > dtree.column_influence(model)[1]


def test_complete_numbers_stay_a_gaussian_and_rows_to_predict_may_have_holes():
    X = table(holes=0.0)[:, :2]
    one, other = dtree.BHC().fit(X), dtree.BHC("gaussian").fit(X)
    assert one.family_.name == "gaussian"
    assert one.log_evidence_bound_ == other.log_evidence_bound_
    holes = table()[:, :2]
    with pytest.raises(ValueError, match="gaussian family takes no missing values"):
        dtree.BHC("gaussian").fit(holes)
    names = ("gaussian", "gaussian-diag")
    for fit, name in itertools.product((dtree.BHC, dtree.BayesKMeans, dtree.DPMixtureVB), names):
        fitted = fit(family=name).fit(X)
        assert np.mean(fitted.predict(holes)[:30] == fitted.predict(X[:1])) > 0.8
        assert np.all(np.isfinite(fitted.score_samples(holes)))


def test_the_order_of_rows_and_of_columns_does_not_matter():
    X, order = table(), np.random.default_rng(1).permutation(60)
    prior = dtree.DirichletProcess(1.0)
    one, other = (dtree.BHC(family(), prior).fit(rows) for rows in (X, X[order]))
    assert other.log_evidence_bound_ == pytest.approx(one.log_evidence_bound_, abs=1e-9)
    together = one.labels_[:, None] == one.labels_
    assert np.array_equal((other.labels_[:, None] == other.labels_), together[np.ix_(order, order)])


def test_surveys_of_chunks_add_up():
    X, kind = table(), expected("auto", KINDS)
    parts = [survey_chunk(X[start : start + 17], kind, 0, start, start, 60) for start in range(0, 60, 17)]
    whole, joined = survey_chunk(X, kind, 0, 0, 0, 60), combine_surveys(parts, 60)
    for name in ("rows", "mean", "second", "low", "high", "present"):
        assert getattr(joined, name) == pytest.approx(getattr(whole, name), rel=1e-12)
    held = [X[~np.isnan(X[:, 4]), 4] == level for level in range(4)]
    assert joined.levels[4].tolist() == [one.sum() for one in held]
    moments = joined.moments(False, KINDS)
    assert moments.mean[0] == pytest.approx(np.nanmean(X[:, 0]))
    assert moments.variance[0] == pytest.approx(np.nanvar(X[:, 0]))


@pytest.mark.parametrize("weight", [1.0, 0.5])
@pytest.mark.parametrize("coarsening", [1.0, 0.7])
def test_fast_assignment_equals_one_atom_at_a_time(weight, coarsening):
    rng, X = np.random.default_rng(0), table(200)
    model = Model(family(weight), dtree.DirichletProcess(1.0), coarsening)
    atoms, labels = model.atoms(X), rng.integers(0, 4, 200)
    labels[:2] = 4, 5  # two that stand alone
    clusters = np.stack([atoms[labels == c].sum(axis=0) for c in range(6)])
    scorer = Scorer(model, clusters)
    assert scorer.accumulate(X, labels, 6) == pytest.approx(clusters, abs=1e-9)
    for own in (labels, np.full(200, -1)):
        best, unexplained = np.empty(200, dtype=np.int64), np.empty(200, dtype=np.bool_)
        assign_atoms(atom_tables(model, clusters), atoms, own, best, unexplained)
        found = scorer.assign(X, own)
        assert np.array_equal(found.best, best)
        assert np.array_equal(found.unexplained, unexplained)


@pytest.mark.parametrize("holes", [0.0, 0.03, 0.4])
def test_fast_assignment_of_many_columns_whatever_is_missing(holes):
    """More columns than go into one logarithm; counts beyond those that are looked up; rows that lack the same."""
    rng = np.random.default_rng(1)
    group = rng.integers(0, 5, 400)
    X = np.column_stack(
        [
            rng.normal(group[:, None] * 0.5, 1.0, (400, 22)),
            (group[:, None] + rng.integers(0, 3, (400, 2))) % 5,
            rng.random(400) < 0.1 + 0.2 * group,
            rng.poisson(10.0 * group + 1.0),
        ]
    )
    X[rng.random(X.shape) < holes] = np.nan
    mixed = dtree.Mixed(
        [
            (dtree.DiagonalGaussian(np.zeros(22), 0.1, 2.0, np.ones(22)), np.arange(22)),
            (dtree.Categorical([np.full(6, 0.5)] * 2), [22, 23]),
            (dtree.Bernoulli([0.5], [0.5]), [24]),
            (dtree.Poisson([1.0], [0.1]), [25], 0.5),
        ]
    )
    model = Model(mixed, dtree.DirichletProcess(1.0))
    atoms = model.atoms(X)
    clusters = np.stack([atoms[group == c].sum(axis=0) for c in range(5)])
    for own in (group, np.where(group == 2, -1, (group + 1) % 5)):
        best, unexplained = np.empty(400, dtype=np.int64), np.empty(400, dtype=np.bool_)
        held = np.stack([atoms[own == c].sum(axis=0) for c in range(5)])
        assign_atoms(atom_tables(model, held), atoms, own, best, unexplained)
        found = Scorer(model, held).assign(X, own)
        assert np.array_equal(found.best, best)
        assert np.array_equal(found.unexplained, unexplained)
    assert Scorer(model, clusters).accumulate(X, group, 5) == pytest.approx(clusters, rel=1e-12, abs=1e-9)


@pytest.mark.parametrize("variant", VARIANTS)
def test_variational_bounds_with_gaps_are_below_the_evidence(variant):
    """Of all 3^6 assignments of six rows, one of them empty, to three components."""
    X, mixed = table(12)[:6], family()
    which, atoms = VARIANTS[variant], mixed.statistics(X)
    assert np.isnan(X[5]).all()
    assert np.isnan(X[:5]).any()
    twin = SimpleNamespace(X=X, log_marginal=lambda held: float(mixed.soft_log_marginal_of((held @ atoms)[None])[0]))
    evidence = log_evidence(twin, which.sticks, 0.7, 3)
    rule = Rule(mixed, which, 0.7)
    for seed in range(3):
        start = np.random.default_rng(seed).dirichlet(np.ones(3), 6)
        rows = InMemory(make_block(mixed, X), start, "exact", "sequential")
        fit = ascend(rows, rows.sums(rule), rule, 100, 1e-12)
        assert fit.is_bound
        assert np.diff(fit.trace).min() > -1e-9
        assert evidence - 8.0 < fit.elbo < evidence + 1e-9


@pytest.mark.parametrize("variant", VARIANTS)
def test_all_six_bounds_are_fitted(variant):
    model = dtree.DPMixtureVB(variant, family(), truncation=5, random_state=0).fit(table())
    assert model.n_clusters_ == 2
    assert np.all(np.isfinite(model.score_samples(table())))


def test_a_code_that_the_family_does_not_know_gets_one_sentence():
    X = table()
    X[0, 4] = 7
    with pytest.raises(ValueError, match=r"row 0 is not the code of one of its levels in column 4"):
        dtree.BHC(family()).fit(X)
    X[0, 4] = 0.5
    with pytest.raises(ValueError, match=r"row 0 is not the code of one of its levels in column 4"):
        dtree.BayesKMeans(family()).fit(X)


def test_more_rows_with_holes_need_a_model_that_has_room_for_them():
    X, holes = table(holes=0.0)[:, :2], table()[:, :2]
    for begun in (dtree.IncrementalBHC("gaussian-diag"), dtree.DPMixtureVB(family="gaussian-diag", truncation=4)):
        with pytest.raises(ValueError, match="begun with complete rows"):
            begun.partial_fit(X).partial_fit(holes)
    grown = dtree.IncrementalBHC("mixed").partial_fit(X).partial_fit(holes)
    assert grown.tree_.n_leaves == 120
