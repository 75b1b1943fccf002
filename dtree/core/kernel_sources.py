"""Which sources the machine code of a file is made of, so that an edit recompiles what it touches and nothing else.

Numba keys a cached kernel on its own file only, so editing a function that a kernel calls would silently leave the old
machine code in use. Here a file's kernels are keyed on every file with kernels (that is, that imports
`dtree.core.jit`) which it reaches by its imports, through files without kernels too. A verb reaches its implementations
without importing them: they stand in the room of the verb (a test holds it), and every file there that has some counts.
So an edit in kmeans recompiles nothing of mcmc, and an edit of a family what any verb of families is compiled into.

Constants that a kernel reads must live in a file with kernels, for the same reason.
"""

import hashlib
import re
import sys
from functools import cache
from pathlib import Path

import numba

PACKAGE = Path(__file__).resolve().parent.parent
_IMPORT = re.compile(rb"^[ \t]*(?:from (dtree[.\w]*) import (\([^)]*\)|.*)|import (dtree[.\w]*))", re.M)
_KERNELS = re.compile(rb"^from dtree\.core\.jit import", re.M)
_VERBS, _IMPLEMENTATIONS = re.compile(rb"^@verb\(", re.M), re.compile(rb"^@implements\(", re.M)
_DECORATOR = PACKAGE / "core" / "jit.py"  # how kernels are compiled


@cache
def _text(file: Path) -> bytes:
    return file.read_bytes()


@cache
def _file_of(module: str) -> Path | None:
    """The source of a module of this package, None for a name that is no module."""
    path = PACKAGE.joinpath(*module.split(".")[1:])
    for file in (path.with_suffix(".py"), path / "__init__.py"):
        if file.is_file():
            return file
    return None


@cache
def _reached(file: Path) -> frozenset[Path]:
    """The files of this package that a file reaches in one step."""
    text = _text(file)
    modules = set()
    for module, names, plain in _IMPORT.findall(text):
        home = (module or plain).decode()
        modules.add(home)
        modules |= {f"{home}.{name}" for name in re.findall(r"\w+", names.decode())}
    found = {_file_of(module) for module in modules}
    if _VERBS.search(text) and file.is_relative_to(PACKAGE):
        room = PACKAGE / file.relative_to(PACKAGE).parts[0]
        found |= {other for other in room.rglob("*.py") if _IMPLEMENTATIONS.search(_text(other))}
    return frozenset(other for other in found if other is not None)


def sources_of(file: Path) -> list[Path]:
    """The file and every file with kernels that it reaches, in a fixed order.

    >>> [source.name for source in sources_of(PACKAGE / "core" / "search.py")]
    ['jit.py', 'search.py']
    """
    known, new = {file}, [file]
    while new:
        for other in _reached(new.pop()):
            if other not in known:
                known.add(other)
                new.append(other)
    return sorted(other for other in known if other in (file, _DECORATOR) or _KERNELS.search(_text(other)))


@cache
def source_hash(file: Path) -> str:
    """A name for the machine code of a file: of numba, Python and all sources it is made of."""
    digest = hashlib.sha256(f"{numba.__version__} {sys.version_info[:2]}".encode())
    for source in sources_of(file):
        inside = source.is_relative_to(PACKAGE)
        digest.update((source.relative_to(PACKAGE) if inside else source).as_posix().encode())
        digest.update(_text(source))
    return digest.hexdigest()[:16]
