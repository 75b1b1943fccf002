"""The picture of "which method": questions on the left, answers on the right, as SVG in the page's colours."""

from html import escape
from pathlib import Path

QUESTIONS = (
    ("Do you just want the clusters?", "TreeClustering", "any table, any size, nothing to set"),
    ("Do rows keep arriving?", "IncrementalBHC", "partial_fit grows the tree"),
    ("How sure is the partition itself?", "DPMixtureMCMC", "draws of partitions, credible balls"),
    ("Soft memberships and a bound?", "DPMixtureVB", "six variational mixtures"),
    ("A tree with lengths, or a density?", "DiffusionTree", "costs most, to some thousand rows"),
    ("More than about 10,000 rows?", "BayesKMeansBHC", "rows to leaves in passes, then the tree"),
)
LAST = ("BHC", "the tree over single rows")
WIDTH, STEP, BOX = 620, 80, 52


def _box(x: int, y: int, width: int, lines: tuple[str, ...], answer: bool) -> str:
    look = 'fill="none" stroke="currentColor"'
    if answer:
        look = 'fill="var(--pst-color-primary-bg)" stroke="var(--pst-color-primary)"'
    parts = [f'<rect x="{x}" y="{y}" width="{width}" height="{BOX}" rx="8" {look}/>']
    for i, line in enumerate(lines):
        style = 'font-weight="600"' if answer and i == 0 else 'opacity="0.85"' if answer else ""
        at = y + BOX // 2 + 5 + (i * 18 - 9 * (len(lines) - 1))
        where = f'x="{x + width // 2}" y="{at}" text-anchor="middle"'
        parts.append(f'<text {where} font-size="14" fill="currentColor" {style}>{escape(line)}</text>')
    return "".join(parts)


def picture() -> str:
    """The SVG element: "yes" leads to the right, "no" leads down."""
    out = []
    for i, (question, name, why) in enumerate(QUESTIONS):
        y = 4 + i * STEP
        out.append(_box(4, y, 262, (question,), answer=False))
        out.append(_box(320, y, 296, (name, why), answer=True))
        middle, below = y + BOX // 2, y + BOX
        out.append(f'<path d="M266 {middle} H320 M135 {below} V{y + STEP}" stroke="currentColor" fill="none"/>')
        out.append(f'<text x="281" y="{middle - 6}" font-size="13" fill="currentColor">yes</text>')
        out.append(f'<text x="143" y="{below + 21}" font-size="13" fill="currentColor">no</text>')
    end = 4 + len(QUESTIONS) * STEP
    out.append(_box(4, end, 262, LAST, answer=True))
    label = "Questions one after the other; the first yes names the estimator"
    return f'<svg viewBox="0 0 {WIDTH} {end + BOX + 6}" role="img" aria-label="{label}">{"".join(out)}</svg>'


def write(path: Path) -> None:
    """The picture in a frame that scrolls on narrow screens."""
    path.write_text(f'<div class="dtree-choice">{picture()}</div>\n')
