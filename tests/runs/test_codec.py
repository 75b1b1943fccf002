"""Records come back bit for bit from a folder, each field of the type it is declared with."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pytest

from dtree.core.families import (
    FAMILIES,
    Bernoulli,
    Categorical,
    DiagonalGaussian,
    Gaussian,
    Mixed,
    Multinomial,
    Poisson,
)
from dtree.core.model import Model
from dtree.core.priors import DirichletProcess, GeneralizedGamma
from dtree.core.tree import Tree
from dtree.runs.folder import FolderStore
from tests.runs.toy import small_tree


class Anything(msgspec.Struct, frozen=True):
    value: Any


def there_and_back(folder: Path, value: Any) -> Any:
    store = FolderStore(folder)
    store.put("record", Anything(value))
    return store.get("record", Anything).value


VALUES: dict[str, Any] = {
    "numbers": {"a": 0.1 + 0.2, "b": -1, "c": None, "d": True, "e": "text", "f": float("inf"), "g": np.float64(1 / 3)},
    "arrays": {"a": np.arange(5), "b": np.random.default_rng(0).normal(size=(3, 4)), "empty": np.empty((0, 2))},
    "small numbers": {"a": np.arange(5, dtype=np.uint8), "b": np.arange(5, dtype=np.uint64)},
    "one number": {"a": np.array(7), "b": np.array(0.1)},
    "names": {"a": np.array(["x", "ü", ""], dtype=object)},
    "list": {"a": [1, [2.5, None]]},
    "truths": {"a": np.array([True, False])},
}


@pytest.mark.parametrize("case", VALUES)
def test_values_come_back_bit_for_bit(tmp_path: Path, case: str) -> None:
    again = there_and_back(tmp_path, VALUES[case])
    assert list(again) == list(VALUES[case])
    for key, value in VALUES[case].items():
        if isinstance(value, np.ndarray):
            assert again[key].dtype == value.dtype
            assert again[key].shape == value.shape
            np.testing.assert_array_equal(again[key], value)
        else:
            assert again[key] == value


FAMILY_EXAMPLES = [
    Gaussian([0.1, 1 / 3], 0.7, 4.5, [[1.0, 0.1], [0.1, 2 / 3]]),
    DiagonalGaussian([0.1, 1 / 3], 0.7, [2.0, 3.0], [1.0, 0.1]),
    Bernoulli([0.1, 0.2], [0.3, 1 / 7]),
    Multinomial([0.1, 1 / 3], coefficient=True),
    Poisson([0.1, 0.2], [0.3, 1 / 7]),
    Categorical([[0.1, 1 / 3, 2.0], [1 / 7, 0.2]]),
    Mixed([(Categorical([[0.1, 1 / 3]]), [1], 0.3), (Gaussian([0.1], 0.7, 4.5, [[2 / 3]]), [0])]),
]


def test_there_is_an_example_of_every_family() -> None:
    assert {family.name for family in FAMILY_EXAMPLES} == set(FAMILIES)


@pytest.mark.parametrize("family", FAMILY_EXAMPLES, ids=lambda family: family.name)
def test_families_give_the_same_numbers_again(tmp_path: Path, family: Any) -> None:
    again = there_and_back(tmp_path, {"family": family, "again": [family]})
    assert type(again["family"]) is type(again["again"][0]) is type(family)
    X = np.array([[0, 1], [1, 1], [1, 0]])
    assert again["family"].log_marginal(X) == again["again"][0].log_marginal(X) == family.log_marginal(X)


@pytest.mark.parametrize(
    "prior", [DirichletProcess(1 / 3), DirichletProcess(2.0, 0.7), GeneralizedGamma(0.3, 0.2, 1.7)]
)
def test_priors_come_back(tmp_path: Path, prior: Any) -> None:
    assert there_and_back(tmp_path, prior) == prior


def test_models_come_back(tmp_path: Path) -> None:
    model = Model(FAMILY_EXAMPLES[1], DirichletProcess(1 / 3), 0.7)
    again = there_and_back(tmp_path, model)
    assert (again.prior, again.coarsening) == (model.prior, 0.7)
    X = np.array([[0.0, 1.0], [1.0, 1.5]])
    assert np.array_equal(again.log_phi_h(again.atoms(X)), model.log_phi_h(model.atoms(X)))


@pytest.mark.parametrize("leaves", [1, 3])
def test_trees_come_back(tmp_path: Path, leaves: int) -> None:
    tree = small_tree() if leaves == 3 else Tree.from_merges([], size=[2], log_phi_h=[-1.0])
    again = there_and_back(tmp_path, tree)
    for column in ("left", "right", "size", "log_phi_h", "log_phi_t"):
        np.testing.assert_array_equal(getattr(again, column), getattr(tree, column))


class Step(NamedTuple):
    number: int
    objective: float
    maps: dict[int, np.ndarray]


class State(msgspec.Struct, frozen=True):
    steps: list[Step]
    best: Step | None
    tree: Tree | None
    names: tuple[str, ...] = ()


def test_records_come_back_as_the_types_they_declare(tmp_path: Path) -> None:
    store, step = FolderStore(tmp_path), Step(3, -np.inf, {0: np.arange(2), 17: np.empty(0, dtype=np.int64)})
    store.put("checkpoints/gen-00000003", State([step, step._replace(number=4)], step, None, ("a", "b")))
    again = store.get("checkpoints/gen-00000003", State)
    assert [type(found) for found in (*again.steps, again.best)] == [Step] * 3
    assert [found.number for found in again.steps] == [3, 4]
    assert again.best is not None
    assert again.best.objective == -np.inf
    assert list(again.best.maps) == [0, 17]
    np.testing.assert_array_equal(again.best.maps[0], [0, 1])
    assert (again.tree, again.names) == (None, ("a", "b"))


class Wrong(NamedTuple):
    record: Any
    sentence: str


WRONG = {
    "a number for a list": Wrong({"steps": 3, "best": None, "tree": None}, "Expected 'array', got 'int' in steps"),
    "text for a number": Wrong(
        {"steps": [("x", 1.0, {})], "best": None, "tree": None}, r"Expected 'int', got 'str' in steps\[0\]"
    ),
    "a family for a tree": Wrong({"steps": [], "best": None, "tree": FAMILY_EXAMPLES[0]}, "in tree"),
    "a field that is missing": Wrong({"steps": [], "tree": None}, "missing required field 'best'"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_field_of_another_type_gets_one_sentence(tmp_path: Path, case: str) -> None:
    store = FolderStore(tmp_path)
    store.put("record", WRONG[case].record)
    with pytest.raises(ValueError, match=WRONG[case].sentence) as caught:
        store.get("record", State)
    assert str(caught.value).startswith(f"{tmp_path} is damaged: ")
    assert "\n" not in str(caught.value)


def test_what_a_run_cannot_hold(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="a run cannot hold value: it is a set"):
        there_and_back(tmp_path, {1, 2})
    with pytest.raises(ValueError, match="of type complex128 cannot be stored"):
        there_and_back(tmp_path, np.zeros(2, dtype=complex))
    assert list(tmp_path.iterdir()) == []


def test_words_of_the_language_are_kept_apart_from_keys(tmp_path: Path) -> None:
    value = {"tree": 1, "array": "x", "family": "gaussian", "parameters": {"list": 2}}
    assert there_and_back(tmp_path, value) == value
    with pytest.raises(ValueError, match=r"start with \$"):
        there_and_back(tmp_path / "more", {"$tree": 1})


def test_what_a_record_does_not_declare_is_not_believed(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    store.put("record", {"steps": [], "best": None, "tree": None, "more": 1})
    assert store.get("record", State) == State([], None, None)
