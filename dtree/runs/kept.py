"""Stores that are kept: in a folder on disk or in a bucket, by name."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal, TypeAlias

from dtree.runs.bucket import BucketStore, bucket_in_place
from dtree.runs.commit import folder_in_place, replacement_of, room_on_disk
from dtree.runs.folder import FolderStore
from dtree.storage.places import Place, located
from dtree.storage.remote import RemotePath

KeptStore: TypeAlias = FolderStore | BucketStore


def store_at(name: Any) -> KeptStore:
    """The store at a path, an address or a place."""
    place = located(name)
    return BucketStore(place) if isinstance(place, RemotePath) else FolderStore(name)


@contextmanager
def store_in_place(final: Place, existing: Literal["refuse", "replace"], then: str) -> Iterator[KeptStore]:
    """A store to fill, its own zarr.json last; it becomes the one at `final` when the block ends without an error.

    `then` says what to do when the disk is full.
    """
    with room_on_disk(final, then):
        if isinstance(final, RemotePath):
            beside: Any = replacement_of(final)
            with bucket_in_place(final, beside, existing) as store:
                yield store
        else:
            with folder_in_place(final, existing) as partial:
                yield FolderStore(partial)
