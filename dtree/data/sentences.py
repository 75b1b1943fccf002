"""What is wrong with data, in one sentence (`ValueError`) that says what and what to do about it."""

import errno
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from dtree.storage.failures import StoreFailure
from dtree.storage.places import Place

MOST_ROWS = 10**12  # more is a mistake, damage or malice: the list of chunks alone would fill the memory
MOST_COLUMNS = 2**31


def require_table(shape: Sequence[int], dtype: Any, what: str) -> tuple[int, int]:
    """The shape (n, d) of a table of real numbers with at least one row and one column, or one sentence."""
    dtype = np.dtype(dtype)
    if dtype.hasobject:
        raise ValueError(
            f"{what} holds Python objects, which are never loaded; dtree takes numbers: save it as an array of numbers"
        )
    if dtype.kind in "USTV" or dtype.names:
        raise ValueError(
            f"{what} holds text or records, not numbers; dtree takes numbers: save the numeric columns as an array"
        )
    if dtype.kind not in "biuf":
        raise ValueError(f"{what} holds values of type {dtype}, not real numbers; convert them to float or integer")
    if len(shape) == 1:
        raise ValueError(
            f"{what} has one dimension ({shape[0]} values) and must be a table of rows and columns: reshape it with "
            "X.reshape(-1, 1) if every value is a row"
        )
    if len(shape) != 2:
        raise ValueError(f"{what} has {len(shape)} dimensions and must be a table of rows and columns")
    n, d = int(shape[0]), int(shape[1])
    if n > MOST_ROWS or d > MOST_COLUMNS:
        raise ValueError(f"{what} declares the shape {(n, d)}: so many rows or columns cannot be meant")
    if n < 1 or d < 1:
        raise ValueError(
            f"{what} is empty: it holds {n} rows of {d} features; there must be at least one row and one column"
        )
    return n, d


def listed(names: Sequence[str], limit: int = 12) -> str:
    """Names for a sentence, the first few of many.

    >>> listed(["a", "b", "c"], limit=2)
    "'a', 'b' and 1 more"
    """
    shown = ", ".join(f"'{name}'" for name in names[:limit])
    return shown + (f" and {len(names) - limit} more" if len(names) > limit else "") if names else "none"


@contextmanager
def one_sentence(path: Place) -> Iterator[None]:
    """Turn whatever a file library raises into one sentence; our own sentences name the file already."""
    try:
        yield
    except StoreFailure:
        raise  # which is a sentence already, and says nothing about the file
    except MemoryError:
        raise ValueError(f"{path} declares more data than fits in memory; it may be damaged") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path} cannot be read as text in UTF-8; save it in that encoding") from None
    except ImportError as error:
        package = error.name or "a package"
        advice = "; pip install 'dtree[parquet]'" if package.startswith("pyarrow") else ""
        raise ValueError(f"{path} cannot be read because {package} is not installed{advice}") from None
    except Exception as error:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise  # a copy did not fit on the disk, which says nothing about the file
        reason = one_line(error)
        if isinstance(error, ValueError) and reason.startswith(str(path)):
            raise
        reason = reason.replace(str(path), "it")  # a path may hold the words that are looked for below
        if "pickle" in reason or "object" in reason.lower():
            raise ValueError(f"{path} holds Python objects, which are never loaded; save an array of numbers") from None
        if isinstance(error, OSError) and error.strerror:
            reason = error.strerror
        raise ValueError(f"{path} cannot be read, it may be damaged: {reason[:200] or type(error).__name__}") from None


def one_line(error: BaseException) -> str:
    """What an error says, without line breaks and the last full stop."""
    return " ".join(str(error).split()).rstrip(".")
