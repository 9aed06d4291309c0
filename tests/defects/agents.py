"""Defects of what agents are answered and of what they may send."""

from tests.planting import Bug

BUGS = {
    "32-conflict-letters": Bug(
        "`get` and `conflicts` list bare values and do not say which side is a", "kgd/tools/nodes.py",
        '[{"side": letter, "value": value} for letter, value in letters.items()]', "list(letters.values())",
        ("tests/surfaces/test_get.py::test_an_open_conflict_is_shown_with_both_sides_and_settled",),
    ),
    "35-list-without-authors": Bug(
        "`kgd conflicts` names no author", "kgd/tools/disputes.py",
        "if number < sides.LOOKED_UP", "if number < 0",
        ("tests/sync/test_conflict_authors.py::test_the_list_of_conflicts_names_the_author_of_each_side",
         "tests/cli/test_commands.py::test_open_conflicts_are_printed_with_the_author_of_each_side"),
    ),
    "35-commits-after-the-merge": Bug(
        "later commits to a node use up the commits that are searched for the author of a side", "kgd/tools/sides.py",
        "for start in commit.parents if len(commit.parents) > 1 else (commit.id,):",
        "for start in (bytes.fromhex(workspace.tip),):",
        ("tests/sync/test_conflict_authors.py::test_a_side_keeps_its_author_after_many_later_commits_to_the_node",),
    ),
    "35-mover-as-author": Bug(
        "the author of a move is taken for the author of both sides", "kgd/tools/sides.py",
        "return tuple(dict.fromkeys((uri, *((node.uri, *node.aliases) if node else ()))))", "return (uri,)",
        ("tests/sync/test_conflict_authors.py::test_a_move_does_not_become_the_author_of_the_sides",),
    ),
}  # fmt: skip
