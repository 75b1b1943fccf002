"""What `info` and the report say of passes over the rows."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from dtree.kmeans.passes import Progress


def traces_of_passes(trace: Sequence[Progress]) -> dict[str, tuple[str, list[np.ndarray]]]:
    """The objective and the number of clusters after each pass."""
    if not trace:
        return {}
    objective, clusters = (np.array([float(getattr(s, name)) for s in trace]) for name in ("objective", "n_clusters"))
    return {"objective": ("pass", [objective]), "clusters": ("pass", [clusters])}


def table_of_passes(trace: Sequence[Progress]) -> dict[str, Any]:
    """What happened in each pass, as a data frame."""
    import pandas

    if not trace:
        return {}
    columns = {
        "pass": [step.number for step in trace],
        "objective": [step.objective for step in trace],
        "clusters": [step.n_clusters for step in trace],
        "rows moved": [step.moved for step in trace],
        "seconds": [round(step.seconds, 2) for step in trace],
        "rows per second": [round(step.rows_per_second) for step in trace],
    }
    return {"Passes": pandas.DataFrame(columns).set_index("pass")}
