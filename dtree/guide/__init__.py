"""The user guide: choose a family, choose a method, size a cluster, read what came out, trust the answer.

| page | answers |
| --- | --- |
| `dtree.guide.families` | what does one cluster of my data look like? |
| `dtree.guide.methods` | which of the estimators should I take? |
| `dtree.guide.clusters` | how many workers and how much memory do I need? |
| `dtree.guide.results` | what do the numbers in a result mean? |
| `dtree.guide.trust` | how do I know that it is right? |
| `dtree.guide.algorithms` | which formulas does dtree use, and where do they differ from the papers? |
| `dtree.guide.changes` | what is new? |

These modules hold nothing but their text; `make docs` turns them and the docstrings of the package into pages.
"""
