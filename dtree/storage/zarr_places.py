"""Places as zarr takes them."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from dtree.storage.failures import WAITS, is_cut_off, plain_failures
from dtree.storage.places import Place
from dtree.storage.remote import RemotePath

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


def zarr_at(place: Place, read_only: bool = False, whole: bool = False, metadata: bytes | None = None) -> Any:
    """What zarr opens or makes an array or group at.

    whole : every file of an array is written as a whole. zarr asks for each before it writes it, to keep what else is
        in it; where an answer takes its time it is then told at once that there is none.
    metadata : the content of its zarr.json, where that is known and an answer takes its time.
    """
    return _store_class()(place, read_only, whole, metadata) if isinstance(place, RemotePath) else str(place)


@contextmanager
def until_no_chunk_is_left() -> Iterator[None]:
    """Around a reading: when a chunk of it fails, wait for the others, which zarr leaves under way.

    Otherwise a command that ends with one sentence ends with a page of asyncio's complaints about each of them.
    """
    try:
        yield
    except Exception:
        from zarr.core.sync import sync

        sync(_others())
        raise


async def _others() -> None:
    await asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task()}), return_exceptions=True)


async def _patiently(read: Callable[[], Any]) -> Any:
    """`read_patiently` for what is awaited."""
    for wait in WAITS:
        try:
            return await read()
        except Exception as problem:
            if not is_cut_off(problem):
                raise
        await asyncio.sleep(wait)
    return await read()


async def _listed(names: Any) -> list[str]:
    return [name async for name in names]


@cache  # zarr is loaded when a store is first used
def _store_class() -> Any:
    from zarr.abc.store import Store
    from zarr.storage import ObjectStore

    class Bucket(Store):
        """zarr's own store of objects, which sees nothing outside its place and tells errors in our words."""

        supports_writes = supports_deletes = supports_listing = True
        supports_partial_writes = False

        def __init__(self, place: RemotePath, read_only: bool, whole: bool, metadata: bytes | None) -> None:
            super().__init__(read_only=read_only)
            self.place, self.whole, self.metadata = place, whole, metadata

        @property
        def inner(self) -> Any:
            """Over the whole bucket; the connection belongs to the process."""
            return ObjectStore(self.place.objects.store, read_only=self.read_only)

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Bucket) and self._parts == other._parts

        @property
        def _parts(self) -> Any:
            return self.place, self.read_only, self.whole, self.metadata

        def __hash__(self) -> int:
            return hash(self.place)

        def __str__(self) -> str:
            return str(self.place)

        def with_read_only(self, read_only: bool = False) -> Any:
            return Bucket(self.place, read_only, self.whole, self.metadata)

        def _key(self, key: str) -> str:
            return f"{self.place.key}/{key}".strip("/")

        async def get(self, key: str, prototype: Any, byte_range: Any = None) -> Any:
            if key == "zarr.json" and self.metadata is not None:
                return prototype.buffer.from_bytes(self.metadata)
            if self.whole and not key.endswith("zarr.json"):
                return None
            with plain_failures(self.place):
                return await _patiently(lambda: self.inner.get(self._key(key), prototype, byte_range))

        async def get_partial_values(self, prototype: Any, key_ranges: Any) -> Any:
            with plain_failures(self.place):
                wanted = [(self._key(key), part) for key, part in key_ranges]
                return await _patiently(lambda: self.inner.get_partial_values(prototype, wanted))

        async def exists(self, key: str) -> bool:
            with plain_failures(self.place):
                return await self.inner.exists(self._key(key))

        async def set(self, key: str, value: Any) -> None:
            self._check_writable()
            with plain_failures(self.place):
                await self.inner.set(self._key(key), value)

        async def delete(self, key: str) -> None:
            self._check_writable()
            with plain_failures(self.place):
                await self.inner.delete(self._key(key))

        async def delete_dir(self, prefix: str) -> None:
            self._check_writable()
            with plain_failures(self.place):
                await _patiently(lambda: self.inner.delete_dir(self._key(prefix)))

        async def list(self) -> "AsyncIterator[str]":
            async for key in self.list_prefix(""):
                yield key

        async def list_prefix(self, prefix: str) -> "AsyncIterator[str]":
            under = f"{self._key(prefix)}/".lstrip("/")
            with plain_failures(self.place):
                for key in await _patiently(lambda: _listed(self.inner.list_prefix(under))):
                    yield key[len(self.place.key) :].lstrip("/")

        async def list_dir(self, prefix: str) -> "AsyncIterator[str]":
            with plain_failures(self.place):
                for name in await _patiently(lambda: _listed(self.inner.list_dir(self._key(prefix)))):
                    yield name

    return Bucket
