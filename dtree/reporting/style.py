"""Colours and axes that all pictures share."""

from typing import Any

ABOVE_CUT = "#8a8f98"
INK = "#2b2f36"
# Ten colours that stay apart for colour-blind readers and on paper; clusters take them in order of appearance.
CLUSTER_COLOURS = (
    "#3b6fb6", "#d9772b", "#3f9561", "#b8434e", "#7d5ba6", "#8a6d4b", "#d46fa3", "#5f7a87", "#a8a032", "#2fa3b5",
)  # fmt: skip


def colour_of(cluster: int) -> str:
    """The colour of a cluster, or grey for what is above all clusters (-1)."""
    return CLUSTER_COLOURS[cluster % len(CLUSTER_COLOURS)] if cluster >= 0 else ABOVE_CUT


def new_axes(width: float, height: float, rows: int = 1) -> Any:
    """Axes in a figure of their own; an array of them where several stand one above the other."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ValueError("drawing needs Matplotlib, which is not installed; pip install 'dtree[plot]'") from None
    return plt.subplots(rows, figsize=(width, height), layout="constrained")[1]


def quiet_axes(ax: Any, x_label: str, y_label: str) -> None:
    """Two thin spines, small labels."""
    ax.set_xlabel(x_label, fontsize=9, color=INK)
    ax.set_ylabel(y_label, fontsize=9, color=INK)
    ax.tick_params(colors=INK, labelsize=8)
    ax.spines[["right", "top"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(ABOVE_CUT)
