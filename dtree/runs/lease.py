"""Who works on a run: one process at a time, named in a lease that it renews while it lives.

A lease lies in the run's store, and only the store's `swap_lease` touches it: what stands there is replaced in one step
if it is still what was read, as every file system and every object store can do. A lease whose owner is dead, or has
not renewed it for long, is taken over; an owner that was only asleep finds that out before it commits anything more.
"""

import contextlib
import errno
import getpass
import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from dtree.runs.commit import room_on_disk
from dtree.storage.failures import StoreFailure

RENEW_EVERY = 10.0  # seconds: a small file, so that it costs nothing
_TELL_EVERY = 1.0  # seconds at least between two renewals because another stage began
_RENEWALS_UNDER_WAY = 2  # at most, when a lease is given back: one that was begun, and one whose answer came late
EXPIRES_AFTER = 120.0  # seconds without renewal: a machine that swaps, or clocks that differ, are not taken for dead


class Doing(msgspec.Struct, frozen=True):
    """What the owner of a lease was doing when it renewed it, for who watches from elsewhere."""

    stage: str  # such as "pass 3: rows"
    done: int
    total: int  # 0 where nobody knows
    seconds: float  # since the stage began

    @property
    def per_second(self) -> float | None:
        """How much is done in a second."""
        return self.done / self.seconds if self.done and self.seconds > 0 else None

    @property
    def seconds_left(self) -> float | None:
        """How long this stage will take still."""
        return (self.total - self.done) / self.per_second if self.per_second and self.total else None


class Holder(msgspec.Struct, frozen=True):
    """What a lease says."""

    owner: str  # of this lease and no other
    who: str
    host: str
    pid: int
    started: str  # when the process began, as its machine counts: numbers of processes are used again
    since: str
    renewed: float
    doing: "Doing | None" = None

    def alive(self) -> bool:
        """Whether there is somebody who works on the run."""
        if self.host == socket.gethostname() and _started(self.pid) != self.started:
            return False
        return time.time() - self.renewed < EXPIRES_AFTER

    def in_words(self) -> str:
        """Who and since when."""
        return f"process {self.pid} of {self.who} on {self.host} since {self.since}"


class Held(RuntimeError):
    """Somebody else works on the run: nothing is wrong with it, and later it may be free."""


class Lease:
    """The lease of one sitting with a run."""

    def __init__(self, store: Any, if_full: str = "resume the run, nothing is lost") -> None:
        self.store, self._if_full = store, if_full
        now = datetime.now(UTC).isoformat(timespec="seconds")
        self._mine = Holder(
            uuid.uuid4().hex, _user(), socket.gethostname(), os.getpid(), _started(os.getpid()), now, time.time()
        )
        self.taken_from: Holder | None = None  # whose lease was dead
        self._stage: tuple[str, float] = ("", 0.0)  # its name and when it began
        self._far = 0, 0
        self._over = threading.Event()

    def take(self) -> None:
        """Become the one who works on the run, or say who does."""
        while True:
            found = self.store.read_lease()
            if found is not None:
                holder = holder_in(found)
                if holder is not None and holder.owner == self._mine.owner:  # it was put, and the answer was lost
                    threading.Thread(target=self._keep, daemon=True).start()
                    return
                if holder is not None and holder.alive():
                    raise Held(_told(self.store.location, holder))
                self.taken_from = holder
            if self._put(found):
                threading.Thread(target=self._keep, daemon=True).start()
                return

    def _put(self, found: bytes | None) -> bool:
        try:
            with room_on_disk(self.store.location, self._if_full):
                return self.store.swap_lease(found, _written(self._mine))
        except StoreFailure:
            raise
        except OSError as problem:
            if problem.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
                raise
            raise ValueError(
                f"{self.store.location} cannot be written: {problem.strerror}; ask for the right to, or copy the run"
            ) from None

    def tell(self, stage: str, done: int, total: int | None) -> None:
        """Take in what is being done; it is told to others when the lease is renewed."""
        if stage != self._stage[0]:
            self._stage = stage, time.monotonic()
        self._far = done, total or 0

    def _renewed(self) -> Holder:
        (stage, began), doing = self._stage, None
        if stage:
            doing = Doing(stage, *self._far, time.monotonic() - began)
        return msgspec.structs.replace(self._mine, renewed=time.time(), doing=doing)

    def moved(self, store: Any) -> None:
        """The run has another place now, and its lease with it."""
        self.store = store

    def check(self) -> None:
        """RuntimeError unless the run is still ours; before anything is made permanent."""
        found = self.store.read_lease()
        holder = None if found is None else holder_in(found)
        if holder is None or holder.owner != self._mine.owner:
            by = "somebody" if holder is None else holder.in_words()
            raise Held(f"{self.store.location} was taken over by {by}, while this process was silent: it stops here")

    def release(self) -> None:
        """Let others work on the run."""
        self._over.set()
        with contextlib.suppress(OSError):
            for _ in range(_RENEWALS_UNDER_WAY + 1):
                found = self.store.read_lease()
                holder = None if found is None else holder_in(found)
                if holder is None or holder.owner != self._mine.owner or self.store.swap_lease(found, None):
                    return

    def _keep(self) -> None:
        renewed, told = time.monotonic(), ""
        while not self._over.wait(min(RENEW_EVERY, _TELL_EVERY)):
            if self._stage[0] == told and time.monotonic() - renewed < RENEW_EVERY:
                continue
            renewed, told = time.monotonic(), self._stage[0]
            with contextlib.suppress(OSError):  # a full disk says so elsewhere
                found = self.store.read_lease()
                holder = None if found is None else holder_in(found)
                if holder is None or holder.owner != self._mine.owner:
                    return  # lost: `check` says it
                if not self._over.is_set():
                    self.store.swap_lease(found, _written(self._renewed()))


@contextlib.contextmanager
def leased(store: Any, if_full: str = "resume the run, nothing is lost") -> Iterator[Lease]:
    """Be the only one who works on a run; `if_full` says what to do when the disk is full."""
    lease = Lease(store, if_full)
    lease.take()
    try:
        yield lease
    finally:
        lease.release()


def refuse_held(store: Any) -> None:
    """Say who works on a run, if anybody does."""
    found = store.read_lease()
    holder = None if found is None else holder_in(found)
    if holder is not None and holder.alive():
        raise Held(_told(store.location, holder))


def holder_in(stored: bytes) -> Holder | None:
    """What a lease says, or None when it says nothing: its writer died in the middle."""
    try:
        return msgspec.json.decode(stored, type=Holder)
    except msgspec.DecodeError:
        return None


def _told(run: str, holder: Holder) -> str:
    ago = max(0.0, time.time() - holder.renewed)
    return (
        f"{run} is being worked on by {holder.in_words()} (it said so {ago:.0f} seconds ago): wait until it is done, "
        f"or stop it; if it is dead, try again {EXPIRES_AFTER / 60:.0f} minutes after its last word"
    )


def _written(holder: Holder) -> bytes:
    return msgspec.json.encode(holder)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run under a number that has no name
        return "somebody"


def _started(pid: int) -> str:
    """When a process began, in ticks since its machine did; "" where nobody knows, "gone" when there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        pass
    if os.name == "nt":
        return ""  # asking for a process would end it there
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return "gone"
    except OSError:
        return ""
    return ""
