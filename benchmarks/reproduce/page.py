"""The page: every finding with its verdict and picture, and what was not done again."""

from __future__ import annotations

import base64
from collections import Counter
from pathlib import Path

from markupsafe import Markup

from benchmarks.reproduce import record
from benchmarks.reproduce.record import CLOSE, DIFFERS, REPRODUCED, Finding, Paper

STYLE = """
:root { color-scheme: light dark; --ink: #22262c; --paper: #fff; --line: #d8dbe0; --soft: #f4f5f7; --quiet: #5c636d; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e8eb; --paper: #16181c; --line: #33373e; --soft: #1e2126; --quiet: #a2a9b3; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 0 auto; max-width: 68rem; padding: 1.2rem; }
h1 { font-size: 1.6rem; margin: .2em 0; } h2 { border-top: 1px solid var(--line); padding-top: 1.2rem; margin-top: 2.2rem; } h3 { margin: 1.6rem 0 .2rem; }
p.quiet, td.note, figcaption { color: var(--quiet); font-size: .87rem; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; width: 100%; margin: .6rem 0; font-size: .92rem; }
th, td { text-align: left; vertical-align: top; padding: .35rem .6rem; border-bottom: 1px solid var(--line); } th { background: var(--soft); }
td.note { min-width: 11rem; } td.verdict { white-space: nowrap; font-weight: 600; }
.reproduced { color: #1d7f4f; } .close { color: #a36a00; } .differs { color: #b3343f; }
@media (prefers-color-scheme: dark) { .reproduced { color: #57c08b; } .close { color: #e0ae4d; } .differs { color: #ef7d86; } }
img { max-width: 100%; height: auto; background: #fff; border: 1px solid var(--line); } figure { margin: .8rem 0; }
nav a { margin-right: 1rem; } a { color: inherit; }
@media (max-width: 640px) {
  thead { display: none; } tr, td { display: block; } tr { border-bottom: 1px solid var(--line); padding: .5rem 0; }
  td { border: 0; padding: .1rem 0; } td:empty { display: none; } td:first-child { font-weight: 600; }
  td[data-head]::before { content: attr(data-head) ": "; color: var(--quiet); }
}
"""
SIGNS = {REPRODUCED: "✓ reproduced", CLOSE: "≈ close", DIFFERS: "✗ differs"}


def gather(papers: list[Paper], results: Path) -> dict[tuple[str, str], Finding]:
    """The last finding of every experiment that has run."""
    found = {(p.key, e.key): Finding.load(results, p.key, e.key) for p in papers for e in p.experiments}
    return {key: finding for key, finding in found.items() if finding is not None}


def tally(findings: dict[tuple[str, str], Finding], paper: str | None = None) -> Counter[str]:
    """How often each verdict was given."""
    return Counter(
        row.verdict for (key, _), f in findings.items() if paper in (None, key) for row in f.rows if row.verdict
    )


def _words(count: Counter[str]) -> str:
    return ", ".join(f"{count[word]} {word}" for word in (REPRODUCED, CLOSE, DIFFERS))


def html(papers: list[Paper], results: Path, pictures: Path) -> str:
    """The whole page as text, pictures inside it."""
    findings = gather(papers, results)
    parts = [
        Markup("<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"),
        Markup("<title>The papers, done again</title><style>{}</style>").format(Markup(STYLE)),
        Markup("<h1>The papers, done again</h1><p>{}</p>").format(
            "Every table and figure of the five papers behind dtree that the data at hand allow: the paper's value, ours, and a verdict."
        ),
        Markup("<p><b>{}</b></p>").format(_words(tally(findings))),
        Markup("<nav>{}</nav>").format(
            Markup("").join(Markup('<a href="#{}">{}</a>').format(p.key, p.title.split(",")[0]) for p in papers)
        ),
        _rule(),
    ]
    for paper in papers:
        parts.append(_paper(paper, findings, pictures))
    return str(Markup("\n").join(parts))


def _rule() -> Markup:
    lines = [line for line in (record.__doc__ or "").splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if "---" not in line]
    return Markup("<details><summary>The rule of the verdicts</summary>{}<p class=quiet>{}</p></details>").format(
        _table(cells[0], [[Markup("<td>{}</td>").format(cell) for cell in row] for row in cells[1:]]),
        "Times say little across fifteen years of machines, and “differs” does not mean “wrong”: the note of a row says what is known.",
    )


def _table(head: list[str], rows: list[list[Markup]]) -> Markup:
    top = Markup("").join(Markup("<th scope=col>{}</th>").format(name) for name in head)
    body = Markup("\n").join(Markup("<tr>{}</tr>").format(Markup("").join(row)) for row in rows)
    return Markup("<div class=scroll><table><thead><tr>{}</tr></thead><tbody>{}</tbody></table></div>").format(
        top, body
    )


def _paper(paper: Paper, findings: dict[tuple[str, str], Finding], pictures: Path) -> Markup:
    parts = [Markup('<h2 id="{}">{}</h2>').format(paper.key, paper.title)]
    parts.append(Markup("<p>{}</p>").format(_words(tally(findings, paper.key))))
    if paper.remark:
        parts.append(Markup("<p>{}</p>").format(paper.remark))
    missing = list(paper.not_redone)
    for experiment in paper.experiments:
        finding = findings.get((paper.key, experiment.key))
        if finding is None:
            missing.append((experiment.where, "not run yet: python -m benchmarks.reproduce"))
            continue
        if finding.failure:
            missing.append((experiment.where, f"the run failed: {finding.failure}"))
            continue
        parts.append(Markup("<h3>{}: {}</h3>").format(experiment.where, experiment.claim))
        rows = [
            [
                Markup("<td>{}</td>").format(row.what),
                *(
                    Markup('<td data-head="{}">{}</td>').format(*cell) if cell[1] else Markup("<td></td>")
                    for cell in (("the paper", row.paper), ("ours", row.ours))
                ),
                Markup('<td class="verdict {}">{}</td>').format(row.verdict, SIGNS.get(row.verdict, "")),
                Markup("<td class=note>{}</td>").format(row.note),
            ]
            for row in finding.rows
        ]
        parts.append(_table(["what", "the paper", "ours", "verdict", "to know"], rows))
        for name in [name for name in (finding.picture or "").split() if (pictures / name).exists()]:
            code = base64.b64encode((pictures / name).read_bytes()).decode()
            parts.append(
                Markup('<figure><img alt="{}" src="data:image/png;base64,{}"></figure>').format(
                    f"{experiment.where} done again", Markup(code)
                )
            )
        made = (
            f"{finding.mode} run, {finding.seconds:.0f} s, {finding.made}, commit {finding.commit}; {finding.machine}"
        )
        parts.append(Markup("<p class=quiet>{}</p>").format(made))
    parts.append(Markup("<h3>Not done again</h3>"))
    parts.append(_table(["what", "why"], [[Markup("<td>{}</td>").format(text) for text in line] for line in missing]))
    return Markup("\n").join(parts)


def markdown(papers: list[Paper], results: Path) -> str:
    """The verdicts as Markdown: how many of each by experiment, and every row that is not simply reproduced."""
    findings = gather(papers, results)
    lines = [
        f"In all: {_words(tally(findings))}.",
        "",
        "| paper | where | claim | run | reproduced | close | differs |",
    ]
    lines.append("|" + " --- |" * 7)
    others = []
    for paper in papers:
        short = paper.title.split(",")[0] + " " + paper.key[-4:]
        for experiment in paper.experiments:
            finding = findings.get((paper.key, experiment.key))
            if finding is None or finding.failure:
                lines.append(f"| {short} | {experiment.where} | {experiment.claim} | not run | | | |")
                continue
            count = Counter(row.verdict for row in finding.rows)
            numbers = " | ".join(str(count[word]) for word in (REPRODUCED, CLOSE, DIFFERS))
            lines.append(f"| {short} | {experiment.where} | {experiment.claim} | {finding.mode} | {numbers} |")
            for row in finding.rows:
                if row.verdict in (CLOSE, DIFFERS):
                    note = f" ({row.note})" if row.note else ""
                    others.append(f"- {short}, {experiment.where}, {row.what}: *{row.verdict}*. The paper: {row.paper}; ours: {row.ours}{note}.")  # fmt: skip
    lines += ["", "Not simply reproduced:", "", *others, "", "Not done again:", ""]
    for paper in papers:
        lines += [f"- {paper.title.split(',')[0]} {paper.key[-4:]}, {what}: {why}." for what, why in paper.not_redone]
    return "\n".join(lines) + "\n"
