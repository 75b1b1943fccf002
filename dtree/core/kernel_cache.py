"""Where compiled kernels are kept: one folder per source file, named by a hash of all it is made of.

An edit starts fresh folders for the files it touches; folders that nobody used for a month are deleted. Processes may
compile side by side: an entry is written under a lock, code before the index that names it.
"""

import contextlib
import hashlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from numba import types
from numba.core.caching import IndexDataCacheFile

from dtree.core.kernel_sources import PACKAGE, source_hash

try:
    import fcntl
except ImportError:  # no POSIX system: two processes that compile side by side may then compile a kernel once more
    fcntl = None  # type: ignore[assignment]

_DAY = 86400.0
_STALE_AFTER_DAYS = 30


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


@cache
def _base() -> Path:
    """The first writable of DTREE_CACHE_DIR, the user's cache folder and the temporary folder."""
    bases = []
    if os.environ.get("DTREE_CACHE_DIR"):
        bases.append(Path(os.environ["DTREE_CACHE_DIR"]))
    bases.append(Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dtree")
    bases.append(Path(tempfile.gettempdir()) / f"dtree-cache-{os.getuid() if hasattr(os, 'getuid') else 'user'}")
    for base in bases:
        if _writable(base):
            return base
    return Path(tempfile.mkdtemp(prefix="dtree-kernels-"))


@cache
def cache_folder(file: str) -> Path:
    """The folder for the machine code of the kernels in a source file."""
    path = Path(file).resolve()
    named = path.relative_to(PACKAGE) if path.is_relative_to(PACKAGE) else Path(path.name)
    folder = _base() / f"kernels-{'.'.join(named.with_suffix('').parts)}-{source_hash(path)}"
    if not folder.is_dir():
        folder.mkdir(exist_ok=True)
        _sweep()
    elif folder.stat().st_mtime < time.time() - _DAY:
        with contextlib.suppress(OSError):
            os.utime(folder)  # it is in use
    return folder


@cache
def _sweep() -> None:
    """Delete folders of sources that nobody has used for a month; once in a process."""
    limit = time.time() - _STALE_AFTER_DAYS * _DAY
    for folder in _base().glob("kernels-*"):
        with contextlib.suppress(OSError):
            if folder.stat().st_mtime < limit:
                shutil.rmtree(folder, ignore_errors=True)


class _CacheFile(IndexDataCacheFile):
    """Numba's index of one kernel's specialisations, for processes side by side and programs with types of their own.

    The index names the types of arguments, a family of the user's own among them. Where its module cannot be imported
    numba could not read the index and would fail; here it is as if nothing had been compiled.
    """

    def _load_index(self) -> Any:
        try:
            return super()._load_index()
        except (ImportError, AttributeError):
            return {}

    def save(self, key: Any, data: Any) -> None:
        with self._locked():
            overloads = self._load_index()
            taken = set(overloads.values())
            number = next(n for n in range(1, len(taken) + 2) if self._data_name(n) not in taken)
            name = overloads.get(key) or self._data_name(number)
            self._save_data(name, data)
            overloads[key] = name
            self._save_index(overloads)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        if fcntl is None:
            yield
            return
        with open(f"{self._index_path}.lock", "ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def _foreign_files(kind: Any) -> set[str]:
    """Sources of the NamedTuples outside this package that a type of numba's holds."""
    found: set[str] = set()
    if isinstance(kind, types.NamedTuple | types.NamedUniTuple):
        module = sys.modules.get(kind.instance_class.__module__)
        file = getattr(module, "__file__", None)
        if file and not Path(file).resolve().is_relative_to(PACKAGE):
            found.add(file)
    for part in getattr(kind, "types", ()):
        found |= _foreign_files(part)
    return found


def _hash_of(files: set[str]) -> str:
    digest = hashlib.sha256()
    for file in sorted(files):
        with contextlib.suppress(OSError):
            digest.update(Path(file).read_bytes())
    return digest.hexdigest()[:16]


def keep(compiled: Any, folder: Path) -> None:
    """Make the cache of a kernel (a numba dispatcher) safe as this module says, in the folder of its source file.

    Numba would also ask where the source stands and when it was written. The folder's name already says what is in it,
    so that a package that is installed again, or in another place, compiles nothing. A family of the user's own brings
    kernels that are compiled into ours: an entry for it is keyed on its source too.
    """
    kept: Any = getattr(compiled, "_cache", None)
    if not hasattr(kept, "_cache_file"):
        return  # no cache, or the JIT is off
    kept._cache_file = _CacheFile(str(folder), kept._impl.filename_base, None)
    index_key = kept._index_key

    def key(signature: Any, codegen: Any) -> Any:
        foreign = set().union(*(_foreign_files(kind) for kind in signature))
        plain = index_key(signature, codegen)
        return (*plain, _hash_of(foreign)) if foreign else plain

    kept._index_key = key
