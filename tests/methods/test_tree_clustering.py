"""Clusters for someone who sets nothing: shapes, invariance, weights, tables, counts, runs and levels of other fits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import make_moons
from sklearn.metrics import adjusted_rand_score

import dtree
from dtree.methods import tree_clustering

KINDS = np.repeat(np.arange(3), 80)
BLOBS = np.array([[0.0, 0.0], [12.0, 0.0], [0.0, 15.0]])[KINDS] + np.random.default_rng(0).normal(size=(240, 2))


def fit(X, **settings):
    return dtree.TreeClustering(random_state=0, **settings).fit(X)


@pytest.fixture(scope="module")
def blobs() -> dtree.TreeClustering:
    return fit(BLOBS)


def test_blobs(blobs: dtree.TreeClustering) -> None:
    assert adjusted_rand_score(KINDS, blobs.labels_) == 1.0
    assert blobs.confidence_.min() > 0.99
    assert np.all(blobs.cluster_stability_ == 1.0)
    assert "3 clusters" in blobs.level_reason_
    assert np.array_equal(np.bincount(blobs.labels_), np.sort(np.bincount(blobs.labels_))[::-1])


def test_the_density_integrates_to_one_and_leaves_room_for_rows_of_a_kind_not_seen() -> None:
    rng = np.random.default_rng(4)
    model = fit(np.concatenate([rng.normal(0.0, 1.0, (12, 1)), rng.normal(9.0, 1.0, (8, 1))]))
    line = np.linspace(-4000.0, 4000.0, 800_001)
    density = np.exp(model.score_samples(line[:, None]))
    assert density.sum() * (line[1] - line[0]) == pytest.approx(1.0, abs=1e-3)  # tails reach beyond the line
    model, far = fit(rng.normal(size=(400, 2))), np.full((1, 2), 7.0)
    prior = model.family_.log_predictive_of(far, np.zeros_like(model.statistics_[:1]))[0, 0]
    assert model.score_samples(far)[0] >= prior - np.log(403.0)  # a stick of its own: alpha / (1 + alpha + n)


def test_rings_and_moons() -> None:
    angle = np.random.default_rng(0).uniform(0, 2 * np.pi, 900)
    rings, known = np.column_stack([np.cos(angle), np.sin(angle)]), np.repeat([0, 1], [300, 600])
    rings = rings * np.where(known, 4.0, 1.0)[:, None] + np.random.default_rng(1).normal(0, 0.15, (900, 2))
    model = fit(rings)
    assert model.n_components_ > 4
    assert adjusted_rand_score(known, model.labels_) == 1.0
    X, known = make_moons(600, noise=0.05, random_state=0)
    model = fit(X)
    assert model.n_components_ > 2
    assert max(adjusted_rand_score(known, model.at_clusters(k)) for k in range(1, 7)) > 0.9


@pytest.mark.parametrize("n", [60, 600])
def test_one_gaussian_is_one_cluster(n: int) -> None:
    assert fit(np.random.default_rng(2).normal(size=(n, 3))).n_clusters_ == 1


def test_a_compact_group_within_a_diffuse_one_is_a_cluster() -> None:
    rng = np.random.default_rng(0)  # no line shows a valley between them, but no row lies as far out as between them
    spread = np.repeat([0.4, 2.0], 200)[:, None]
    assert adjusted_rand_score(np.repeat([0, 1], 200), fit(spread * rng.normal(size=(400, 12))).labels_) > 0.99
    tails = np.sqrt(rng.chisquare(3, 400) / 3.0)[:, None]  # spreads of all sizes leave no gap
    assert fit(rng.normal(size=(400, 12)) / tails).n_clusters_ == 1


def test_two_groups_that_overlap_are_two_clusters_once_there_are_rows_enough_to_be_sure() -> None:
    rng = np.random.default_rng(130)  # the density falls to about half between them
    own = np.repeat([0, 1], 1000)
    X = (3.3 * own + rng.normal(size=2000))[:, None]
    assert adjusted_rand_score(own, fit(X).labels_) > 0.7
    assert fit(X[::20]).n_clusters_ == 1


def test_neither_order_nor_units_matter(blobs: dtree.TreeClustering) -> None:
    order = np.random.default_rng(3).permutation(240)
    assert np.array_equal(fit(BLOBS[order]).labels_, blobs.labels_[order])
    assert np.array_equal(fit(BLOBS * [100.0, 0.01] + [7.0, -3.0]).labels_, blobs.labels_)


def test_no_view_of_two_moons_changes_a_label() -> None:
    X, known = make_moons(300, noise=0.05, random_state=1)
    labels, order = fit(X).labels_, np.random.default_rng(5).permutation(300)
    assert adjusted_rand_score(known, labels) == 1.0
    turned = X @ np.array([[0.6, -0.8], [0.8, 0.6]])
    for other in (X * [1e3, 1e-2] + 5.0, X[:, ::-1], turned):
        assert np.array_equal(fit(other).labels_, labels)
    assert np.array_equal(fit(X[order]).labels_, labels[order])
    # Moons of equal size: which of them has the number 0 is open.
    assert adjusted_rand_score(np.tile(labels, 2), fit(np.vstack([X, X])).labels_) == 1.0


def arc_and_groups(n: int, d: int) -> np.ndarray:
    """Half a ring and two groups of other sizes and spreads beside it."""
    rng = np.random.default_rng([n, d])
    own, angle = rng.choice(3, n, p=[0.5, 0.3, 0.2]), rng.uniform(0, np.pi, n)
    X = rng.normal(0, np.array([0.08, 0.4, 0.2])[own][:, None], (n, d))
    X[own == 0, :2] += 2.0 * np.column_stack([np.cos(angle), np.sin(angle)])[own == 0]
    return X + np.array([0.0, 7.0, -7.0])[own][:, None]


@pytest.mark.parametrize(("n", "d", "sample_rows"), [(80, 1, None), (150, 6, None), (2500, 2, None), (3000, 3, 500)])
def test_no_view_of_groups_of_any_size_changes_a_label(n: int, d: int, sample_rows: int | None) -> None:
    X, rng = arc_and_groups(n, d + 1), np.random.default_rng(n)
    labels = fit(X, sample_rows=sample_rows).labels_
    assert labels.max() >= 1
    units, shifts = 10.0 ** rng.uniform(-4, 4, d + 1), rng.normal(size=d + 1)
    views = [X * units, X + 100.0 * shifts, (X * units)[:, rng.permutation(d + 1)]]
    if n == 80:  # two fits are a tenth of a nat apart, and which is found depends on the last bit
        views.pop()
    for other in views:
        assert np.array_equal(fit(other, sample_rows=sample_rows).labels_, labels)
    order = rng.permutation(n)  # in passes it decides which are drawn for the start
    assert adjusted_rand_score(labels[order], fit(X[order], sample_rows=sample_rows).labels_) == 1.0
    if n > 1000:  # few rows, each seen twice, are surer of what they show
        twice = fit(np.vstack([X, X]), sample_rows=sample_rows).labels_
        assert adjusted_rand_score(np.tile(labels, 2), twice) == 1.0


def test_other_levels(blobs: dtree.TreeClustering) -> None:
    assert np.array_equal(blobs.at_level(blobs.level_), blobs.labels_)
    assert np.array_equal(blobs.at_clusters(3), blobs.labels_)
    assert blobs.at_clusters(1).max() == 0
    assert fit(BLOBS, level="components").n_clusters_ == blobs.n_components_
    assert fit(BLOBS, level=1e6).n_clusters_ == 1
    assert 3 in blobs.levels_["n_clusters"].tolist()
    with pytest.raises(ValueError, match="n_clusters"):
        blobs.at_clusters(1000)
    for wrong in ("deep", -1.0):
        with pytest.raises(ValueError, match="level must be"):
            fit(BLOBS, level=wrong)


def test_weights_stand_for_equal_rows(blobs: dtree.TreeClustering) -> None:
    twice = dtree.TreeClustering(random_state=0).fit(BLOBS, sample_weight=np.full(240, 2))
    assert np.array_equal(twice.labels_, fit(np.repeat(BLOBS, 2, axis=0)).labels_[::2])


def test_a_table_with_gaps_and_words() -> None:
    rng = np.random.default_rng(4)
    frame = pd.DataFrame({"size": rng.normal(np.repeat([0, 20], 100), 1), "kind": np.repeat(["a", "b"], 100)})
    frame.loc[::9, "size"] = np.nan
    model = fit(frame)
    assert adjusted_rand_score(np.repeat([0, 1], 100), model.labels_) > 0.95
    assert fit(frame, columns={"kind": "skip"}).feature_names_in_.tolist() == ["size"]


def test_a_category_alone_does_not_part_groups() -> None:
    """Two kinds of animals, each with two sexes of unlike size: the kinds are found, not the four."""
    rng = np.random.default_rng(6)
    kind, sex = np.repeat([0, 1], 120), np.tile([0, 1], 120)
    frame = pd.DataFrame(
        {
            "weight": rng.normal(10 + 4 * kind + 1.5 * sex, 0.7),
            "length": rng.normal(30 - 6 * kind + 1.5 * sex, 1.0),
            "sex": np.where(sex, "male", "female"),
        }
    )
    assert adjusted_rand_score(kind, fit(frame).labels_) > 0.95


def test_skewed_columns_are_bent(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    known = np.repeat([0, 1], [150, 100])
    X = np.exp(rng.normal(size=(250, 4)) * 0.7) + known[:, None] * [9.0, 9.0, 0.0, 0.0]
    model = fit(X)
    assert model.family_.name == "bent"
    assert adjusted_rand_score(known, model.labels_) > 0.9
    order = rng.permutation(250)
    assert np.array_equal(fit(X[order] * [1e3, 1.0, 1e-3, 1.0] - 5.0).labels_, model.labels_[order])
    assert np.array_equal(fit(X[:, ::-1]).labels_, model.labels_)
    np.testing.assert_allclose(model.components_["means"][:, 2:].mean(), 1.0, atol=0.5)  # medians of the log-normals
    dtree.save(model, tmp_path / "run.zarr")
    again = dtree.open(tmp_path / "run.zarr")
    assert np.array_equal(again.predict(X), model.predict(X))
    np.testing.assert_array_equal(again.score_samples(X), model.score_samples(X))


def test_sparse_counts() -> None:
    rng = np.random.default_rng(5)
    shares = np.array([[0.45, 0.45, 0.05, 0.05], [0.05, 0.05, 0.45, 0.45]])[np.repeat([0, 1], [70, 50])]
    X = np.array([rng.multinomial(60, share) for share in shares]).astype(float)
    model = fit(sparse.csr_matrix(X), family="multinomial")
    assert adjusted_rand_score(np.repeat([0, 1], [70, 50]), model.labels_) > 0.95
    assert np.array_equal(model.labels_, fit(X, family="multinomial").labels_)


def test_a_saved_model_keeps_everything(blobs: dtree.TreeClustering, tmp_path: Path) -> None:
    dtree.save(blobs, tmp_path / "run.zarr")
    again = dtree.open(tmp_path / "run.zarr")
    for name in ("labels_", "confidence_", "outlier_score_", "component_labels_", "cluster_confidence_", "linkage_"):
        assert np.array_equal(getattr(again, name), getattr(blobs, name)), name
    assert again.level_reason_ == blobs.level_reason_
    assert np.array_equal(again.predict(BLOBS), blobs.labels_)
    np.testing.assert_allclose(again.predict_proba(BLOBS).sum(axis=1), 1.0)


def test_in_passes_it_finds_the_same_groups(blobs: dtree.TreeClustering) -> None:
    passes = fit(BLOBS, sample_rows=100)
    assert adjusted_rand_score(passes.labels_, blobs.labels_) == 1.0


def test_some_of_the_rows_show_the_valleys_and_all_are_counted(
    blobs: dtree.TreeClustering, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tree_clustering, "_LOOKED_AT", 90)
    some = fit(BLOBS)
    assert np.array_equal(some.labels_, blobs.labels_)
    assert np.array_equal(some.confidence_, blobs.confidence_)
    assert np.array_equal(some.tree_.size, blobs.tree_.size)
    np.testing.assert_allclose(some.outlier_score_, blobs.outlier_score_, atol=0.5)  # less the mean of fewer rows
    random, renumbered = np.random.default_rng(8), []
    monkeypatch.setattr(
        tree_clustering, "number_task", lambda *job, plain=tree_clustering.number_task: renumbered.append(plain(*job))
    )
    for seed in range(4):  # groups of nearly the same size: which is the largest is not known of a part of the rows
        X = BLOBS[random.permutation(240)[: 230 + seed]]
        model = dtree.TreeClustering(random_state=seed, out=tmp_path / f"{seed}.zarr" if seed % 2 else None).fit(X)
        assert model.n_clusters_ == 3
        assert np.all(np.diff(np.bincount(model.labels_)) <= 0)
        assert np.array_equal(model.labels_, model.leaf_clusters_[model.component_labels_])
        assert np.array_equal(model.labels_, model.predict(X))
        assert np.array_equal(np.bincount(model.component_labels_), model.tree_.size[: model.n_components_])
    assert renumbered


# Levels of other fits ------------------------------------------------------------------------------------------------

OTHERS = {
    "BHC": lambda: dtree.BHC("gaussian-diag"),
    "BayesKMeans": lambda: dtree.BayesKMeans("gaussian-diag", random_state=0),
    "BayesKMeansBHC": lambda: dtree.BayesKMeansBHC("gaussian-diag", random_state=0),
    "DPMixtureVB": lambda: dtree.DPMixtureVB(truncation=6, random_state=0),
    "chains": lambda: dtree.DPMixtureMCMC("gibbs", "gaussian-diag", chains=1, draws=20, warmup=20, random_state=0),
}


@pytest.mark.parametrize("name", OTHERS)
def test_levels_of_other_fits(name: str, tmp_path: Path) -> None:
    model = OTHERS[name]().fit(BLOBS)
    found = dtree.levels(model, BLOBS)
    assert adjusted_rand_score(KINDS, found.labels) == 1.0
    assert found.at_clusters(1).max() == 0
    assert 3 in found.table["n_clusters"].tolist()
    dtree.save(model, tmp_path / "run.zarr")
    np.save(tmp_path / "x.npy", BLOBS)
    again = dtree.levels(tmp_path / "run.zarr", str(tmp_path / "x.npy"))
    assert np.array_equal(again.labels, found.labels)


def test_levels_say_what_they_need(blobs: dtree.TreeClustering) -> None:
    assert np.array_equal(dtree.levels(blobs).labels, blobs.labels_)
    bhc = dtree.BHC("gaussian-diag").fit(BLOBS)
    with pytest.raises(ValueError, match="need its rows"):
        dtree.levels(bhc)
    with pytest.raises(ValueError, match="100 rows, but 240 were fitted"):
        dtree.levels(bhc, BLOBS[:100])
    with pytest.raises(ValueError, match="not fitted yet"):
        dtree.levels(dtree.BHC())
    with pytest.raises(ValueError, match="not of a list"):
        dtree.levels([1])


@pytest.mark.parametrize("kind", ["full", "diagonal"])
def test_a_table_of_complete_gaussian_columns_is_cut_as_its_family_is(kind):
    full = dtree.Gaussian(np.zeros(3), 0.05, 6.0, 1.5 * np.eye(3))
    family = full if kind == "full" else dtree.DiagonalGaussian(np.zeros(3), 0.05, np.full(3, 2.0), np.full(3, 0.8))
    mixed, found = dtree.Mixed([(family, [0, 1, 2])]), set()
    for seed in (1, 5, 12, 13):  # by overlap of components three of these would be cut elsewhere
        rng = np.random.default_rng(seed)
        n = 300 + 100 * (seed % 5)
        X = 2.0 * rng.normal(size=(5, 3))[rng.integers(5, size=n)] + rng.normal(size=(n, 3))
        plain, framed = (dtree.TreeClustering(family=one, random_state=0).fit(X) for one in (family, mixed))
        assert np.array_equal(plain.labels_, framed.labels_)
        assert framed.log_evidence_bound_ == pytest.approx(plain.log_evidence_bound_, rel=1e-10)
        found.add(plain.n_clusters_)
    assert len(found) > 1
