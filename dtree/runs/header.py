"""The header of a run: what was fitted, to what, by what, and how. One declaration, checked whenever it is read."""

import platform
import sys
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from typing import Annotated, Any, Literal

import msgspec

from dtree import __version__
from dtree.core.columns import Column, check_columns
from dtree.storage.options import without_values

FORMAT = 2  # 1 was that of version 0.1, which had two kinds of runs
# Kinds of runs of version 0.1 that `dtree convert` reads: two that `dtree.save` wrote, three of fits in passes.
CONVERTIBLE = ("bhc", "chains", "dp-mixture-vb", "bayes-kmeans", "randomized", "variational")
MOST_ROWS = 10**12  # more is a mistake, damage or malice: the list of chunks alone would fill the memory

Count = Annotated[int, msgspec.Meta(ge=0, le=MOST_ROWS)]
Positive = Annotated[int, msgspec.Meta(ge=1, le=MOST_ROWS)]


@cache  # looking them up takes 25 ms, and a batch of rows is done in one
def versions_here() -> dict[str, str]:
    """Versions of everything that may change a number."""
    found = {"dtree": __version__, "python": platform.python_version()}
    found["platform"] = f"{sys.platform} {platform.machine()}"
    return found | {package: version(package) for package in ("numpy", "scipy", "numba", "zarr", "dask")}


class ArrayListing(msgspec.Struct, forbid_unknown_fields=True):
    """What the header says of one array of the results."""

    shape: list[int]
    dtype: str
    sha256: str


class Header(msgspec.Struct, forbid_unknown_fields=True):
    """What a run says of itself, in the attribute `dtree` of its zarr group."""

    method: str
    settings: dict[str, Any]  # of the method, as `codec.encode` gives them
    data: str  # what the user called the data: a path, or "an array"
    n_rows: Positive
    n_features: Positive  # of the data, those that the model leaves out included
    seed: int  # of the random streams
    random_state: int | None = None  # the number that the user gave, from which the seed follows
    fingerprint: str = ""  # of the data
    source: dict[str, Any] | None = None  # where the rows are, for a run that reads them again
    copied_from: str | None = None  # the file, where the run reads a copy of it that it made
    chunk_rows: Positive | None = None
    labels_column: str | None = None  # not a feature; predictions leave it out too
    label_names: list[str] = []  # what the row array `known` counts: the distinct labels, in order
    feature_names: list[str] | None = None
    kinds: list[Column] = []  # of the features, where the rows are a table
    left_out: list[tuple[str, str]] = []  # columns of the table that are no features, each with the reason
    row_names: list[str] | None = None
    command: list[str] = msgspec.field(default_factory=lambda: without_values(sys.argv))
    versions: dict[str, str] = msgspec.field(default_factory=lambda: dict(versions_here()))
    created: str = msgspec.field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    seconds: float = 0.0  # of all sittings together
    notes: dict[str, Any] = {}  # whatever else a caller wants to remember
    run_id: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{32}$")] = msgspec.field(
        default_factory=lambda: uuid.uuid4().hex
    )
    status: Literal["running", "done"] = "running"
    format: int = FORMAT
    results: Any = None  # the fitted record, as `codec.encode` gives it; its arrays lie in the run
    arrays: dict[str, ArrayListing] = {}
    converged: bool | None = None  # whether more steps would not have changed the results; None where nobody can say
    # Results for every row, which lie in the run too.
    row_arrays: list[Literal["labels", "leaves", "confidence", "outlier_score", "known"]] = []

    @property
    def features(self) -> tuple[tuple[str, ...], int, tuple[Column, ...]]:
        """Names, number and kinds of the features, as `Source.with_columns_of` takes them."""
        return tuple(self.feature_names or ()), self.n_features, tuple(self.kinds)

    @property
    def done(self) -> bool:
        """Whether the results are complete."""
        return self.status == "done"

    @property
    def origin(self) -> dict[str, Any]:
        """Where the run came from, in words: with the method and its settings enough to make it again."""
        return {
            "data": self.data,
            "data shape": f"{self.n_rows:,} × {self.n_features:,}",
            "data fingerprint": self.fingerprint or "not recorded",
            "seed": self.random_state if self.random_state is not None else f"{self.seed} (drawn)",
            "command": " ".join(self.command),
            "converged": {True: "yes", False: "no", None: "not known"}[self.converged],
            "made": f"{self.created} in {self.seconds:.3f} s",
            "versions": ", ".join(f"{name} {value}" for name, value in self.versions.items()),
            **self.notes,
        }


def read_header(stored: Any, run: Any) -> Header:
    """The header in a run's attributes, or one sentence why it is none."""
    found: Mapping[str, Any] = stored if isinstance(stored, dict) else {}
    if type(found.get("format")) is not int:
        raise ValueError(f"{run} is damaged: it does not say which format it has")
    if found["format"] > FORMAT:
        raise ValueError(
            f"{run} has format {found['format']}, but this dtree reads formats up to {FORMAT}; use a newer dtree"
        )
    if found["format"] < FORMAT:
        raise ValueError(written_by_an_older_dtree(run, found))
    try:
        header = msgspec.convert(found, Header)
        check_columns(header.kinds, header.n_features, header.feature_names)
    except (msgspec.ValidationError, ValueError) as error:  # before msgspec 0.21 the first was none of the second
        raise ValueError(f"{run} is damaged: its header is wrong: {str(error).replace('`', chr(39))}") from None
    return header


def written_by_an_older_dtree(run: Any, attributes: Mapping[str, Any]) -> str:
    """One sentence for a run of version 0.1: how to go on with it."""
    made_by, kind = command_of_older(attributes), str(attributes.get("kind") or attributes.get("method"))[:40]
    again = f" (it was made by: {' '.join(made_by)[:200]})" if made_by else ""
    if kind not in CONVERTIBLE:
        what = f"is a run of the kind '{kind}'"
    elif attributes.get("status", "done") != "done":
        what = "is not finished"
    else:
        return f"{run} was written by dtree 0.1: 'dtree convert {run} NEW' makes a run of this version of it{again}"
    return (
        f"{run} was written by dtree 0.1 and {what}, which this version does not convert: fit the data again with "
        f"--overwrite, or open it with dtree 0.1 ('pip install dtree==0.1.0') and export what you need{again}"
    )


def command_of_older(attributes: Mapping[str, Any]) -> list[str]:
    """The words of the command that made a run of version 0.1, where it says them."""
    notes = attributes.get("provenance")
    command = attributes.get("command") or (notes.get("command") if isinstance(notes, dict) else None)
    return [str(word) for word in command] if isinstance(command, list) else str(command or "").split()
