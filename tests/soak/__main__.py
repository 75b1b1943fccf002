"""Soak: random rows and random valid settings for every estimator and command, and what must always hold of the answer.

    python -m tests.soak --seed 1 --minutes 60
    python -m tests.soak --case 1000042                  # one case again, with the traceback of what broke
    python -m tests.soak --seed 1 --cases 50 --only BHC

Everything about a case follows from its number. A case that breaks is one line, which begins with the command that
repeats it; the exit code is then 1.
"""

from __future__ import annotations

import argparse
import collections
import sys
import time
import traceback

from tests.soak.cases import PER_SEED, kinds_of_cases, outcome_of


def main() -> int:
    options = _options()
    if options.case is not None:
        found = outcome_of(options.case, options.only)
        print(found.line(), flush=True)
        if found.broken is not None:
            traceback.print_exception(found.broken)
        return int(found.broken is not None)
    ends: collections.Counter[str] = collections.Counter()
    began, number = time.monotonic(), 0
    while number < options.cases and time.monotonic() - began < 60 * options.minutes:
        found = outcome_of(options.seed * PER_SEED + number, options.only)
        number += 1
        ends[f"{found.kind} {found.end}"] += 1
        if found.broken is not None or found.seconds > options.slow or options.verbose:
            print(found.line(), flush=True)
    took = (time.monotonic() - began) / 60
    broken = sum(count for name, count in ends.items() if name.endswith("broken"))
    print(
        f"{number} cases in {took:.1f} minutes, {broken} broken: "
        + ", ".join(f"{a} {b}" for a, b in sorted(ends.items()))
    )
    return int(broken > 0)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, default=0, help="of the first case")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--cases", type=int, default=sys.maxsize, help="stop after so many")
    parser.add_argument("--case", type=int, help="run this one case")
    parser.add_argument("--only", choices=kinds_of_cases(), help="cases of one kind only")
    parser.add_argument("--slow", type=float, default=60.0, help="also tell of cases that take more seconds than this")
    parser.add_argument("--verbose", action="store_true", help="a line for every case")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
