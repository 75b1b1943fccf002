"""Tables with values missing completely at random: clusters, filled in values and planted errors, beside peers.

    python -m benchmarks.missing --data DIR [--only penguins] [--skip clusters|cells|errors|labelled]

DIR holds wine.npz and tables/*.csv with a column `class`; a synthetic table is made. 10, 30 and 50 % of the cells are
removed, the same for everybody.

| part | what is measured |
| --- | --- |
| clusters | adjusted Rand index and CPU seconds; dtree is told nothing, not even the number of clusters |
| cells | error of removed cells: numbers in standard deviations of their column (root mean square), words in % wrong |
| errors | 2 % of the cells of the complete table replaced; how well surprisal ranks them (area under the curve) |
| labelled | tables/*.csv as they are beside the peers |

Peers: mean or mode, then our own fit; k-prototypes after the same filling, and StepMix, both told the number of
clusters; lace, which finds it (8 states, 500 sweeps; clusters of the view that holds most columns). A peer that is not
installed is named and left out.
"""

import argparse
import importlib.util
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas
from sklearn.metrics import adjusted_rand_score, roc_auc_score

import dtree
from benchmarks.measure import print_table

SHARES = (0.1, 0.3, 0.5)
ERRORS = 0.02


def synthetic(n: int = 600) -> tuple[pandas.DataFrame, np.ndarray]:
    """Four groups, told apart by four numbers and three categories of 3, 5 and 8 levels together, by none alone."""
    rng = np.random.default_rng(7)
    group = rng.integers(0, 4, n)
    frame = pandas.DataFrame(rng.normal(size=(4, 4))[group] * 2.0 + rng.normal(size=(n, 4)), columns=list("abcd"))
    for name, levels in zip("xyz", (3, 5, 8), strict=True):
        likely = rng.dirichlet(np.full(levels, 0.5), 4)
        words = np.array([f"{name}{v}" for v in range(levels)])
        frame[name] = [words[rng.choice(levels, p=likely[g])] for g in group]
    return frame, group


def sets(folder: Path) -> Iterator[tuple[str, pandas.DataFrame, np.ndarray]]:
    """Name, table and labels."""
    frame = pandas.read_csv(folder / "tables" / "penguins.csv")
    yield "penguins", frame.drop(columns="class"), pandas.factorize(frame["class"])[0]
    with np.load(folder / "wine.npz") as held:
        yield "wine", pandas.DataFrame(held["X"], columns=[f"x{j}" for j in range(held["X"].shape[1])]), held["y"]
    yield ("synthetic", *synthetic())


def is_number(column: pandas.Series) -> bool:
    """Whether a column is measured; whole numbers of few values, as years, are words for everybody."""
    return pandas.api.types.is_numeric_dtype(column) and column.nunique() > 10


def words_apart(frame: pandas.DataFrame) -> pandas.DataFrame:
    """Columns that are no numbers as texts, missing values as None."""
    out = frame.copy()
    for name in frame:
        if not is_number(frame[name]):
            out[name] = [None if pandas.isna(value) else str(value) for value in frame[name]]
    return out


def removed(frame: pandas.DataFrame, share: float, seed: int = 1) -> tuple[pandas.DataFrame, np.ndarray]:
    """The table without some of its cells, and which (n, d)."""
    gone = (np.random.default_rng(seed).random(frame.shape) < share) & frame.notna().to_numpy()
    return frame.mask(gone), gone


def filled(frame: pandas.DataFrame) -> pandas.DataFrame:
    """Means of numbers, the most common word of others."""
    return frame.apply(lambda column: column.fillna(column.mean() if is_number(column) else column.mode()[0]))


def by_tree(frame: pandas.DataFrame, k: int) -> np.ndarray:
    """dtree as it comes."""
    return dtree.TreeClustering(random_state=0).fit(frame).labels_


def by_prototypes(frame: pandas.DataFrame, k: int) -> np.ndarray:
    """k-prototypes on standardised numbers; k-means where there are no words."""
    full = filled(frame)
    numbers = [name for name in full if is_number(frame[name])]
    words = [name for name in full if name not in numbers]
    full[numbers] = (full[numbers] - full[numbers].mean()) / full[numbers].std()
    if not words:
        from sklearn.cluster import KMeans

        return KMeans(k, n_init=10, random_state=0).fit_predict(full)
    from kmodes.kprototypes import KPrototypes

    rows = full[numbers + words].to_numpy(dtype=object)
    at = list(range(len(numbers), len(numbers) + len(words)))
    return KPrototypes(k, n_init=5, random_state=0).fit_predict(rows, categorical=at)


def by_stepmix(frame: pandas.DataFrame, k: int) -> np.ndarray:
    """StepMix with its families for missing values."""
    from stepmix.stepmix import StepMix
    from stepmix.utils import get_mixed_descriptor

    numbers = [name for name in frame if is_number(frame[name])]
    words = [name for name in frame if name not in numbers]
    coded = frame.copy()
    coded[numbers] = (frame[numbers] - frame[numbers].mean()) / frame[numbers].std()
    for name in words:
        codes = pandas.factorize(frame[name])[0].astype(float)
        coded[name] = np.where(codes < 0, np.nan, codes)
    kinds = {"continuous_nan": numbers, "categorical_nan": words}
    rows, descriptor = get_mixed_descriptor(coded, **{kind: names for kind, names in kinds.items() if names})
    model = StepMix(k, measurement=descriptor, n_init=10, random_state=0, verbose=0, progress_bar=0)
    return model.fit(rows).predict(rows)


def by_lace(frame: pandas.DataFrame, k: int) -> np.ndarray:
    """lace; its columns fall into views, and the view with the most columns says which rows belong together."""
    import lace

    table = frame.copy()
    table.index = pandas.Index([f"r{i}" for i in range(len(table))], name="index")
    engine = lace.Engine.from_df(table, n_states=8, rng_seed=1) if hasattr(lace.Engine, "from_df") else lace.Engine(lace.Codebook.from_df("table", table), table, n_states=8, rng_seed=1)  # fmt: skip
    engine.update(500)
    found = []
    for state in range(engine.n_states):
        columns = np.asarray(engine.column_assignment(state))
        view = np.bincount(columns).argmax()
        found.append(np.asarray(engine.row_assignments(state)[view]))
    agree = [np.mean([adjusted_rand_score(a, b) for b in found]) for a in found]
    return found[int(np.argmax(agree))]  # the state that agrees best with the others


def methods() -> dict[str, Callable[[pandas.DataFrame, int], np.ndarray]]:
    """Everybody who is installed, by name."""
    known = {
        "mean or mode, dtree": ("dtree", lambda frame, k: by_tree(filled(frame), k)),
        "k-prototypes, told k": ("kmodes", by_prototypes),
        "StepMix, told k": ("stepmix", by_stepmix),
        "lace": ("lace", by_lace),
    }
    out: dict[str, Any] = {"dtree": by_tree}
    for name, (module, method) in known.items():
        if importlib.util.find_spec(module) is None:
            print(f"{name}: {module} is not installed")
        else:
            out[name] = method
    return out


def scored(method: Any, frame: pandas.DataFrame, labels: np.ndarray) -> str:
    """Adjusted Rand index, number of clusters and CPU seconds, or why there are none."""
    began = time.process_time()
    try:
        found = np.asarray(method(frame, len(np.unique(labels))))
    except Exception as problem:  # a peer may refuse a table; that is its answer
        return f"{type(problem).__name__}: {str(problem)[:40]}"
    seconds = time.process_time() - began
    return f"{adjusted_rand_score(labels, found):.2f} ({len(np.unique(found))}) {seconds:.1f} s"


def clusters(tables: list[Any], removals: int) -> None:
    """How well groups are found as cells are removed: the mean of several removals, and what each gave."""
    everybody, printed = methods(), []
    for name, frame, labels in tables:
        for share in (0.0, *SHARES):
            seeds = range(1, removals + 1 if share else 2)
            parts = [words_apart(removed(frame, share, seed)[0]) for seed in seeds]
            cells = [_of_several([scored(method, part, labels) for part in parts]) for method in everybody.values()]
            printed.append([name, f"{100 * share:.0f} %", *cells])
            print(printed[-1], flush=True)
    print_table("mean index (each) mean CPU seconds", ["table", "removed", *everybody], printed)


def _of_several(found: list[str]) -> str:
    """One cell of the table for what `scored` says of several removals."""
    refused = [one for one in found if not one.endswith(" s")]
    if refused or len(found) == 1:
        return (refused or found)[0]
    index, seconds = (np.array([float(one.split()[place]) for one in found]) for place in (0, 2))
    return f"{index.mean():.2f} ({' '.join(f'{one:.2f}' for one in index)}) {seconds.mean():.1f} s"


def by_model(frame: pandas.DataFrame) -> pandas.DataFrame:
    """Missing values filled in by dtree."""
    model = dtree.TreeClustering(random_state=0).fit(frame)
    values, out = model.impute(frame), frame.copy()
    for kind, column in zip(model.kinds_, np.asarray(values).T, strict=True):
        gone = out[kind.name].isna().to_numpy()
        if kind.levels:
            words = np.array(kind.levels, dtype=object)
            codes = column if kind.kind == "category" else column >= 0.5
            column = words[np.minimum(codes.astype(int), len(words) - 1)]
            column = column.astype(float) if is_number(frame[kind.name]) else column
        out[kind.name] = np.where(gone, column, out[kind.name].to_numpy(dtype=object))
    return filled(out)


def by_imputer(imputer: Any) -> Callable[[pandas.DataFrame], pandas.DataFrame]:
    """Missing values filled in by an imputer of scikit-learn: standardised numbers, one column for each word."""

    def fill(frame: pandas.DataFrame) -> pandas.DataFrame:
        parts, keys = [], []
        for name in frame:
            if is_number(frame[name]):
                parts.append(((frame[name] - frame[name].mean()) / frame[name].std()).to_numpy(dtype=float))
                keys.append((name, None))
            else:
                for word in sorted(frame[name].dropna().unique()):
                    parts.append(np.where(frame[name].isna(), np.nan, frame[name] == word).astype(float))
                    keys.append((name, word))
        dense, out = imputer.fit_transform(np.column_stack(parts)), frame.copy()
        for name in frame:
            at = [place for place, key in enumerate(keys) if key[0] == name]
            gone = frame[name].isna().to_numpy()
            if is_number(frame[name]):
                values = dense[:, at[0]] * frame[name].std() + frame[name].mean()
            else:
                values = np.array([keys[place][1] for place in at], dtype=object)[dense[:, at].argmax(axis=1)]
            out[name] = np.where(gone, values, frame[name].to_numpy(dtype=object))
        return out

    return fill


def cells(tables: list[Any]) -> None:
    """Errors of what was filled in."""
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer, KNNImputer

    fillers = {
        "dtree": by_model,
        "mean or mode": filled,
        "IterativeImputer": by_imputer(IterativeImputer(random_state=0, max_iter=20)),
        "KNNImputer": by_imputer(KNNImputer()),
    }
    printed = []
    for name, frame, _ in tables:
        frame = words_apart(frame)
        for share in SHARES:
            part, gone = removed(frame, share)
            row = [name, f"{100 * share:.0f} %"]
            for fill in fillers.values():
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # imputers that have not settled say so
                    row.append(_errors(frame, fill(part), gone))
            printed.append(row)
            print(row, flush=True)
    print_table("standard deviations, % of words wrong", ["table", "removed", *fillers], printed)


def _errors(truth: pandas.DataFrame, found: pandas.DataFrame, gone: np.ndarray) -> str:
    squares, wrong = [], []
    for j, name in enumerate(truth):
        was, now = truth[name][gone[:, j]], found[name][gone[:, j]]
        if is_number(truth[name]):
            squares += list((((was.astype(float) - now.astype(float)) / truth[name].std()) ** 2).to_numpy())
        else:
            wrong += list((was.astype(str) != now.astype(str)).to_numpy())
    words = f", {100 * np.mean(wrong):.0f} %" if wrong else ""
    return (f"{np.sqrt(np.mean(squares)):.2f}" if squares else "") + words


def errors(tables: list[Any]) -> None:
    """Planted errors: a number at least a standard deviation off, another word; both as they occur in their column."""
    printed = []
    for name, frame, _ in tables:
        frame, rng = words_apart(frame), np.random.default_rng(3)
        planted = (rng.random(frame.shape) < ERRORS) & frame.notna().to_numpy()
        spoilt = frame.copy()
        for j, column in enumerate(frame):
            held = frame[column].dropna()
            for i in np.flatnonzero(planted[:, j]):
                was = frame[column].iloc[i]
                far = (held - was).abs() > held.std() if is_number(frame[column]) else held != was
                spoilt.iloc[i, j] = rng.choice(held[far].to_numpy())
        model = dtree.TreeClustering(family="mixed", random_state=0).fit(spoilt)
        names = [kind.name for kind in model.kinds_]
        surprisal, alone = model.surprisal(spoilt), _marginal_surprisal(spoilt[names])
        at = [frame.columns.get_loc(one) for one in names]
        there = ~np.isnan(surprisal)
        scores = [
            roc_auc_score(planted[:, at][there], (each - np.nanmedian(each, axis=0))[there])
            for each in (surprisal, alone)
        ]
        printed.append([name, int(planted.sum()), *(f"{score:.2f}" for score in scores)])
    print_table("area under the curve", ["table", "errors", "surprisal given the row", "of the column alone"], printed)


def _marginal_surprisal(frame: pandas.DataFrame) -> np.ndarray:
    """How odd each value is in its column: squared distance from the mean, or -log of how often a word occurs."""
    out = np.empty(frame.shape)
    for j, name in enumerate(frame):
        column = frame[name]
        if is_number(column):
            out[:, j] = 0.5 * ((column - column.mean()) / column.std()) ** 2
        else:
            out[:, j] = -np.log(column.map(column.value_counts(normalize=True)).to_numpy(dtype=float))
    return out


def labelled(folder: Path) -> None:
    """The tables as they are."""
    everybody, printed = methods(), []
    for file in sorted((folder / "tables").glob("*.csv")):
        frame = pandas.read_csv(file)
        part, labels = words_apart(frame.drop(columns="class")), pandas.factorize(frame["class"])[0]
        given = {name: frame.drop(columns="class") if name == "dtree" else part for name in everybody}
        printed.append([file.stem, *(scored(method, given[name], labels) for name, method in everybody.items())])
        print(printed[-1], flush=True)
    print_table("index (clusters) CPU seconds", ["table", *everybody], printed)


def main() -> None:
    """Run the parts that the command line does not leave out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--only", help="one of the three tables")
    parser.add_argument("--removals", type=int, default=3, help="of cells, for the part about clusters")
    parser.add_argument("--skip", action="append", default=[], choices=["clusters", "cells", "errors", "labelled"])
    options = parser.parse_args()
    tables = [one for one in sets(options.data) if options.only in (None, one[0])]
    for name, part in {"cells": cells, "errors": errors}.items():
        if name not in options.skip:
            part(tables)
    if "clusters" not in options.skip:
        clusters(tables, options.removals)
    if "labelled" not in options.skip:
        labelled(options.data)


if __name__ == "__main__":
    main()
