"""Every family with every method in every place, and a family of one's own that has nothing but what is required."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import dtree
from dtree.cli.app import app
from dtree.core.families import FAMILIES
from dtree.engine.cluster import cluster_client
from dtree.engine.drive import Given, Place, drive
from dtree.guide import support
from dtree.methods import METHODS, method_named
from dtree.methods.settings import checked
from dtree.variational.variants import VARIANTS
from tests.engine.test_features import METHODS as QUICK
from tests.engine.test_features import SEED, bits
from tests.families_of_ones_own import Waiting

ROWS = {
    "real": np.random.default_rng(0).normal(size=(40, 3)) + np.repeat([[0.0], [9.0]], 20, axis=0),
    "binary": (np.random.default_rng(0).random((40, 3)) < np.repeat([[0.1], [0.9]], 20, axis=0)).astype(float),
    "category": (np.random.default_rng(0).random((40, 3)) < np.repeat([[0.1], [0.9]], 20, axis=0))
    * np.array([1.0, 2.0, 3.0]),
    "mixed": np.where(
        np.random.default_rng(1).random((40, 3)) < 0.1,
        np.nan,
        np.random.default_rng(0).normal(size=(40, 3)) + np.repeat([[0.0], [9.0]], 20, axis=0),
    ),
    "count": np.random.default_rng(0).poisson(np.repeat([[1.0, 5.0, 2.0], [30.0, 1.0, 9.0]], 20, axis=0)).astype(float),
}
CELLS = [(f, m) for f in FAMILIES for m in METHODS if method_named(m).takes(FAMILIES[f])]


def settings(method: str, **more: Any) -> Any:
    return checked(method_named(method).Settings, {**QUICK[method], **more})


@pytest.fixture(scope="module")
def client():
    with cluster_client(n_workers=2, processes=False, warm=False) as found:
        yield found


@pytest.mark.parametrize(("family", "method"), CELLS)
def test_memory_workers_and_command_give_one_answer(family, method, client, tmp_path):
    X = ROWS[FAMILIES[family].value_kind]
    np.save(tmp_path / "x.npy", X)
    here = drive(method_named(method), settings(method, family=family), Given(X), seed=SEED)
    there = drive(method_named(method), settings(method, family=family), Given(X), Place(client=client), SEED)
    assert bits(there) == bits(here)
    command = method_named(method).command
    if not command:
        return
    words = [command, str(tmp_path / "x.npy"), "--out", str(tmp_path / "run.zarr"), "--seed", "3"]
    words += {"bhc": ["--method", "exact"], "bayes-kmeans-bhc": ["--method", "bayes-kmeans"], "randomized": ["--method", "randomized", "--workers", "1"]}.get(method, [])  # fmt: skip  # noqa: E501
    options = {name: value for name, value in {**QUICK[method], "family": family}.items() if name != "method"}
    for name, value in options.items():
        words += [f"--{name.replace('_', '-')}", str(value)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    from dtree.runs.run import Run

    assert bits(Run.open(tmp_path / "run.zarr")) == bits(here)
    dtree.report(tmp_path / "run.zarr", tmp_path / "page.html")


def test_the_table_of_the_guide_is_the_registries():
    table = support.__doc__
    for name in METHODS:
        row = next(line for line in table.splitlines() if line.startswith(f"| {name} |"))
        assert row.count("| yes") == (len(FAMILIES) + 1 if (next(iter(FAMILIES)), name) in CELLS else 0)


# A family of one's own ------------------------------------------------------------------------------------------------

TIMES = np.concatenate([np.random.default_rng(1).exponential(scale, (25, 2)) for scale in (0.02, 50.0)])


@pytest.mark.parametrize(
    "method", [name for name in METHODS if "family" in method_named(name).Settings.__struct_fields__]
)
def test_a_family_of_ones_own_works_with_every_method(method, client, tmp_path, monkeypatch):
    monkeypatch.setitem(FAMILIES, "waiting", Waiting)
    family = Waiting(shape=0.7, rate=1.0)
    here = drive(method_named(method), settings(method, family=family), Given(TIMES), seed=SEED)
    there = drive(method_named(method), settings(method, family=family), Given(TIMES), Place(tmp_path / "run", client=client), SEED)  # fmt: skip  # noqa: E501
    assert bits(there) == bits(here)
    model = dtree.open(tmp_path / "run")
    agree = (model.predict(TIMES) == model.predict(TIMES[:1])).tolist()
    assert np.mean(agree[:25]) > 0.8
    assert np.mean(agree[25:]) < 0.2
    assert np.all(np.isfinite(model.score_samples(TIMES)))
    dtree.save(model, tmp_path / "saved.zarr")
    assert np.array_equal(dtree.open(tmp_path / "saved.zarr").labels_, model.labels_)
    page = dtree.report(tmp_path / "run", tmp_path / "page.html")
    assert "Waiting" in page.read_text()


@pytest.mark.parametrize(
    "sampler",
    [
        "tgmcmc",
        "gibbs",
        "split-merge",
        "gibbs-subset",
        "split-merge-subset",
        pytest.param("tgmcmc-paper", marks=pytest.mark.slow),  # compiles for long, and is there for comparison only
    ],
)
def test_a_family_of_ones_own_is_sampled(sampler):
    chains = dtree.DPMixtureMCMC(sampler, Waiting(0.7, 1.0), "dp", chains=1, draws=20, warmup=20, random_state=0)
    together = chains.fit(TIMES).coclustering()
    assert together[:25, :25].mean() > 4 * together[:25, 25:].mean()


def test_slice_sampling_says_what_a_family_of_ones_own_lacks():
    with pytest.raises(ValueError, match="slice") as caught:
        dtree.DPMixtureMCMC("slice", Waiting(0.7, 1.0), chains=1, draws=2).fit(TIMES)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_family_of_ones_own_has_all_six_bounds(variant):
    model = dtree.DPMixtureVB(variant, Waiting(0.7, 1.0), truncation=5, random_state=0).fit(TIMES)
    steps = np.diff(model.elbo_trace_)
    assert model.n_clusters_ >= 2
    assert variant.startswith(("C", "O-C")) or np.all(steps > -1e-6)
