"""Dirichlet diffusion trees [Knowles, Van Gael & Ghahramani 2011].

**The model.** Rows are ends of Brownian paths over unit time. A path follows those before it and leaves them at time t with rate `a(t) / m`, m the number
that went that way, `a(t) = c / (1 - t)`; at a fork it takes a branch in proportion to the paths that took it. So rows that parted late are alike.

**The prior over trees.** With l, r and m = l + r leaves below a fork and H harmonic numbers,

    P(structure) = prod over forks of (l - 1)! (r - 1)! / ((m - 1)! H_{m-1})
    w = (1 - t) / (1 - t_parent)  ~  Beta(c H_{m-1}, 1), independently

which does not depend on c. The paper prints m! for (m - 1)!, and its equation 1 lacks a factor c.

**Evidence of a tree.** Given times, rows are Gaussian: one upward and one downward sweep of belief propagation give the likelihood, the locations
and the gradient over all times. sigma^2 and c integrate in closed form. What remains is an integral over times: dtree takes Laplace's
approximation in logit w, where the density has a maximum, with the exact gradient (`inference="laplace"`, the default), optionally corrected by
importance sampling. Errors on two to four leaves are a few hundredths to a quarter of a nat, where message passing is off by 0.2 to 0.7 and EM by 0.4 to 4.7.
`"em"` and `"message-passing"` are the paper's algorithms. As printed, EM maximises over the times themselves, where the objective has no
maximum (branches of length zero); ours climbs over logits. The message to 1/sigma^2 has a spurious factor 2, which loses 15 nats.

**Search.** Leaves are attached one by one, each tried at the three best places by local evidence; then random subtrees are detached and
attached again where they fit best, keeping the ten best trees. Only messages near a change are recomputed. Several permutations run side by side.

**Density.** A new row follows the tree: `P(stay on a branch) = ((1 - t_b) / (1 - t_a))^(c / m)`, and where it leaves it, it diffuses on. The
integral over leaving times uses Gauss-Legendre nodes instead of the paper's three random draws; the result is a mixture of Gaussians
that integrates to one. It is averaged over trees drawn by a short run of the exact sampler from each searched tree, because trees of the highest evidence
are sharper than typical ones; `posterior_sweeps=0` averages the best trees by their evidence, as the paper does.

**Binary rows** (`likelihood="probit"`): one latent value per entry, its sign observed, by expectation propagation; missing entries are allowed.
`inference="mcmc"` draws the latent values along with the trees and approximates nothing; on 33 rows of 102 bits expectation propagation is some
20 nats low, by nearly as much for all trees.

**Noise** keeps equal rows apart from zero-length branches. **Units**: columns are standardised, or whitened when the evidence is higher for it.
Beyond `max_leaves` rows the leaves are summaries of clusters with their counts, made in memory or taken from a Bayes-K-means run.
"""
