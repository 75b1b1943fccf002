"""Component parameters as data frames, with the names of clusters and features."""

from typing import Any

import numpy as np


def component_frame(components: dict[str, np.ndarray], parameter: str | None, clusters: int, features: Any) -> Any:
    """The first `clusters` rows of a parameter (T,), (T, d) or (T, d, d) as a data frame; None for the first parameter.

    Matrices have a row for each cluster and feature.

    >>> frame = component_frame({"means": np.array([[1.0, 2.0], [3.0, 4.0]])}, None, 1, ["length", "width"])
    >>> frame.to_dict("index")
    {0: {'length': 1.0, 'width': 2.0}}
    """
    import pandas

    if not components:
        raise ValueError("the family names no parameters of a component; `statistics_` holds what is known of each")
    parameter = next(iter(components)) if parameter is None else parameter
    if parameter not in components:
        raise ValueError(f"there is no parameter {parameter!r}: choose one of {', '.join(components)}")
    values = components[parameter][:clusters]
    rows: Any = pandas.RangeIndex(clusters, name="cluster")
    if values.ndim == 1:
        return pandas.DataFrame(values, rows, [parameter])
    if values.ndim == 3:
        rows = pandas.MultiIndex.from_product([rows, features], names=["cluster", "feature"])
        values = values.reshape(-1, values.shape[2])
    return pandas.DataFrame(values, rows, list(features))
