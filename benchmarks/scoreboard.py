"""What a person waits for, in one table: seconds here, a peer in the same run, the ratio, and what the last release took.

    python -m benchmarks scoreboard [--data DIR] [--quick] [--only WORD] [--record]

Every row asserts its answer before anything is timed. --quick does the same on few rows, so that the answers are checked
in seconds; its times say nothing. Rows that need a data set are left out without --data. Beside the seconds that pass
stand those of the processor, which say more when the machine has other work. Figures of the last release are in
last_release.json. They were given to us, of a quiet machine of two cores, and not measured by this program: words were
the real kos blog entries, of which a row here makes up the like, and the tree on workers was grown by the workers. A
slow-down is seen beside them on such a machine only.
--record keeps the rows in scoreboard.json, from which the site makes its page of performance.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.measure import commit, machine, markdown_table
from benchmarks.scoreboard_rows import ROWS, Asked

_LAST_RELEASE = Path(__file__).with_name("last_release.json")
_RECORD = Path(__file__).with_name("scoreboard.json")


def board(quick: bool, data: Path | None, only: str = "") -> dict[str, dict[str, Any]]:
    """Every row by its name: what it is, what was spent here and by a peer, and when and where that was."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, row in ROWS.items():
            if only not in name:
                continue
            took = row(Asked(quick, data, Path(folder)))
            if took is None:
                continue
            found[name] = {
                "what": (row.__doc__ or "").strip().rstrip("."),
                "here": took.here._asdict(),
                "peer": took.peer,
                "there": None if took.there is None else took.there._asdict(),
                "date": f"{datetime.now(UTC):%Y-%m-%d}",
                "commit": commit(),
                "load": round(os.getloadavg()[0], 1),
                "machine": machine(),
            }
            print(name, f"{took.here.seconds:.2f}", file=sys.stderr, flush=True)
    return found


def lines_of(found: dict[str, dict[str, Any]]) -> list[list[Any]]:
    """The rows of the table: seconds and processor seconds here and there, their ratio, seconds of the last release."""
    last = json.loads(_LAST_RELEASE.read_text())

    def shown(value: float | None) -> str:
        return "" if value is None else f"{value:.2f}"

    lines = []
    for name, row in found.items():
        here, there = row["here"], row["there"] or {"seconds": None, "processor": None}
        # The load of a machine is in the seconds that pass; processors' seconds are compared where both are known.
        unit = "processor" if here["processor"] and there["processor"] else "seconds"
        ratio = here[unit] / there[unit] if there[unit] else None
        times = [shown(side[unit]) for side in (here, there) for unit in ("seconds", "processor")]
        lines.append([row["what"], *times[:2], row["peer"], *times[2:], shown(ratio), last.get(name, "")])
    return lines


HEADER = ["what", "s", "processor s", "peer", "its s", "its processor s", "ratio", "last release s"]


def record(found: dict[str, dict[str, Any]]) -> None:
    """Keep rows in place of what was measured of them before."""
    known = json.loads(_RECORD.read_text()) if _RECORD.exists() else {}
    kept = {name: found.get(name, known.get(name)) for name in ROWS}
    _RECORD.write_text(json.dumps({name: row for name, row in kept.items() if row}, indent=1) + "\n")


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with more data sets as .npz")
    parser.add_argument("--quick", action="store_true", help="few rows: the answers are checked, times say nothing")
    parser.add_argument("--only", default="", help="rows whose name holds this word")
    parser.add_argument("--record", action="store_true", help="keep the figures in scoreboard.json, for the site")
    arguments = parser.parse_args(words)
    if arguments.quick and arguments.record:
        parser.error("--quick times say nothing and are not kept: leave out --record")
    found = board(arguments.quick, arguments.data, arguments.only)
    if arguments.record:
        record(found)
    print(machine(), "\n")
    print("\n".join(markdown_table(HEADER, lines_of(found))))


if __name__ == "__main__":
    main()
