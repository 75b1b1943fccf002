"""What a first run compiles: specialisations and seconds by file, each command in a fresh process with an empty cache.

`python -m benchmarks compilation` (a few minutes). Seconds are those of a processor
spent in compiling a kernel, its callees aside.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

_ROOT = Path(__file__).resolve().parents[1]
_CHILD = """
import atexit, json, sys, time
from numba.core import event

class Listener(event.Listener):
    open, rows = [], []

    def on_start(self, thing):
        self.open.append([time.thread_time(), 0.0])

    def on_end(self, thing):
        began, inside = self.open.pop()
        took = time.thread_time() - began
        if self.open:
            self.open[-1][1] += took
        kernel = thing.data["dispatcher"].py_func
        self.rows.append([kernel.__module__, kernel.__qualname__, took - inside, str(thing.data["args"])])

event.register("numba:compile", Listener())
record = sys.argv[1]
atexit.register(lambda: open(record, "w").write(json.dumps(Listener.rows)))
from dtree.cli import main
sys.argv[:] = ["dtree", *sys.argv[2:]]
main()
"""


def compiled_by(arguments: list[str], folder: Path, cache: Path) -> tuple[list[list], float]:
    """What `dtree ARGUMENTS` compiles (module, kernel, own seconds, types), and the seconds of the whole command."""
    record = folder / "record.json"
    environment = {**os.environ, "DTREE_CACHE_DIR": str(cache), "PYTHONPATH": str(_ROOT)}
    command = [sys.executable, "-c", _CHILD, str(record), *arguments]
    began = time.perf_counter()
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return json.loads(record.read_text()), time.perf_counter() - began


def print_table(name: str, rows: list[list], seconds: float) -> None:
    """One command's specialisations by file."""
    print(
        f"\n### `dtree {name}`: {len(rows)} specialisations, {sum(row[2] for row in rows):.1f} s of {seconds:.1f} s\n"
    )
    print("| file | kernels | specialisations | seconds |\n| --- | --- | --- | --- |")
    spent, count = Counter(), Counter(row[0] for row in rows)
    for module, _, own, _ in rows:
        spent[module] += own
    for module, own in spent.most_common():
        kernels = len({row[1] for row in rows if row[0] == module})
        print(f"| {module.removeprefix('dtree.')} | {kernels} | {count[module]} | {own:.1f} |")


def run(detailed: bool = False) -> None:
    """The tables of a few first commands, each with an empty cache."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rng = np.random.default_rng(0)
        rows = np.concatenate([rng.normal(centre, 1.0, (60, 4)) for centre in (0, 6, 12)])
        np.savetxt(folder / "small.csv", rows, delimiter=",", header="a,b,c,d", comments="")
        commands = {
            "demo": ["demo", "--out", "demo.zarr"],
            "fit small.csv": ["fit", "small.csv", "--out", "fit.zarr"],
            "fit small.csv --method exact": ["fit", "small.csv", "--method", "exact", "--out", "exact.zarr"],
        }
        for number, (title, arguments) in enumerate(commands.items()):
            found, seconds = compiled_by(arguments, folder, folder / f"cache-{number}")
            print_table(title, found, seconds)
            if detailed:
                for module, kernel, own, kinds in sorted(found, key=lambda row: -row[2]):
                    print(f"{own:6.2f} {module}.{kernel}({kinds})")
            again, seconds = compiled_by([*arguments, "--overwrite"], folder, folder / f"cache-{number}")
            print(f"\nA second time: {len(again)} specialisations, {seconds:.1f} s.")


if __name__ == "__main__":
    run("--detailed" in sys.argv)
