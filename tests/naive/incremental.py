"""Incremental BHC as printed, on nested tuples and frozen sets: slow and obvious."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtree.core.model import Model


class Node:
    def __init__(self, members: frozenset[int], left: Node | None = None, right: Node | None = None) -> None:
        self.members, self.left, self.right = members, left, right


class NaiveForest:
    def __init__(self, model: Model, atoms: np.ndarray, noisy: bool = False, max_cuts: int = 32) -> None:
        self.roots: list[Node] = []
        self.model, self.atoms, self.noisy, self.max_cuts = model, atoms, noisy, max_cuts
        self._memory: dict[frozenset[int], float] = {}

    def log_h(self, members: frozenset[int]) -> float:
        if members not in self._memory:
            self._memory[members] = float(self.model.log_phi_h(self.atoms[sorted(members)].sum(axis=0))[0])
        return self._memory[members]

    def log_t(self, node: Node) -> float:
        own = self.log_h(node.members)
        if node.left is None:
            return own
        return float(np.logaddexp(own, self.log_t(node.left) + self.log_t(node.right)))

    def log_d(self, a: Node, b: Node) -> float:
        return self.log_t(a) + self.log_t(b) - self.log_h(a.members | b.members)

    def insert(self, atom: int) -> None:
        queue, cuts = [Node(frozenset([atom]))], self.max_cuts
        while queue:
            node = queue.pop(0)
            distances = [self.log_d(node, root) for root in self.roots]
            if not distances or min(distances) > 0:
                self.roots.append(node)
                continue
            slot = int(np.argmin(distances))
            path: list[Node] = []
            self.roots[slot] = root = self.seq_insert(self.roots[slot], node, path)
            # path: from the new joint up to the root
            if self.noisy or cuts == 0:
                continue
            for level, at in enumerate(path):
                if self.log_d(at.left, at.right) > 0:
                    cuts -= 1
                    self.roots[slot] = self.roots[-1]
                    self.roots.pop()
                    queue += [at.left, at.right]
                    below = at
                    for above in path[level + 1 :]:
                        queue.append(above.right if above.left is below else above.left)
                        below = above
                    break
            del root

    def seq_insert(self, at: Node, node: Node, path: list[Node]) -> Node:
        if at.left is not None and not self.noisy:
            children = self.log_d(at.left, at.right)
            to_left, to_right = self.log_d(at.left, node), self.log_d(at.right, node)
            if not (children <= to_left and children <= to_right):
                if to_left <= to_right:
                    new = Node(at.members | node.members, self.seq_insert(at.left, node, path), at.right)
                else:
                    new = Node(at.members | node.members, at.left, self.seq_insert(at.right, node, path))
                path.append(new)
                return new
        new = Node(at.members | node.members, at, node)
        path.append(new)
        return new

    def clusters(self) -> set[frozenset[int]]:
        return {root.members for root in self.roots}

    def nodes(self) -> set[frozenset[int]]:
        found: set[frozenset[int]] = set()

        def visit(node: Node | None) -> None:
            if node is not None:
                found.add(node.members)
                visit(node.left)
                visit(node.right)

        for root in self.roots:
            visit(root)
        return found


def sets_below(tree: Any) -> list[frozenset[int]]:
    """The leaves below every node of a Tree."""
    sets = [frozenset([leaf]) for leaf in range(tree.n_leaves)]
    for a, b in tree.merges:
        sets.append(sets[a] | sets[b])
    return sets
