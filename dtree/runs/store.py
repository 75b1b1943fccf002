"""Where a run keeps what it has: records that appear whole or not at all, and arrays with one value for every row.

A store is the one interface between a run and a place. Three stand behind it: the memory of this process (`memory`),
for a fit that leaves nothing behind, a folder on disk (`folder`), and a bucket of an object store (`bucket`). The last
two keep the same zarr group (`zarr_store`); `kept.store_at(name)` makes one.

| verb | what it does |
| --- | --- |
| `put(name, record)` | keep a record under a name such as `checkpoints/gen-00000003`: there whole or not at all |
| `put(..., check, then)` | only if `check()` raises nothing; `then()` can wait, and may be done beside what follows |
| `settle` | wait for what is done beside, and say what went wrong with it |
| `get(name, kind)` | the record, checked against its declared type |
| `check(name)` | ValueError unless the record (without a name: the header) is to the last bit what was written |
| `has(name)` | whether the record is there |
| `written(name)` | when the record was put, in seconds since 1970, or None |
| `names(under)` | the names of the records under a prefix, in order |
| `drop(name)` | forget a record, an array of rows, or everything under a name |
| `create_rows`, `write_rows`, `read_rows` | an array (n,) that several workers fill, each its own ranges |
| `ahead(name, start, stop)` | begin to read rows that will be asked for, where an answer takes its time |
| `read_lease` | what the lease says, or None (see `lease`) |
| `swap_lease(old, new)` | put `new` (None: nothing) in its place in one step, if `old` still stands there; else False |
| `write_header`, `read_header` | what the run says of itself, replaced in one step |
| `put_results(record)` | the arrays of a fitted record, to be listed in the header; returns JSON and listing |
| `get_results(header, kind)` | the fitted record again |

Records are `msgspec.Struct`s or NamedTuples of arrays and plain values (see `codec`).
"""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import numpy as np

from dtree.runs.header import Header

Kind = TypeVar("Kind")


def nothing() -> None:
    """Is to be done."""


class Store(Protocol):
    """The place of one run."""

    location: str  # for sentences: the folder, or "memory"
    in_memory: bool  # whether records are the objects that were put, not copies read from elsewhere

    def put(
        self, name: str, record: Any, check: Callable[[], None] = nothing, then: Callable[[], None] = nothing
    ) -> None: ...
    def settle(self) -> None: ...
    def get(self, name: str, kind: type[Kind]) -> Kind: ...
    def check(self, name: str = "") -> None: ...
    def has(self, name: str) -> bool: ...
    def written(self, name: str) -> float | None: ...
    def names(self, under: str) -> list[str]: ...
    def drop(self, name: str) -> None: ...

    def read_lease(self) -> bytes | None: ...
    def swap_lease(self, old: bytes | None, new: bytes | None) -> bool: ...

    def create_rows(self, name: str, n: int, chunk_rows: int, dtype: Any, fill: float) -> None: ...
    def write_rows(self, name: str, start: int, values: np.ndarray) -> None: ...
    def read_rows(self, name: str, start: int, stop: int) -> np.ndarray: ...
    def ahead(self, name: str, start: int, stop: int) -> None: ...
    def flush_rows(self, name: str) -> None: ...
    def has_rows(self, name: str) -> bool: ...

    def write_header(self, header: Header) -> None: ...
    def read_header(self) -> Header: ...
    def put_results(self, record: Any) -> tuple[Any, dict[str, Any]]: ...
    def get_results(self, header: Header, kind: type[Kind]) -> Kind: ...
