"""Colours of clusters, the same in every picture."""

ABOVE_CUT = "#8a8f98"
INK = "#2b2f36"
# Twenty colours that stay apart, for colour-blind readers too: each is as far from those before it, from paper and from
# grey as a colour of moderate chroma can be. The page has the same (page.css), and lighter ones for the dark.
CLUSTER_COLOURS = (
    "#3b6fb6", "#c8641a", "#33855a", "#b8434e", "#7d5ba6", "#8a6d4b", "#c65a92", "#8d8620", "#228a9b", "#7bd36a",
    "#f6a7a7", "#58093e", "#233500", "#f695ff", "#00d3c1", "#002384", "#581a00", "#c1b9f6", "#b0c18d", "#097200",
)  # fmt: skip
_SHADES = (0.0, 0.55, -0.45, 0.3, -0.25)  # of the colours when they come round again: towards white, towards black


def colour_of(cluster: int) -> str:
    """The colour of a cluster, or grey for what is above all clusters (-1)."""
    if cluster < 0:
        return ABOVE_CUT
    again, place = divmod(cluster, len(CLUSTER_COLOURS))
    colour, shade = CLUSTER_COLOURS[place], _SHADES[again % len(_SHADES)]
    parts = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return "#" + "".join(f"{round(part + abs(shade) * ((255 if shade > 0 else 0) - part)):02x}" for part in parts)
