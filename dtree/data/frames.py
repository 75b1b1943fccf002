"""Data frames of any library as pandas frames: Polars, Arrow and others that Narwhals knows."""

from typing import Any

import numpy as np

from dtree.core.names import require_distinct

_FRAME = "the data frame"


def is_frame(data: Any) -> bool:
    """Whether something is a data frame: of pandas, or of a library that Narwhals knows, such as Polars and Arrow."""
    if hasattr(data, "obs_names"):
        return False
    kind = type(data)  # asking a lazy frame itself for its columns may cost much
    return hasattr(kind, "columns") and (hasattr(kind, "iloc") or hasattr(kind, "schema"))


def has_words(data: Any) -> bool:
    """Whether something is a frame with a column that holds neither numbers nor truth values."""
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    if not is_frame(data):
        return False
    return not all(is_numeric_dtype(kind) or is_bool_dtype(kind) for kind in as_pandas(data).dtypes)


def framed_array(X: Any) -> Any:
    """A table of values without names as a frame whose columns are called 0, 1, ...; anything else as it is."""
    import pandas

    values = np.asarray(X)
    return pandas.DataFrame(values) if values.ndim == 2 else X


def as_pandas(frame: Any) -> Any:
    """The frame as a pandas one, column by column: text stays text, categories keep their order, gaps stay gaps.

    >>> import pandas
    >>> as_pandas(pandas.DataFrame({"a": [1]})).shape
    (1, 1)
    """
    if hasattr(frame, "iloc"):
        return frame
    import pandas
    from narwhals import from_native

    if hasattr(frame, "collect"):  # a lazy frame: it is wanted now
        frame = frame.collect()
    names = getattr(frame, "column_names", None) or [str(name) for name in frame.columns]
    require_distinct(names, _FRAME)
    table: Any = from_native(frame, pass_through=False)
    return pandas.DataFrame({name: _column(table[name]) for name in table.columns})


def _column(series: Any) -> Any:
    """A Narwhals column as a pandas one; not by their own `to_pandas`, which may want further packages."""
    import narwhals as nw
    import pandas

    kind = series.dtype
    if isinstance(kind, nw.Categorical | nw.Enum):
        levels = list(kind.categories) if isinstance(kind, nw.Enum) else sorted(series.drop_nulls().unique().to_list())
        return pandas.Categorical(series.to_list(), categories=levels)
    if kind == nw.Boolean:
        return pandas.array(series.to_list(), dtype="boolean")
    if kind.is_numeric():
        gaps = series.is_null().to_numpy()
        if kind.is_decimal():
            series = series.cast(nw.Float64)
        if not gaps.any():
            return series.to_numpy()
        values = series.cast(nw.Float64).fill_null(0.0).to_numpy().copy()
        values[gaps] = np.nan
        return values
    if isinstance(kind, nw.Datetime | nw.Date):
        return pandas.to_datetime(pandas.Series(series.to_list(), dtype=object), utc=True)
    if isinstance(kind, nw.Duration):
        return pandas.to_timedelta(pandas.Series(series.to_list(), dtype=object))
    return pandas.Series(series.to_list(), dtype=object)
