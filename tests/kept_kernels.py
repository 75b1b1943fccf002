"""Where tests keep compiled kernels: apart from those that programs use, because tests make up families of their own.

Compiling is a third of what the tests cost, and kernels are known by their sources alone, so all checkouts and
environments of a user share them.
"""

import os
from pathlib import Path

_CACHES = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
os.environ.setdefault("DTREE_CACHE_DIR", str(_CACHES / "dtree-tests"))
