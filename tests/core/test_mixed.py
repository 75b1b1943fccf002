"""Tables of categories, mixed columns and missing values against golden values, brute force and plain families."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp

import dtree
from dtree.core.columns import Column
from dtree.core.families import Family, has_holes, moments_of, resolve
from dtree.core.families.slopes import slopes
from dtree.core.verbs import log_marginal, log_marginal_joined, log_marginal_merged
from dtree.mcmc.run import SAMPLERS
from dtree.methods import cells
from dtree.runs.codec import decode, encode
from dtree.variational.variants import VARIANTS
from tests.golden import golden
from tests.tables import KINDS, family, golden_family_of, table

GOLDEN = golden("mixed")
CASES = range(len(GOLDEN["cases"]))


def rows(case, name="X"):
    return np.array(case[name], dtype=float)


@pytest.mark.parametrize("number", CASES)
def test_golden_marginals_predictives_and_densities(number):
    case, mixed = GOLDEN["cases"][number], golden_family_of(GOLDEN["columns"])
    X, new = rows(case), rows(case, "new")
    half = X[: len(X) // 2]
    assert mixed.log_marginal(X) == pytest.approx(case["log_marginal_all"], abs=1e-8)
    alone = [mixed.log_marginal(row[None]) for row in X]
    assert alone == pytest.approx(case["log_marginal_rows"], abs=1e-8)
    assert mixed.log_predictive(new, half) == pytest.approx(case["log_predictive_first_half"], abs=1e-8)
    coefficients = mixed.expected_log_density(mixed.statistics(half).sum(axis=0)[None])
    found = (mixed.statistics(new) @ coefficients.T)[:, 0]
    assert found == pytest.approx(case["expected_log_density_first_half"], abs=1e-8)


@pytest.mark.parametrize("number", CASES)
def test_golden_trees(number):
    case, mixed = GOLDEN["cases"][number], golden_family_of(GOLDEN["columns"])
    X, prior = rows(case), dtree.DirichletProcess(case["alpha"])
    model = dtree.BHC(mixed, prior).fit(X)
    merges = [sorted(pair) for pair in zip(model.tree_.left.tolist(), model.tree_.right.tolist(), strict=True)]
    assert merges[-len(case["merges"]) :] == [sorted(pair) for pair in case["merges"]]
    assert model.log_evidence_bound_ == pytest.approx(case["log_bound"], abs=1e-8)
    assert dtree.exact_log_evidence(X, mixed, prior) == pytest.approx(case["log_exact"], abs=1e-8)
    bounds = dtree.evidence_bounds(model)
    assert bounds["bhc"] == pytest.approx(case["log_bound"], abs=1e-8)
    assert all(case["log_bound"] - 1e-8 <= bound <= case["log_exact"] + 1e-8 for bound in bounds.values())
    assert model.score_samples(rows(case, "new")) == pytest.approx(case["log_predictive_tree"], abs=1e-8)


def reals(rng, shape):
    return rng.normal(2.0, 2.0, shape)


def codes(rng, shape):
    return rng.integers(0, 2, shape).astype(float)


def counts(rng, shape):
    return rng.poisson(4.0, shape).astype(float)


PLAIN = {
    "real": (dtree.DiagonalGaussian([0.5, -1.0, 3.0], 0.2, [2.0, 2.5, 2.0], [1.0, 2.0, 0.5]), reals),
    "binary": (dtree.Bernoulli([0.5, 1.0, 2.0], [0.5, 1.5, 1.0]), codes),
    "count": (dtree.Poisson([1.0, 2.0, 0.5], [0.5, 0.5, 0.1]), counts),
    "category": (dtree.Categorical([[0.5, 1.0], [1.0, 1.0, 1.0], [0.2, 0.3, 0.4, 2.0]]), codes),
}


# Every kind compiles kernels of its own; the slow test after this one tries all of them with every method.
@pytest.mark.parametrize(
    "kind", [k if k in ("real", "category") else pytest.param(k, marks=pytest.mark.slow) for k in PLAIN]
)
def test_a_complete_mixed_of_one_block_is_that_family(kind):
    plain, draw = PLAIN[kind]
    X = draw(np.random.default_rng(0), (30, 3))
    mixed = dtree.Mixed([(plain, [0, 1, 2])])
    assert mixed.log_marginal(X) == pytest.approx(plain.log_marginal(X), abs=1e-10)
    assert mixed.log_predictive(X[:5], X) == pytest.approx(plain.log_predictive(X[:5], X), abs=1e-10)
    one, other = (dtree.BHC(f, dtree.DirichletProcess(1.0)).fit(X) for f in (plain, mixed))
    assert np.array_equal(one.labels_, other.labels_)
    assert other.log_evidence_bound_ == pytest.approx(one.log_evidence_bound_, abs=1e-10)
    one, other = (dtree.BayesKMeans(f, dtree.DirichletProcess(1.0), random_state=0).fit(X) for f in (plain, mixed))
    assert np.array_equal(one.labels_, other.labels_)
    assert other.log_joint_ == pytest.approx(one.log_joint_, abs=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("kind", PLAIN)
def test_a_complete_mixed_of_one_block_is_that_family_for_every_method(kind):
    plain, draw = PLAIN[kind]
    X = draw(np.random.default_rng(0), (30, 3))
    prior, mixed = dtree.DirichletProcess(1.0), dtree.Mixed([(plain, [0, 1, 2])])
    one, other = (dtree.IncrementalBHC(f, prior, random_state=0).fit(X) for f in (plain, mixed))
    assert np.array_equal(one.labels_, other.labels_)
    assert other.log_evidence_bound_ == pytest.approx(one.log_evidence_bound_, rel=1e-10)
    one, other = (dtree.BayesKMeansBHC(f, prior, random_state=0).fit(X) for f in (plain, mixed))
    assert np.array_equal(one.labels_, other.labels_)
    assert other.log_evidence_bound_ == pytest.approx(one.log_evidence_bound_, rel=1e-10)
    one, other = (dtree.BHC(f, prior, method="randomized", random_state=0).fit(X) for f in (plain, mixed))
    assert np.array_equal(one.labels_, other.labels_)
    assert other.log_evidence_bound_ == pytest.approx(one.log_evidence_bound_, rel=1e-10)
    one, other = (dtree.TreeClustering(family=f, random_state=0).fit(X) for f in (plain, mixed))
    assert np.array_equal(one.labels_, other.labels_)
    assert one.weights_ == pytest.approx(other.weights_, rel=1e-10)
    assert other.log_evidence_bound_ == pytest.approx(one.log_evidence_bound_, rel=1e-10)
    for variant in VARIANTS:
        one, other = (dtree.DPMixtureVB(variant, family=f, truncation=6, random_state=0).fit(X) for f in (plain, mixed))
        assert np.array_equal(one.labels_, other.labels_)
        assert other.elbo_ == pytest.approx(one.elbo_, rel=1e-10)
    for sampler in SAMPLERS:
        if (kind, sampler) == ("binary", "tgmcmc"):
            # Three binary columns have eight different rows. Among equal rows merges of the guide tree are equally
            # good, and the last bits, which two sums of the same terms do not share, decide: trees differ from the
            # first that is built anew, and so do draws, though not what they are draws from (`test_samplers`).
            (plain, mixed), X = _binary_without_ties()
        fits = [
            dtree.DPMixtureMCMC(sampler, f, prior, chains=1, draws=30, warmup=10, random_state=0).fit(X)
            for f in (plain, mixed)
        ]
        assert np.array_equal(*(fit.partitions_ for fit in fits))
        joint = [fit.posterior_["posterior"]["log_joint"].to_numpy() for fit in fits]
        assert joint[1] == pytest.approx(joint[0], rel=1e-10)


def _binary_without_ties():
    """Bernoulli, the same as a Mixed, and rows of which no two are equal."""
    rng = np.random.default_rng(1)
    d = 16
    plain = dtree.Bernoulli(rng.uniform(0.4, 2.0, d), rng.uniform(0.4, 2.0, d))
    likely = rng.random((3, d))
    rows = np.unique((rng.random((60, d)) < likely[rng.integers(0, 3, 60)]).astype(float), axis=0)[:30]
    assert len(rows) == 30
    return (plain, dtree.Mixed([(plain, np.arange(d))])), rows[rng.permutation(30)]


@pytest.mark.parametrize("kind", PLAIN)
def test_missing_values_drop_out_column_by_column(kind):
    plain, draw = PLAIN[kind]
    X = draw(np.random.default_rng(1), (12, 3))
    X[np.random.default_rng(2).random(X.shape) < 0.3] = np.nan
    X[0] = np.nan
    each = []
    for j in range(3):
        held = X[~np.isnan(X[:, j]), j]
        filled = np.column_stack([held if i == j else np.zeros(len(held)) for i in range(3)])
        zeros = filled.copy()
        zeros[:, j] = np.nan
        each.append(plain.log_marginal(filled) - plain.log_marginal(zeros))
    assert plain.log_marginal(X) == pytest.approx(sum(each), abs=1e-9)
    assert plain.log_marginal(X[:1]) == pytest.approx(0.0, abs=1e-12)  # a row of nothing
    new = X[1:4]
    chain = [plain.log_marginal(np.vstack([X, row])) - plain.log_marginal(X) for row in new]
    assert plain.log_predictive(new, X) == pytest.approx(chain, abs=1e-9)
    complete = draw(np.random.default_rng(3), (9, 3))
    chain = [plain.log_marginal(np.vstack([complete, row])) - plain.log_marginal(complete) for row in new]
    assert plain.log_predictive(new, complete) == pytest.approx(chain, abs=1e-9)


@pytest.mark.parametrize("weight", [1.0, 0.5])
@pytest.mark.parametrize("coarsening", [1.0, 0.7])
def test_kernels_agree_with_one_log_marginal_at_a_time(weight, coarsening):
    mixed, X = family(weight), table()
    atoms = coarsening * mixed.statistics(X)
    atoms[::2] += atoms[1]  # some are clusters
    atoms[7] *= 0.3  # a soft one
    compiled, out = mixed.compile(2 * atoms.sum(axis=0), coarsening), np.empty(len(X))
    for row in (atoms[0], atoms[3], atoms[5]):
        log_marginal_merged(compiled, np.ascontiguousarray(atoms.T), row, 0, len(X), out)
        merged = [log_marginal(compiled, atom + row) for atom in atoms]
        assert out == pytest.approx(merged, abs=1e-10)
        own = np.array([log_marginal(compiled, atom) for atom in atoms])
        log_marginal_joined(compiled, np.ascontiguousarray(atoms.T), own, row, 0, len(X), out)
        assert out == pytest.approx(merged, abs=1e-9)
    by_column = sum(b.family.log_columns(parts).sum(axis=1) for b, parts in mixed.block_parts(atoms))
    assert [log_marginal(compiled, atom) for atom in atoms] == pytest.approx(by_column, abs=1e-10)


@pytest.mark.parametrize("coarsening", [1.0, 0.5])
def test_what_a_row_adds_to_rows_and_to_clusters(coarsening):
    """Columns beyond one logarithm, two shapes, single rows that stand together before clusters, as in a tree."""
    rng = np.random.default_rng(2)
    X = np.column_stack([rng.normal(size=(150, 21)), rng.integers(0, 30, 150), rng.poisson(4.0, 150)])
    X[rng.random(X.shape) < 0.15] = np.nan
    shapes = np.where(np.arange(21) < 17, 2.0, 3.0)
    mixed = dtree.Mixed(
        [
            (dtree.DiagonalGaussian(np.zeros(21), 0.3, shapes, np.ones(21)), np.arange(21)),
            (dtree.Categorical([np.full(31, 0.5)]), [21], 0.5),
            (dtree.Poisson([1.0], [0.3]), [22]),
        ]
    )
    rows = coarsening * mixed.statistics(X)
    clusters = np.stack([rows[at : at + 40].sum(axis=0) for at in range(0, 110, 7)])
    atoms = np.concatenate([rows, clusters])
    columns, out = np.ascontiguousarray(atoms.T), np.empty(len(atoms))
    for total in (atoms.sum(axis=0), np.zeros(atoms.shape[1])):  # with tables of counts, and without
        compiled = mixed.compile(total, coarsening)
        own = np.array([log_marginal(compiled, atom) for atom in atoms])
        for row in (rows[0], rows[7], clusters[0], rows.sum(axis=0) - clusters[0]):
            log_marginal_joined(compiled, columns, own, row, 3, len(atoms), out)
            merged = [log_marginal(compiled, atom + row) for atom in atoms[3:]]
            assert out[3:] == pytest.approx(merged, abs=1e-9)


def test_a_full_gaussian_block_among_the_others():
    full = dtree.Gaussian([3.0, 0.0], 0.1, 4.0, [[1.0, 0.2], [0.2, 1.0]])
    rest = dtree.Categorical([np.full(5, 0.5)])
    X = table(holes=0.0)[:, [0, 1, 4]]
    X[3, 2] = np.nan
    mixed = dtree.Mixed([(rest, [2]), (full, [0, 1])])
    assert mixed.log_marginal(X) == pytest.approx(full.log_marginal(X[:, :2]) + rest.log_marginal(X[:, 2:]), abs=1e-9)
    model = dtree.BHC(mixed, dtree.DirichletProcess(1.0)).fit(X)
    assert model.n_clusters_ == 2
    X[4, 1] = np.nan
    with pytest.raises(ValueError, match=r"column 1.*Gaussian block"):
        dtree.BHC(mixed).fit(X)


@pytest.mark.parametrize("weight", [1.0, 0.5])
def test_gradients_and_coefficients_are_derivatives(weight):
    mixed = family(weight)
    statistics = np.stack([mixed.statistics(part).sum(axis=0) for part in (table(), table(20), table(seed=3))])
    weights = np.array([0.5, 1.0, 0.3])
    theta, step = mixed.free_parameters(), 1e-5
    numeric = []
    for k in range(theta.size):
        shift = step * (np.arange(theta.size) == k)
        up, down = (
            weights @ mixed.with_free_parameters(theta + s).log_marginal_of(statistics) for s in (shift, -shift)
        )
        numeric.append((up - down) / (2 * step))
    assert mixed.gradient(statistics, weights) == pytest.approx(numeric, rel=1e-5, abs=1e-5)
    numeric = slopes(mixed.soft_log_marginal_of, statistics)
    X = table()
    assert mixed.statistics(X) @ mixed.expected_log_density(statistics).T == pytest.approx(
        mixed.statistics(X) @ numeric.T, abs=1e-7
    )


def test_refined_hyperparameters_are_no_worse_and_know_no_units():
    X = table()
    weights = np.array([1.0, 1.0, 0.1])

    def refined(X: np.ndarray) -> tuple[Family, float]:
        start = dtree.Mixed.defaults(moments_of(X, False, kinds=KINDS), 0.2)
        statistics = np.stack([start.statistics(part).sum(axis=0) for part in (X[:30], X[30:], X)])
        better = start.refined(statistics, weights)
        gain = weights @ (better.log_marginal_of(statistics) - start.log_marginal_of(statistics))
        return better, float(gain)

    better, gain = refined(X)
    assert gain > 0.0
    other = X.copy()
    other[:, 0] = 1000.0 * X[:, 0] - 7.0
    scaled, same = refined(other)
    assert same == pytest.approx(gain, abs=1e-6)
    assert scaled.blocks[0].family.rate[0] == pytest.approx(1e6 * better.blocks[0].family.rate[0])


def test_points_are_finite_and_families_are_saved():
    mixed, X = family(0.5), table()
    assert np.all(np.isfinite(mixed.points(X)))
    arrays: dict[str, np.ndarray] = {}
    again = decode(encode(mixed, "family", arrays), arrays)
    assert again.log_marginal(X) == mixed.log_marginal(X)
    assert [block.weight for block in again.blocks] == [0.5, 1.0, 1.0, 1.0]
    profile = mixed.profile(mixed.statistics(X))
    assert profile.sums.shape == X.shape
    assert np.all(np.isfinite(profile.means))


def test_names_are_resolved_in_one_place():
    low, high = np.zeros(5), np.ones(5)
    assert resolve("auto", (), low, high, holes=False).family == "gaussian"
    assert resolve("auto", (), low, high, holes=True).family == "mixed"
    assert resolve("auto", KINDS, low, high, holes=False).family == "mixed"
    assert resolve("auto", tuple(Column(str(j), "real") for j in range(5)), low, high, False).family == "gaussian"
    binary = resolve("bernoulli", (), low, high, holes=True)
    assert (binary.family, binary.kinds[0].kind) == ("mixed", "binary")
    assert resolve("mixed", KINDS, low, low, holes=False).columns.tolist() == [2, 3, 4]  # constant numbers say nothing


def test_bad_families_get_one_sentence():
    with pytest.raises(ValueError, match="each column 0, 1"):
        dtree.Mixed([(dtree.Bernoulli([1.0], [1.0]), [1])])
    with pytest.raises(ValueError, match="not a Multinomial"):
        dtree.Mixed([(dtree.Multinomial([1.0, 1.0]), [0, 1])])
    with pytest.raises(ValueError, match="weight"):
        dtree.Mixed([(dtree.Bernoulli([1.0], [1.0]), [0], 2.0)])
    with pytest.raises(ValueError, match="one vector for each column"):
        dtree.Categorical([])
    X = table()
    for name in ("gaussian", dtree.Gaussian(np.zeros(5), 0.1, 7.0, np.eye(5))):
        with pytest.raises(ValueError, match=r"column \d.*mixed.*gaussian family takes no missing values"):
            dtree.BHC(name).fit(X)
    with pytest.raises(ValueError, match="multinomial family takes no missing values"):
        dtree.BHC("multinomial").fit(X)


# Single values -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weight", [1.0, 0.5])
def test_imputation_and_surprisal_by_brute_force(weight):
    mixed, X = family(weight), table(20)
    clusters = np.stack([mixed.statistics(part).sum(axis=0) for part in (X[:10], X[10:])])
    log_weights = np.log([0.3, 0.7])
    mixture = cells.Mixture(mixed, clusters, log_weights)
    filled, surprise = cells.impute(mixture, X), cells.surprisal(mixture, X)
    assert not has_holes(filled.values)
    assert np.array_equal(np.isnan(filled.probability), ~(np.isnan(X) & (np.arange(5) == 4)))

    def log_joint(row: np.ndarray) -> np.ndarray:
        return mixed.log_predictive_of(row[None], clusters)[0] + log_weights

    for i, j in [(5, 4), (5, 0), *np.argwhere(~np.isnan(X))[::7]]:
        row = X[i].copy()
        if np.isnan(row[j]):
            share = np.exp(log_joint(row) - logsumexp(log_joint(row)))
            if j == 4:
                levels = []
                for level in range(5):
                    row[j] = level
                    gain = (log_joint(row) - log_joint(X[i])) / weight  # a value's own density has no power
                    levels.append(share @ np.exp(gain))
                assert filled.values[i, j] == np.argmax(levels)
                assert filled.probability[i, j] == pytest.approx(max(levels), abs=1e-9)
            continue
        rest = row.copy()
        rest[j] = np.nan
        own = (log_joint(row) - log_joint(rest)) / (weight if j == 4 else 1.0)
        expected = logsumexp(log_joint(rest)) - logsumexp(log_joint(rest) + own)
        assert surprise[i, j] == pytest.approx(expected, abs=1e-9)


def test_means_that_are_filled_in_are_those_of_a_grid():
    plain = dtree.Poisson([1.0, 2.0], [0.5, 0.2])
    X = np.array([[1.0, 2.0], [2.0, 3.0], [9.0, 20.0], [8.0, 22.0]])
    clusters = np.stack([plain.statistics(part).sum(axis=0) for part in (X[:2], X[2:])])
    found = cells.impute(cells.Mixture(plain, clusters, np.log([0.5, 0.5])), np.array([[4.0, np.nan]])).values[0, 1]
    grid = np.arange(400.0)
    density = np.exp(plain.log_predictive_of(np.column_stack([np.full(400, 4.0), grid]), clusters)).sum(axis=1)
    assert found == pytest.approx(density @ grid / density.sum(), abs=1e-8)
