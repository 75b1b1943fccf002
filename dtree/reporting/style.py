"""Colours and axes that all pictures share."""

from typing import Any

from dtree.core.colours import ABOVE_CUT, INK


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
