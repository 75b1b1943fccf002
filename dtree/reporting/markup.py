"""Small pieces of HTML, SVG and PNG. Text becomes markup only through `escape`, so no name can leave its place."""

import base64
import json
import math
import struct
import zlib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup

from dtree.core.colours import CLUSTER_COLOURS

PATTERNS = 4  # full, hollow, edged and broken: what page.css and draw.js know
Span = tuple[float, float]  # of an axis: its lowest and its highest value


class Section(NamedTuple):
    """One part of the page: key (its id), title, contents, and what the page's script needs for it."""

    key: str
    title: str
    html: Markup
    data: dict[str, Any] | None = None


def join(parts: Iterable[Any], between: str = "") -> Markup:
    """Pieces after each other; what is not markup is escaped."""
    return Markup(between).join(parts)


def table(headers: Sequence[str], rows: Iterable[Sequence[Any]], caption: str, numeric: Sequence[int] = ()) -> Markup:
    """A table with a caption for screen readers; columns in `numeric` are aligned to the right.

    >>> "&lt;b&gt;" in table(["name"], [["<b>"]], "names")
    True
    """

    def cell(tag: str, column: int, value: Any) -> Markup:
        side = Markup(' class="number"') if column in numeric else ""
        scope = Markup(' scope="col"') if tag == "th" else ""
        return Markup("<{0}{1}{2}>{3}</{0}>").format(Markup(tag), side, scope, value)

    head = join(cell("th", column, name) for column, name in enumerate(headers))
    body = join(
        Markup("<tr>{}</tr>\n").format(join(cell("td", column, value) for column, value in enumerate(row)))
        for row in rows
    )
    return Markup(
        '<div class="scroll" tabindex="0" role="region" aria-label="{0}"><table><caption>{0}</caption>'
        "<thead><tr>{1}</tr></thead><tbody>\n{2}</tbody></table></div>"
    ).format(caption, head, body)


def facts(pairs: Iterable[tuple[str, Any]]) -> Markup:
    """A list of names and values."""
    inside = join(Markup("<div><dt>{}</dt><dd>{}</dd></div>").format(name, value) for name, value in pairs)
    return Markup('<dl class="facts">{}</dl>').format(inside)


def colour_class(cluster: int) -> str:
    """The classes that give a cluster its colour and, where the twenty colours come round again, its pattern.

    >>> colour_class(3), colour_class(23)
    ('k3', 'k3 m1')
    """
    again, place = divmod(cluster, len(CLUSTER_COLOURS))
    return f"k{place}" + (f" m{again % PATTERNS}" if again % PATTERNS else "")


def swatch(cluster: int) -> Markup:
    """A dot in the colour of a cluster."""
    return Markup('<span class="dot {}" aria-hidden="true"></span>').format(colour_class(cluster))


def number(value: Any, digits: int = 4) -> str:
    """A number for reading: thousands separated, a true minus sign.

    >>> number(-1234567), number(0.123456), number(float("nan"))
    ('−1,234,567', '0.1235', '–')
    """
    if value is None or not math.isfinite(value):
        return "–"
    if float(value).is_integer() and abs(value) < 1e15:
        text = f"{int(value):,}"
    elif abs(value) >= 1000:
        text = f"{value:,.1f}"
    else:
        text = f"{value:.{digits}g}"
    return text.replace("-", "\u2212")


def fixed(value: float) -> str:
    """A number with three decimals, as columns of a table have it.

    >>> fixed(-1234.5)
    '−1,234.500'
    """
    return f"{value:,.3f}".replace("-", "\u2212")


def embedded_json(value: Any) -> Markup:
    """JSON that can stand inside a script element: no `<`, so nothing in it can end the element or start a comment.

    >>> embedded_json({"name": "</script>"})
    Markup('{"name":"\\\\u003c/script\\\\u003e"}')
    """
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


# Pictures -------------------------------------------------------------------------------------------------------------


def png(pixels: np.ndarray, alt: str, css_class: str) -> Markup:
    """Grey (h, w) or coloured (h, w, 3) bytes as a picture inside the page."""
    pixels = np.ascontiguousarray(pixels, dtype=np.uint8)
    height, width = pixels.shape[:2]
    lines = b"".join(b"\0" + pixels[line].tobytes() for line in range(height))  # 0: this line is not filtered
    colour_type = 0 if pixels.ndim == 2 else 2
    parts = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, colour_type, 0, 0, 0)),
        (b"IDAT", zlib.compress(lines, 9)),
        (b"IEND", b""),
    )
    chunks = [struct.pack(">I", len(d)) + name + d + struct.pack(">I", zlib.crc32(name + d)) for name, d in parts]
    text = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"".join(chunks)).decode()
    return Markup('<img class="{}" alt="{}" width="{}" height="{}" src="data:image/png;base64,{}">').format(
        css_class, alt, width, height, text
    )


def ticks(low: float, high: float, wanted: int = 5, whole: bool = False) -> list[float]:
    """Round numbers between two others, whole ones where others would mean nothing.

    >>> ticks(0.0, 10.0)
    [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]
    """
    if not high > low:
        return [low]
    step = 10.0 ** math.floor(math.log10((high - low) / wanted))
    for factor in (1, 2, 5, 10):
        if (high - low) / (step * factor) <= wanted:
            step *= factor
            break
    step = max(1.0, round(step)) if whole else step
    return [k * step for k in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def tick_texts(values: Sequence[float]) -> list[str]:
    """Evenly spaced numbers beside an axis, with as many decimals as tell them apart.

    >>> tick_texts([-5990.5, -5990.49, -5990.48])
    ['−5,990.50', '−5,990.49', '−5,990.48']
    """
    decimals = 0 if len(values) < 2 else -math.floor(math.log10(values[1] - values[0]) + 1e-9)
    if not 0 < decimals <= 6:
        return [number(value, 6) for value in values]
    return [f"{value:,.{decimals}f}".replace("-", "\u2212") for value in values]


class Frame:
    """The axes of an SVG chart: turns values into places."""

    def __init__(self, x: Span, y: Span, height: int = 240, whole: tuple[bool, bool] = (False, False)) -> None:
        self.width, self.height, self.whole = 640, height, whole
        self.x, self.y = _widened(x), _widened(y)
        self.left, self.right, self.top, self.bottom = 92, 16, 34, 46

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Where a point stands."""
        across = (x - self.x[0]) / (self.x[1] - self.x[0])
        up = (y - self.y[0]) / (self.y[1] - self.y[0])
        return (
            round(self.left + across * (self.width - self.left - self.right), 1),
            round(self.height - self.bottom - up * (self.height - self.top - self.bottom), 1),
        )

    def chart(self, inside: Markup, x_label: str, y_label: str, description: str) -> Markup:
        """The whole chart with axes, ticks and a description for screen readers."""
        low = self.height - self.bottom
        line = Markup('<line class="grid" x1="{0}" x2="{1}" y1="{2}" y2="{2}"/>')
        text = Markup('<text x="{}" y="{}" text-anchor="{}">{}</text>')
        marks = []
        across, up = ticks(*self.x, wanted=6, whole=self.whole[0]), ticks(*self.y, whole=self.whole[1])
        for y, name in zip(up, tick_texts(up), strict=True):
            at = self.at(0, y)[1]
            marks.append(line.format(self.left, self.width - self.right, at))
            marks.append(text.format(self.left - 8, at + 4, "end", name))
        for x, name in zip(across, tick_texts(across), strict=True):
            marks.append(text.format(self.at(x, 0)[0], low + 20, "middle", name))
        labels = Markup(
            '<text class="label" x="{}" y="{}" text-anchor="end">{}</text><text class="label" x="4" y="18">{}</text>'
        ).format(self.width - self.right, self.height - 4, x_label, y_label)
        return Markup(
            '<svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}">{}{}{}</svg>'
        ).format(self.width, self.height, description, join(marks), inside, labels)  # fmt: skip


def _widened(span: Span) -> Span:
    low, high = span
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def line_chart(lines: Sequence[tuple[str, Any, Any]], x_label: str, y_label: str, description: str) -> Markup:
    """Lines (name, x, y) in the colours of clusters; a legend when there are several."""
    xs, ys = np.concatenate([line[1] for line in lines]), np.concatenate([line[2] for line in lines])
    whole = (bool(np.all(xs == np.rint(xs))), bool(np.all(ys == np.rint(ys))))
    frame = Frame((float(xs.min()), float(xs.max())), (float(ys.min()), float(ys.max())), whole=whole)
    drawn = []
    for place, (_, x, y) in enumerate(lines):
        path = "M" + "L".join("{} {}".format(*frame.at(a, b)) for a, b in zip(x, y))
        drawn.append(Markup('<path class="line {}" d="{}"/>').format(colour_class(place), path))
        if len(x) <= 40 and len(lines) == 1:
            dot = Markup('<circle class="full {}" cx="{}" cy="{}" r="3"/>')
            drawn.append(join(dot.format(colour_class(place), *frame.at(a, b)) for a, b in zip(x, y)))
    chart = frame.chart(join(drawn), x_label, y_label, description)
    if len(lines) == 1:
        return chart
    legend = join(Markup("<li>{}{}</li>").format(swatch(place), line[0]) for place, line in enumerate(lines))
    return chart + Markup('<ul class="legend">{}</ul>').format(legend)


def details(summary: str, inside: Markup) -> Markup:
    """Something to open."""
    return Markup("<details><summary>{}</summary>{}</details>").format(summary, inside)
