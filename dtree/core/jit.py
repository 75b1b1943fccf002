"""Compiled kernels: one decorator, one on-disk cache that can never serve stale machine code.

Numba keys a cached kernel on its own file only, so editing a function that a kernel calls would silently leave the old
machine code in use. Our cache folder is therefore named by a hash of every source file that holds kernels (that is,
that imports this module) and of the numba version: an edit to any of them starts a fresh folder, and a second process
with the same sources compiles nothing. Constants that a kernel reads must live in such a file too, for the same reason.

`kernel` is `numba.njit(cache=has_source_file, nogil=True)`; set `DTREE_CACHE_DIR` to choose where the machine code is
kept, and `NUMBA_DISABLE_JIT=1` to run the same code as plain Python.
"""

import hashlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba.core import config as numba_config

# isnan and == -inf must keep their meaning, so "nnan" and "ninf" are left out of the fast-math flags.
DOT_PRODUCT_MATH = {"reassoc", "contract", "nsz", "arcp"}
_STALE_AFTER_DAYS = 30


def _source_hash() -> str:
    digest = hashlib.sha256(f"{numba.__version__} {sys.version_info[:2]}".encode())
    package = Path(__file__).resolve().parent.parent
    for source in sorted(package.rglob("*.py")):
        text = source.read_bytes()
        if b"core.jit import" in text:
            digest.update(source.relative_to(package).as_posix().encode())
            digest.update(text)
    return digest.hexdigest()[:16]


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _choose_cache_folder() -> Path:
    """The first writable of DTREE_CACHE_DIR, the user's cache folder and the temporary folder."""
    name = f"kernels-{_source_hash()}"
    bases = []
    if os.environ.get("DTREE_CACHE_DIR"):
        bases.append(Path(os.environ["DTREE_CACHE_DIR"]))
    bases.append(Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dtree")
    bases.append(Path(tempfile.gettempdir()) / f"dtree-cache-{os.getuid() if hasattr(os, 'getuid') else 'user'}")
    for base in bases:
        if _writable(base / name):
            _sweep(base, keep=name)
            return base / name
    return Path(tempfile.mkdtemp(prefix="dtree-kernels-"))


def _sweep(base: Path, keep: str) -> None:
    """Delete kernel folders of sources that nobody has used for a month."""
    os.utime(base / keep)
    limit = time.time() - _STALE_AFTER_DAYS * 86400
    for folder in base.glob("kernels-*"):
        if folder.name != keep and folder.stat().st_mtime < limit:
            shutil.rmtree(folder, ignore_errors=True)


CACHE_FOLDER = _choose_cache_folder()


def kernel(
    function: Callable[..., Any] | None = None, *, fastmath: set[str] | bool = False, inline: bool = False
) -> Any:
    """Compile `function` without the GIL and keep its machine code on disk.

    With `inline` its body is written into the kernels that call it: for small functions that take a record of many
    arrays, since handing such a record on counts the references of all of them, which may take longer than the work.

    Numba picks the cache folder when a function is decorated, so the folder is set just for that moment and the
    caller's own numba configuration stays as it was.

    >>> @kernel
    ... def double(x):
    ...     return 2 * x
    >>> double(3.0)
    6.0
    """

    def decorate(plain: Callable[..., Any]) -> Any:
        placed = "always" if inline else "never"
        has_source_file = os.path.exists(plain.__code__.co_filename)  # not so at a prompt or in a doctest
        callers_folder = numba_config.CACHE_DIR
        numba_config.CACHE_DIR = str(CACHE_FOLDER)
        try:
            compiled = numba.njit(cache=has_source_file, nogil=True, fastmath=fastmath, inline=placed)(plain)
        finally:
            numba_config.CACHE_DIR = callers_folder
        _forgive_foreign_types(compiled)
        return compiled

    return decorate(function) if function is not None else decorate


def _forgive_foreign_types(compiled: Any) -> None:
    """Let a kernel's cache be read by a program that lacks a type it was once compiled for: it then starts afresh.

    The index of a kernel names the types of its arguments, a family of the user's own among them; numba cannot read it
    where that family's module cannot be imported, and would fail instead of compiling.
    """
    cache_file = getattr(getattr(compiled, "_cache", None), "_cache_file", None)
    if cache_file is None:
        return  # no cache, or the JIT is off
    load = cache_file._load_index

    def load_or_start_afresh() -> Any:
        try:
            return load()
        except (ImportError, AttributeError):
            return {}

    cache_file._load_index = load_or_start_afresh
