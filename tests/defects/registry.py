"""Defects of the registry, of submissions and of what a sync counts."""

from __future__ import annotations

from tests.planting import Bug

_PLACES = "tests/across/test_places.py::"
_COPIES = "tests/across/test_submissions.py::"

BUGS = {
    "11-write-elsewhere": Bug(
        "an entry reaches any workspace at its path",
        "kgd/daemon/daemon.py",
        "        if found.id != entry.id:\n            raise misnamed(entry, found.id)\n",
        "",
        (f"{_PLACES}test_an_entry_at_the_path_of_another_workspace_reaches_nothing",),
    ),
    "11-mismatch-unreported": Bug(
        "neither status nor doctor compares the ids",
        "kgd/daemon/registry.py",
        "not in (None, entry.id)",
        "is False",
        (f"{_PLACES}test_an_entry_of_another_workspace_is_reported_by_doctor_status_and_up",),
    ),
    "11-id-taken-by-mistake": Bug(
        "an entry that leads to another workspace keeps the id from the right workspace",
        "kgd/daemon/registry.py",
        "            return self.id_at(entry) == entry.id\n",
        "            return self.id_at(entry) is not None\n",
        (
            f"{_PLACES}test_a_second_workspace_may_take_the_id_of_a_mismatched_entry",
            f"{_PLACES}test_an_entry_of_another_workspace_does_not_keep_the_others_from_being_removed",
        ),
    ),
    "11-not-cloned": Bug(
        "an empty path with a remote becomes a new workspace",
        "kgd/tools/workspaces/setup.py",
        "elif entry is not None and opening.remote_of(entry):",
        "elif False:",
        (
            f"{_PLACES}test_up_clones_a_workspace_whose_entry_has_a_remote",
            f"{_PLACES}test_a_code_repository_whose_entry_has_a_remote_gets_that_workspace",
        ),
    ),
    "11-clone-in-outer-repository": Bug(
        "an empty folder inside a code repository is not cloned into",
        "kgd/tools/workspaces/setup.py",
        "entry.standalone or opening.is_free(entry, directory)",
        "entry.standalone",
        (f"{_PLACES}test_an_empty_folder_inside_a_code_repository_is_cloned_into_itself",),
    ),
    "11-stale-copy": Bug(
        "writes go to an open copy after the registry names another copy",
        "kgd/daemon/daemon.py",
        "if (entry.path or str(one.layout.work_tree)) in (place, str(one.layout.git_dir)):",
        "if one.id == id:",
        (f"{_PLACES}test_after_the_registry_names_another_copy_nothing_is_written_to_the_first",),
    ),
    "11-code-ignored": Bug(
        "`code` of an entry has no effect",
        "kgd/daemon/registry.py",
        "return layout if layout.code_tree or not entry.code else replace(layout, code_tree=Path(entry.code))",
        "return layout",
        (f"{_PLACES}test_a_workspace_of_its_own_serves_the_code_that_its_entry_names",),
    ),
    "12-unrelated-overwritten": Bug(
        "a submitted node replaces an unrelated one of the same path",
        "kgd/tools/proposals/own_nodes.py",
        "        if base:\n            return [whole",
        "        if True:\n            return [whole",
        (f"{_COPIES}test_an_upstream_node_under_the_same_path_is_a_conflict_and_stays",),
    ),
    "12-merged-into-an-older-state": Bug(
        "a new node is merged into an existing node",
        "kgd/workspace/proposals/deciding.py",
        "None if _exists_already(workspace, changes) else ",
        "",
        ("tests/surfaces/test_submitting.py::test_a_new_node_is_never_merged_into_an_existing_one",),
    ),
    "12-no-origin": Bug(
        "a copy does not say where it came from",
        "kgd/tools/proposals/own_nodes.py",
        "    if origin:\n",
        "    if False:\n",
        (f"{_COPIES}test_a_copy_names_its_origin_and_relations_among_copies_stay_among_them",),
    ),
    "12-resubmission": Bug(
        "an edited node is submitted whole again",
        "kgd/tools/proposals/own_nodes.py",
        "    changes = difference(_submitted(own, uri, copy), node,",
        "    changes = difference(Node(uri), node,",
        (f"{_COPIES}test_an_edit_and_a_removal_travel_without_a_base",),
    ),
    "12-their-edits-lost": Bug(
        "upstream changes since the last submission are not merged",
        "kgd/tools/proposals/own_nodes.py",
        "return commits.pop() if changed else",
        "return",
        (f"{_COPIES}test_the_same_field_changed_on_both_sides_waits_as_a_proposal",),
    ),
    "12-removals": Bug(
        "a deleted node stays in the workspace of its submission",
        "kgd/tools/proposals/own_nodes.py",
        "        if (copy := copies.get(homes[uri])) is not None and _comes_from(copy, uri):",
        "        if False:",
        (
            f"{_COPIES}test_submit_without_arguments_sends_every_change_since_the_last_submit",
            f"{_COPIES}test_a_plain_git_server_gets_the_changes_since_the_last_accepted_submission",
        ),
    ),
    "12-receiver-named-again": Bug(
        "the only submission target has to be named again",
        "kgd/tools/proposals/own_nodes.py",
        "return found[0] if len(found) == 1 and",
        "return found[0] if False and",
        (f"{_COPIES}test_a_sole_submission_target_need_not_be_named_again",),
    ),
    "12-since-the-last-time": Bug(
        "changes since the last submission have to be named",
        "kgd/tools/proposals/own_nodes.py",
        "    replace_file(place, json.dumps(",
        "    (json.dumps(",
        (f"{_COPIES}test_submit_without_arguments_sends_every_change_since_the_last_submit",),
    ),
    "12-local": Bug(
        "roots cannot be submitted to another workspace of this machine",
        "kgd/tools/proposals/submit.py",
        "    if not params.changes and not remote:",
        "    if not params.changes and not (remote and outbound.find(session, remote, params.workspace)):",
        (f"{_COPIES}test_a_copy_names_its_origin_and_relations_among_copies_stay_among_them",),
    ),
    "19-sync-counts": Bug(
        "a merged branch counts with all of its history",
        "kgd/git/store.py",
        '"--count", f"--max-count={limit}", *names)',
        '"--count", f"--max-count={limit}", tip.hex())',
        ("tests/sync/test_sharing.py::test_a_branch_that_began_long_ago_counts_as_the_commits_that_are_new",),
    ),
    "19-hub-last-seen": Bug(
        "only answered reads of the same workspace count as seen",
        "kgd/sync/hubs.py",
        "self._answered()\n            raise",
        "pass\n            raise",
        ("tests/across/test_reading.py::test_any_answer_of_a_hub_counts_as_seen[submission]",),
    ),
    "19-hub-last-seen-by-name": Bug(
        "a hub's last answer is kept for the id of a workspace",
        "kgd/daemon/other_workspaces.py",
        "    if not entry.hub:\n        return entry.id",
        "    if entry.id:\n        return entry.id",
        (
            "tests/across/test_reading.py::test_any_answer_of_a_hub_counts_as_seen[another workspace]",
            "tests/across/test_reading.py::test_a_hub_that_replaces_another_has_not_been_seen_yet",
        ),
    ),
    "13-remote-inferred": Bug(
        "changes for another workspace are refused with advice to call the same tool",
        "kgd/tools/proposals/submit.py",
        "remote = params.remote or _inferred(session, params)",
        "remote = params.remote",
        (
            f"{_COPIES}test_changes_go_to_the_workspace_that_their_uris_name",
            f"{_COPIES}test_changes_for_a_read_only_clone_go_to_its_server",
        ),
    ),
}
