"""At home in scikit-learn: output containers, routed weights, names out, notebooks, attributes of mixtures."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.mixture import BayesianGaussianMixture
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import dtree

CHAINS = {"chains": 1, "draws": 5, "warmup": 5, "random_state": 0}
MODELS = {
    "tree": dtree.TreeClustering(random_state=0),
    "bhc": dtree.BHC("gaussian-diag"),
    "full": dtree.BHC("gaussian"),
    "kmeans": dtree.BayesKMeans("gaussian-diag", random_state=0),
    "kmeans-bhc": dtree.BayesKMeansBHC("gaussian-diag", random_state=0),
    "incremental": dtree.IncrementalBHC("gaussian-diag", random_state=0),
    "vb": dtree.DPMixtureVB(family="gaussian-diag", truncation=5, random_state=0),
    "chains": dtree.DPMixtureMCMC(family="gaussian-diag", **CHAINS),
}


def blobs() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal([0.0, 0.0], [1.0, 2.0], (40, 2)), rng.normal([30.0, 60.0], [1.0, 2.0], (20, 2))])
    return pd.DataFrame(X, columns=["width", "height"])


@pytest.mark.parametrize("name", MODELS)
def test_memberships_are_features_with_names(name: str) -> None:
    X = blobs()
    model = clone(MODELS[name]).set_output(transform="pandas")
    again = clone(model)  # keeps the container
    out = again.fit_transform(X)
    assert isinstance(out, pd.DataFrame)
    assert out.columns.tolist() == again.get_feature_names_out().tolist()
    assert out.columns[0] == type(model).__name__.lower() + "0"
    assert out.index.equals(X.index)
    np.testing.assert_array_equal(out.to_numpy(), again.predict_proba(X))
    assert again.feature_names_in_.tolist() == ["width", "height"]
    piped = make_pipeline(StandardScaler(), clone(MODELS[name])).set_output(transform="pandas").fit(X)
    assert piped.transform(X).shape[0] == 60
    assert piped[:-1].get_feature_names_out().tolist() == ["width", "height"]


@pytest.mark.parametrize("name", [name for name in MODELS if name != "incremental"])
def test_weights_are_routed_through_a_pipeline(name: str) -> None:
    X, weight = blobs(), np.ones(60)
    weight[:5] = 3
    with sklearn.config_context(enable_metadata_routing=True):
        asked = clone(clone(MODELS[name]).set_fit_request(sample_weight=True))
        piped = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), asked)
        piped.fit(X, sample_weight=weight)
        scaled = StandardScaler().fit(X).transform(X)
        direct = clone(MODELS[name]).fit(scaled, sample_weight=weight)
        assert np.array_equal(piped[-1].labels_, direct.labels_)
        refusing = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), clone(MODELS[name]))
        with pytest.raises(ValueError, match="sample_weight"):
            refusing.fit(X, sample_weight=weight)


@pytest.mark.parametrize("name", MODELS)
def test_gaussian_clusters_have_the_attributes_of_a_mixture(name: str) -> None:
    X = blobs().to_numpy()
    model = clone(MODELS[name]).fit(X)
    full = model.covariances_.ndim == 3
    peer = BayesianGaussianMixture(n_components=2, covariance_type="full" if full else "diag", random_state=0).fit(X)
    held = np.argsort(-model.weights_)[:2]
    np.testing.assert_allclose(model.means_[held], [X[:40].mean(axis=0), X[40:].mean(axis=0)], atol=0.2)
    np.testing.assert_allclose(model.weights_[held], [2 / 3, 1 / 3], atol=0.02)
    assert model.covariances_[held].shape == peer.covariances_.shape
    wide = model.covariances_[held]
    wide = np.diagonal(wide, axis1=1, axis2=2) if full else wide
    np.testing.assert_allclose(wide, [[1.0, 4.0]] * 2, rtol=0.8)


def test_other_families_have_no_covariances() -> None:
    model = dtree.BHC("poisson").fit([[1], [2], [90], [95]])
    assert not hasattr(model, "covariances_")
    assert not hasattr(model, "means_")
    np.testing.assert_allclose(model.weights_, [0.5, 0.5])
    assert not hasattr(dtree.BHC(), "weights_")


@pytest.mark.parametrize("name", MODELS)
def test_a_fitted_model_shows_its_tree_in_a_notebook(name: str) -> None:
    model = clone(MODELS[name])
    before = model._repr_mimebundle_()["text/html"]
    assert "<svg xmlns" not in before.split("sk-")[-1]
    model.fit(blobs())
    page = model._repr_mimebundle_()["text/html"]
    assert page.count('<div class="dtree">') == 1
    assert "A tree over" in page
    assert "clusters" in page
    assert '<div class="dtree">' in model._repr_html_()
    if name == "tree":
        assert model.level_reason_.split(":")[0] in page


def test_a_tree_is_a_picture() -> None:
    import xml.etree.ElementTree as xml

    rows = np.random.default_rng(0).normal(size=(100, 2)) + np.repeat([[0.0], [50.0]], 50, axis=0)
    tree = dtree.BHC("gaussian-diag").fit(rows).tree_
    picture = xml.fromstring(tree._repr_svg_())
    space = "{http://www.w3.org/2000/svg}"
    shown = [text.text for text in picture.iter(f"{space}text")]
    total = sum(int(text.split()[0]) if "rows" in text else 1 for text in shown)
    assert total == 100  # what is not drawn is counted
    assert len(list(picture.iter(f"{space}polygon"))) >= 2
    few = dtree.BHC("poisson").fit([[1], [2], [90], [95]]).tree_
    assert few._repr_svg_().count("<path") == 6
    levels = dtree.TreeClustering("components", random_state=0).fit(rows).tree_
    assert xml.fromstring(levels._repr_svg_()).get("aria-label") == f"A tree over {levels.n_leaves} leaves"
