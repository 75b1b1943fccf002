"""Labelled sets of kinds that nobody looked at, drawn at random: does what was chosen on some kinds hold on others?

    python -m benchmarks.unseen [--half choose|check] [--seeds 3] [--only KIND] [--say "dtree.TreeClustering(random_state=0)"]

Kinds come in two halves. Rules are chosen on the first (`choose`, beside the sets of `benchmarks.answers`) and then
scored once on the second (`check`). Every draw has its own sizes, angles, overlaps and noise; -1 marks noise, which is
not scored. Nothing is scaled.
"""

import argparse
import time
import warnings
from collections.abc import Callable

import numpy as np

from benchmarks.answers import best_index

Set = tuple[np.ndarray, np.ndarray]


def _together(parts: list[np.ndarray], random: np.random.Generator, noise: float = 0.0) -> Set:
    """Groups as rows (n, d) in random order with labels (n,), and a share of even noise around them."""
    X = np.vstack(parts)
    y = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    if noise > 0:
        low, high = X.min(axis=0), X.max(axis=0)
        extra = int(noise * X.shape[0])
        X = np.vstack([X, random.uniform(low - 0.05 * (high - low), high + 0.05 * (high - low), (extra, X.shape[1]))])
        y = np.append(y, np.full(extra, -1))
    order = random.permutation(X.shape[0])
    turn = random.uniform(0, 2 * np.pi)
    if X.shape[1] == 2:
        X = X @ np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    return X[order] * random.uniform(0.1, 100.0), y[order]


def _inside(test: Callable[[np.ndarray], np.ndarray], n: int, random: np.random.Generator) -> np.ndarray:
    """n points (n, 2) even over the part of the square from -1 to 1 where the test holds."""
    held = np.empty((0, 2))
    while held.shape[0] < n:
        some = random.uniform(-1, 1, (4 * n, 2))
        held = np.vstack([held, some[test(some)]])
    return held[:n]


def _arc(n: int, begin: float, end: float, radius: float, width: float, random: np.random.Generator) -> np.ndarray:
    angle = random.uniform(begin, end, n)
    return np.column_stack([np.cos(angle), np.sin(angle)]) * radius + random.normal(0, width, (n, 2))


def _bar(
    n: int, a: tuple[float, float], b: tuple[float, float], width: float, random: np.random.Generator
) -> np.ndarray:
    """n points even over a thick stroke from a to b."""
    a_, b_ = np.array(a), np.array(b)
    along = (b_ - a_) / np.linalg.norm(b_ - a_)
    side = np.array([-along[1], along[0]])
    return a_ + random.uniform(0, 1, (n, 1)) * (b_ - a_) + random.uniform(-0.5, 0.5, (n, 1)) * width * side


# To choose on --------------------------------------------------------------------------------------------------------


def spirals(random: np.random.Generator) -> Set:
    """Two or three arms."""
    arms, n, noise = int(random.integers(2, 4)), int(random.integers(100, 400)), random.uniform(0.02, 0.12)
    parts = []
    for arm in range(arms):
        t = np.sqrt(random.uniform(0.04, 1.0, n)) * 1.3 * 2 * np.pi
        angle = t + 2 * np.pi * arm / arms
        parts.append(np.column_stack([t * np.cos(angle), t * np.sin(angle)]) / 3 + random.normal(0, noise, (n, 2)))
    return _together(parts, random)


def smiley(random: np.random.Generator) -> Set:
    """Eyes, nose and mouth, often within a face."""
    n, spread = int(random.integers(60, 300)), random.uniform(0.04, 0.1)
    parts = [random.normal(0, spread, (n, 2)) + np.array([side, 0.5]) for side in (-0.45, 0.45)]
    parts.append(_bar(n, (0.0, 0.25), (0.0, -0.15), 0.12, random))
    parts.append(_arc(2 * n, 1.15 * np.pi, 1.85 * np.pi, 0.6, 0.03, random))
    if random.random() < 0.6:
        parts.append(_arc(4 * n, 0, 2 * np.pi, 1.15, 0.03, random))
    return _together(parts, random)


def stripes(random: np.random.Generator) -> Set:
    """Long bars side by side."""
    k, n, gap = int(random.integers(2, 6)), int(random.integers(100, 500)), random.uniform(0.15, 0.5)
    parts = [
        _bar(int(n * random.uniform(0.5, 2)), (0, i), (random.uniform(2, 6), i), 1.0 - gap, random) for i in range(k)
    ]
    return _together(parts, random, random.choice([0.0, 0.03]))


def gaussian_pair(random: np.random.Generator) -> Set:
    """Two round Gaussians in 2 to 128 dimensions, far apart or overlapping."""
    d, sd = int(2 ** random.integers(1, 8)), random.choice([10, 20, 30, 40, 50, 60, 70])
    return _together([random.normal(centre, sd, (1024, d)) for centre in (500, 600)], random)


def overlapping_groups(random: np.random.Generator) -> Set:
    """Ten to twenty Gaussians of a plane, some touching."""
    k, n, overlap = int(random.integers(10, 21)), int(random.integers(100, 350)), random.uniform(0.3, 0.6)
    centres = np.empty((0, 2))
    while centres.shape[0] < k:
        new = random.uniform(0, np.sqrt(k) * 1.8, 2)
        if centres.shape[0] == 0 or np.min(np.linalg.norm(centres - new, axis=1)) > 1.0:
            centres = np.vstack([centres, new])
    parts = []
    for centre in centres:
        shape = np.linalg.qr(random.normal(size=(2, 2)))[0] * random.uniform(0.5, 1.1, 2) * overlap
        parts.append(centre + random.normal(size=(n, 2)) @ shape.T)
    return _together(parts, random)


def measured_table(random: np.random.Generator) -> Set:
    """A few hundred specimens, 7 to 30 correlated measures, some skewed, some without meaning."""
    k, d = int(random.integers(2, 5)), int(random.integers(7, 31))
    factors = random.normal(size=(int(random.integers(2, 5)), d))
    parts = []
    for _ in range(k):
        n = int(random.integers(40, 200))
        centre = random.normal(size=d) * (random.random(d) < 0.6) * random.uniform(0.8, 2.0)
        own = random.normal(size=(n, factors.shape[0])) @ factors * 0.5 + random.normal(size=(n, d)) * 0.6
        parts.append(centre + own * random.uniform(0.7, 1.4))
    X, y = _together(parts, random)
    X = X / X.std(axis=0)
    skewed = random.random(d) < 0.4
    X[:, skewed] = np.exp(0.7 * X[:, skewed])
    return np.round(X * 10.0 ** random.integers(-1, 3, d), 2), y


def scene(random: np.random.Generator) -> Set:
    """Figures of a few thousand points on a noisy ground: bars, rings, waves."""
    n = 1200
    wave = np.linspace(0, 1, n)
    parts = [
        _bar(n, (-2, 2), (1.5, 2.4), 0.5, random),
        _bar(n, (-2, -2), (-1.2, 0.8), 0.5, random),
        _arc(n, 0, 2 * np.pi, 0.9, 0.07, random) + np.array([0.5, -0.2]),
        random.normal(0, 0.15, (n // 2, 2)) + np.array([0.5, -0.2]),
        np.column_stack([-0.6 + 3.2 * wave, -2 + 0.35 * np.sin(9 * wave)]) + random.uniform(-0.15, 0.15, (n, 2)),
        _bar(n, (2.4, -1.2), (2.2, 2.2), random.uniform(0.2, 0.6), random),
    ]
    keep = random.permutation(len(parts))[: random.integers(4, len(parts) + 1)]
    return _together([parts[i] for i in np.sort(keep)], random, random.uniform(0.03, 0.1))


def nested_rings(random: np.random.Generator) -> Set:
    """Rings in rings, at times around a disc."""
    k, n, width = int(random.integers(2, 4)), int(random.integers(150, 400)), random.uniform(0.03, 0.12)
    parts = [_arc(n * (i + 1), 0, 2 * np.pi, 0.8 * (i + 1), width, random) for i in range(k)]
    if random.random() < 0.5:
        parts.append(random.normal(0, 0.12, (n, 2)))
    return _together(parts, random)


def hubs(random: np.random.Generator) -> Set:
    """Two groups in 2 to 128 dimensions that are dense in the middle: any direction, and a half-normal distance."""
    d, spread = int(2 ** random.integers(1, 8)), random.uniform(10.0, 60.0)
    parts = []
    for centre in (500, 600):
        way = random.normal(size=(int(random.integers(400, 1200)), d))
        way /= np.linalg.norm(way, axis=1, keepdims=True)
        parts.append(centre + way * np.abs(random.normal(0, spread * np.sqrt(d) / 2, (way.shape[0], 1))))
    return _together(parts, random)


def clinic_table(random: np.random.Generator) -> Set:
    """Two or three groups, 10 to 30 skewed columns that mostly say the same; the sick vary more than the healthy."""
    k, d, hidden = int(random.integers(2, 4)), int(random.integers(10, 31)), int(random.integers(3, 6))
    loadings = random.normal(size=(hidden, d)) * (random.random((hidden, d)) < 0.6)
    parts = []
    for _ in range(k):
        n = int(random.integers(80, 350))
        factors = random.normal(size=(n, hidden)) * random.uniform(0.7, 1.6) + random.normal(size=hidden) * 1.4
        parts.append(factors @ loadings + random.normal(size=(n, d)) * random.uniform(0.2, 0.5))
    X, y = _together(parts, random)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    bend = random.uniform(0.2, 0.8, d)
    return np.exp(bend * X) * 10.0 ** random.integers(-2, 3, d), y


def tailed_table(random: np.random.Generator) -> Set:
    """Two or three groups, 10 to 40 columns with heavy tails, of which a half says nothing."""
    k, d, dof = int(random.integers(2, 4)), int(random.integers(10, 41)), random.uniform(3.0, 6.0)
    parts = []
    for _ in range(k):
        n = int(random.integers(100, 600))
        own = random.normal(size=(n, d)) / np.sqrt(random.chisquare(dof, (n, 1)) / dof)
        parts.append(own + random.normal(size=d) * (random.random(d) < 0.5) * 1.6)
    return _together(parts, random)


# To check on ---------------------------------------------------------------------------------------------------------


def crescents(random: np.random.Generator) -> Set:
    """Two half moons of different density and noise."""
    n, width = int(random.integers(100, 400)), random.uniform(0.04, 0.14)
    first = _arc(n, 0, np.pi, 1.0, width, random)
    other = _arc(int(n * random.uniform(0.3, 3)), np.pi, 2 * np.pi, 1.0, width * random.uniform(0.6, 1.2), random)
    return _together([first, other + np.array([1.0, random.uniform(0.3, 0.6)])], random)


STROKES = {
    "L": [((0, 2), (0, 0)), ((0, 0), (1.2, 0))],
    "T": [((0, 2), (1.4, 2)), ((0.7, 2), (0.7, 0))],
    "V": [((0, 2), (0.7, 0)), ((0.7, 0), (1.4, 2))],
    "N": [((0, 0), (0, 2)), ((0, 2), (1.3, 0)), ((1.3, 0), (1.3, 2))],
    "I": [((0, 0), (0, 2))],
    "Z": [((0, 2), (1.3, 2)), ((1.3, 2), (0, 0)), ((0, 0), (1.3, 0))],
}


def letters(random: np.random.Generator) -> Set:
    """Words of three to five letters, drawn with a thick pen."""
    parts, left, width = [], 0.0, random.uniform(0.15, 0.35)
    density = random.uniform(60, 200)
    for name in random.choice(list(STROKES), int(random.integers(3, 6))):
        strokes = [
            _bar(int(density * np.linalg.norm(np.subtract(a, b))), a, b, width, random) for a, b in STROKES[name]
        ]
        letter = np.vstack(strokes)
        parts.append(letter - [letter[:, 0].min() - left, 0])
        left = parts[-1][:, 0].max() + random.uniform(0.3, 0.7)
    return _together(parts, random, random.choice([0.0, 0.05]))


def touching_figures(random: np.random.Generator) -> Set:
    """A disc, a square and a bar with little between them."""
    n, gap = int(random.integers(200, 800)), random.uniform(0.05, 0.25)
    disc = _inside(lambda p: np.hypot(p[:, 0], p[:, 1]) < 1, n, random)
    square = _inside(lambda p: np.abs(p).max(axis=1) < 0.8, n, random) + np.array([1.8 + gap, 0])
    bar = _bar(n, (-1, -1.35 - gap), (2.6 + gap, -1.35 - gap), 0.5, random)
    return _together([disc, square, bar], random)


def core_and_halo(random: np.random.Generator) -> Set:
    """A dense group inside an open ring, two more outside, and outliers."""
    n = int(random.integers(100, 500))
    open_ring = _arc(2 * n, 0.1 * np.pi, random.uniform(1.5, 1.9) * np.pi, 2.0, 0.1, random)
    parts = [random.normal(0, random.uniform(0.1, 0.5), (n, 2)), open_ring]
    parts += [random.normal(0, random.uniform(0.1, 0.4), (n, 2)) + centre for centre in ([4.0, 0.0], [4.0, 2.0])]
    return _together(parts, random, random.choice([0.0, 0.04, 0.08]))


def many_groups(random: np.random.Generator) -> Set:
    """25 to 64 Gaussians near the points of a grid."""
    side, n, spread = int(random.integers(5, 9)), int(random.integers(40, 100)), random.uniform(0.12, 0.24)
    parts = [
        random.normal(0, spread, (n, 2)) + np.array([i, j]) + random.uniform(-0.1, 0.1, 2)
        for i in range(side)
        for j in range(side)
    ]
    return _together(parts, random)


def counted_table(random: np.random.Generator) -> Set:
    """Whole numbers in 10 to 40 columns: counts and marks of a few kinds of things."""
    k, d = int(random.integers(3, 8)), int(random.integers(10, 41))
    means = random.gamma(2.0, 3.0, (k, d)) * (random.random((k, d)) < 0.8)
    parts = []
    for mean in means:
        strength = random.gamma(12.0, 1 / 12.0, (int(random.integers(50, 200)), 1))
        parts.append(random.poisson(strength * mean[None, :]).astype(float))
    order = random.permutation(sum(len(part) for part in parts))
    return np.vstack(parts)[order], np.repeat(np.arange(k), [len(part) for part in parts])[order]


def subspace_groups(random: np.random.Generator) -> Set:
    """Curved groups of few dimensions each in a space of 20 to 60, as of images on their main axes."""
    k, d = int(random.integers(4, 9)), int(random.integers(20, 61))
    scale = 1.0 / np.sqrt(np.arange(1, d + 1))
    parts = []
    for _ in range(k):
        q, n = int(random.integers(2, 6)), int(random.integers(150, 400))
        hidden = random.normal(size=(n, q))
        bent = np.column_stack([hidden, hidden**2 - 1]) @ random.normal(size=(2 * q, d)) * 0.4
        parts.append((random.normal(size=d) * 1.5 + bent + random.normal(size=(n, d)) * 0.4) * scale)
    return _together(parts, random)


def islands(random: np.random.Generator) -> Set:
    """Ellipses and crescents of 5,000 points on a noisy ground."""
    parts = []
    for place in range(int(random.integers(4, 8))):
        n, corner = int(random.integers(400, 1200)), np.array([place % 3, place // 3]) * 2.6
        if random.random() < 0.5:
            filled = _inside(lambda p: np.hypot(p[:, 0], p[:, 1]) < 1, n, random) * [1.0, random.uniform(0.3, 1.0)]
        else:
            filled = _arc(n, 0.2 * np.pi, 1.4 * np.pi, 0.9, 0.1, random)
        parts.append(filled + corner)
    return _together(parts, random, random.uniform(0.02, 0.1))


def unequal_groups(random: np.random.Generator) -> Set:
    """Gaussians of 3 to 8 features, of very different sizes and widths."""
    k, d = int(random.integers(3, 8)), int(random.integers(3, 9))
    parts = []
    for _ in range(k):
        n = int(40 * 2.0 ** random.uniform(0, 4))
        shape = np.linalg.qr(random.normal(size=(d, d)))[0] * random.uniform(0.3, 1.5, d)
        parts.append(random.normal(size=d) * random.uniform(1.5, 4) + random.normal(size=(n, d)) @ shape.T)
    return _together(parts, random)


def spread_pair(random: np.random.Generator) -> Set:
    """Two groups in 2 to 128 dimensions whose points have a spread of their own, larger away from one corner."""
    d, spread = int(2 ** random.integers(1, 8)), random.uniform(10.0, 40.0)
    parts = []
    for centre in (500, 600):
        own = random.normal(size=(int(random.integers(500, 1100)), d))
        away = np.exp(0.35 * own.mean(axis=1, keepdims=True) * np.sqrt(d))
        parts.append(centre + spread * own * away)
    return _together(parts, random)


def words_table(random: np.random.Generator) -> Set:
    """Two or three groups of texts, 15 to 50 columns of rates that are mostly zero, and long tails elsewhere."""
    k, d = int(random.integers(2, 4)), int(random.integers(15, 51))
    parts = []
    for _ in range(k):
        n = int(random.integers(150, 700))
        used = np.clip(random.beta(0.6, 1.6, d), 0.01, 0.95)
        rates = random.lognormal(random.normal(0, 0.7, d), 0.8, (n, d))
        parts.append(rates * (random.random((n, d)) < used))
    X, y = _together(parts, random)
    return np.round(X, 2), y


def compact_and_diffuse(random: np.random.Generator) -> Set:
    """A compact group and a diffuse one around it or beside it, 10 to 40 correlated columns."""
    d, hidden = int(random.integers(10, 41)), int(random.integers(3, 8))
    loadings = random.normal(size=(2, hidden, d)) / np.sqrt(hidden)
    parts = []
    for group, wide in enumerate((0.4, random.uniform(1.2, 2.5))):
        n = int(random.integers(80, 300))
        own = random.normal(size=(n, hidden)) @ loadings[group] + random.normal(size=(n, d)) * 0.4
        parts.append(wide * own + random.normal(size=d) * random.uniform(0.2, 0.8))
    return _together(parts, random)


def cells_table(random: np.random.Generator) -> Set:
    """Four to eight groups of very different sizes, five to eight shares between 0 and 1, two columns of hardly two values."""
    k, d = int(random.integers(4, 9)), int(random.integers(5, 9))
    parts = []
    for _ in range(k):
        n = int(15 * 2.0 ** random.uniform(0, 4))
        shares = random.beta(*(random.uniform(2.0, 14.0, (2, d))), (n, d))
        shares[:, :2] = np.where(random.random((n, 2)) < random.choice([0.01, 0.03, 0.97], 2), 1.0, 0.48)
        parts.append(shares)
    X, y = _together(parts, random)
    return np.round(X / np.abs(X).max(), 2), y


KINDS: dict[str, list[Callable[[np.random.Generator], Set]]] = {
    "choose": [
        spirals, smiley, stripes, gaussian_pair, overlapping_groups, measured_table, scene, nested_rings,
        hubs, clinic_table, tailed_table,
    ],
    "check": [
        crescents, letters, touching_figures, core_and_halo, many_groups, counted_table, subspace_groups, islands,
        unequal_groups, spread_pair, words_table, compact_and_diffuse, cells_table,
    ],
}  # fmt: skip


def drawn(kind: Callable[[np.random.Generator], Set], seed: int) -> Set:
    """One set of a kind."""
    return kind(np.random.default_rng([seed, *kind.__name__.encode()]))


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--half", choices=("choose", "check"), default="choose")
    words.add_argument("--seeds", type=int, default=3)
    words.add_argument("--only", default="", help="kinds whose name holds this")
    words.add_argument("--say", default="dtree.TreeClustering(random_state=0)")
    given = words.parse_args()
    warnings.filterwarnings("ignore")
    import dtree

    means = []
    for kind in KINDS[given.half]:
        if given.only not in kind.__name__:
            continue
        scores = []
        for seed in range(given.seeds):
            X, y = drawn(kind, seed)
            began = time.perf_counter()
            found = np.asarray(eval(given.say, {"dtree": dtree}).fit(X).labels_)
            scores.append(best_index([y], found))
            told = f"true {np.unique(y[y >= 0]).size:3d} found {np.unique(found).size:3d}  {scores[-1]:.2f}"
            print(f"{kind.__name__:20s} {X.shape!s:12s} {told}  {time.perf_counter() - began:.1f} s", flush=True)
        means.append(float(np.mean(scores)))
        print(f"{kind.__name__:20s} mean {means[-1]:.3f}")
    print(f"{given.half}: {len(means)} kinds, mean index {np.mean(means):.3f}")


if __name__ == "__main__":
    main()
