"""A small reader of Newick text, independent of the writer: nested lists of names, and branch lengths summed to the
leaves."""

from __future__ import annotations

from typing import Any


def read_newick(text: str) -> tuple[Any, dict[str, float]]:
    """The tree as nested lists of leaf names, and the distance of every leaf from the root.

    >>> read_newick("(c:2,('a b':1,'it''s':1):1);")
    (['c', ['a b', "it's"]], {'c': 2.0, 'a b': 2.0, "it's": 2.0})
    """
    place = 0

    def name() -> str:
        nonlocal place
        if text[place] != "'":
            start = place
            while text[place] not in ",:();":
                place += 1
            return text[start:place]
        letters = ""
        place += 1
        while True:
            if text[place] == "'" and text[place + 1] == "'":
                letters, place = letters + "'", place + 2
            elif text[place] == "'":
                place += 1
                return letters
            else:
                letters, place = letters + text[place], place + 1

    def node() -> tuple[Any, dict[str, float]]:
        nonlocal place
        if text[place] == "(":
            found: Any = []
            depths: dict[str, float] = {}
            while text[place] in "(,":
                place += 1
                child, below = node()
                found.append(child)
                depths |= below
            assert text[place] == ")"
            place += 1
            name()
        else:
            found = name()
            depths = {found: 0.0}
        if text[place] == ":":
            start = place = place + 1
            while text[place] not in ",();":
                place += 1
            length = float(text[start:place])
            depths = {leaf: depth + length for leaf, depth in depths.items()}
        return found, depths

    tree = node()
    assert text[place:].strip() == ";"
    return tree
