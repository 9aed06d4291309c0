"""Rules of the merge dropped one at a time from a copy of the code, to see which test notices.

    python -m tests.sim.planted [NAME...]

Prints a row for each. Not part of any suite: it takes some minutes. Run it again when the merge changes.
"""

from __future__ import annotations

import sys

from tests.planting import Bug, main

PLANNER = "tests/sim/test_planner.py::test_no_edit_is_lost_and_replicas_agree_in_a_thousand_schedules"
MODEL = "tests/model/test_merge.py::"
TREES = "tests/workspace/merging/test_merge_histories.py::"

BUGS = {
    "sets": Bug(
        "the other side's additions to a set are dropped",
        "kgd/model/merge.py",
        "(ours & theirs) | (ours - common) | (theirs - common))",
        "(ours & theirs) | (ours - common))",
        (PLANNER, f"{MODEL}test_the_result_does_not_depend_on_the_order_of_the_sides"),
    ),
    "appended": Bug(
        "if both sides append blocks, only one side's are kept",
        "kgd/model/text_merge.py",
        "_of_both(_blocks(a), _blocks(b)) for",
        "_blocks(max(a, b)) for",
        (f"{MODEL}test_blocks_appended_by_both_are_both_kept_in_the_order_of_their_timestamps",),
    ),
    "silent": Bug(
        "a field that both sides changed is decided without a record",
        "kgd/model/merge.py",
        "            self.fields[name] = clash",
        "            pass",
        (PLANNER, f"{MODEL}test_every_edit_of_either_side_is_in_the_result_or_in_the_conflict"),
    ),
    "values": Bug(
        "1 and true are one value",
        "kgd/model/merge.py",
        "    return exact and _same(a.data, b.data)",
        "    return True",
        (f"{MODEL}test_one_and_true_are_two_values",),
    ),
    "delete": Bug(
        "a deletion beats an edit",
        "kgd/model/merge.py",
        "    if sides == [None]:",
        "    if None in sides:",
        (PLANNER, f"{MODEL}test_a_delete_against_an_edit_keeps_the_edit_and_records_the_delete"),
    ),
    "unseen": Bug(
        "a deletion removes a conflict that its author had not seen",
        "kgd/model/merge.py",
        "    about = sorted(record.digest for name, record in records.items() if name != WHOLE)",
        "    about = None",
        (f"{TREES}test_a_deletion_made_without_seeing_a_conflict_is_a_further_conflict",),
    ),
    "move": Bug(
        "a moved node is not followed",
        "kgd/model/merge_graph.py",
        "if not other.did(old) or",
        "if other.did(old) or",
        (f"{TREES}test_a_node_moved_here_and_edited_there_is_one_node_at_the_new_place",),
    ),
    "two-moves": Bug(
        "two moves of one node are decided without a record",
        "kgd/model/merge_graph.py",
        "        if decided.conflict and place in self.nodes:",
        "        if False:",
        (f"{TREES}test_two_moves_of_one_node_are_one_node_and_a_conflict_about_its_name",),
    ),
    "aliases": Bug(
        "the losing name is forgotten",
        "kgd/model/merge_graph.py",
        "tuple({*node.aliases, *every} - {place})",
        "node.aliases",
        (f"{TREES}test_two_moves_of_one_node_are_one_node_and_a_conflict_about_its_name",),
    ),
    "made-anew": Bug(
        "a node created under the name of a moved node is lost",
        "kgd/model/merge_graph.py",
        "                    self._take(old, _merged(Merged(None), made_a, made_b))",
        "                    pass",
        ("tests/model/test_merge_graph.py::test_a_node_made_anew_where_one_was_moved_from_is_another_node",),
    ),
    "decided-twice": Bug(
        "of two decisions, the one that changes the value wins",
        "kgd/model/conflict.py",
        "    if both_settled or not left:",
        "    if not left:",
        (f"{MODEL}test_a_decision_for_the_shown_value_counts_like_a_new_value",),
    ),
    "round": Bug(
        "a second dispute is not distinguished from the first",
        "kgd/model/conflict.py",
        "max(old.round, a.round, b.round) + 1",
        "max(old.round, a.round, b.round)",
        (f"{TREES}test_two_different_decisions_conflict_even_if_one_kept_the_served_value",),
    ),
    "settled": Bug(
        "a settled value comes back",
        "kgd/model/conflict.py",
        "    left = (ours & theirs) | (ours - was) | (theirs - was)",
        "    left = ours | theirs",
        (PLANNER,),
    ),
    "bases": Bug(
        "only one of several common ancestors is used",
        "kgd/workspace/merging/histories.py",
        "        for n, one in enumerate(key[1:], 1):",
        "        for n, one in enumerate(key[:0], 1):",
        (PLANNER, f"{TREES}test_a_settled_conflict_stays_settled_in_criss_cross_merges"),
    ),
    "twins": Bug(
        "colliding names are not reported",
        "kgd/workspace/merging/trees.py",
        "        self._report_twins()\n",
        "",
        (f"{TREES}test_names_that_differ_by_case_alone_are_both_kept_and_reported",),
    ),
    "parents": Bug(
        "the merge commit depends on who made it",
        "kgd/workspace/merging/histories.py",
        "    rules, parents = check_rules(store, tips), sorted(tips)",
        "    rules, parents = check_rules(store, tips), list(tips)",
        (f"{TREES}test_two_daemons_that_merge_one_pair_make_the_same_commit",),
    ),
    "rules": Bug(
        "unknown merge rules are guessed",
        "kgd/workspace/merging/histories.py",
        "    if rules != RULES_VERSION:",
        "    if False:",
        (f"{TREES}test_unknown_merge_rules_are_not_guessed",),
    ),
    "chunks": Bug(
        "chunks of two sources are mixed",
        "kgd/workspace/merging/parts.py",
        "        decided = self._choose_chunks()\n",
        "        decided = set[str]()\n",
        (f"{TREES}test_messages_of_one_part_merge_one_by_one_and_chunks_come_from_one_source",),
    ),
    "settings": Bug(
        "settings are merged as one value",
        "kgd/workspace/merging/files.py",
        "        if path == SETTINGS and",
        "        if False and",
        (f"{TREES}test_settings_merge_by_key_and_a_clash_is_recorded_under_their_own_uri",),
    ),
    "memories": Bug(
        "memories are merged like any other text",
        "kgd/workspace/merging/files.py",
        '        if path.startswith(f"{MEMORIES}/"):',
        "        if False:",
        (f"{TREES}test_memories_merge_their_front_matter_by_field_and_their_prose_by_line",),
    ),
}


if __name__ == "__main__":
    sys.exit(main(BUGS))
