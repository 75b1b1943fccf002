"""Credentials and endpoints of object stores: where they come from, and how they stay out of everything that is kept.

The usual environment variables (`AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT_URL`, `GOOGLE_APPLICATION_CREDENTIALS`,
`AZURE_STORAGE_ACCOUNT_KEY`, ...) are read by the store itself, in every process from its own environment. What a user
says besides (`storage_options=`, `--storage-option`) holds for a block of code, `with_options`; a place that is made
meanwhile remembers it and takes it along to workers, inside the task. Nothing here is ever written: a run, a message
and a `repr` show the names of options, not their values.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

HIDDEN = "***"
_FLAG = "--storage-option"


class StorageOptions(dict[str, str]):
    """Options by name; shown without their values.

    >>> StorageOptions(aws_secret_access_key="abc")
    {'aws_secret_access_key': ***}
    """

    def __repr__(self) -> str:
        return "{" + ", ".join(f"{name!r}: {HIDDEN}" for name in self) + "}"

    __str__ = __repr__

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))


_NONE = StorageOptions()
_current: ContextVar[StorageOptions] = ContextVar("storage_options", default=_NONE)


def current_options() -> StorageOptions:
    """What was said about stores in the block of code that runs now."""
    return _current.get()


@contextmanager
def with_options(options: Mapping[str, Any] | None) -> Iterator[None]:
    """Let these options hold for places that are named in this block; None leaves those that hold already."""
    if options is None:
        yield
        return
    token = _current.set(as_options(options))
    try:
        yield
    finally:
        _current.reset(token)


def as_options(options: Mapping[str, Any]) -> StorageOptions:
    """Options as text by name, or one sentence."""
    if not isinstance(options, Mapping):
        raise ValueError(
            "storage_options must be names and values, such as {'endpoint': 'http://127.0.0.1:9000'}, "
            f"not a {type(options).__name__}"
        )
    for name, value in options.items():
        if not isinstance(name, str) or not isinstance(value, str | int | float | bool):
            raise ValueError(f"the storage option {str(name)[:40]!r} must be a name with a text or number")
    return StorageOptions({name.lower(): _as_text(value) for name, value in options.items()})


def _as_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def options_said(words: Sequence[str] | None) -> dict[str, str] | None:
    """What `--storage-option` says, by name.

    >>> options_said(["region=eu-west-1", "aws_session_token=a=b"])
    {'region': 'eu-west-1', 'aws_session_token': 'a=b'}
    """
    if not words:
        return None
    for word in words:
        if "=" not in word:
            raise ValueError(f"{_FLAG} must look like region=eu-west-1: name, '=', value")  # the word may be a secret
    return dict(word.split("=", 1) for word in words)


def without_values(command: Sequence[str]) -> list[str]:
    """The words of a command line with the values of storage options hidden, and passwords inside addresses too.

    >>> without_values(["dtree", "fit", "--storage-option", "key=abc", "--storage-option=token=def", "--seed", "3"])
    ['dtree', 'fit', '--storage-option', 'key=***', '--storage-option=token=***', '--seed', '3']
    """
    shown, follows = [], False
    for word in command:
        if follows:
            word = _hidden(word)
        elif word.startswith(f"{_FLAG}="):
            word = f"{_FLAG}={_hidden(word.removeprefix(f'{_FLAG}='))}"
        follows = word == _FLAG
        shown.append(re.sub(r"(://[^/@\s]*:)[^/@\s]*@", rf"\1{HIDDEN}@", word))
    return shown


def _hidden(said: str) -> str:
    name, mark, _ = said.partition("=")
    return f"{name}={HIDDEN}" if mark else HIDDEN
