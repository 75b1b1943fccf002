"""Chains as parts of a run: the draws of one process, on any number of workers, stopped anywhere."""

from __future__ import annotations

import os
import shutil
import signal

import numpy as np
import pytest
import zarr
from sklearn.base import clone

import dtree
import dtree.mcmc.problem as dtree_problem
import dtree.methods.chains as chains_module
from dtree.cli.chain_table import Watch
from dtree.core.families import DiagonalGaussian
from dtree.core.priors import DirichletProcess, GeneralizedGamma
from dtree.engine.drive import Given, Place, drive, job_of, resume
from dtree.estimators.base import seed_of
from dtree.estimators.chains import DPMixtureMCMC
from dtree.methods.chain_records import ChainStatus
from dtree.methods.chains import Chains, Settings
from dtree.methods.settings import checked
from dtree.runs.run import Run

OPTIONS = {"chains": 3, "draws": 30, "warmup": 10, "thin": 2, "seed": 4}


def sample(data, out, sampler="tgmcmc", chains=4, draws=1000, *, seed=0, client=None, progress=None, **settings):
    """Run the chains into the new folder `out`; returns its path."""
    settings = checked(Settings, {"sampler": sampler, "chains": chains, "draws": draws, **settings})
    return drive(Chains(), settings, Given(data), Place(out, client=client), seed_of(seed), progress).path


def sweep_of(run, chain: int) -> int:
    """Sweeps that a chain of a run has committed."""
    part = job_of(Run.open(run)).newest_part(chain)
    return 0 if part is None else int(part.checkpoint["sweep"])


def rows() -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.array([[0.0, 0.0], [7.0, 0.0], [0.0, 7.0]])[np.arange(45) % 3] + rng.normal(size=(45, 2))


def model() -> dict:
    return {"family": DiagonalGaussian([3.0, 3.0], 0.05, 3.0, [3.0, 3.0]), "prior": GeneralizedGamma()}


def in_process(**changes) -> DPMixtureMCMC:
    settings = {name: value for name, value in OPTIONS.items() if name != "seed"}
    return DPMixtureMCMC(**{**settings, **model(), "random_state": OPTIONS["seed"], **changes}).fit(rows())


@pytest.fixture(scope="module")
def reference() -> DPMixtureMCMC:
    return in_process()


def assert_same(run, reference: DPMixtureMCMC) -> None:
    found = dtree.open(run)
    assert np.array_equal(found.partitions_, reference.partitions_)
    assert found.posterior_.equals(reference.posterior_)
    assert np.array_equal(found.labels_, reference.labels_)
    for mine, theirs in zip(found.checkpoints_, reference.checkpoints_, strict=True):
        for name, value in theirs.items():
            assert np.array_equal(mine[name], value, equal_nan=True), name


def _block(path) -> str:
    return path.name[-8:]


class Stop(Exception):
    pass


def stop_after(blocks: int):
    seen = []

    def watch(status) -> None:
        seen.append(status)
        if len(seen) == blocks:
            raise Stop

    return watch


def test_same_draws_as_in_process(reference, tmp_path):
    sample(rows(), tmp_path / "run", **OPTIONS, **model())
    assert_same(tmp_path / "run", reference)


def test_stopped_and_resumed(reference, tmp_path):
    with pytest.raises(Stop):
        sample(rows(), tmp_path / "run", **OPTIONS, **model(), block_draws=7, progress=stop_after(5))
    run = tmp_path / "run"
    done = {chain: sweep_of(run, chain) for chain in range(3)}
    assert sum(done.values()) == 5 * 14
    with pytest.raises(ValueError, match="is not finished: 'dtree resume"):
        dtree.open(run)
    with pytest.raises(ValueError, match="already holds a run"):
        sample(rows(), run, **OPTIONS, **model())
    watch = Watch()
    watch.remember(run)
    assert [int(row[1]) for row in watch.rows()] == [done[chain] for chain in range(3)]
    seen, states = [], []

    def look(status) -> None:
        seen.append(status)
        if status.chain == 0:  # only the newest two blocks hold where the chain stood
            states.append([path.name[:4] for path in sorted((run / "parts" / "0000").glob("*-*"), key=_block)])

    resume(run, progress=look)
    assert states[-1] == ["kept"] * (len(states[-1]) - 2) + ["gen-"] * 2
    assert len(states[-1]) == 5
    for chain in range(3):
        assert min(status.sweep for status in seen if status.chain == chain) == min(done[chain] + 14, 70)
    assert_same(run, reference)
    resume(run, progress=lambda status: pytest.fail("nothing is left to do"))


def test_the_estimator_runs_its_chains_on_the_cluster(reference, tmp_path, client):
    found = clone(clone(reference).set_params(client=client, out=tmp_path / "run")).fit(rows())
    assert np.array_equal(found.partitions_, reference.partitions_)
    assert found.posterior_.equals(reference.posterior_)
    assert_same(tmp_path / "run", reference)
    weight = np.ones(45, dtype=int)
    weight[:3] = 0
    few = clone(reference).set_params(client=client, draws=5).fit(rows(), sample_weight=weight)
    assert few.labels_.shape == (45,)
    assert few.partitions_.shape == (3, 5, 45)


def test_same_bits_after_a_worker_is_killed(reference, tmp_path, client):
    seen = []

    def kill_one(status) -> None:
        seen.append(status)
        if len(seen) == 4:
            os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)

    sample(rows(), tmp_path / "run", **OPTIONS, **model(), block_draws=5, client=client, progress=kill_one)
    client.wait_for_workers(2, timeout=60)
    assert_same(tmp_path / "run", reference)


def test_partitions_are_stored_compactly_and_anything_can_read_them(reference, tmp_path):
    sample(rows(), tmp_path / "run", **OPTIONS, **model(), block_draws=10)
    assert zarr.open_array(str(tmp_path / "run" / "draws" / "labels"), mode="r").dtype == np.uint8
    import xarray

    stored = xarray.open_datatree(str(tmp_path / "run" / "posterior"), engine="zarr", consolidated=False)
    assert set(stored["posterior"].data_vars) == {"n_clusters", "log_joint", "alpha", "sigma", "u"}
    assert np.array_equal(stored["posterior"]["log_joint"], reference.posterior_["posterior"]["log_joint"])


def test_chains_start_differently(tmp_path):
    sample(rows(), tmp_path / "run", "gibbs", chains=4, draws=1, warmup=0, **model())
    first = dtree.open(tmp_path / "run").partitions_[:, 0]
    assert len({tuple(labels) for labels in first}) > 1


def test_names_constant_columns_and_a_file(tmp_path):
    X = np.column_stack([rows(), np.full(45, 2.0)])
    np.save(tmp_path / "x.npy", X)
    sample(tmp_path / "x.npy", tmp_path / "run", "gibbs", 2, 20, warmup=10, family="gaussian-diag", seed=1)
    found = dtree.open(tmp_path / "run")
    twin = DPMixtureMCMC("gibbs", "gaussian-diag", chains=2, draws=20, warmup=10, random_state=1).fit(X)
    assert np.array_equal(found.partitions_, twin.partitions_)
    assert found.columns_.tolist() == [0, 1]
    assert found.family == "gaussian-diag"
    np.testing.assert_array_equal(found.score_samples(X), twin.score_samples(X))
    np.testing.assert_array_equal(found.predict(X), twin.predict(X))


def test_names_reach_the_run(tmp_path):
    text = "who,width,height\n" + "".join(f"r{i},{a},{b}\n" for i, (a, b) in enumerate(rows()))
    (tmp_path / "x.csv").write_text(text)
    sample(tmp_path / "x.csv", tmp_path / "run", "gibbs", 1, 10, warmup=5, **model())
    found = dtree.open(tmp_path / "run")
    assert found.row_names_.tolist() == [f"r{i}" for i in range(45)]
    assert found.feature_names_in_.tolist() == ["width", "height"]
    dtree.save(found, tmp_path / "saved.zarr")
    assert dtree.open(tmp_path / "saved.zarr").row_names_.tolist() == found.row_names_.tolist()
    page = dtree.report(tmp_path / "run", tmp_path / "page.html").read_text()
    assert "r44" in page
    assert "height" in page


def test_over_the_clusters_of_a_run_in_passes(tmp_path):
    rng = np.random.default_rng(1)
    X = np.array([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]])[np.arange(3000) % 3] + rng.normal(size=(3000, 2))
    dtree.BayesKMeans("gaussian-diag", init_clusters=40, random_state=0, out=tmp_path / "passes").fit(X)
    with pytest.raises(ValueError, match="leave those options out"):
        sample(tmp_path / "passes", tmp_path / "bad", family="gaussian")
    prior = DirichletProcess(0.5)
    sample(tmp_path / "passes", tmp_path / "run", "tgmcmc", 2, 20, warmup=5, prior=prior, seed=2)
    found = dtree.open(tmp_path / "run")
    atoms = zarr.open_array(str(tmp_path / "passes" / "statistics"), mode="r")[...]
    assert np.array_equal(found.atoms_, atoms)
    assert found.atoms_[:, 0].sum() == 3000
    assert found.n_clusters_ >= 3
    assert found.labels_.shape == (atoms.shape[0],)
    assert found.prior == prior
    assert found.family.name == "gaussian-diag"
    assert np.isfinite(found.score_samples(X[:10])).all()
    assert np.unique(found.predict(X[:3])).size == 3


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"sampler": "metropolis"}, "unknown sampler 'metropolis': use one of tgmcmc, tgmcmc-paper, gibbs"),
        ({"draws": 0}, "draws must be at least 1"),
        ({"chains": 0}, "chains must be at least 1"),
        ({"warmup": -1}, "warmup must not be negative"),
        ({"loss": "zero-one"}, "unknown loss"),
        ({"data": np.zeros((1, 2))}, "at least 2 rows"),
    ],
)
def test_bad_input_leaves_nothing_behind(tmp_path, changes, sentence):
    settings = {"data": rows(), "out": tmp_path / "run", **changes}
    with pytest.raises(ValueError, match=sentence):
        sample(**settings)
    assert not (tmp_path / "run").exists()


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
def test_a_chain_that_cannot_start(tmp_path):
    hopeless = DiagonalGaussian([0.0, 0.0], 1e-300, 1e-300, [1e-300, 1e-300])
    with pytest.raises(ValueError, match="so far from the others, or weigh so much, that rounding drowns the spread"):
        sample(1e140 * rows(), tmp_path / "run", "gibbs", 2, 10, family=hopeless, prior="dp")
    assert not (tmp_path / "run").exists()


def test_all_rows_equal(tmp_path):
    sample(np.full((12, 2), 3.0), tmp_path / "run", "tgmcmc", 2, 10, warmup=5)
    assert dtree.open(tmp_path / "run").n_clusters_ == 1


def _lose_a_record(folder) -> None:
    (folder / "gen-00000002" / "zarr.json").write_text("{")


def _lose_draws(folder) -> None:
    shutil.rmtree(folder / "kept-00000001")


@pytest.mark.parametrize("lose", [_lose_a_record, _lose_draws])
def test_what_a_chain_lost_is_named_and_drawn_again(tmp_path, lose):
    options = {"sampler": "gibbs", "chains": 1, "draws": 20, "warmup": 0, "block_draws": 5, **model()}
    whole = dtree.open(sample(rows(), tmp_path / "whole", **options))
    with pytest.raises(Stop):
        sample(rows(), tmp_path / "run", **options, progress=stop_after(3))
    lose(tmp_path / "run" / "parts" / "0000")
    with pytest.warns(RuntimeWarning, match="damaged: .*part 0 begins again, to the same end"):
        resume(tmp_path / "run")
    assert np.array_equal(dtree.open(tmp_path / "run").partitions_, whole.partitions_)


def test_too_many_rows_are_named(tmp_path, monkeypatch):
    monkeypatch.setattr("dtree.methods.chains.MOST_LEAVES", 44)
    with pytest.raises(ValueError, match="45 rows are too many leaves for a chain"):
        sample(rows(), tmp_path / "run", **model())


def test_facts(reference):
    facts = Chains().facts(reference._fitted, np.arange(45))
    assert facts.headline == f"{reference.n_clusters_} clusters in the point estimate of 3 chains of 30 draws"
    assert facts.lines["chains"] == "3 chains of 30 draws after 10 sweeps, sampler tgmcmc"
    assert np.array_equal(facts.row_leaf, np.arange(45))
    assert np.array_equal(facts.traces["log joint"][1], reference.posterior_["posterior"]["log_joint"])
    assert facts.tables["Summary of the draws"].equals(reference.summary())
    drawn, found = facts.shape(), reference.credibility()
    assert np.array_equal(drawn.left, reference.tree_.left)
    assert np.array_equal(drawn.r, found.together)
    assert np.array_equal(drawn.p, found.cluster)
    without = np.arange(45)
    without[3] = -1
    assert Chains().facts(reference._fitted, without).row_leaf is None


def test_a_status_in_one_line():
    nothing = np.empty(0)
    assert ChainStatus(2, 0, 40, nothing, nothing, 1, -12.34).line() == "chain 2: sweep 40, 1 cluster, log joint -12.3"


def test_a_problem_is_made_once_for_every_chain(monkeypatch):
    made = []

    class Counted(dtree_problem.Problem):
        def __init__(self, *arguments) -> None:
            made.append(1)
            super().__init__(*arguments)

    monkeypatch.setattr("dtree.methods.chains.Problem", Counted)
    settings = Settings("gibbs", **model(), chains=2, draws=20, warmup=0, block_draws=4)
    run = drive(Chains(), settings, Given(rows()))
    assert len(made) == 2
    held = {key[0] for key in chains_module._problems.held}
    assert run.header.run_id not in held  # let go of at the end


@pytest.mark.parametrize(("family", "sampler"), [("gaussian", "tgmcmc"), ("bernoulli", "gibbs")])
def test_the_estimator_samples_the_clusters_of_a_run(family, sampler, tmp_path):
    data = rows() if family == "gaussian" else (rows() > 3.0).astype(float)
    part = dtree.BayesKMeans(family, random_state=0, out=tmp_path / "part").fit(data)
    few = {"sampler": sampler, "chains": 2, "draws": 10, "warmup": 5}
    found = DPMixtureMCMC(**few, random_state=4).fit(tmp_path / "part")
    sample(tmp_path / "part", tmp_path / "run", seed=4, **few)
    assert_same(tmp_path / "run", found)
    assert np.array_equal(found.atoms_, part.statistics_)
    assert found.family_.parameters().keys() == part.family_.parameters().keys()
    assert found.predict(data).shape == (45,)
    assert DPMixtureMCMC(prior="nggp", **few).fit(str(tmp_path / "part")).prior_.name == "nggp"
    with pytest.raises(ValueError, match="leave those options out"):
        DPMixtureMCMC(family="gaussian-diag", **few).fit(tmp_path / "part")
    with pytest.raises(ValueError, match="leave out sample_weight"):
        DPMixtureMCMC(**few).fit(tmp_path / "part", sample_weight=np.ones(part.n_clusters_))
