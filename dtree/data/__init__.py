"""Rows from anywhere: one `Source` for arrays in memory and files of every known format.

>>> import numpy as np
>>> source = open_source(np.arange(6.0).reshape(3, 2))
>>> source.shape, source.read(1, 3).tolist()
((3, 2), [[2.0, 3.0], [4.0, 5.0]])
"""

from dtree.data.opening import in_memory, open_source
from dtree.data.source import Source

__all__ = ["Source", "in_memory", "open_source"]
