"""What a store says when something goes wrong, in one sentence that says what to do.

The messages of object stores are pages long and may repeat what was sent; only their code is looked at.
"""

import errno
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

_CODE = re.compile(r"<Code>([A-Za-z]{2,40})</Code>")
_STATUS = re.compile(r"status code: (\d{3}[A-Za-z ]{0,30})")
_CREDENTIALS = {
    "InvalidAccessKeyId": "the access key is not known there",
    "SignatureDoesNotMatch": "the secret key is wrong",
    "ExpiredToken": "the credential has expired",
    "TokenRefreshRequired": "the credential has expired",
    "InvalidToken": "the session token is wrong",
    "RequestTimeTooSkewed": "the clock of this machine is wrong",
    "AuthenticationFailed": "the account key is wrong",
    "InvalidAuthenticationInfo": "the account key is wrong",
}
_NO_BUCKET = ("NoSuchBucket", "ContainerNotFound")


class StoreFailure(OSError):
    """A store that cannot be used, said in a sentence."""

    def __init__(self, sentence: str, number: int = errno.EIO) -> None:
        super().__init__(number, sentence)

    def __reduce__(self) -> Any:
        return type(self), (self.strerror, self.errno)

    def __str__(self) -> str:
        return str(self.strerror)


class NoRight(StoreFailure, PermissionError):
    """Credentials that are missing, wrong, expired, or not enough."""


@contextmanager
def plain_failures(place: Any) -> Iterator[None]:
    """Turn the errors of a store into one sentence about `place`; a file that is not there stays FileNotFoundError."""
    try:
        yield
    except StoreFailure:
        raise
    except FileNotFoundError as problem:
        if any(code in str(problem) for code in _NO_BUCKET):
            raise in_words(problem, place) from None
        raise FileNotFoundError(errno.ENOENT, "there is no such file", str(place)) from None
    except Exception as problem:
        if not is_of_store(problem):
            raise
        raise in_words(problem, place) from None


def is_of_store(problem: BaseException) -> bool:
    """Whether an error was raised by the library that speaks to object stores."""
    return type(problem).__module__.startswith("obstore")


# obstore asks again by itself when a request fails, but not when the answer breaks off in the middle.
WAITS = (0.1, 0.4, 1.6, 6.4)  # seconds before it is asked for again
Read = TypeVar("Read")


def is_cut_off(problem: BaseException) -> bool:
    """Whether an answer broke off in the middle."""
    return is_of_store(problem) and "body error" in str(problem)


def read_patiently(read: Callable[[], Read]) -> Read:
    """What `read` gives, asked for again when the answer breaks off."""
    for wait in WAITS:
        try:
            return read()
        except Exception as problem:
            if not is_cut_off(problem):
                raise
        time.sleep(wait)
    return read()


def in_words(problem: BaseException, place: Any) -> StoreFailure:
    """One sentence for an error of a store."""
    said, kind, bucket = str(problem), type(problem).__name__, getattr(place, "root", place)
    code = found.group(1) if (found := _CODE.search(said)) else ""
    if any(code in said for code in _NO_BUCKET):
        return StoreFailure(f"there is no bucket {bucket}: make it first, or name another", errno.ENOENT)
    if code in _CREDENTIALS:
        return NoRight(f"{bucket} refuses the credentials: {_CREDENTIALS[code]}; {_advice(str(bucket))}", errno.EACCES)
    if kind in ("UnauthenticatedError", "PermissionDeniedError") or code == "AccessDenied":
        return NoRight(
            f"{place} may not be used with these credentials (access denied); {_advice(str(bucket))}", errno.EACCES
        )
    if "credential" in said.lower() or "169.254.169.254" in said:
        return NoRight(f"there are no credentials for {bucket}; {_advice(str(bucket))}", errno.EACCES)
    if kind == "NotSupportedError" or "PROPFIND" in said:
        return StoreFailure(
            f"{bucket} cannot list files or read parts of them: copy the data to a disk or bucket",
            errno.ENOTSUP,
        )
    reason = found.group(1).strip() if (found := _STATUS.search(said)) else "it does not answer"
    if "timed out" in said or "timeout" in said.lower().replace("retry_timeout", "").replace("connect_timeout", ""):
        reason = "it answers too slowly"
    return StoreFailure(
        f"{bucket} cannot be used at the moment ({code or reason}): look at the endpoint and the network, and try "
        "again; a run that was begun can be resumed, nothing is lost"
    )


_VARIABLES = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS",
    "az": "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
}


def _advice(bucket: str) -> str:
    scheme = bucket[:2]
    names = _VARIABLES.get(scheme, _VARIABLES["az"] if scheme in ("ab", "ad") else _VARIABLES["s3"])
    return f"give them by the usual environment variables (such as {names}) or as storage options"
