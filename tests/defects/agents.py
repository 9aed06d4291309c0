"""Defects of what agents are answered and of what they may send."""

from tests.planting import Bug

BUGS = {
    "32-conflict-letters": Bug(
        "`get` and `conflicts` list bare values and do not say which side is a", "kgd/tools/nodes.py",
        '[{"side": letter, "value": value} for letter, value in letters.items()]', "list(letters.values())",
        ("tests/surfaces/test_get.py::test_an_open_conflict_is_shown_with_both_sides_and_settled",),
    ),
    "32-as-of-version": Bug(
        "`get` with `as_of` answers version 0", "kgd/tools/nodes.py",
        'answer["version"] = found.workspace.version_at(found.uri, found.as_of)', "pass",
        ("tests/surfaces/test_get.py::test_a_node_as_of_a_commit_has_the_version_of_then",
         "tests/surfaces/test_get.py::test_as_of_a_proposal_the_versions_of_its_own_history_count"),
    ),
    "32-date-of-the-first-commit": Bug(
        "the constant date of the first commit is shown as a time", "kgd/tools/nodes.py",
        'return moment(entry.at) if entry.parents or entry.operation != INIT else ""', "return moment(entry.at)",
        ("tests/surfaces/test_past.py::test_the_first_commit_is_listed_without_a_time",
         "tests/cli/test_commands.py::test_the_first_commit_is_printed_without_a_time"),
    ),
    "32-mentions-in-capitals": Bug(
        "a filter on `mentions` finds no MENTIONS", "kgd/tools/parameters.py",
        "for one in (type, type.upper(), type.lower())", "for one in (type,)",
        ("tests/surfaces/test_traverse.py::test_a_filter_on_relation_types_ignores_their_case",),
    ),
    "32-concepts-and-directories": Bug(
        "`types: [concept]` answers directories", "kgd/model/uri.py",
        'and not (scheme == "dir" and type == DIRECTORY_TYPE)', "",
        ("tests/surfaces/test_traverse.py::test_the_type_concept_leaves_out_directories",),
    ),
    "32-concepts-and-directories-found": Bug(
        "a search for concepts finds directories", "kgd/index/text.py", "if DIRECTORY_TYPE in types:", "if False:",
        ("tests/surfaces/test_search.py::test_the_type_concept_finds_no_directories",),
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
