"""DPMixtureMCMC: what fit sets, that it is reproducible, and its predictive density."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from dtree.core.families import DiagonalGaussian
from dtree.core.priors import DirichletProcess, GeneralizedGamma
from dtree.estimators.chains import DPMixtureMCMC
from dtree.mcmc.credibility import node_credibility
from dtree.mcmc.point_estimate import best_partition, coclustering, sparse_coclustering
from tests.naive.mcmc import partition_distance

GOLDEN = Path(__file__).parent.parent / "golden"


def blobs() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 15)
    return np.array([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]])[y] + rng.normal(size=(45, 2)), y


def family() -> DiagonalGaussian:
    return DiagonalGaussian([3.0, 3.0], 0.05, 3.0, [3.0, 3.0])


def fitted(**changes) -> DPMixtureMCMC:
    settings = {
        "family": family(),
        "prior": GeneralizedGamma(),
        "chains": 2,
        "draws": 40,
        "warmup": 20,
        "random_state": 1,
    }
    return DPMixtureMCMC(**{**settings, **changes}).fit(blobs()[0])


def test_finds_the_clusters_and_sets_what_it_says() -> None:
    model = fitted()
    X, y = blobs()
    assert adjusted_rand_score(y, model.labels_) > 0.95
    assert model.partitions_.shape == (2, 40, 45)
    posterior = model.posterior_["posterior"]
    assert set(posterior.data_vars) == {"n_clusters", "log_joint", "alpha", "sigma", "u"}
    assert posterior["log_joint"].dims == ("chain", "draw")
    together = model.coclustering()
    assert together.shape == (45, 45)
    assert np.allclose(np.diag(together), 1.0)
    assert together[y == 0][:, y == 0].mean() > 0.9
    assert np.mean(model.predict(X) == model.labels_) > 0.95
    assert {"n_clusters", "alpha"} <= set(model.summary().index)


def test_threads_and_stops_change_nothing() -> None:
    whole, threaded = fitted(), fitted(n_jobs=2)
    parts = fitted(draws=15).more_draws(25)
    for other in (threaded, parts):
        assert np.array_equal(whole.partitions_, other.partitions_)
        for name in ("alpha", "sigma", "u", "log_joint"):
            assert np.array_equal(whole.posterior_["posterior"][name], other.posterior_["posterior"][name])
    with pytest.raises(ValueError, match="draws must be at least 1"):
        parts.more_draws(0)


def test_density_integrates_to_one() -> None:
    X = blobs()[0][:, :1]
    narrow = DiagonalGaussian([3.0], 0.05, 3.0, [3.0])
    for prior in (DirichletProcess(), GeneralizedGamma()):
        model = DPMixtureMCMC(family=narrow, prior=prior, chains=1, draws=30, warmup=20, random_state=0).fit(X)
        grid = np.linspace(-150.0, 150.0, 6001)
        assert np.exp(model.score_samples(grid[:, None])).sum() * 0.05 == pytest.approx(1.0, abs=1e-2)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(5))
def test_predictive_equals_the_golden_one(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    golden = json.loads((GOLDEN / "nrm.json").read_text())["posterior"]
    case, p = golden["cases"][number], golden["params"]
    prior = DirichletProcess(**case["params"]) if case["measure"] == "dp" else GeneralizedGamma(**case["params"], u=1.0)
    model = DPMixtureMCMC(
        family=DiagonalGaussian(p["m"], p["k"], p["a"], p["b"]),
        prior=prior,
        chains=2,
        draws=4000,
        warmup=50,
        resample_hyperparameters=False,
        random_state=0,
    ).fit(np.array(golden["X"]))
    monkeypatch.setattr("dtree.mcmc.predictive.PREDICTIVE_DRAWS", 8000)
    scores = model.score_samples(np.array(case["X_test"]))
    np.testing.assert_allclose(scores, case["log_predictive_exact"], atol=0.05)


def test_point_estimates() -> None:
    draws = np.array([[0, 0, 1, 1], [0, 0, 1, 1], [0, 0, 0, 1]])
    for loss in ("vi", "binder"):
        assert best_partition(draws, loss=loss).tolist() == [0, 0, 1, 1]
        assert partition_distance(draws[0], draws[1], np.ones(4), loss) == 0.0
    assert coclustering(draws)[0, 2] == pytest.approx(1 / 3)
    with pytest.raises(ValueError, match="unknown loss"):
        best_partition(draws, loss="zero-one")


def test_bad_settings_are_named() -> None:
    X = blobs()[0]
    with pytest.raises(ValueError, match="unknown sampler"):
        DPMixtureMCMC("hmc", family()).fit(X)
    with pytest.raises(ValueError, match="draws must be at least 1"):
        DPMixtureMCMC(family=family(), draws=0).fit(X)
    with pytest.raises(ValueError, match="features"):
        DPMixtureMCMC(family=DiagonalGaussian([0.0], 0.1, 2.0, [1.0])).fit(X)


def test_credibility_counts_draws() -> None:
    model = fitted()
    flat, tree = model._fitted.partitions, model.tree_
    tree.validate()
    found = model.credibility()
    below = [{leaf} for leaf in range(45)]
    for node in range(45, 89):
        below.append(below[tree.left[node - 45]] | below[tree.right[node - 45]])
    for node in (0, 44, 50, 70, 87, 88):
        members = sorted(below[node])
        together = [len(set(draw[members])) == 1 for draw in flat]
        alone = [
            one and np.count_nonzero(draw == draw[members[0]]) == len(members) for one, draw in zip(together, flat)
        ]
        assert found.together[node] == pytest.approx(np.mean(together))
        assert found.cluster[node] == pytest.approx(np.mean(alone))
    y = blobs()[1]
    truth = [next(k for k, s in enumerate(below) if s == set(np.flatnonzero(y == c))) for c in range(3)]
    assert found.together[truth].min() > 0.3
    assert found.together[-1] < 0.05
    with pytest.raises(ValueError, match="45 leaves"):
        node_credibility(tree, flat[:, :5])


def test_sparse_coclustering_is_the_dense_one_above_a_threshold() -> None:
    model = fitted()
    dense, some = model.coclustering(), model.coclustering(least=0.2)
    np.testing.assert_allclose(some.toarray(), np.where(dense >= 0.2, dense, 0.0), atol=1e-12)
    assert model.coclustering(rows=[3, 20], least=0.0).shape == (2, 2)
    many = np.random.default_rng(0).integers(0, 3, size=(12, 30_000))
    with pytest.raises(ValueError, match="too many"):
        sparse_coclustering(many, 0.0)


def test_atoms_as_leaves() -> None:
    X = blobs()[0]
    atoms = np.add.reduceat(family().statistics(X), np.arange(0, 45, 3))
    model = DPMixtureMCMC("gibbs", family(), chains=1, draws=20, warmup=10, random_state=0).fit_atoms(atoms)
    assert model.partitions_.shape == (1, 20, 15)
    assert model.atoms_[:, 0].sum() == 45
    assert np.isfinite(model.score_samples(X)).all()
    with pytest.raises(ValueError, match="as an object"):
        DPMixtureMCMC().fit_atoms(atoms)
    with pytest.raises(ValueError, match="positive count"):
        model.fit_atoms(0.0 * atoms)
    with pytest.raises(ValueError, match="rows of 5 numbers"):
        model.fit_atoms(atoms[:, :2])


def test_files_frames_and_dask_collections(tmp_path: Path) -> None:
    dask_array = pytest.importorskip("dask.array")
    X = blobs()[0]
    settings = {"chains": 1, "draws": 10, "warmup": 5, "random_state": 0, "family": family()}
    text = "name,width,height\n" + "".join(f"r{i},{float(a)!r},{float(b)!r}\n" for i, (a, b) in enumerate(X))
    (tmp_path / "rows.csv").write_text(text)
    here = DPMixtureMCMC("gibbs", **settings).fit(X)
    found = DPMixtureMCMC("gibbs", **settings).fit(tmp_path / "rows.csv")
    assert np.array_equal(found.partitions_, here.partitions_)
    assert found.row_names_[:2].tolist() == ["r0", "r1"]
    assert found.feature_names_in_.tolist() == ["width", "height"]
    np.testing.assert_array_equal(found.score_samples(str(tmp_path / "rows.csv")), here.score_samples(X))
    of_dask = DPMixtureMCMC("gibbs", **settings).fit(dask_array.from_array(X, chunks=20))
    assert np.array_equal(of_dask.partitions_, here.partitions_)
