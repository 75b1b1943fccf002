"""Six variational Dirichlet process mixtures [Kurihara, Welling & Teh 2007].

Two finite stand-ins for the Dirichlet process: truncated sticks (TSB: `v_i ~ Beta(1, alpha)` for i < T, `v_T = 1`) and the
finite symmetric Dirichlet (FSD: weights ~ `Dirichlet(alpha / K, ...)`). Each with weights as parameters of their own, or integrated out
(the C variants). Sticks with labels in optimal order at every iteration have an O in front: `TSB O-TSB CTSB O-CTSB FSD CFSD`.

**One E-step, one M-step.** Responsibilities are `log q(z_n = i) = E log weight_i + E log p(x_n | component i) + const`; components
get the expected statistics. The variants differ only in `E log weight` and in the weight term of the bound, so all of them run as the same
passes over data of any size; the collapsed ones need, per component, the sum and the sum of squares of responsibilities.

**Collapsed weights.** `E log(a + N)`, with N a sum of independent Bernoullis, is computed exactly through the distribution of such
sums when rows are few, and then the bound is a bound. The second-order Taylor form, `log(a + E N) - Var N / (2 (a + E N)^2)`, is what scales; it
can exceed the evidence (by up to 4 nats in our trials), so `elbo_is_bound_` says which of the two a fit has.

**Where it differs.** Equation 22 holds for i < T; the last label has no factor of its own because `v_T = 1`. For CFSD the Taylor form is poor
where both a and N are small (off by 2.9 at K = 30), so the event N = 0 is treated exactly: `P0 log a + (1 - P0) Taylor(N | N > 0)`.
Decreasing size is the optimal order of labels only for alpha <= 1; in general each cluster is tried in the last place and the rest sorted. The weight
term of an uncollapsed bound equals log p(z) at expected counts, so collapsed bounds are never below at the same responsibilities.

**Outside check.** scikit-learn's `BayesianGaussianMixture` with a `dirichlet_distribution` prior of alpha / K is FSD: iterations agree to 1e-14.
Its `dirichlet_process` is not TSB, because there the last stick is random too.

**Starts** decide which optimum is found: k-means or Bayes K-means, several of them, the best bound kept, and moves that split and merge
components out of poor optima.
"""
