"""Pictures of trees: what is drawn, not how it looks."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import matplotlib
import numpy as np
import pytest
from matplotlib import pyplot as plt

from dtree.core.families import DiagonalGaussian, moments_of
from dtree.core.model import Model
from dtree.core.priors import DirichletProcess
from dtree.core.tree import Tree
from dtree.datasets import nested_creatures
from dtree.hierarchy.bhc import build_tree
from dtree.reporting.plots import plot_coarsening_path, plot_tree

matplotlib.use("agg")


@pytest.fixture(autouse=True)
def _close_figures() -> Iterator[None]:
    yield
    plt.close("all")


def _fitted(rows: int) -> tuple[Tree, Any]:
    data = nested_creatures(rows)
    model = Model(DiagonalGaussian.defaults(moments_of(data.X, with_covariance=False), 0.01), DirichletProcess(1.0))
    return build_tree(model, model.atoms(data.X)), data


def _texts(ax: Any) -> list[str]:
    return [text.get_text() for text in ax.get_yticklabels()]


def test_every_leaf_has_its_name_and_every_cluster_its_colour() -> None:
    tree, data = _fitted(54)
    ax = plot_tree(tree, names=data.row_names)
    assert sorted(_texts(ax)) == sorted(data.row_names)
    colour_of: dict[str, set[str]] = {}
    for text in ax.get_yticklabels():
        colour_of.setdefault(text.get_text().split()[0], set()).add(text.get_color())
    assert all(len(colours) == 1 for colours in colour_of.values())
    assert len(set.union(*colour_of.values())) == 9
    branches, _ = ax.collections
    assert len(branches.get_segments()) == 2 * (tree.n_leaves - 1)
    assert ax.get_title(loc="left") == "54 rows, 9 clusters"


def test_leaves_of_a_cluster_stand_together() -> None:
    tree, data = _fitted(54)
    kinds = [text.split()[0] for text in _texts(plot_tree(tree, names=data.row_names))]
    assert sum(a != b for a, b in pairwise(kinds)) == 8


def test_a_large_tree_is_drawn_down_to_its_clusters() -> None:
    tree, data = _fitted(200)
    ax = plot_tree(tree)
    assert len(_texts(ax)) == 9
    assert sum(int(text.split()[0]) for text in _texts(ax)) == 200
    assert len(ax.collections[1].get_paths()) == 9
    named = _texts(plot_tree(tree, names=data.row_names))
    assert all(text.endswith("more") for text in named)


@pytest.mark.parametrize("most", [2, 4, 7])
def test_at_most_so_many_tips(most: int) -> None:
    tree, _ = _fitted(200)
    texts = _texts(plot_tree(tree, max_leaves=most))
    assert len(texts) == most
    assert sum(int(text.split()[0]) for text in texts) == 200


def test_one_cluster_with_many_rows_is_opened() -> None:
    tree, _ = _fitted(200)
    ax = plot_tree(tree, labels=np.zeros(200, dtype=int))
    assert len(_texts(ax)) == 8


@pytest.mark.parametrize("leaves", [1, 2])
def test_the_smallest_trees(leaves: int) -> None:
    log_phi_h = np.full(2 * leaves - 1, -1.0)
    tree = Tree.from_merges([[0, 1]] * (leaves - 1), size=[1] * leaves, log_phi_h=log_phi_h)
    ax = plot_tree(tree)
    assert _texts(ax) == [str(i) for i in range(leaves)]
    ax.figure.canvas.draw()


def test_atoms_say_how_many_rows_they_hold() -> None:
    tree = Tree.from_merges([[0, 1]], size=[1000, 1], log_phi_h=[-1.0, -1.0, -5.0])
    assert _texts(plot_tree(tree)) == ["1,000 rows", "1"]


def test_axes_given_are_used() -> None:
    tree, _ = _fitted(9)
    _, ax = plt.subplots()
    assert plot_tree(tree, ax=ax, title="mine") is ax
    assert ax.get_title(loc="left") == "mine"


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"names": ["a"]}, "1 names but 9 leaves"),
        ({"labels": [0, 1]}, "2 labels but 9 leaves"),
        ({"max_leaves": 1}, "at least 2"),
    ],
)
def test_mistakes_get_one_sentence(change: dict[str, Any], sentence: str) -> None:
    tree, _ = _fitted(9)
    with pytest.raises(ValueError, match=sentence):
        plot_tree(tree, **change)


def test_only_trees_and_fitted_models_can_be_drawn() -> None:
    with pytest.raises(ValueError, match="needs a Tree or a fitted model, not a ndarray"):
        plot_tree(np.zeros(3))


PATH = {"zetas": [1.0, 0.8, 0.6, 0.4], "n_clusters": [9, 7, 7, 2]}


@pytest.mark.parametrize("path", [PATH, SimpleNamespace(**PATH)])
def test_a_coarsening_path(path: Any) -> None:
    line = plot_coarsening_path(path).lines[0]
    assert line.get_xdata().tolist() == [0.4, 0.6, 0.8, 1.0]
    assert line.get_ydata().tolist() == [2, 7, 7, 9]


def test_many_clusters_are_drawn_on_a_logarithmic_scale() -> None:
    assert plot_coarsening_path({"zetas": [1.0, 0.5], "n_clusters": [300, 2]}).get_yscale() == "log"


@pytest.mark.parametrize("path", [{}, {"zetas": [1.0]}, [], 3, {"zetas": [1.0], "n_clusters": [1, 2]}])
def test_what_is_not_a_coarsening_path(path: Any) -> None:
    with pytest.raises(ValueError, match="a coarsening path"):
        plot_coarsening_path(path)
