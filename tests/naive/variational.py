"""Slow, obvious variational Dirichlet process mixtures: one row, one component, one formula at a time.

A twin of `dtree.variational` for the six variants. Families are given as small objects with `posterior(column)` and
`expected_log_likelihood(x, posterior)`, `log_marginal(weights)`.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
from scipy.special import digamma, gammaln


class NaiveGaussian:
    """Normal-inverse-Wishart with the formulas of tests/golden/README.md, rows weighted by a column of
    responsibilities."""

    def __init__(self, X, mean, strength, dof, scale):
        self.X, self.mean, self.strength, self.dof = np.asarray(X, float), np.asarray(mean, float), strength, dof
        self.scale = np.asarray(scale, float)

    def posterior(self, w):
        n = w.sum()
        k, nu = self.strength + n, self.dof + n
        m = (self.strength * self.mean + w @ self.X) / k
        S = self.scale + self.strength * np.outer(self.mean - m, self.mean - m)
        for weight, x in zip(w, self.X):
            S = S + weight * np.outer(x - m, x - m)
        return k, nu, m, S

    def expected_log_likelihood(self, x, posterior):
        k, nu, m, S = posterior
        d = len(m)
        log_det = sum(digamma((nu - j) / 2) for j in range(d)) + d * math.log(2) - np.linalg.slogdet(S)[1]
        far = (x - m) @ np.linalg.solve(S, x - m)
        return 0.5 * log_det - d / 2 * math.log(2 * math.pi) - 0.5 * (d / k + nu * far)

    def log_marginal(self, w):
        k, nu, _, S = self.posterior(w)
        d = self.X.shape[1]

        def normaliser(k, nu, S):
            gammas = sum(gammaln((nu - j) / 2) for j in range(d))
            return -d / 2 * math.log(k) - nu / 2 * np.linalg.slogdet(S)[1] + gammas

        return (
            normaliser(k, nu, S) - normaliser(self.strength, self.dof, self.scale) - w.sum() * d / 2 * math.log(math.pi)
        )


class NaivePoisson:
    """Gamma-Poisson."""

    def __init__(self, X, shape, rate):
        self.X, self.shape, self.rate = np.asarray(X, float), np.asarray(shape, float), np.asarray(rate, float)

    def posterior(self, w):
        return self.shape + w @ self.X, self.rate + w.sum()

    def expected_log_likelihood(self, x, posterior):
        a, b = posterior
        return sum(x[j] * (digamma(a[j]) - math.log(b[j])) - a[j] / b[j] - gammaln(x[j] + 1) for j in range(len(x)))

    def log_marginal(self, w):
        a, b = self.posterior(w)
        total = -(w[:, None] * gammaln(self.X + 1)).sum()
        for j in range(len(a)):
            total += (
                self.shape[j] * math.log(self.rate[j]) - gammaln(self.shape[j]) + gammaln(a[j]) - a[j] * math.log(b[j])
            )
        return total


class NaiveBernoulli:
    """Beta-Bernoulli."""

    def __init__(self, X, a, b):
        self.X, self.a, self.b = np.asarray(X, float), np.asarray(a, float), np.asarray(b, float)

    def posterior(self, w):
        return self.a + w @ self.X, self.b + w @ (1 - self.X)

    def expected_log_likelihood(self, x, posterior):
        a, b = posterior
        return sum((digamma(a[j]) if x[j] else digamma(b[j])) - digamma(a[j] + b[j]) for j in range(len(x)))

    def log_marginal(self, w):
        a, b = self.posterior(w)
        beta = lambda a, b: (gammaln(a) + gammaln(b) - gammaln(a + b)).sum()  # noqa: E731
        return beta(a, b) - beta(self.a, self.b)


class NaiveMultinomial:
    """Dirichlet-multinomial without coefficient."""

    def __init__(self, X, concentration):
        self.X, self.concentration = np.asarray(X, float), np.asarray(concentration, float)

    def posterior(self, w):
        return self.concentration + w @ self.X

    def expected_log_likelihood(self, x, posterior):
        return x @ (digamma(posterior) - digamma(posterior.sum()))

    def log_marginal(self, w):
        norm = lambda c: gammaln(c).sum() - gammaln(c.sum())  # noqa: E731
        return norm(self.posterior(w)) - norm(self.concentration)


class NaiveDiagonal:
    """Normal-inverse-gamma, one feature at a time."""

    def __init__(self, X, mean, strength, shape, rate):
        self.X, self.mean, self.strength = np.asarray(X, float), np.asarray(mean, float), strength
        self.shape, self.rate = np.asarray(shape, float), np.asarray(rate, float)

    def posterior(self, w):
        n = w.sum()
        k = self.strength + n
        m = (self.strength * self.mean + w @ self.X) / k
        spread = self.strength * (self.mean - m) ** 2 + w @ (self.X - m) ** 2
        return k, m, self.shape + n / 2, self.rate + spread / 2

    def expected_log_likelihood(self, x, posterior):
        k, m, a, b = posterior
        terms = digamma(a) - np.log(b) - math.log(2 * math.pi) - 1 / k - a / b * (x - m) ** 2
        return 0.5 * terms.sum()

    def log_marginal(self, w):
        k, _, a, b = self.posterior(w)
        n = w.sum()
        terms = self.shape * np.log(self.rate) - gammaln(self.shape) + gammaln(a) - a * np.log(b)
        return terms.sum() + len(b) * (0.5 * math.log(self.strength / k) - n / 2 * math.log(2 * math.pi))


def log_prior(sticks, alpha, counts):
    """log p(z) at counts."""
    T = len(counts)
    if not sticks:
        total = gammaln(alpha) - gammaln(sum(counts) + alpha)
        return total + sum(gammaln(c + alpha / T) - gammaln(alpha / T) for c in counts)
    total = 0.0
    for i in range(T - 1):
        after = sum(counts[i + 1 :])
        total += (
            math.log(alpha) + gammaln(1 + counts[i]) + gammaln(alpha + after) - gammaln(1 + alpha + counts[i] + after)
        )
    return total


def expected_log_weights(sticks, alpha, counts):
    T = len(counts)
    if not sticks:
        return np.array([digamma(alpha / T + c) - digamma(alpha + sum(counts)) for c in counts])
    out, before = [], 0.0
    for i in range(T):
        after = sum(counts[i + 1 :])
        both = digamma(1 + alpha + counts[i] + after)
        out.append(before + (digamma(1 + counts[i]) - both if i < T - 1 else 0.0))
        before += digamma(alpha + after) - both
    return np.array(out)


def exact_expectation(function, probabilities):
    """E f(M), M a sum of Bernoullis, by convolution."""
    distribution = np.ones(1)
    for p in probabilities:
        distribution = np.convolve(distribution, [1 - p, p])
    return sum(q * function(m) for m, q in enumerate(distribution))


def conditional(sticks, alpha, r, n):
    """E log p(z_n = i | other labels), exactly."""
    T = r.shape[1]
    others = np.delete(r, n, axis=0)
    if not sticks:
        return np.array([exact_expectation(lambda m: math.log(alpha / T + m), others[:, i]) for i in range(T)])
    out, before = [], 0.0
    for i in range(T):
        at_least, more = others[:, i:].sum(axis=1), others[:, i + 1 :].sum(axis=1)
        both = exact_expectation(lambda m: math.log(1 + alpha + m), at_least)
        own = exact_expectation(lambda m: math.log(1 + m), others[:, i])
        out.append(before + (own - both if i < T - 1 else 0.0))
        before += exact_expectation(lambda m: math.log(alpha + m), more) - both
    return np.array(out)


def exact_expected_log_prior(sticks, alpha, r):
    """E log p(z) by summing over all labellings (tiny n only)."""
    n, T = r.shape
    total = 0.0
    for z in itertools.product(range(T), repeat=n):
        q = np.prod([r[i, z[i]] for i in range(n)])
        if q > 0:
            total += q * log_prior(sticks, alpha, [z.count(t) for t in range(T)])
    return total


def log_evidence(family, sticks, alpha, T):
    """log p(X) under the truncated prior, summing over all labellings (tiny n only)."""
    n = family.X.shape[0]
    terms = []
    for z in itertools.product(range(T), repeat=n):
        z = np.array(z)
        columns = [(z == t).astype(float) for t in range(T)]
        counts = [c.sum() for c in columns]
        terms.append(log_prior(sticks, alpha, counts) + sum(family.log_marginal(c) for c in columns if c.any()))
    return float(np.logaddexp.reduce(terms))


def bound(family, sticks, alpha, r, collapsed=False):
    entropy = -sum(p * math.log(p) for p in r.ravel() if p > 0)
    if collapsed:
        prior = exact_expected_log_prior(sticks, alpha, r)
    else:
        prior = log_prior(sticks, alpha, r.sum(axis=0))
    return sum(family.log_marginal(r[:, i]) for i in range(r.shape[1])) + entropy + prior


def iterate(family, sticks, alpha, r, iterations, collapsed=False):
    """Parallel updates without reordering; exact expectations when collapsed."""
    for _ in range(iterations):
        posteriors = [family.posterior(r[:, i]) for i in range(r.shape[1])]
        new = np.empty_like(r)
        for n, x in enumerate(family.X):
            prior = (
                conditional(sticks, alpha, r, n) if collapsed else expected_log_weights(sticks, alpha, r.sum(axis=0))
            )
            score = prior + np.array([family.expected_log_likelihood(x, posterior) for posterior in posteriors])
            new[n] = np.exp(score - np.logaddexp.reduce(score))
        r = new
    return r
