"""On how many rows a fit begins."""

from dtree.kmeans.passes import atoms_that_fit

_MOST_SAMPLE_ROWS = 10_000
_SAMPLE_WORK = 2e10  # multiplications that scoring every sampled row against every starting cluster may take


def sample_size(n_features: int, n_statistics: int, n: int) -> int:
    """How many rows the starting clusters are found on: enough for them to be good, few enough to take seconds."""
    rows = min(n, atoms_that_fit(n_statistics, _MOST_SAMPLE_ROWS))
    per_score = n_statistics * max(1.0, n_features / 3.0 if n_statistics > 3 * n_features + 3 else 1.0)
    while rows > 256 and rows * min(n**0.5, rows / 4.0) * per_score > _SAMPLE_WORK:
        rows = int(rows * 0.8)
    return rows
