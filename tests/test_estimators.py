"""BHC as a scikit-learn estimator: conventions, golden predictives, equivariance, weights, learning, coarsening."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from scipy.integrate import quad
from scipy.stats import ortho_group
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.utils.estimator_checks import parametrize_with_checks

import dtree
from dtree import BHC, DirichletProcess
from tests.core.test_families import rows_for
from tests.golden import golden, golden_family, golden_prior
from tests.hierarchy.test_bounds import GOLDEN_NAME

REASONS = {
    "check_sample_weight_equivalence_on_dense_data": (
        "a row of weight w is one atom, kept in one cluster; w copies of it may be merged with others first"
    ),
}


@parametrize_with_checks(
    [BHC(), dtree.TreeClustering()],
    expected_failed_checks=lambda estimator: REASONS if isinstance(estimator, BHC) else {},
)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


@pytest.mark.parametrize("case", golden("bhc"), ids=lambda case: case["name"])
def test_golden_values_through_the_public_api(case):
    family, prior, X = golden_family(case), DirichletProcess(case["alpha"]), np.array(case["X"])
    model = BHC(family, prior).fit(X)
    assert model.tree_.merges.tolist() == case["merges"]
    assert model.log_evidence_bound_ == pytest.approx(case["log_lower_bounds"]["bhc"], abs=1e-8)
    assert model.score_samples(np.array(case["X_test"])) == pytest.approx(case["log_predictive_tree"], abs=1e-8)
    assert dtree.exact_log_evidence(X, family, prior) == pytest.approx(case["log_evidence_exact"], abs=1e-8)
    assert dtree.evidence_bounds(model) == dtree.evidence_bounds(X, family, prior)
    assert dtree.dendrogram_purity(model.tree_, case["labels"]) == pytest.approx(case["dendrogram_purity"], abs=1e-12)


@pytest.mark.parametrize("case", golden("bounds_small"), ids=lambda case: f"{case['set']}{case['n']}")
def test_golden_bounds_through_the_public_api(case):
    family, prior, X = golden_family(case), DirichletProcess(case["alpha"]), np.array(case["X"])
    bounds = dtree.evidence_bounds(X, family, prior)
    for ours, theirs in GOLDEN_NAME.items():
        assert bounds[ours] == pytest.approx(case["log_lower_bounds"][theirs], abs=1e-8)
    assert dtree.exact_log_evidence(X, family, prior) == pytest.approx(case["log_evidence_exact"], abs=1e-8)


def test_golden_trees_at_fixed_u_through_the_public_api():
    posterior = golden("nrm")["posterior"]
    X = np.array(posterior["X"])
    for case in posterior["cases"]:
        for at in case["at_u"]:
            model = BHC(golden_family(posterior), golden_prior(case, at["u"])).fit(X)
            assert model.tree_.merges.tolist() == at["merges"]
            assert model.log_evidence_bound_ == pytest.approx(at["log_lower_bounds_X_u"]["bhc"], abs=1e-8)
            exact = dtree.exact_log_evidence(X, model.family, model.prior)
            assert exact == pytest.approx(at["log_joint_X_u"], abs=1e-8)


@pytest.mark.parametrize("prior", [DirichletProcess(2.0), dtree.GeneralizedGamma(1.0, 0.4, 3.0)], ids=["dp", "nggp"])
@pytest.mark.parametrize("coarsening", [1.0, 0.5])
def test_predictive_density_integrates_to_one(prior, coarsening):
    X = np.array([-2.0, -1.7, 0.1, 0.3, 4.0])[:, None]
    model = BHC(dtree.DiagonalGaussian(0.0, 0.2, 2.0, 0.5), prior, coarsening=coarsening).fit(X)
    total = quad(lambda x: float(np.exp(model.score_samples([[x]])[0])), -2000, 2000, points=[-2, 0, 4], limit=500)[0]
    assert total == pytest.approx(1.0, abs=2e-3)


def _same_tree(a: BHC, b: BHC) -> bool:
    return np.array_equal(a.tree_.merges, b.tree_.merges) and np.array_equal(a.labels_, b.labels_)


@pytest.mark.parametrize("family", ["gaussian", "gaussian-diag"])
def test_defaults_are_equivariant(family):
    X = load_iris().data  # on a lattice, with duplicates: ties everywhere
    rng = np.random.default_rng(0)
    plain = BHC(family).fit(X)
    assert _same_tree(plain, BHC(family).fit(X * 1e-6))
    assert _same_tree(plain, BHC(family).fit(X * [1.0, 1000.0, 0.01, 7.0] + [5.0, -3e4, 0.0, 100.0]))
    if family == "gaussian":
        rotation = ortho_group.rvs(4, random_state=rng)
        assert _same_tree(plain, BHC(family).fit(X @ rotation))


def test_bernoulli_default_does_not_care_which_value_is_called_one():
    X = rows_for("bernoulli", np.random.default_rng(1), 40, d=8)
    assert _same_tree(BHC("bernoulli").fit(X), BHC("bernoulli").fit(1 - X))


@pytest.mark.parametrize("family", ["bernoulli", "multinomial", "poisson"])
def test_sparse_rows_give_the_same_answer(family):
    X = rows_for(family, np.random.default_rng(2), 40, d=6)
    dense, thin = BHC(family).fit(X), BHC(family).fit(sparse.csr_matrix(X))
    assert _same_tree(dense, thin)
    assert np.allclose(dense.score_samples(X), thin.score_samples(sparse.csr_array(X)), atol=1e-10)


def test_constant_columns_are_left_out():
    X = np.random.default_rng(3).normal(size=(30, 2))
    padded = np.column_stack([X[:, 0], np.full(30, 7.0), X[:, 1]])
    plain, model = BHC().fit(X), BHC().fit(padded)
    assert model.columns_.tolist() == [0, 2]
    assert _same_tree(plain, model)
    assert np.array_equal(plain.predict(X), model.predict(padded))


def test_rows_of_weight_zero_do_not_count_but_get_a_label():
    X = np.concatenate([np.random.default_rng(4).normal(c, 1, (20, 2)) for c in (0, 15)])
    weight = np.ones(40)
    weight[[3, 25]] = 0
    model, without = BHC().fit(X, sample_weight=weight), BHC().fit(np.delete(X, [3, 25], axis=0))
    assert model.tree_.n_leaves == 38
    assert _same_leaves(model, without)
    assert model.labels_.shape == (40,)
    assert model.labels_[3] == model.labels_[0]
    assert model.labels_[25] == model.labels_[39]


def _same_leaves(a: BHC, b: BHC) -> bool:
    return np.array_equal(a.tree_.merges, b.tree_.merges)


def test_weights_count_rows():
    X = np.array([[0.0, 0.0], [0.1, 0.0], [9.0, 9.0]])
    family = dtree.Gaussian([3.0, 3.0], 0.1, 4.0, np.eye(2))
    weighted = BHC(family, DirichletProcess(1.0)).fit(X, sample_weight=[5, 1, 3])
    repeated = BHC(family, DirichletProcess(1.0)).fit(np.repeat(X, [5, 1, 3], axis=0))
    assert weighted.tree_.size[-1] == 9
    assert weighted.tree_.log_phi_h[-1] == pytest.approx(repeated.tree_.log_phi_h[-1], abs=1e-9)
    assert weighted.log_evidence_bound_ <= repeated.log_evidence_bound_ + 1e-9


@pytest.mark.parametrize("family", ["gaussian", "gaussian-diag", "bernoulli", "multinomial", "poisson"])
def test_optimising_never_lowers_the_bound(family):
    X = rows_for(family, np.random.default_rng(5), 40)
    plain, better = BHC(family).fit(X), BHC(family, optimize=True).fit(X)
    assert np.all(np.diff(better.bound_trace_) > 0)
    assert better.log_evidence_bound_ >= plain.log_evidence_bound_ - 1e-9
    assert better.log_evidence_bound_ == pytest.approx(better.bound_trace_[-1], abs=1e-9)


def test_randomized_tree_is_valid_reproducible_and_close():
    rng = np.random.default_rng(6)
    y = rng.integers(0, 5, 700)
    X = 10 * rng.normal(size=(5, 3))[y] + rng.normal(size=(700, 3))
    exact = BHC("gaussian-diag").fit(X)
    loose = [BHC("gaussian-diag", method="randomized", subset=100, random_state=1).fit(X) for _ in range(2)]
    loose[0].tree_.validate()
    assert _same_tree(*loose)
    # Neither is always above the other: the exact method is greedy too.
    assert loose[0].log_evidence_bound_ > exact.log_evidence_bound_ - 0.02 * abs(exact.log_evidence_bound_)
    assert dtree.dendrogram_purity(loose[0].tree_, y) > 0.95


def test_coarsening_one_is_exact_bayes_and_less_merges_more():
    X = load_iris().data
    path = dtree.coarsening_path(X, zetas=(1.0, 0.5, 0.1), family="gaussian-diag")
    assert np.array_equal(path.labels[0], BHC("gaussian-diag").fit(X).labels_)
    assert path.n_clusters[0] >= path.n_clusters[1] >= path.n_clusters[2]
    assert path.labels.shape == (3, 150)
    for tree in path.trees:
        tree.validate()


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (
            lambda: BHC("gauss").fit(np.eye(3)),
            "unknown family 'gauss': choose one of auto, bernoulli, categorical, gaussian",
        ),
        (lambda: BHC(prior="pyp").fit(np.eye(3)), "unknown prior 'pyp': choose one of dp, nggp"),
        (lambda: BHC(method="fast").fit(np.eye(3)), "unknown method 'fast'"),
        (lambda: BHC(coarsening=0.0).fit(np.eye(3)), "coarsening must be above 0"),
        (lambda: BHC(subset=1).fit(np.eye(3)), "subset must be at least 2"),
        (lambda: BHC(dtree.Bernoulli(1.0, 1.0)).fit(np.eye(3)), "the family has 1 features but X has 3"),
        (lambda: BHC().fit(np.eye(3), sample_weight=[1, 0.5, 1]), "whole numbers"),
        (lambda: BHC().fit(np.eye(3), sample_weight=[0, 0, 0]), "sums to zero"),
    ],
)
def test_bad_parameters_get_a_sentence(build, sentence):
    with pytest.raises(ValueError, match=sentence):
        build()


def test_paths_and_dask_collections_are_read_with_their_names(tmp_path):
    dask_array = pytest.importorskip("dask.array")
    X = load_iris().data[::3]
    (tmp_path / "flowers.csv").write_text(
        "name,a,b,c,d\n" + "".join(f"f{i},{','.join(map(str, row))}\n" for i, row in enumerate(X))
    )
    here = BHC("gaussian-diag").fit(X)
    from_file = BHC("gaussian-diag").fit(tmp_path / "flowers.csv")
    assert _same_tree(here, from_file)
    assert from_file.row_names_[:2].tolist() == ["f0", "f1"]
    assert from_file.feature_names_in_.tolist() == ["a", "b", "c", "d"]
    assert np.array_equal(from_file.predict(str(tmp_path / "flowers.csv")), from_file.labels_)
    assert _same_tree(here, BHC("gaussian-diag").fit(dask_array.from_array(X, chunks=20)))


def test_workers_build_the_same_tree():
    from dtree.engine.cluster import cluster_client

    X = load_iris().data
    here = BHC("gaussian-diag").fit(X)
    with cluster_client(n_workers=2, processes=False, warm=False) as client:
        assert _same_tree(here, clone(BHC("gaussian-diag", client=client)).fit(X))
