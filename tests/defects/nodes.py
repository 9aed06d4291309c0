"""Defects of reading nodes, of walks and of the versions that writes answer."""

from __future__ import annotations

from tests.planting import Bug

TRAVERSE = "tests/surfaces/test_traverse.py::"

BUGS = {
    "18-path-repeated": Bug(
        "each node of a walk repeats the whole path to it", "kgd/tools/walking.py",
        "            if include_path:\n", "            if True:\n",
        (f"{TRAVERSE}test_a_long_chain_names_predecessors_and_later_pages_are_as_full_as_the_first",),
    ),
    "18-hidden-predecessor": Bug(
        "a path through nodes that are not listed cannot be rebuilt", "kgd/tools/walking.py",
        "    if path[at:-1]:\n", "    if False:\n",
        (f"{TRAVERSE}test_a_path_through_nodes_that_are_not_listed_so_is_rebuilt_too",),
    ),
    "18-detour": Bug(
        "a node is answered with a cheaper path than the limit of hops let it have", "kgd/tools/walking.py",
        " and known[-1] is path[at - 1])", " or known)",
        (f"{TRAVERSE}test_a_path_through_nodes_that_are_not_listed_so_is_rebuilt_too",),
    ),
}  # fmt: skip
