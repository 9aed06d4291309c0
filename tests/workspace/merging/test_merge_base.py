"""The merge base of histories with several best common ancestors, and its cost."""

from __future__ import annotations

from kgd.workspace.merging.histories import MOST, common_content


class Graph:
    """Commits as numbers, each with its parents; a commit holds all it descends from."""

    def __init__(self) -> None:
        self.behind: dict[int, frozenset[int]] = {}
        self.merges = 0

    def commit(self, *parents: int) -> int:
        id = len(self.behind)
        self.behind[id] = frozenset({id}).union(*(self.behind[p] for p in parents))
        return id

    def bases(self, a: int, b: int) -> list[int]:
        common, found = set(self.behind[a] & self.behind[b]), []
        while common:
            found.append(max(common))  # a commit comes after all it descends from
            common -= self.behind[found[-1]]
        return sorted(found)

    def merge(self, base: frozenset[int] | None, a: frozenset[int], b: frozenset[int]) -> frozenset[int]:
        self.merges += 1
        return a | b

    def common(self, a: int, b: int) -> frozenset[int] | None:
        return common_content(a, b, bases=self.bases, held=self.behind.__getitem__, merge=self.merge)


def test_one_common_ancestor_is_itself_and_none_is_nothing() -> None:
    graph = Graph()
    root = graph.commit()
    one, two, other = graph.commit(root), graph.commit(root), graph.commit()
    assert graph.common(one, two) == frozenset({root})
    assert graph.common(one, other) is None
    assert graph.merges == 0


def test_the_ancestors_of_a_criss_cross_are_merged() -> None:
    graph = Graph()
    root = graph.commit()
    one, two = graph.commit(root), graph.commit(root)
    a, b = graph.commit(one, two), graph.commit(two, one)
    assert graph.common(a, b) == frozenset({root, one, two})
    assert graph.merges == 1


def test_criss_crosses_upon_each_other_and_beside_each_other_have_a_bounded_cost() -> None:
    graph = Graph()
    row = [graph.commit() for _ in range(6)]
    for _ in range(30):
        row = [graph.commit(*row) for _ in range(6)]
    assert graph.common(graph.commit(*row), graph.commit(*row))
    assert graph.merges <= MOST
