"""Component, cluster, level.

A **component** is what the model fits: one Gaussian, or one of whatever family suits the columns. A **cluster** is what
a person means. Real groups follow no family, so one group, a ring for example, is covered by several components. They
belong together because the density has no valley between them. (`notebooks/pictures/levels.png` draws it: components as
fitted, the tree of the valleys between them, and the clusters at the chosen level.)

A **level** says how deep a valley must be to part two clusters, in nats below the lower of the two peaks: 0.7 means
that the density falls to half of it. `dtree.TreeClustering` measures the valleys on the rows themselves, along the line
that tells two components apart best and along their log odds, and takes the deeper. Of each it counts only what the
rows make sure of, so few rows show no valley; of more than 200,000 rows so many, drawn at random, are counted. The tree
over the components has a fork at the depth of every valley; a level is a cut of it, and all levels are nested.
Components closest in density join first, all rows last. Where most components turn out to be clusters of their own,
groups are of the kind that one component describes; then valleys count as the rows suggest them, sure or not, and only
those of less than a tenth of a nat are closed.

>>> import numpy as np, dtree
>>> angle = np.random.default_rng(0).uniform(0, 2 * np.pi, 900)
>>> rings = np.column_stack([np.cos(angle), np.sin(angle)]) * np.repeat([1.0, 4.0], [300, 600])[:, None]
>>> rings += np.random.default_rng(1).normal(0, 0.15, rings.shape)
>>> model = dtree.TreeClustering(random_state=0).fit(rings)
>>> model.n_clusters_, model.n_components_ > 4, len(set(model.at_clusters(1)))
(2, True, 1)

`level_reason_` says in a sentence why the level was chosen, `levels_` lists others that are worth a look, and the
report has a slider over them. `at_level(depth)` and `at_clusters(k)` give their labels without fitting again, and so
does `dtree levels RUN`. `dtree.levels(model, X)` does the same for the clusters of other estimators: they take the place
of components. For chains, clusters are joined by how often the draws have them apart.

How sure is it? `confidence_` is the probability of a row's cluster given the model: low for rows between clusters.
`cluster_stability_` says how well a cluster is found again on half of the rows, the depth of its valley how far it stands
apart, and `outlier_score_` how odd a row is among those of its component.
"""
