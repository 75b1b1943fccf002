"""The report's contents: what is said is true, and no name can leave its place."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.metrics import mutual_info_score

import dtree
from dtree.core.families import FAMILIES, moments_of
from dtree.core.model import Model
from dtree.core.priors import DirichletProcess
from dtree.core.tree import Tree
from dtree.datasets import nested_creatures
from dtree.reporting.markup import ticks
from dtree.reporting.profile import contrast, most_distinct, profile_of
from dtree.reporting.projection import principal_plane
from dtree.reporting.sections_tree import node_features
from dtree.reporting.subject import subject_of

HOSTILE = "</script><img src=x onerror=alert(1)><!--"


class _Elements(HTMLParser):
    """Every element of a page with its attributes, the ids, and the text of scripts and headings."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self._inside = ""
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._inside = tag

    def handle_data(self, data: str) -> None:
        self.texts.setdefault(self._inside, []).append(data)

    @property
    def data(self) -> dict[str, Any]:
        return json.loads(self.texts["script"][0])


@pytest.fixture(scope="module")
def creatures() -> tuple[Any, Any]:
    data = nested_creatures(54)
    return dtree.BHC("gaussian-diag").fit(data.X), data


def test_hostile_names_are_inert_everywhere(creatures: Any, tmp_path: Path) -> None:
    model, data = creatures
    names = [HOSTILE, *data.row_names[1:]]
    features = [HOSTILE, *data.feature_names[1:]]
    page = _Elements(dtree.report(model, tmp_path / "page.html", names, feature_names=features, title=HOSTILE))
    assert [tag for tag, _ in page.elements].count("script") == 2
    assert not [tag for tag, at in page.elements if tag == "img" or any(name.startswith("on") for name in at)]
    assert page.data["tree"]["names"][0] == HOSTILE
    assert HOSTILE in dict(page.data["tree"]["featureNames"]).values()
    assert HOSTILE in page.texts["h1"][0]
    policy = next(at["content"] for tag, at in page.elements if at.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert policy.startswith("default-src 'none'")


def test_the_page_fetches_nothing(creatures: Any, tmp_path: Path) -> None:
    page = _Elements(dtree.report(creatures[0], tmp_path / "page.html"))
    for tag, at in page.elements:
        assert tag not in ("link", "iframe", "object", "embed")
        for name in ("src", "href"):
            assert (at.get(name) or "#").startswith(("#", "data:"))


def test_tree_of_the_page_is_the_tree_of_the_model(creatures: Any, tmp_path: Path) -> None:
    model, data = creatures
    tree = _Elements(dtree.report(model, tmp_path / "page.html", data.row_names)).data["tree"]
    assert np.array_equal(np.column_stack([tree["left"], tree["right"]]), model.tree_.merges)
    assert tree["cluster"] == model.labels_.tolist()
    assert tree["names"] == data.row_names
    np.testing.assert_allclose(tree["r"], model.tree_.r[model.tree_.n_leaves :], rtol=1e-3, atol=1e-300)


def test_features_of_a_node_are_means_in_standard_units(creatures: Any) -> None:
    model, data = creatures
    subject = subject_of(model)
    z = (data.X - data.X.mean(axis=0)) / data.X.std(axis=0)
    sibling = subject.shape.sibling
    found = node_features(subject)
    assert len(found) == model.tree_.n_leaves - 2
    for node, listed in found.items():
        here, there = (z[model.tree_.leaves_below(k)].mean(axis=0) for k in (node, sibling[node]))
        order = np.argsort(-np.abs(here - there))
        assert [k for k, _, _ in listed] == order[: len(listed)].tolist()
        for k, value, other in listed:
            assert value == pytest.approx(here[k], rel=1e-3, abs=1e-3)
            assert other == pytest.approx(there[k], rel=1e-3, abs=1e-3)


def test_words_are_ranked_by_mutual_information() -> None:
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (40, 6)).astype(float)
    side = np.repeat([1, 0], [15, 25])
    here, there = X[:15].sum(axis=0), X[15:].sum(axis=0)
    scores = contrast("share", here[None], np.array([15.0]), there[None], np.array([25.0]))[0]
    expected = [mutual_info_score(side, X[:, k]) for k in range(6)]
    np.testing.assert_allclose(np.abs(scores), expected, atol=1e-12)
    assert np.array_equal(scores >= 0, here / 15 >= there / 25)
    best = most_distinct(scores[None], 3, only_more=True)[0]
    assert best[0] == np.argmax(scores)
    assert np.all(scores[best[best >= 0]] > 0)


@pytest.mark.parametrize("family", sorted(FAMILIES))
@pytest.mark.parametrize("coarsening", [1.0, 0.5])
def test_profiles_are_averages_of_the_rows(family: str, coarsening: float) -> None:
    rng = np.random.default_rng(1)
    kind = FAMILIES[family]
    X = {"real": rng.normal(3.0, 2.0, (12, 3)), "binary": rng.integers(0, 2, (12, 3)), "count": rng.poisson(4, (12, 3))}
    rows = {**X, "mixed": X["real"], "category": X["binary"]}[kind.value_kind].astype(float)
    model = Model(kind.defaults(moments_of(rows)), DirichletProcess(1.0), coarsening)
    profile = profile_of(model.family, model.atoms(rows), coarsening)
    assert profile is not None
    groups = profile.of(np.arange(12) % 2, 2)
    if family == "categorical":  # the share of the most common level
        rows = (rows == np.round(rows.mean(axis=0))).astype(float)
    values = rows / rows.sum(axis=1, keepdims=True) if family == "multinomial" else rows
    np.testing.assert_allclose(profile.in_data_units(), values, atol=1e-9)
    if family != "multinomial":
        np.testing.assert_allclose(groups.in_data_units()[0], rows[::2].mean(axis=0), atol=1e-9)


def test_the_plane_is_that_of_principal_components(creatures: Any) -> None:
    model, data = creatures
    profile = profile_of(model.family_, model.atoms_)
    assert profile is not None
    plane = principal_plane(profile)
    z = (data.X - data.X.mean(axis=0)) / data.X.std(axis=0)
    expected = PCA(2).fit(z)
    np.testing.assert_allclose(np.abs(plane.places), np.abs(expected.transform(z)), atol=1e-8)
    np.testing.assert_allclose(plane.share, expected.explained_variance_ratio_, atol=1e-8)


def test_mean_pictures_of_images(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = (rng.random((30, 16)) < np.where((np.arange(16) < 8) ^ (np.arange(30)[:, None] < 15), 0.95, 0.05)).astype(float)
    model = dtree.BHC("bernoulli").fit(X)
    page = _Elements(dtree.report(model, tmp_path / "page.html", image_shape=(4, 4)))
    pictures = [at for tag, at in page.elements if tag == "img"]
    assert len(pictures) == model.n_clusters_ == 2
    assert all((at["alt"] or "").startswith("mean picture of cluster") for at in pictures)
    with pytest.raises(ValueError, match="image_shape 5 x 4 has 20 pixels but there are 16 features"):
        dtree.report(model, tmp_path / "page.html", image_shape=(5, 4))


def test_bayes_kmeans_with_rows(tmp_path: Path) -> None:
    data = nested_creatures(300)
    model = dtree.BayesKMeansBHC("gaussian-diag", random_state=0).fit(data.X)
    page = _Elements(dtree.report(model, tmp_path / "page.html", data.row_names, X=data.X))
    tree = page.data["tree"]
    assert tree["rows"]["names"] == data.row_names
    assert tree["rows"]["leaf"] == model.atom_labels_.tolist()
    assert sum(tree["size"]) == 300
    points = [at for tag, at in page.elements if tag == "circle" and "point" in (at.get("class") or "")]
    assert len(points) == 300
    assert {at.get("id") for _, at in page.elements} >= {"tree", "clusters", "projection", "evidence", "traces"}


def test_variational(tmp_path: Path) -> None:
    data = nested_creatures(60)
    model = dtree.DPMixtureVB("TSB", "gaussian-diag", truncation=12, random_state=0, split_merge=0).fit(data.X)
    page = _Elements(dtree.report(model, tmp_path / "page.html", data.row_names))
    assert sum(page.data["tree"]["size"]) == 60
    assert {"evidence", "traces"} <= {str(at.get("id")) for _, at in page.elements}


def test_chains(tmp_path: Path) -> None:
    data = nested_creatures(27)
    model = dtree.DPMixtureMCMC("gibbs", "gaussian-diag", chains=2, draws=12, warmup=5, random_state=0).fit(data.X)
    page = _Elements(dtree.report(model, tmp_path / "page.html", data.row_names))
    assert {"chains", "together"} <= {str(at.get("id")) for _, at in page.elements}
    assert any("r_hat" in text for text in page.texts["th"])


def test_diffusion_tree(tmp_path: Path) -> None:
    data = nested_creatures(9)
    model = dtree.DiffusionTree(n_permutations=1, search_steps=2, n_trees=2, random_state=0).fit(data.X)
    page = _Elements(dtree.report(model, tmp_path / "page.html", data.row_names))
    tree = page.data["tree"]
    assert sorted(tree["left"] + tree["right"]) == list(range(16))
    assert tree["scale"] == "time"
    assert tree["names"] == data.row_names
    assert tree["cluster"] == model.labels_.tolist()


def test_incremental(tmp_path: Path) -> None:
    data = nested_creatures(27)
    model = dtree.IncrementalBHC("gaussian-diag", random_state=0).fit(data.X)
    page = _Elements(dtree.report(model, tmp_path / "page.html", data.row_names))
    assert page.data["tree"]["cluster"] == model.labels_.tolist()


def test_one_row_and_one_feature(tmp_path: Path) -> None:
    family, prior = FAMILIES["poisson"](1.0, 0.5), DirichletProcess(1.0)
    page = _Elements(dtree.report(dtree.BHC(family, prior).fit([[3]]), tmp_path / "page.html"))
    assert page.data["tree"]["left"] == []


def test_bad_input_gets_one_sentence(creatures: Any, tmp_path: Path) -> None:
    model, data = creatures
    with pytest.raises(ValueError, match="there are 2 row names but 54 rows"):
        dtree.report(model, tmp_path / "page.html", ["a", "b"])
    with pytest.raises(ValueError, match="there are 2 feature names but 4 features"):
        dtree.report(model, tmp_path / "page.html", feature_names=["a", "b"])
    with pytest.raises(ValueError, match="is not fitted yet"):
        dtree.report(dtree.BHC(), tmp_path / "page.html")
    with pytest.raises(ValueError, match="no report about a dict"):
        dtree.report({}, tmp_path / "page.html")
    with pytest.raises(ValueError, match="is a folder, not a file"):
        dtree.report(model, tmp_path)
    with pytest.raises(ValueError, match=r"X has shape \(54, 3\) but the model was fitted to 4 features"):
        dtree.report(model, tmp_path / "page.html", X=data.X[:, :3])
    assert not list(tmp_path.iterdir())


def test_ticks_are_round_and_inside() -> None:
    assert ticks(31.5, 32.5, whole=True) == [32.0]
    assert ticks(2.0, 2.0) == [2.0]
    for low, high in ((-3.2, 1e-3), (1e6, 1e6 + 7), (0.0, 1e-9)):
        found = ticks(low, high)
        assert 2 <= len(found) <= 7
        assert low - 1e-9 <= found[0] <= found[-1] <= high + 1e-9


def test_a_tree_alone(tmp_path: Path) -> None:
    tree = Tree.from_merges([[0, 1], [2, 3]], [1, 1, 1], np.log([0.5, 0.5, 0.5, 0.4, 0.05]))
    page = _Elements(dtree.report(tree, tmp_path / "page.html", ["ash", "box", "cat"]))
    assert page.data["tree"]["names"] == ["ash", "box", "cat"]
