"""The user guide: choose a family, choose a method, size a cluster, read what came out, trust the answer.

| page | answers |
| --- | --- |
| `dtree.guide.tables` | what becomes of the columns of my table? |
| `dtree.guide.families` | what does one cluster of my data look like? |
| `dtree.guide.levels` | what are components, clusters and levels? |
| `dtree.guide.methods` | which of the estimators should I take? |
| `dtree.guide.support` | which family works with which method, and where? |
| `dtree.guide.clusters` | how many workers and how much memory do I need? |
| `dtree.guide.stores` | can data and runs be in a bucket? |
| `dtree.guide.results` | what do the numbers in a result and the parts of the report mean? |
| `dtree.guide.trust` | how do I know that it is right? |
| `dtree.guide.promises` | what happens when something breaks, and which test breaks it? |
| `dtree.guide.algorithms` | which formulas does dtree use, and where do they differ from the papers? A page per algorithm. |
| `dtree.guide.changes` | what is new? |
| `dtree.guide.contributing` | how do I change it? |

The shortest way through: `dtree demo` in a terminal, then `dtree fit yours.csv --out run.zarr` and `dtree report run.zarr`; or, in Python,

>>> import dtree
>>> from dtree.datasets import nested_creatures
>>> data = nested_creatures(90)
>>> model = dtree.TreeClustering(random_state=0).fit(data.X)
>>> model.n_clusters_
9

These modules hold nothing but their text; `make docs` makes a site of them, of the docstrings of the package and of the notebooks, and the
examples in them are run by the tests.
"""
