"""A run that lives in the memory of this process: the same verbs, nothing written."""

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from dtree.runs.header import Header
from dtree.runs.store import nothing

Kind = TypeVar("Kind")


class MemoryStore:
    """Records and row arrays in dictionaries; see `store` for the verbs."""

    location = "memory"
    in_memory = True

    def __init__(self) -> None:
        self.records: dict[str, Any] = {}
        self.rows: dict[str, np.ndarray] = {}
        self.header: Header | None = None
        self.results: Any = None

    def put(
        self, name: str, record: Any, check: Callable[[], None] = nothing, then: Callable[[], None] = nothing
    ) -> None:
        check()
        self.records[name] = record
        then()

    def settle(self) -> None:
        """Nothing is done beside."""

    def get(self, name: str, kind: type[Kind]) -> Kind:
        return self.records[name]

    def check(self, name: str = "") -> None:
        """Nobody else writes into the memory of this process."""

    def has(self, name: str) -> bool:
        return name in self.records

    def written(self, name: str) -> None:
        """Nobody watches this memory from elsewhere."""

    def names(self, under: str) -> list[str]:
        # A list is taken at once: parts in other threads add records meanwhile.
        return sorted(name for name in list(self.records) if name.startswith(f"{under}/"))

    def drop(self, name: str) -> None:
        for held in (self.records, self.rows):
            for found in [key for key in list(held) if key == name or key.startswith(f"{name}/")]:
                del held[found]

    def read_lease(self) -> None:
        """Nobody else knows of this memory."""

    def swap_lease(self, old: bytes | None, new: bytes | None) -> bool:
        return True

    def create_rows(self, name: str, n: int, chunk_rows: int, dtype: Any, fill: float) -> None:
        self.rows[name] = np.full(n, fill, dtype=dtype)

    def write_rows(self, name: str, start: int, values: np.ndarray) -> None:
        self.rows[name][start : start + values.shape[0]] = values

    def read_rows(self, name: str, start: int, stop: int) -> np.ndarray:
        return self.rows[name][start:stop]

    def ahead(self, name: str, start: int, stop: int) -> None:
        """They are here."""

    def flush_rows(self, name: str) -> None:
        """Memory has no disk behind it."""

    def has_rows(self, name: str) -> bool:
        return name in self.rows

    def write_header(self, header: Header) -> None:
        self.header = header

    def read_header(self) -> Header:
        assert self.header is not None
        return self.header

    def put_results(self, record: Any) -> tuple[Any, dict[str, Any]]:
        self.results = record
        return None, {}

    def get_results(self, header: Header, kind: type[Kind]) -> Kind:
        return self.results
