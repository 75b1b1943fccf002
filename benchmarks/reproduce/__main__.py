"""Do the five papers again, and put what was found on one page.

    python -m benchmarks.reproduce --data DIR --quick             # minutes: smaller sizes, fewer repetitions
    python -m benchmarks.reproduce --data DIR                     # an hour or two on two cores
    python -m benchmarks.reproduce --data DIR --paper lee2015 --only figure-4
    python -m benchmarks.reproduce --page-only                    # put the page together from the results there are

Each experiment leaves a JSON file under OUT/results, so a page can be put together from several runs; one that is there
already in the wanted mode is not run again unless --again is given. An experiment that fails is reported on the page.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.measure import commit, machine
from benchmarks.reproduce import heller2005, knowles2011, kurihara2007, lee2015, xu2009
from benchmarks.reproduce.page import html, markdown
from benchmarks.reproduce.record import Experiment, Finding, Paper, Setting

PAPERS = [module.PAPER for module in (heller2005, kurihara2007, xu2009, knowles2011, lee2015)]


def run(paper: Paper, experiment: Experiment, setting: Setting) -> Finding:
    """Run one experiment; a failure becomes part of what was found."""
    mode, began = "quick" if setting.quick else "full", time.perf_counter()
    try:
        rows, picture = experiment.run(setting)
        failure = ""
    except Exception as error:
        traceback.print_exc()
        rows, picture, failure = [], None, f"{type(error).__name__}: {error}"
    made = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    took = time.perf_counter() - began
    return Finding(paper.key, experiment.key, rows, picture, mode, took, commit(), machine(), made, failure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with the .npz datasets")
    parser.add_argument("--out", type=Path, default=Path("results/reproduce"), help="folder for results and the page")
    parser.add_argument("--paper", action="append", choices=[paper.key for paper in PAPERS], help="only this paper")
    parser.add_argument("--only", action="append", help="only experiments with these keys, e.g. table-1")
    parser.add_argument("--quick", action="store_true", help="smaller sizes and fewer repetitions")
    parser.add_argument("--again", action="store_true", help="run experiments that have results already")
    parser.add_argument("--page-only", action="store_true", help="run nothing, write the page")
    arguments = parser.parse_args()
    results, pictures = arguments.out / "results", arguments.out / "pictures"
    pictures.mkdir(parents=True, exist_ok=True)
    if not arguments.page_only:
        if arguments.data is None or not arguments.data.is_dir():
            sys.exit("give --data, the folder with the .npz datasets")
        import matplotlib

        matplotlib.use("Agg")
        setting = Setting(arguments.data, arguments.quick, pictures)
        for paper in PAPERS:
            for experiment in paper.experiments if not arguments.paper or paper.key in arguments.paper else []:
                if arguments.only and experiment.key not in arguments.only:
                    continue
                there = Finding.load(results, paper.key, experiment.key)
                known = there is not None and not there.failure and (arguments.quick or there.mode == "full")
                if known and not arguments.again:
                    continue
                print(f"{paper.key} {experiment.key}: {experiment.where}", flush=True)
                found = run(paper, experiment, setting)
                found.save(results)
                for row in found.rows:
                    print(f"  {row.verdict or '-':10} {row.what}: {row.paper} | {row.ours}", flush=True)
                print(f"  {found.seconds:.0f} s {found.failure}", flush=True)
    (arguments.out / "page.html").write_text(html(PAPERS, results, pictures), encoding="utf-8")
    (arguments.out / "verdicts.md").write_text(markdown(PAPERS, results), encoding="utf-8")
    print(arguments.out / "page.html")


if __name__ == "__main__":
    main()
