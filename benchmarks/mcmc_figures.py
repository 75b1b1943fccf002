"""Log joint against time for every sampler, as Figures 3 to 5 of [LC15]."""

from __future__ import annotations

from pathlib import Path

import numpy as np

TITLES = {
    "toy-dp": "toy, 1,300 x 2, DP",
    "toy-nggp": "toy, 1,300 x 2, NGGP",
    "10k-nggp": "10,000 x 6, NGGP",
    "nips-nggp": "NIPS papers, 1,500 x 12,419 words, NGGP",
}
Curve = tuple[np.ndarray, np.ndarray]  # seconds, log joint


def draw_figures(case: str, curves: dict[str, list[Curve]], out: Path) -> None:
    """One picture: the median over seeds on a common grid of times, its range shaded."""
    try:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError:
        print("matplotlib is not installed: no figures")
        return
    out.mkdir(parents=True, exist_ok=True)
    figure, axis = plt.subplots(figsize=(7, 4.2), layout="constrained")
    highest, settled = -np.inf, []
    for sampler, runs in curves.items():
        first, last = max(seconds[0] for seconds, _ in runs), min(seconds[-1] for seconds, _ in runs)
        if first >= last:
            continue
        times = np.geomspace(max(first, 1e-3), last, 300)
        heights = np.array(
            [log_joint[np.searchsorted(seconds, times, side="right") - 1] for seconds, log_joint in runs]
        )
        middle = np.median(heights, axis=0)
        (line,) = axis.plot(times, middle, label=sampler, linewidth=1.4)
        axis.fill_between(
            times, heights.min(axis=0), heights.max(axis=0), color=line.get_color(), alpha=0.15, linewidth=0
        )
        highest = max(highest, float(heights.max()))
        settled.append(float(middle[-1]))
    low = np.sort(settled)[max(0, len(settled) // 3)]
    axis.set(xlabel="seconds, the start included", ylabel="log joint", title=TITLES.get(case, case), xscale="log")
    axis.set_ylim(low - 1.5 * (highest - low) - 20.0, highest + 0.05 * (highest - low) + 5.0)
    axis.yaxis.set_major_formatter("{x:,.0f}")
    axis.xaxis.set_major_formatter("{x:g}")
    axis.xaxis.set_minor_formatter("{x:g}" if case.startswith("nips") else "")  # less than a decade has few major ticks
    axis.grid(alpha=0.3)
    axis.legend(fontsize=8, loc="lower right")
    figure.savefig(out / f"mcmc_{case.replace('-', '_')}.png", dpi=110)
    plt.close(figure)
