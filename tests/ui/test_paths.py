"""Alternatives of a path in groups."""

from __future__ import annotations

from kgd.ui.pages.graph_walk import variants


def test_paths_that_differ_in_one_node_are_a_group() -> None:
    paths = [{"nodes": [{"uri": one} for one in steps]} for steps in ("abcz", "axcz", "abyz", "aycz", "acz")]
    assert variants(paths) == [[0, 1, 3], [2], [4]]
