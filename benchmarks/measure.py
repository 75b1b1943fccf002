"""What every benchmark needs: time a call warm, say which machine it was, print a table, load a dataset."""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from dtree.core.jit import kernel  # noqa: F401  (numba is imported before anything is timed)


def seconds(call: Callable[[], Any], repeats: int = 1) -> tuple[float, Any]:
    """Best wall time of `repeats` calls, and the last answer."""
    best, answer = np.inf, None
    for _ in range(repeats):
        started = time.perf_counter()
        answer = call()
        best = min(best, time.perf_counter() - started)
    return best, answer


def machine() -> str:
    """One line: processor count, Python and the versions that matter."""
    packages = ("numpy", "scipy", "numba", "scikit-learn")
    versions = ", ".join(f"{name} {version(name)}" for name in packages)
    return f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}, {versions}"


def commit() -> str:
    """The commit of the working copy, with a plus sign when it has been changed."""

    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
        return done.stdout.strip()

    return (git("rev-parse", "--short", "HEAD") or "unknown") + ("+" if git("status", "--porcelain") else "")


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
    """Lines of a table in Markdown."""
    lines = ["| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]
    for row in rows:
        lines.append("| " + " | ".join(f"{cell:.3f}" if isinstance(cell, float) else str(cell) for cell in row) + " |")
    return lines


def print_table(title: str, header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """A table in Markdown."""
    print(f"\n{title}\n")
    print("\n".join(markdown_table(header, rows)))


def data_folder(description: str | None) -> tuple[argparse.ArgumentParser, Callable[[], argparse.Namespace]]:
    """A parser with --data and --out, and the call that parses."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with the .npz datasets")
    parser.add_argument("--out", type=Path, default=Path("results"), help="folder for pictures")
    return parser, parser.parse_args


def load(folder: Path, name: str) -> dict[str, Any]:
    """The arrays of one dataset; a sparse one has its CSR matrix under "X"."""
    with np.load(folder / f"{name}.npz", allow_pickle=False) as archive:
        arrays = {key: archive[key] for key in archive.files}
    if "indptr" in arrays:
        parts = (arrays["data"].astype(np.float64), arrays["indices"], arrays["indptr"])
        arrays["X"] = sparse.csr_array(parts, shape=tuple(arrays["shape"]))
    return arrays
