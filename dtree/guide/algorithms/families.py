"""Families: what a set of rows is worth as one cluster.

A family keeps **statistics** of rows that add up: the statistics of a cluster are the sum of those of its rows, so a row, a cluster of a
million rows and a node of a tree are the same kind of thing, an *atom*. From statistics and hyperparameters come the log marginal
likelihood and the predictive density of a new row.

| family | likelihood and prior | statistics |
| --- | --- | --- |
| `dtree.Gaussian` | normal with mean mu and covariance S; `S ~ InverseWishart(scale, dof)`, `mu given S ~ N(mean, S / strength)` | count, sums, sums of products |
| `dtree.DiagonalGaussian` | each column normal; `v ~ InverseGamma(shape, rate)`, `mu given v ~ N(mean, v / strength)` | count, sums, sums of squares |
| `dtree.Bernoulli` | each column 0 or 1; `p ~ Beta(a, b)` | count, ones |
| `dtree.Multinomial` | counts out of a whole; `theta ~ Dirichlet(concentration)` | count, totals per word |
| `dtree.Poisson` | each column a count; `rate ~ Gamma(shape, rate)` | count, totals, sums of log x! |

**Marginals.** For the full Gaussian with n rows, updated hyperparameters marked by a prime:

    log p(X) = - n d / 2 log pi + d / 2 log(strength / strength') + lgamma_d(dof' / 2) - lgamma_d(dof / 2)
               + dof / 2 log det scale - dof' / 2 log det scale'

with `strength' = strength + n`, `dof' = dof + n`, and `scale'` the scale plus the scatter about the mean plus
`strength n / (strength + n)` times the outer product of the distance between the sample mean and the prior's. The others are
products over columns of ratios of Beta, Dirichlet or Gamma functions. The chain rule holds: the marginal of n rows is the product of
predictive densities, one row after another. The tests check it for every family.

**Where it differs.** Lee & Choi set `scale = S / (10 det S)^(1/d)` with S the covariance of the data, which fixes a determinant of 1/10 in
whatever unit the data come: multiply all rows by ten and the clusters change. `Gaussian.paper_prior(X)` gives that prior. The default of
dtree is equivariant: `scale = share (dof - d - 1) S`, where *share*, how much of the variance lies within clusters, is the one delicate
choice and is made by the evidence (on a sample when rows are many). Second moments are kept about the mean of the data, so that they do not
cancel when the data lie far from the origin.

**Wide data.** Word counts stay sparse; leaves are scored only at words that both sides use.
"""
