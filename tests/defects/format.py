"""Defects of the format and of the merge."""

from __future__ import annotations

from tests.planting import Bug

MODEL = "tests/model/test_merge.py::"

BUGS = {
    "10-field-without-a-rule": Bug(
        "a new field of a node is lost when other fields are merged",
        "kgd/model/node.py",
        "    aliases: tuple[Uri, ...] = ()\n",
        '    aliases: tuple[Uri, ...] = ()\n    stage: str = ""\n',
        (f"{MODEL}test_each_field_of_a_node_and_of_a_relation_has_a_rule_by_which_it_is_merged",),
    ),
    "10-field-of-a-relation": Bug(
        "a new field of a relation is lost when its other fields are merged",
        "kgd/model/node.py",
        "    weight: float = 1.0\n",
        '    weight: float = 1.0\n    note: str = ""\n',
        (f"{MODEL}test_each_field_of_a_node_and_of_a_relation_has_a_rule_by_which_it_is_merged",),
    ),
    "10-listed-by-hand": Bug(
        "a merge lists the fields of a node by hand",
        "kgd/model/merge.py",
        "for each in fields(Node)]",
        'for each in fields(Node) if each.name != "source"]',
        (f"{MODEL}test_a_field_that_one_side_sets_is_there_after_both_sides_changed_other_fields",),
    ),
    "39-block-twice": Bug(
        "a dated block appended twice by one side is kept once",
        "kgd/model/text_merge.py",
        "(Counter(a) | Counter(b)).elements()",
        "{*a, *b}",
        (f"{MODEL}test_a_dated_block_that_one_side_appended_twice_stays_twice",),
    ),
    "39-cleared-text": Bug(
        "a cleared text and an append to it are one text without a conflict",
        "kgd/model/text_merge.py",
        "    if base.strip() and not (a.strip() and b.strip()):",
        "    if False:",
        (f"{MODEL}test_a_text_that_one_side_cleared_and_the_other_edited_is_a_conflict",),
    ),
    "37-zero-and-false": Bug(
        "0 and false count as one value, and the side that wrote it decides",
        "kgd/model/merge.py",
        "(a == {} or canonical_json(a)",
        "(not a or canonical_json(a)",
        (f"{MODEL}test_zero_and_false_are_different_values_on_either_side",),
    ),
    "37-name-that-one-side-touched": Bug(
        "a merge beside a node changes the conflict about its name",
        "kgd/model/merge_graph.py",
        "        if self.a.did(uri) and self.b.did(uri):",
        "        if True:",
        (
            "tests/model/test_merge_graph.py::"
            "test_a_conflict_about_a_name_that_one_side_alone_touched_stays_as_that_side_has_it",
        ),
    ),
    "37-open-record-of-a-file": Bug(
        "an open conflict about settings or a memory is forgotten when both sides edit the field",
        "kgd/workspace/merging/trees.py",
        "for path in both | self._disputed_files().keys():",
        "for path in set[str]():",
        (
            "tests/workspace/merging/test_integrate.py::"
            "test_an_open_conflict_of_the_settings_merges_when_both_sides_edit_the_key_alone",
        ),
    ),
    "38-vectors": Bug(
        "a merge drops relations of one side, and no vector shows it",
        "kgd/model/merge.py",
        "keys = sorted({*olds, *ours, *theirs})",
        "keys = sorted({*olds, *ours})",
        (
            "tests/format/test_vectors.py::test_each_merge_of_the_vectors_gives_the_files_and_the_records_that_they_name",
        ),
    ),
}
