"""Lower bounds on the evidence [Xu, Heller & Ghahramani 2009], and tighter ones.

`dtree.evidence_bounds` gives them in increasing order, each a lower bound on log p(X):

| key | partitions that it sums |
| --- | --- |
| `bhc` | those that can be read off the tree |
| `alternative` | also those with one cluster made of a grandchild under the first child of a node and its other child |
| `alternative_best`, `alternative_four` | the same under the better child, and under both |
| `cross_merge` | also those with one cluster that joins any two disjoint nodes that are not siblings |
| `nested` | the same, with such clusters at every level at once |

**Alternative trees.** Relocating a grandchild a to its uncle b adds the partitions with the cluster `a u b`:

    phi_h(a u b) phi_t(the other grandchild) prod of phi_t over everything that hangs off the path from the node to the root

No partition is counted twice, because the one cluster that the tree does not contain determines the pair (a, b). The paper's equation 12
leaves the last product out, which is right only at the root, and the loop of its Figure 4 must include the root.

**Nested** is a recursion with the same cost as cross merges, about 2 n^2 marginals, and never below them:

    PHI(k) = phi_h(k) + PHI(l) PHI(r) + sum over a below l, b below r, (a, b) != (l, r), of
             phi_h(a u b) prod of PHI over the subtrees that hang off the two paths inside k

On large trees both look at a *budget* of pairs, those nearest each merge first, where most of the missing mass sits, and a warning says so.

**Exact.** `dtree.exact_log_evidence` sums over all partitions of at most 14 rows by a recursion over subsets. All bounds but the first are
exact for three rows. For the paper's third set with nine points the mean gaps to the exact evidence are 1.32, 0.94, 0.84, 0.51 and 0.44 nats for
`bhc`, `alternative`, `alternative_four`, `cross_merge` and `nested`.

A bound compares models of the same rows and columns. It says how much mass the tree found, not how much other trees have.
"""
