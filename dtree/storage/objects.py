"""Objects of a bucket by key: the few verbs of an object store that dtree needs, through obstore.

Why obstore: it is one wheel without Python dependencies for S3, Google Cloud, Azure and HTTP, it retries with
backoff, it offers conditional puts (`If-None-Match`, `If-Match`), on which the commits and leases of runs stand and
which fsspec does not have, and zarr knows it (`ObjectStore`). Reading 40 chunks of 4 MB through zarr from a server
20 ms away takes it a third of the time that s3fs takes (`python -m benchmarks.buckets --libraries`).
"""

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dtree.core.recent import Recent
from dtree.storage.failures import plain_failures, read_patiently
from dtree.storage.options import StorageOptions

SCHEMES = ("s3", "s3a", "gs", "az", "azure", "abfs", "abfss", "adl", "http", "https", "memory")
# Options of ours, which are not the store's: how long to try before a store counts as gone.
_TRIES, _PATIENCE, _ANSWER = "max_retries", "retry_seconds", "timeout_seconds"
_DEFAULTS = {_TRIES: "10", _PATIENCE: "180", _ANSWER: "120"}  # a restart of a store takes a minute or two
_ENDPOINTS = ("AWS_ENDPOINT", "AZURE_ENDPOINT", "AZURE_STORAGE_ENDPOINT", "GOOGLE_BASE_URL")  # variables
_stores = Recent(16)  # connections of this process, by bucket and options
_memory: dict[str, Any] = {}  # what this process keeps under memory://
_making = threading.Lock()


class Found(NamedTuple):
    """An object: its key, its bytes, and what tells this version from others."""

    key: str
    size: int
    version: dict[str, str]
    modified: float  # seconds since 1970, by the clock of the store


def store_of(root: str, options: StorageOptions) -> Any:
    """The connection of this process to a bucket, such as `s3://bucket`."""
    return _stores.get((root, options), lambda: _connected(root, options))


def _connected(root: str, options: StorageOptions) -> Any:
    try:
        from obstore.store import MemoryStore
        from obstore.store import from_url as connect
    except ImportError:
        raise ValueError(
            f"{root} cannot be reached because obstore is not installed: pip install 'dtree[cloud]'"
        ) from None
    from datetime import timedelta

    if root.startswith("memory://"):
        with _making:
            return _memory.setdefault(root, MemoryStore())
    own = {name: float(options.get(name, default)) for name, default in _DEFAULTS.items()}
    config = {name: value for name, value in options.items() if name not in _DEFAULTS}
    config = {} if root.startswith("http") else config  # a web server has none
    config = {"endpoint" if name == "endpoint_url" else name: value for name, value in config.items()}
    plain = config.pop("allow_http", "") == "true" or _speaks_plainly(root, config)
    patience = timedelta(seconds=own[_PATIENCE])
    try:
        client: Any = {"allow_http": plain, "timeout": timedelta(seconds=own[_ANSWER])}
        tries: Any = {"max_retries": int(own[_TRIES]), "retry_timeout": patience}
        known: Any = config or None
        return connect(root, config=known, client_options=client, retry_config=tries)
    except Exception as problem:
        name = type(problem).__name__
        if name == "UnknownConfigurationKeyError":
            wrong = [option for option in config if f"'{option}'" in str(problem)]
            raise ValueError(
                f"{root}: there is no storage option {' or '.join(map(repr, wrong or config))}; some that there are: "
                "region, endpoint, aws_access_key_id, aws_secret_access_key (obstore lists all of them)"
            ) from None
        if "must be specified" in str(problem):  # the account of Azure's
            raise ValueError(
                f"{root} cannot be reached: no account is named, by AZURE_STORAGE_ACCOUNT_NAME or the storage option "
                "azure_storage_account_name"
            ) from None
        raise ValueError(f"{root} cannot be reached with these storage options ({name})") from None


def _speaks_plainly(root: str, config: dict[str, str]) -> bool:
    """Whether a store is reached without TLS: its address says so, as the user gave it."""
    import os

    given = [root, *(value for name, value in config.items() if "endpoint" in name or "base_url" in name)]
    given += [value for name, value in os.environ.items() if name.startswith(_ENDPOINTS)]
    return any(str(value).startswith("http://") for value in given)


class Objects:
    """The objects of one bucket."""

    def __init__(self, root: str, options: StorageOptions) -> None:
        self.root, self.options = root, options

    @property
    def store(self) -> Any:
        """obstore's own."""
        return store_of(self.root, self.options)

    def _told(self, key: str) -> Any:
        return plain_failures(Named(self.root, key))

    def get(self, key: str) -> tuple[bytes, dict[str, str]]:
        """The bytes of an object and its version; FileNotFoundError."""
        import obstore

        def read() -> tuple[bytes, dict[str, str]]:
            found = obstore.get(self.store, key)
            return bytes(found.bytes()), _version(found.meta)

        with self._told(key):
            return read_patiently(read)

    def fetch(self, key: str, target: Path) -> None:
        """Copy an object into a file, piece by piece."""
        import obstore

        def read() -> None:
            with open(target, "wb") as out:
                for piece in obstore.get(self.store, key).stream(min_chunk_size=8 << 20):
                    out.write(piece)

        with self._told(key):
            read_patiently(read)

    def get_range(self, key: str, start: int, stop: int) -> Any:
        """Bytes start..stop-1."""
        import obstore

        with self._told(key):
            return read_patiently(lambda: obstore.get_range(self.store, key, start=start, end=stop))

    def get_ranges(self, key: str, starts: Sequence[int], length: int) -> list[Any]:
        """Several ranges of so many bytes each, asked for together."""
        import obstore

        with self._told(key):
            lengths = [length] * len(starts)
            return read_patiently(lambda: list(obstore.get_ranges(self.store, key, starts=starts, lengths=lengths)))

    def head(self, key: str) -> Found:
        """What is known of an object; FileNotFoundError."""
        import obstore

        with self._told(key):
            try:
                return _found(obstore.head(self.store, key))
            except FileNotFoundError:
                raise
            except Exception:
                obstore.get_range(self.store, key, start=0, length=1)  # whose answer says why; that of a head is empty
                raise

    def put(self, key: str, content: Any) -> None:
        """Write an object: there whole or not at all."""
        import obstore

        with self._told(key):
            obstore.put(self.store, key, content)

    def put_if(self, key: str, content: bytes, version: dict[str, str] | None) -> bool:
        """Write an object if it still has this version (None: if there is none); else False.

        An answer that was lost on its way may make this False although the object was written: look at what is there.
        """
        import obstore
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        mode: Any = "create" if version is None else version
        with self._told(key):
            try:
                obstore.put(self.store, key, content, mode=mode, use_multipart=False)
            except (AlreadyExistsError, PreconditionError):
                return False
            except FileNotFoundError as problem:
                if version is None or "NoSuchBucket" in str(problem):
                    raise
                return False  # the version that should be replaced is gone
        return True

    def below(self, prefix: str) -> Iterator[Found]:
        """All objects whose keys start with `prefix/`."""
        import obstore

        with self._told(prefix):
            under = f"{prefix}/" if prefix else None
            yield from map(_found, read_patiently(lambda: obstore.list(self.store, under).collect()))

    def children(self, prefix: str) -> tuple[list[str], list[str]]:
        """Names of the folders and of the objects right below a prefix."""
        import obstore

        with self._told(prefix):
            under = f"{prefix}/" if prefix else None
            listed = read_patiently(lambda: obstore.list_with_delimiter(self.store, under))
        folders = [path.rstrip("/").rpartition("/")[2] for path in listed["common_prefixes"]]
        return folders, [entry["path"].rpartition("/")[2] for entry in listed["objects"]]

    def delete(self, *keys: str) -> None:
        """Forget objects, those that are not there too."""
        import obstore

        with self._told(keys[0] if keys else ""):
            for first in range(0, len(keys), 1000):  # as many as S3 takes at once
                try:
                    obstore.delete(self.store, list(keys[first : first + 1000]))
                except FileNotFoundError as problem:
                    if "NoSuchBucket" in str(problem):
                        raise

    def copy(self, key: str, target: str) -> None:
        """Copy an object within the bucket, without reading it."""
        import obstore

        with self._told(key):
            obstore.copy(self.store, key, target)


class Named(NamedTuple):
    """What a sentence is about."""

    root: str
    key: str

    def __str__(self) -> str:
        return f"{self.root}/{self.key}" if self.key else self.root


def _found(meta: Any) -> Found:
    return Found(meta["path"], meta["size"], _version(meta), meta["last_modified"].timestamp())


def _version(meta: Any) -> dict[str, str]:
    return {name: meta[name] for name in ("e_tag", "version") if meta.get(name) is not None}
