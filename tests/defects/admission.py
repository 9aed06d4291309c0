"""Defects of the admission: rules that one way into a workspace had and another did not."""

from __future__ import annotations

from tests.planting import Bug

_RULES = "tests/admission/test_rules.py::"
_DIFFERENTIAL = "tests/admission/test_differential.py::test_a_few_changes_get_the_same_answer"

BUGS: dict[str, Bug] = {
    "21-memory-of-another": Bug(
        "a push names the memory of another node",
        "kgd/workspace/writing/admission.py",
        "    _admit_naming(node, before, home, place)\n",
        "    if place is None:\n        _admit_naming(node, before, home, place)\n",
        (
            f"{_RULES}test_every_way_refuses[the memory of another node]",
            "tests/hub/test_admission.py::test_a_push_that_names_the_memory_of_another_is_refused_and_its_owner_edits_on",
        ),
    ),
    "21-say-in-a-memory": Bug(
        "a node that names another node's memory gives rights to it",
        "kgd/workspace/writing/touched_nodes.py",
        "        return frozenset(own or {node.uri for node in namers})\n",
        "        return frozenset({node.uri for node in namers})\n",
        (
            "tests/access/test_touched.py::test_a_memory_is_about_its_own_node_even_if_other_nodes_name_it",
            "tests/memories/test_tokens.py::"
            "test_a_node_that_names_the_memory_of_another_does_not_keep_its_owner_from_writing",
        ),
    ),
    "21-memory-in-a-part": Bug(
        "a node in a part names a memory, which nothing looks up there",
        "kgd/workspace/writing/admission.py",
        "        if memory_files.file_of(node):  #",
        "        if False:  #",
        ("tests/admission/test_rules.py::test_a_part_holds_no_node_that_names_a_memory",),
    ),
    "21-unseen": Bug(
        "only put refuses characters that make one name read as another",
        "kgd/workspace/writing/admission.py",
        "        if UNSEEN(text) and (",
        "        if place is None and UNSEEN(text) and (",
        (f"{_RULES}test_every_way_refuses[a name with a direction character]", _DIFFERENTIAL),
    ),
    "21-second-secret": Bug(
        "a file that has a secret may get any other secret",
        "kgd/workspace/writing/secrets.py",
        "        if found.text not in known:\n",
        "        if not first_in(known):\n",
        (f"{_RULES}test_every_way_refuses[another secret beside an old one]",),
    ),
    "21-old-secret": Bug(
        "a text with an old secret cannot be edited",
        "kgd/workspace/writing/secrets.py",
        "        if found.text not in known:\n",
        "        if True:\n",
        (f"{_RULES}test_every_way_accepts[values1]",),
    ),
    "21-twins-in-a-push": Bug(
        "a push adds a name that differs by case alone",
        "kgd/hooks/push_check.py",
        "        raise twin\n",
        "        pass\n",
        (
            f"{_RULES}test_every_way_refuses[a name that differs by case alone]",
            "tests/hub/test_admission.py::"
            "test_a_push_of_a_name_that_differs_by_case_alone_is_refused_with_the_other_name",
        ),
    ),
    "21-twins-in-a-proposal": Bug(
        "a proposal adds a name that differs by case alone",
        "kgd/workspace/proposals/proposals.py",
        "        raise twin\n",
        "        pass\n",
        (f"{_RULES}test_every_way_refuses[a name that differs by case alone]",),
    ),
    "21-twins-in-the-work-tree": Bug(
        "a saved file adds a name that differs by case alone",
        "kgd/workspace/publishing/adoption.py",
        "                _refuse_twin(host, staging, edit, gone, made)\n",
        "",
        (
            f"{_RULES}test_every_way_refuses[a name that differs by case alone]",
            "tests/memories/test_by_hand.py::test_a_name_that_differs_by_case_alone_is_not_taken_from_the_work_tree",
        ),
    ),
    "21-changelog": Bug(
        "a push rewrites a changelog, or adds entries anywhere",
        "kgd/workspace/writing/admission.py",
        "        admit_entry(path, data, base, home)\n",
        "        pass\n",
        (f"{_RULES}test_an_entry_of_a_changelog_has_a_node_a_place_and_one_content",),
    ),
    "21-changelog-in-a-commit": Bug(
        "the hook of a clone lets a changelog entry through that a push refuses",
        "kgd/hooks/commit_check.py",
        ' in (*OWNED_FOLDERS, "log")',
        " in OWNED_FOLDERS",
        ("tests/hooks/test_checking.py::test_unservable_files_are_not_committed_and_each_is_named",),
    ),
    "21-moved-memory": Bug(
        "a memory moved with its node cannot be pushed",
        "kgd/workspace/writing/admission.py",
        " and not _is_moved(path, was, memory, home):",
        ":",
        (f"{_RULES}test_a_memory_that_moved_with_its_node_is_pushed",),
    ),
    "21-detail-of-a-concept": Bug(
        "only put refuses a memory file of a node that is not a memory",
        "kgd/workspace/writing/admission.py",
        "    if node.type not in MEMORY_TYPES and (",
        "    if place is None and node.type not in MEMORY_TYPES and (",
        (f"{_RULES}test_a_detail_has_the_same_rules_on_every_way",),
    ),
    "21-not-reported": Bug(
        "violations that arrive by sync are never reported",
        "kgd/workspace/check.py",
        "                yield from _texts(node, data, path)\n",
        "",
        (f"{_RULES}test_a_node_that_a_sync_brings_against_a_rule_is_kept_and_reported[a secret]",),
    ),
    "28-deep-edit": Bug(
        "an edit with endlessly nested data is an INTERNAL error",
        "kgd/workspace/writing/edits.py",
        "        canonical.check_depth(data)\n",
        "        pass\n",
        (f"{_RULES}test_deep_data_is_never_an_internal_error",),
    ),
    "28-deep-import": Bug(
        "an import of deeply nested data is an INTERNAL error",
        "kgd/tools/exchange.py",
        "            canonical.check_depth(one.node.data)\n",
        "            pass\n",
        (f"{_RULES}test_every_way_refuses[very deep data]",),
    ),
    "39-other-workspace": Bug(
        "fsck does not name a file whose uri is of another workspace",
        "kgd/workspace/check.py",
        "                paths.check_place(node.uri, path, workspace.id, workspace.sharded)\n",
        "",
        (f"{_RULES}test_status_and_fsck_name_the_same_files_of_another_workspace",),
    ),
    "39-other-workspace-pushed": Bug(
        "a file with a cut name holds a node of another workspace",
        "kgd/workspace/writing/admission.py",
        "    paths.check_place(node.uri, path, home.workspace, home.sharded)\n",
        "",
        (f"{_RULES}test_every_way_refuses[a node of another workspace, in a file whose name is cut]",),
    ),
    "39-dotted-scheme": Bug(
        "a URI whose scheme has a dot is served and cannot be put",
        "kgd/model/uri.py",
        '    return "." not in scheme or (rest.startswith("//") and _SCHEME(scheme) is not None)\n',
        '    return "." not in scheme\n',
        ("tests/surfaces/test_addressing.py::test_every_spelling_finds_its_node",),
    ),
    "39-prose-deleted": Bug(
        "removing data.file from a node's file deletes the prose",
        "kgd/workspace/memory_files.py",
        "around.read, by_hand=True)",
        "around.read)",
        (
            "tests/memories/test_by_hand.py::test_taking_the_name_of_a_memory_out_of_a_node_deletes_no_prose[True]",
            "tests/memories/test_by_hand.py::test_taking_the_name_of_a_memory_out_of_a_node_deletes_no_prose[False]",
        ),
    ),
    "39-other-prose-deleted": Bug(
        "a node that names a copy of its memory loses the original",
        "kgd/workspace/memory_files.py",
        "            elif after is None or not (new or by_hand):\n",
        "            elif after is None or not by_hand:\n",
        ("tests/memories/test_detail.py::test_naming_a_copy_of_a_memory_deletes_neither",),
    ),
}
