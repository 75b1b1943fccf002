"""Disturb until the time is up; print how it ended."""

from __future__ import annotations

import argparse
import collections
import os
import random
import shutil
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path

os.environ.setdefault("DTREE_CACHE_DIR", str(Path(__file__).parents[2] / ".pytest_cache" / "dtree-kernels"))

from tests.chaos import __doc__ as about
from tests.chaos.data_faults import DATA_FAULTS, LOSES_CHUNKS
from tests.chaos.episode import FORMS, SAID, TABLES, Episode, Wrong, rows_for, undisturbed, write
from tests.chaos.process_faults import PROCESS_FAULTS
from tests.chaos.run_faults import RUN_FAULTS
from tests.engine.test_features import METHODS

FAULTS = {**DATA_FAULTS, **RUN_FAULTS, **PROCESS_FAULTS}  # and how often: those with processes take much longer
ENDS = ("bits", "sentence", "refused", "late", "SILENT", "CRASH")


class Chaos:
    """Episodes and their ends."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.known = folder, {}
        self.faults: collections.Counter[tuple[str, str]] = collections.Counter()
        self.methods: collections.Counter[tuple[str, str]] = collections.Counter()
        self.forms: collections.Counter[tuple[str, str]] = collections.Counter()

    def disturb(self, name: str, form: str, fault: object, seed: int) -> None:
        """One episode."""
        folder, what = Path(tempfile.mkdtemp(dir=self.folder)), fault.__name__
        if (name, form) not in self.known:
            self.known[name, form] = undisturbed(name, form, Path(tempfile.mkdtemp(dir=self.folder)))
        write(folder / f"x.{form}", rows_for(name, form))
        SAID.clear()
        try:
            end = fault(Episode(name, form, folder, random.Random(seed), *self.known[name, form]))
        except Wrong as wrong:
            end = str(wrong).split()[0]
            print(f"{name}:{form}:{what}:{seed}: {wrong}", flush=True)
        except Exception:
            end = "CRASH"
            print(f"{name}:{form}:{what}:{seed}:\n{traceback.format_exc()}", flush=True)
        said = "".join(f"\n    {sentence.replace(str(folder), '')}" for sentence in SAID)
        print(f"{name}:{form}:{what}:{seed} {end}{said}", flush=True)
        for counts, key in ((self.faults, what), (self.methods, name), (self.forms, form)):
            counts[key, end] += 1
        shutil.rmtree(folder, ignore_errors=True)

    def table(self) -> str:
        """Ends by fault, method and form of the data."""
        lines = []
        for title, counts in (("fault", self.faults), ("method", self.methods), ("data", self.forms)):
            lines.append(f"{title:24}" + "".join(f"{end:>10}" for end in ENDS))
            for key in sorted({key for key, _ in counts}):
                lines.append(f"{key:24}" + "".join(f"{counts[key, end]:>10}" for end in ENDS))
        sums = [sum(n for (_, at), n in self.faults.items() if at == end) for end in ENDS]
        return "\n".join([*lines, f"{'all':24}" + "".join(f"{n:>10}" for n in sums)])

    @property
    def is_well(self) -> bool:
        return not any(end in ("SILENT", "CRASH") for _, end in self.faults)


def chosen(chance: random.Random, only: str) -> tuple[str, str, object, int]:
    """Method, form of the data, fault and seed: at random, or as `--only` says of some of them."""
    said = [*only.split(":"), "", "", "", ""][:4] if only else ["", "", "", ""]
    fault = chance.choices(list(FAULTS), list(FAULTS.values()))[0]
    fault = next((known for known in FAULTS if known.__name__ == said[2]), fault)
    form = chance.choice(FORMS if chance.random() < 0.5 else TABLES)
    if fault in LOSES_CHUNKS:
        form = "zarr"
    return said[0] or chance.choice(list(METHODS)), said[1] or form, fault, int(said[3] or chance.randrange(2**31))


def main(arguments: list[str] | None = None) -> int:
    """Disturb until the time is up; print the counts."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="METHOD:DATA:FAULT:SEED, each may be empty; with a seed, once")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    chance, limit = random.Random(options.seed), time.monotonic() + 60 * options.minutes
    with tempfile.TemporaryDirectory(prefix="dtree-chaos-") as temporary:
        chaos = Chaos(Path(temporary))
        while time.monotonic() < limit:
            chaos.disturb(*chosen(chance, options.only))
            if options.only.rpartition(":")[2].isdigit():
                break
    print(chaos.table())
    return 0 if chaos.is_well else 1


if __name__ == "__main__":
    sys.exit(main())
