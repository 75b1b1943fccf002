"""Rows of every kind that people have, drawn at random: each draw is valid input for the families it names."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import sparse

GAUSSIAN = ("auto", "gaussian", "gaussian-diag")
ODD_NAMES = (
    "",
    " ",
    "a,b",
    'say "x"',
    "naïve",
    "Größe (cm)",
    "1",
    "NaN",
    "x" * 60,
    "a;b",
    "<b>",
    "'",
    "labels",
    "日本",
)


class Drawn(NamedTuple):
    """Rows to fit."""

    rows: Any  # (n, d) array, sparse matrix or frame
    families: tuple[str, ...]  # names that take them
    words: str  # what they are
    weight: np.ndarray | None = None  # (n,)
    is_plain: bool = False  # float64 numbers: units may be changed

    @property
    def shape(self) -> tuple[int, int]:
        return self.rows.shape

    def dense(self) -> np.ndarray:
        """The rows as an array; frames and sparse matrices too."""
        return self.rows.toarray() if hasattr(self.rows, "toarray") else np.asarray(self.rows)


def number_of_rows(rng: np.random.Generator, most: int) -> int:
    """Mostly few, sometimes hardly any, now and then many: each size as likely as its half."""
    if rng.random() < 0.15:
        return int(rng.integers(2, 6))
    usual = min(most, 80)
    if rng.random() < 0.12 and most > usual:
        return int(np.exp(rng.uniform(np.log(usual), np.log(most))))
    return int(np.exp(rng.uniform(np.log(5), np.log(usual))))


def draw_rows(rng: np.random.Generator, most: int) -> Drawn:
    """Rows of a kind chosen at random, at most so many."""
    n = number_of_rows(rng, most)
    kinds = {_real: 10, _binary: 3, _counts: 4, _categories: 2, _table: 4}
    odds = np.array(list(kinds.values()), dtype=float)
    drawn = list(kinds)[rng.choice(len(kinds), p=odds / odds.sum())](rng, n)
    if rng.random() < 0.2:
        drawn = drawn._replace(weight=_weights(rng, n), words=f"{drawn.words}, weights")
    return drawn


def _weights(rng: np.random.Generator, n: int) -> np.ndarray:
    kind = rng.integers(4)
    if kind == 0:
        return np.ones(n)
    if kind == 3:  # as where rows are sums of many
        return np.round(10.0 ** rng.uniform(2, rng.choice([4, 7, 12]), n))
    weight = rng.integers(0 if kind == 1 else 1, 6, n).astype(float)
    weight[rng.integers(n)] = 1 + rng.integers(1000)  # not all zero, and one row that weighs much
    return weight


# Numbers --------------------------------------------------------------------------------------------------------------


def _real(rng: np.random.Generator, n: int) -> Drawn:
    d = int(rng.integers(1, 7)) if rng.random() < 0.85 else int(rng.integers(7, 40))
    shapes = {
        "separated": _separated, "overlapping": _overlapping, "heavy-tailed": _heavy, "noise": _noise,
        "duplicates": _duplicates, "wide": _wide, "collinear": _collinear, "near-constant": _near_constant,
        "lattice": _lattice, "equal": _equal, "ring": _ring,
    }  # fmt: skip
    name = str(rng.choice(list(shapes)))
    rows, words, plain = shapes[name](rng, n, d), [name], True
    if rng.random() < 0.25:
        scale = 10.0 ** rng.uniform(-12, 12, 1 if rng.random() < 0.5 else rows.shape[1])
        rows = rows * scale
        words.append(f"scales {scale.min():.0e} to {scale.max():.0e}")
    if rng.random() < 0.15:
        rows = rows + rng.normal(size=rows.shape[1]) * 10.0 ** rng.integers(0, 7) * max(rows.std(), 1e-300)
        words.append("shifted")
    form = rng.random()
    if form < 0.08:
        rows, plain = rows.astype(np.float32), False
        words.append("float32")
    elif form < 0.14:
        spread = max(float(np.abs(rows).max()), 1e-300)
        rows, plain = np.round(rows / spread * 100).astype(rng.choice(["int64", "int16", "uint8"])), False
        words.append(str(rows.dtype))
    elif form < 0.24:
        rows, plain = _frame(rng, rows), False
        words.append("frame")
    elif form < 0.28:
        rows, plain = np.asfortranarray(rows), False
    return Drawn(rows, GAUSSIAN, f"{' '.join(words)} {rows.shape[0]}x{rows.shape[1]}", is_plain=plain)


def _groups(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.integers(0, rng.integers(1, 7), n)


def _separated(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    return 10.0 * rng.normal(size=(7, d))[_groups(rng, n)] + rng.normal(size=(n, d))


def _overlapping(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    return 1.5 * rng.normal(size=(7, d))[_groups(rng, n)] + rng.normal(size=(n, d))


def _heavy(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    return rng.standard_t(float(rng.uniform(0.8, 3.0)), size=(n, d))


def _noise(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    return rng.normal(size=(n, d)) if rng.random() < 0.5 else rng.uniform(-1, 1, size=(n, d))


def _duplicates(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    return rng.normal(size=(max(1, n // 5), d))[rng.integers(0, max(1, n // 5), n)]


def _wide(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    n = min(n, 25)
    return _separated(rng, n, n + int(rng.integers(1, 15)))


def _collinear(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    rank = max(1, d // 2)
    rows = _overlapping(rng, n, rank) @ rng.normal(size=(rank, d))
    return rows + rng.choice([0.0, 1e-14, 1e-9, 1e-5]) * rng.normal(size=(n, d))


def _near_constant(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    rows = _overlapping(rng, n, d + 1)
    rows[:, 0] = 7.0 + rng.choice([0.0, 1e-12, 1e-8]) * rng.normal(size=n)
    if rng.random() < 0.5 and n > 2:
        rows[:, 0] = 7.0
        rows[rng.integers(n), 0] = 8.0  # one row is different
    return rows


def _lattice(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    return rng.integers(0, 4, size=(n, d)) * 0.5


def _equal(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    return np.tile(rng.normal(size=(1, d)), (n, 1))


def _ring(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    angle = rng.uniform(0, 2 * np.pi, n)
    flat = np.column_stack([np.cos(angle), np.sin(angle)]) * np.where(rng.random(n) < 0.5, 1.0, 4.0)[:, None]
    return np.column_stack([flat, rng.normal(size=(n, d))]) + 0.1 * rng.normal(size=(n, d + 2))


def _frame(rng: np.random.Generator, rows: Any) -> pd.DataFrame:
    """A frame whose columns, and perhaps rows, have names that are hard to write."""
    return pd.DataFrame(rows, columns=_names(rng, rows.shape[1]), index=_index(rng, rows.shape[0]))


def _names(rng: np.random.Generator, d: int) -> list[str]:
    odd = [str(name) for name in rng.permutation(np.array(ODD_NAMES, dtype=object))[: max(1, d // 2)]]
    return (odd + [f"x{j}" for j in range(d)])[:d]


def _index(rng: np.random.Generator, n: int) -> list[str] | None:
    return [f"row {i}" for i in range(n)] if rng.random() < 0.5 else None


# Bits, counts, categories ---------------------------------------------------------------------------------------------


def _binary(rng: np.random.Generator, n: int) -> Drawn:
    d = int(rng.integers(1, 20))
    chance = rng.beta(0.5, 0.5, size=(7, d))[_groups(rng, n)]
    rows = (rng.random((n, d)) < chance).astype(float)
    words = ["bits"]
    if rng.random() < 0.1:
        rows[:], words = float(rng.integers(2)), ["all equal bits"]
    return _perhaps_sparse(rng, rows, ("bernoulli", "poisson", "multinomial"), words)


def _counts(rng: np.random.Generator, n: int) -> Drawn:
    d = int(rng.integers(2, 25))
    size = 10.0 ** rng.uniform(-0.5, 4) if rng.random() < 0.8 else 10.0 ** rng.uniform(4, 9)
    rate = size * rng.dirichlet(np.full(d, 0.5), size=7)[_groups(rng, n)]
    rows = rng.poisson(rate).astype(float)
    return _perhaps_sparse(rng, rows, ("multinomial", "poisson"), [f"counts to {rows.max():.0f}"])


def _perhaps_sparse(rng: np.random.Generator, rows: np.ndarray, families: tuple[str, ...], words: list[str]) -> Drawn:
    if rng.random() < 0.3:
        rows[rng.random(rows.shape[0]) < 0.2] = 0.0
        words.append("empty rows")
    found: Any = rows
    if rng.random() < 0.4:
        make = (sparse.csr_matrix, sparse.csr_array, sparse.csc_array, sparse.coo_array)
        found = make[rng.integers(4)](rows)
        words.append(type(found).__name__)
    elif rng.random() < 0.3:
        found = rows.astype(str(rng.choice(["int64", "float32", "bool" if rows.max() <= 1 else "int32"])))
        words.append(str(found.dtype))
    return Drawn(found, families, f"{' '.join(words)} {rows.shape[0]}x{rows.shape[1]}")


def _categories(rng: np.random.Generator, n: int) -> Drawn:
    d = int(rng.integers(1, 8))
    levels = rng.integers(2, 7, d)
    group = _groups(rng, n)
    rows = np.column_stack([rng.integers(0, count, 7)[group] for count in levels]).astype(float)
    stray = rng.random(rows.shape) < 0.2
    rows[stray] = np.floor(rng.random(rows.shape) * levels)[stray]
    words = f"categories {n}x{d}"
    if rng.random() < 0.4:
        rows[rng.random(rows.shape) < 0.15] = np.nan
        words += " with holes"
    return Drawn(rows, ("categorical",), words)


# Tables ---------------------------------------------------------------------------------------------------------------


def _table(rng: np.random.Generator, n: int) -> Drawn:
    """A frame of columns of several kinds, odd names and holes."""
    group = _groups(rng, n)
    makers = [_real_column, _whole_column, _yes_no, _words, _dates, _constant]
    chosen = [makers[rng.integers(len(makers))] for _ in range(rng.integers(1, 7))] + [_real_column]
    columns = [make(rng, group) for make in chosen]
    frame = pd.DataFrame(dict(enumerate(columns)))
    holes = float(rng.choice([0.0, 0.05, 0.3]))
    for number in range(len(columns)):
        gaps = rng.random(n) < holes
        gaps[rng.integers(n)] = False
        if gaps.any():
            frame[number] = frame[number].astype(object).where(~gaps, None).infer_objects()
    frame.columns = pd.Index(_names(rng, len(columns)))
    frame.index = pd.Index(_index(rng, n) or range(n))
    return Drawn(frame, ("auto", "mixed"), f"table {n}x{len(columns)}, holes {holes:.0%}")


def _real_column(rng: np.random.Generator, group: np.ndarray) -> Any:
    return (rng.normal(size=7) * 4)[group] * 10.0 ** rng.uniform(-3, 6) + rng.normal(size=group.shape[0])


def _whole_column(rng: np.random.Generator, group: np.ndarray) -> Any:
    return rng.poisson((rng.gamma(1.0, 10.0, 7) + 0.1)[group])


def _yes_no(rng: np.random.Generator, group: np.ndarray) -> Any:
    pair = [("no", "yes"), ("False", "True"), ("0", "1")][rng.integers(3)]
    return np.array(pair, dtype=object)[(rng.random(group.shape[0]) < rng.random(7)[group]).astype(int)]


def _words(rng: np.random.Generator, group: np.ndarray) -> Any:
    words = np.array(["Rome", "Oslo", "Bonn, am Rhein", "São Paulo", "", "n/a?"], dtype=object)
    picked = np.where(rng.random(group.shape[0]) < 0.8, group % 6, rng.integers(0, 6, group.shape[0]))
    return words[picked]


def _dates(rng: np.random.Generator, group: np.ndarray) -> Any:
    return pd.to_datetime("2001-01-01") + pd.to_timedelta(400 * group + rng.integers(0, 90, group.shape[0]), unit="D")


def _constant(rng: np.random.Generator, group: np.ndarray) -> Any:
    return np.full(group.shape[0], 3.5)
