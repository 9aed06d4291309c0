"""Checks of scopes dropped one at a time from a copy of the code, to see which test notices.

    python -m tests.access.planted [NAME...]

Prints a row for each. Not part of any suite: it takes some minutes. Run it again when a check changes.
"""

from __future__ import annotations

import sys

from tests.planting import Bug, main

ACCESS = "tests/access/"
RANDOM = f"{ACCESS}test_breaches.py::test_no_operation_reaches_outside_its_token"
OUTSIDE = f"{ACCESS}test_submissions.py::test_outside_the_scope_a_submission_is_neither_merged_nor_kept"

BUGS = {
    "alias": Bug(
        "an alias may take any name",
        "kgd/workspace/writing/touched_nodes.py",
        "    return frozenset(ends | aliases)",
        "    return frozenset(ends)",
        (
            RANDOM,
            OUTSIDE,
            f"{ACCESS}test_touched.py::test_a_move_touches_both_ends_and_an_alias_the_name_that_it_takes",
        ),
    ),
    "records": Bug(
        "a conflict record is assigned by its folder alone",
        "kgd/workspace/writing/touched_nodes.py",
        "                found.add(conflict.uri)\n",
        "                found |= by_path or {conflict.uri}\n",
        (f"{ACCESS}test_touched.py::test_a_conflict_record_is_about_the_node_of_its_folder_and_the_node_it_names",),
    ),
    "record-place": Bug(
        "a conflict record may be anywhere",
        "kgd/codec/documents.py",
        "    if paths.conflict_path(conflict.uri, conflict.digest, sharded) != path:\n",
        "    if False:\n",
        (
            "tests/workspace/merging/test_conflict_records.py::test_a_misplaced_record_in_the_tip_is_reported_and_is_no_conflict",
            "tests/workspace/merging/test_conflict_records.py::test_a_misplaced_record_is_not_admitted",
        ),
    ),
    "segments": Bug(
        "a segment matches by prefix",
        "kgd/model/globs.py",
        "in pattern else pattern == segment",
        "in pattern else segment.startswith(pattern)",
        (RANDOM, OUTSIDE),
    ),
    "dots": Bug(
        "an external address with .. is matched as spelled",
        "kgd/model/globs.py",
        '    return plain in ("", ".", "..") or',
        "    return False and",
        (f"{ACCESS}test_globs.py::test_a_scope_covers_paths_under_every_scheme",),
    ),
    "policy": Bug(
        "the first rule of the policy counts",
        "kgd/model/access.py",
        "for rule in reversed(self.rules):",
        "for rule in self.rules:",
        (RANDOM, f"{ACCESS}test_authorize.py::test_the_last_rule_that_covers_a_path_and_speaks_of_the_holder_counts"),
    ),
    "permit": Bug(
        "only the named nodes are checked, not the result of a change",
        "kgd/workspace/writing/transaction.py",
        "        if self.permit:\n",
        "        if False:\n",
        (OUTSIDE, "tests/surfaces/test_scopes.py::test_a_write_is_held_to_the_scope"),
    ),
    "chain": Bug(
        "a proposal is checked by its net change alone",
        "kgd/workspace/proposals/deciding.py",
        "touched | _touched_by_commits(workspace, tip, commit))",
        "touched)",
        (f"{ACCESS}test_proposals.py::test_a_change_reverted_within_the_proposal_is_judged_too",),
    ),
    "vet": Bug(
        "a proposal is accepted unchecked",
        "kgd/workspace/proposals/deciding.py",
        "    vet(workspace, bases[0], commit)\n",
        "    pass\n",
        (f"{ACCESS}test_proposals.py::test_a_proposal_that_no_workspace_can_hold_is_shown_as_broken_and_not_accepted",),
    ),
    "base": Bug(
        "a submission overwrites changes since its base",
        "kgd/workspace/proposals/deciding.py",
        "    if merged.conflicts:\n",
        "    if False:\n",
        (f"{ACCESS}test_submissions.py::test_a_submission_in_conflict_waits_and_names_the_node",),
    ),
    "requests": Bug(
        "two tokens share request ids",
        "kgd/tools/session.py",
        '        return f"{self.principal.id}/{request_id}"',
        "        return request_id",
        ("tests/surfaces/test_scopes.py::test_two_holders_may_choose_the_same_request_id",),
    ),
    "search": Bug(
        "a hidden hit still counts",
        "kgd/tools/read/search.py",
        "            sees=sees,\n            stale=stale,",
        "            sees=None,\n            stale=stale,",
        ("tests/surfaces/test_scopes.py::test_a_search_finds_and_counts_nothing_hidden",),
    ),
    "read": Bug(
        "any caller can get any node",
        "kgd/model/access.py",
        "    if not any(scope.covers(place) for scope in granted):",
        "    if verb is not Verb.READ and not granted:",
        ("tests/surfaces/test_scopes.py::test_get_answers_readable_nodes_only", RANDOM),
    ),
}


if __name__ == "__main__":
    sys.exit(main(BUGS))
