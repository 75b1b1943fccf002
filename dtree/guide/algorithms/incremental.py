"""Incremental Bayesian hierarchical clustering [Lee & Choi 2015, section 2.3].

**Insertion.** A new row goes to the tree with the smallest d, or becomes a tree of its own when all d exceed one. Inside a tree, at a node with
children l and r, the three distances d(l, r), d(l, row) and d(r, row) are compared: if the first is smallest the row is put on top of the node;
otherwise it goes down into the child that it is closer to. Then potentials are updated up to the root, and where a node has come to
d > 1 the tree is split there and the pieces are inserted again.

**Where it differs.** The text says that the row is inserted into the right tree when the left one is closer; the smallest d is meant. Inside a
homogeneous cluster the printed rule puts most rows near the top, so trees grow into chains and an update costs as much as the cluster is
large. By default (`balanced=True`) a subtree that has become too deep for its number of leaves is rebuilt: what hangs off its longest path
stays whole, the path becomes a balanced tree over it. A row then costs O(k + log n). `balanced=False` gives the paper's trees exactly.

`IncrementalBHC.partial_fit` inserts more rows at any time; the hyperparameters are those chosen on the first rows. `tree_` joins the
forest into one tree, greedily over its roots.
"""
