"""`--dry-run`: what a fit would do, said before it is done."""

from typing import Any

from dtree.cli.cluster import Cluster, processes_for
from dtree.cli.console import say
from dtree.methods.facts import counted


def plan(method: Any, settings: Any, source: Any, cluster: Cluster) -> None:
    """Say what a fit of an open source would do; the kinds of its columns have been said."""
    from dtree.engine.expected import expected_cost

    workers, memory = processes_for(cluster, method, source.shape[0])
    found = expected_cost(method, settings, source, workers, memory)
    n, d = source.shape
    say(f"would fit {n:,} rows, {d} features ({_bytes(found.data_bytes)}) by {method.name}")
    chosen = {name: getattr(settings, name) for name in settings.__struct_fields__}
    say("settings: " + ", ".join(f"{name} {value}" for name, value in chosen.items() if value is not None))
    if method.in_passes:
        say(f"{counted(found.chunks, 'chunk')} of {found.chunk_rows:,} rows, {counted(found.tasks, 'task')} a pass")
    who = f"{counted(workers, 'worker')}, about {_bytes(found.worker_bytes)} of memory each"
    if memory is not None and workers:
        who += f" of {_bytes(memory)}" + (": too little" if memory < found.worker_bytes else "")
    say(who if workers else f"in this process, about {_bytes(found.worker_bytes)} of memory")
    least, most = found.readings
    times = counted(least, "time") if most == least else f"{least} to {counted(most, 'time')}" if most else f"at least {counted(least, 'time')}"  # fmt: skip  # noqa: E501
    say(f"all rows would be read {times}")
    if found.seconds is None:
        say("how long this method takes cannot be told beforehand: it depends on what it finds")
    else:
        low, high = found.seconds
        range_ = _time(low) if high == low else f"{_time(low)} to {_time(high)}" if high else f"at least {_time(low)}"
        each = f", {_time(found.pass_seconds)} a pass with {found.clusters} clusters" if method.in_passes else ""
        say(f"expected time: {range_}{each}, right to a factor of two or three (deploy/SCALING.md has the model)")
    say("dry run: nothing was written")


def _bytes(number: float) -> str:
    """An amount of memory in words.

    >>> _bytes(900), _bytes(32_000_000), _bytes(6.4e13)
    ('900 bytes', '32 MB', '64 TB')
    """
    units, size = ("bytes", "kB", "MB", "GB", "TB"), 0
    while number >= 1000 and size < len(units) - 1:
        number, size = number / 1000, size + 1
    return f"{number:.0f} {units[size]}"


def _time(seconds: float) -> str:
    """A time in words.

    >>> _time(0.2), _time(45.0), _time(600.0), _time(9000.0)
    ('less than a second', '45 s', '10 min', '2.5 h')
    """
    if seconds < 1:
        return "less than a second"
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"  # fmt: skip  # noqa: E501
