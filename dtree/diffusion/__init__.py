"""Dirichlet diffusion trees: prior, belief propagation, evidence, search and prediction.

Every function of this room works on plain arrays: a tree is columns of integers (`tree.Columns`), its divergence times
are stored as `rest = 1 - t`, and the locations of all nodes are integrated out exactly by belief propagation.
"""
