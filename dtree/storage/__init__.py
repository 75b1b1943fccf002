"""Where files are: a folder on disk, or objects in a store that is reached over the network.

`located("runs/iris.zarr")` is a `pathlib.Path`; `located("s3://bucket/iris.zarr")` is a `RemotePath`, which has those
verbs of a `Path` that dtree needs. What reads data and what keeps runs asks for a place once and works with
either.
"""

from dtree.storage.options import StorageOptions, with_options
from dtree.storage.places import Place, is_remote, located

__all__ = ["Place", "StorageOptions", "is_remote", "located", "with_options"]
