"""The place of a new run, claimed before anything is written there: of two who want it, one wins and the other is told.

What is cleared away is what a process of ours left that died before its first checkpoint; its lease is the proof.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from dtree.runs.commit import place_of, room_on_disk
from dtree.runs.kept import KeptStore, store_at
from dtree.runs.lease import Lease, leased, refuse_held
from dtree.runs.run import already_there, begin_at, has_begun, is_run
from dtree.storage.places import located


@contextmanager
def claimed(out: Any, overwrite: bool) -> Iterator[tuple[KeptStore, Lease]]:
    """The store in which a new run is made for `out`, and the lease on it."""
    place = begin_at(out, overwrite)
    store, existed = store_at(place), place.exists()
    try:
        with leased(store, "fit again, nothing was kept") as lease:
            if place == located(out) and has_begun(place):  # somebody was quicker, and is done
                raise ValueError(already_there(out))
            store.clear()
            yield store, lease
    finally:
        if not existed:
            with suppress(OSError):
                store.remove_if_empty()


@contextmanager
def nothing_half_made(store: KeptStore) -> Iterator[None]:
    """Take away what was made in a claimed place when the run does not get as far as its first checkpoint."""
    try:
        with room_on_disk(store.location, "fit again, nothing was kept"):
            yield
    except BaseException:
        with suppress(OSError):  # of a store that is gone: what is left there is no run, and swept by the next one
            store.clear()
        raise


def in_its_place(store: KeptStore) -> KeptStore:
    """Put a finished run that was made beside another where it belongs; nobody must be working on that one."""
    final = place_of(store.path)
    if final == store.path:
        return store
    if is_run(final):
        refuse_held(store_at(final))
    moved: Any = store
    return moved.move_to(store_at(final))
