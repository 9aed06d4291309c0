"""Bugs planted one by one into a copy of the code, to see which test finds each.

    python -m tests.faults.planted [NAME...]

Prints a row for each. Not part of any suite: it takes some minutes. Run it again when the write path changes.
"""

from __future__ import annotations

import sys

from tests.planting import Bug, main

BUGS = {
    "sync-vetting": Bug(
        "the changes in a remote's commits are not checked",
        "kgd/sync/vetting.py",
        "            if harm := unsafe_reason(path, entry[0], budget):",
        "            if harm := '':",
        (
            "tests/sync/test_vetting.py::test_each_is_refused_and_nothing_of_it_is_kept",
            "tests/sync/test_vetting.py::test_a_link_in_the_middle_of_the_history_is_found",
        ),
    ),
    "sync-sizes": Bug(
        "objects are read without checking their size",
        "kgd/sync/vetting.py",
        "        measure(incoming, incoming.ids, budget)\n",
        "",
        ("tests/sync/test_vetting.py::test_sizes_and_counts_are_asked_of_headers_before_anything_is_read",),
    ),
    "sync-brake": Bug(
        "a sync deletes without limit",
        "kgd/sync/round.py",
        "    if found:\n        gone, total",
        "    if False:\n        gone, total",
        ("tests/sync/test_trouble.py::test_a_sync_that_would_remove_much_is_held_until_confirmed",),
    ),
    "sync-rewritten": Bug(
        "kgd follows rewritten history",
        "kgd/sync/round.py",
        "if not confirmed and not decided:",
        "if False:",
        ("tests/sync/test_trouble.py::test_a_force_push_is_not_followed_and_the_old_tip_is_kept",),
    ),
    "sync-unrelated": Bug(
        "an unrelated history is merged",
        "kgd/sync/round.py",
        "if not vet(incoming, theirs, host.workspace, host.sharded):",
        "if False:",
        ("tests/sync/test_trouble.py::test_a_remote_that_became_another_repository_is_refused",),
    ),
    "sync-emptied": Bug(
        "an emptied remote is filled again",
        "kgd/sync/round.py",
        "if known is None or _confirms(confirm, known):",
        "if True:",
        ("tests/sync/test_trouble.py::test_an_emptied_remote_is_not_filled_again_without_confirmation",),
    ),
    "sync-lease": Bug(
        "a push replaces commits that arrived after the fetch",
        "kgd/git/remote.py",
        """*(f"--force-with-lease={one.name}:{one.old.hex() if one.old else ''}" for one in updates),""",
        '"--force",',
        ("tests/sync/test_sharing.py::test_a_push_never_replaces_commits_that_arrived_after_the_listing",),
    ),
    "sync-proposal-names": Bug(
        "a proposal's name is used unchecked",
        "kgd/sync/round.py",
        "if is_name(short)",
        "if short",
        ("tests/sync/test_vetting.py::test_a_proposal_cannot_name_itself_out_of_its_place",),
    ),
    "sync-host-key": Bug(
        "any host key is accepted",
        "kgd/git/remote.py",
        "StrictHostKeyChecking=yes",
        "StrictHostKeyChecking=no",
        ("tests/sync/test_ssh.py::test_a_wrong_host_key_is_refused_before_any_data_is_sent",),
    ),
    "sync-certificate": Bug(
        "the environment can switch off certificate checks",
        "kgd/git/remote.py",
        'if name != "GIT_SSL_NO_VERIFY"',
        "if True",
        ("tests/sync/test_trouble.py::test_an_unknown_certificate_is_refused_regardless_of_the_environment",),
    ),
    "sync-token": Bug(
        "the registry's credential goes to every remote",
        "kgd/sync/hub_sign_in.py",
        'entry.token if entry and is_shared_by(entry, layout, remote) else ""',
        'entry.token if entry else ""',
        ("tests/sync/test_trouble.py::test_the_registrys_token_goes_to_its_own_address_and_to_no_other",),
    ),
    "hub-revoked": Bug(
        "a token is not checked again before its change is written",
        "kgd/daemon/tokens.py",
        "        self._refuse_dead(record, self.now())\n",
        "        pass\n",
        ("tests/hub/test_commit_time.py::test_a_change_that_waits_while_its_token_is_revoked_is_not_written",),
    ),
    "hub-children": Bug(
        "revoking a token does not revoke its children",
        "kgd/index/hub_state.py",
        "ON tokens.parent = tree.id)",
        "ON tokens.parent = tree.id WHERE 0)",
        ("tests/hub/test_tokens.py::test_revoking_a_token_revokes_its_children",),
    ),
    "hub-old": Bug(
        "a client's old value of a ref is trusted",
        "kgd/hub/push_execution.py",
        "        return RefUpdate(ref, branch, new)\n",
        "        return update\n",
        ("tests/hub/test_git.py::test_a_clients_claim_about_the_old_value_is_not_trusted",),
    ),
    "hub-served": Bug(
        "a token reaches workspaces that the hub does not serve",
        "kgd/hub/authentication.py",
        "scope.workspace in served)",
        "True)",
        ("tests/hub/test_api.py::test_workspaces_out_of_scope_or_not_served_look_missing",),
    ),
    "hub-validator": Bug(
        "a read's validator is the same for every token",
        "kgd/hub/v1.py",
        "name, arguments, theirs, states]",
        "name, arguments, states]",
        ("tests/hub/test_api.py::test_an_unchanged_read_is_answered_without_a_body_until_something_changes",),
    ),
    "hub-session": Bug(
        "an MCP session is open to every caller",
        "kgd/mcp/http.py",
        "client_id=id, subject=id",
        'client_id="x", subject="x"',
        ("tests/hub/test_mcp.py::test_a_session_belongs_to_its_token",),
    ),
    "keep": Bug(
        "no .keep beside a new pack",
        "kgd/git/pack.py",
        "        write_new(keep, KEEP, flush=False)",
        "        pass",
        ("tests/faults/test_gc.py::test_nothing_is_lost_beside_a_long_loop_of_gc",),
    ),
    "read-back": Bug(
        "objects are not read back",
        "kgd/git/store.py",
        "        try:\n            self.confirm(objects)\n",
        "        try:\n            pass\n",
        ("tests/faults/test_each_step.py::test_a_disk_that_ignores_a_write_is_detected_by_reading_back",),
    ),
    "ref-read-back": Bug(
        "the ref is not read back",
        "kgd/git/refs.py",
        "        if found != new and found in (old, None):  #",
        "        if False:  #",
        ("tests/faults/test_each_step.py::test_a_disk_that_ignores_a_write_is_detected_by_reading_back",),
    ),
    "ref-cas": Bug(
        "the ref is moved without a comparison",
        "kgd/git/refs.py",
        "        if found != old:\n",
        "        if False:\n",
        ("tests/git/test_refs.py::test_a_move_from_a_stale_value_is_refused_and_changes_nothing",),
    ),
    "fsync": Bug(
        "files are not flushed",
        "kgd/git/files.py",
        "            if flush:\n                os.fsync(fd)",
        "            if False:\n                os.fsync(fd)",
        (
            "tests/faults/test_power_cut.py::test_a_power_cut_loses_nothing_that_was_acknowledged",
            "tests/git/test_durability.py::test_everything_is_flushed_before_the_ref_moves_and_the_ref_before_it_is_acknowledged",
        ),
    ),
    "folder-fsync": Bug(
        "folders are not flushed",
        "kgd/git/files.py",
        "    try:\n        os.fsync(fd)\n    finally",
        "    try:\n        pass\n    finally",
        (
            "tests/git/test_durability.py::test_everything_is_flushed_before_the_ref_moves_and_the_ref_before_it_is_acknowledged",
        ),
    ),
    "guarded-branch": Bug(
        "the guarded branch is determined again for every push",
        "kgd/hooks/clone.py",
        "    name = setting(git_dir, KEY)\n",
        '    name = ""\n',
        ("tests/hooks/test_guarded_branch.py::test_a_kgd_yaml_in_the_code_does_not_switch_the_guard_off",),
    ),
    "request-seal": Bug(
        "a request id in any commit is trusted",
        "kgd/workspace/writing/signing.py",
        "return hmac.compare_digest(line, expected)",
        "return True",
        (
            "tests/workspace/writing/test_request_ids.py::test_a_request_id_claimed_by_a_foreign_commit_is_still_carried_out",
            "tests/workspace/writing/test_request_ids.py::test_a_seal_is_good_for_its_own_commit_only",
            "tests/workspace/writing/test_request_ids.py::test_a_proposal_that_claims_a_request_is_not_taken_for_it",
        ),
    ),
    "request-id": Bug(
        "request ids are not looked up",
        "kgd/workspace/workspace.py",
        "commit = self._derived.versions.request(request) if request else None",
        "commit = None",
        (
            "tests/faults/test_kill.py::test_nothing_acknowledged_is_lost_when_the_writer_is_killed",
            "tests/faults/test_together.py::test_a_request_sent_eight_times_at_once_is_executed_once",
        ),
    ),
    "blind-flush": Bug(
        "changes of one flush do not see each other",
        "kgd/workspace/writing/surroundings.py",
        "        self._nodes.update(nodes)",
        "        self._counts.clear()",
        ("tests/faults/test_together.py::test_writers_of_the_same_nodes_lose_nothing_and_overwrite_nothing_unread",),
    ),
    "false-yes": Bug(
        "a disk error is answered with success",
        "kgd/workspace/writing/writer.py",
        "            return _only_there(error) if has_agreed else failure",
        "            log.debug('%s', failure)",
        (
            "tests/faults/test_disks.py::test_a_full_disk_acknowledges_nothing_that_is_not_there",
            "tests/faults/test_each_step.py::test_an_error_at_any_step_is_never_answered_with_success[put-EIO]",
        ),
    ),
    "stale-locks": Bug(
        "locks of a killed process stay",
        "kgd/git/integrity.py",
        "refs.drop_stale_locks(layout.git_dir, layout.derived_dir)",
        "[]",
        ("tests/faults/test_each_step.py::test_a_kill_at_any_step_leaves_all_of_the_change_or_nothing[put]",),
    ),
    "forgotten-flush": Bug(
        "a flush that the index missed is never indexed",
        "kgd/workspace/derived/derived.py",
        "        elif is_behind:",
        "        elif False:",
        ("tests/faults/test_each_step.py::test_an_error_at_any_step_is_never_answered_with_success[index-EIO]",),
    ),
    "push-commits": Bug(
        "a push is checked by its net change alone",
        "kgd/hooks/push_check.py",
        "        found = _of_commit(pushed, commit)\n",
        "        found = Touched()\n",
        ("tests/hooks/test_pushing.py::test_a_change_outside_that_a_later_commit_takes_back_is_refused[file]",),
    ),
    "push-merges": Bug(
        "a merge commit is checked against its first parent",
        "kgd/hooks/push_check.py",
        "    if len(commit.parents) > 1:\n        expected",
        "    if False:\n        expected",
        ("tests/hooks/test_pushing.py::test_a_merge_of_commits_that_the_server_already_has_is_accepted[file]",),
    ),
    "push-policy": Bug(
        "write permission is not checked for the branch",
        "kgd/hooks/push_check.py",
        "        touched_nodes.authorize_all(pushed.principal, policy, Verb.WRITE, found)\n",
        "        pass\n",
        (
            "tests/hooks/test_pushing.py::"
            "test_a_change_outside_is_refused_with_the_node_and_the_rule_and_leaves_nothing[file]",
        ),
    ),
    "push-measure": Bug(
        "a push is read before it is measured",
        "kgd/hooks/push_check.py",
        "        measure(pushed.store, list(islice(_ids(quarantine), LIMITS.objects + 1)), LIMITS)\n",
        "        pass\n",
        ("tests/hooks/test_hostile_pushes.py::test_a_blob_that_inflates_without_end_is_refused_by_its_header",),
    ),
    "push-harm": Bug(
        "only the newest tree is checked for links",
        "kgd/hooks/push_check.py",
        "        _check_entry(pushed, path, entry, commit)\n",
        "        pass\n",
        ("tests/hooks/test_hostile_pushes.py::test_a_link_that_a_later_commit_takes_away_is_refused",),
    ),
    "pick-base": Bug(
        "a cherry-picked commit is merged like a branch",
        "kgd/hooks/strategy.py",
        "list(sides.bases) == store.merge_bases(sides.head, sides.theirs)",
        "True",
        ("tests/hooks/test_merging.py::test_a_cherry_pick_takes_one_commit_without_its_ancestors",),
    ),
    "dirty-index": Bug(
        "a merge includes staged changes",
        "kgd/hooks/strategy.py",
        "    if staged:\n",
        "    if False:\n",
        ("tests/hooks/test_merging.py::test_a_merge_never_overwrites_uncommitted_changes",),
    ),
    "fail-open": Bug(
        "a server without kgd accepts every push",
        "kgd/hooks/install.py",
        'nothing was checked and nothing is taken" >&2 ;;',
        'nothing was checked" >&2; exit 0 ;;',
        ("tests/hooks/test_installing.py::test_without_kgd_a_server_takes_nothing",),
    ),
    "across-alias": Bug(
        "another workspace may claim one of our URIs for its node",
        "kgd/graph/cross_workspace.py",
        "return self._source.resolve(uri) if workspace_of(uri) == self.workspace else uri",
        "return self._source.resolve(uri)",
        ("tests/across/test_one_graph.py::test_another_workspace_cannot_claim_a_name_of_this_workspace",),
    ),
    "across-locks": Bug(
        "a walk locks workspaces in the order of its visits",
        "kgd/graph/traverse.py",
        'key=lambda source: getattr(source, "workspace", "")',
        "key=lambda source: 0",
        ("tests/across/test_one_graph.py::test_locks_are_acquired_in_one_order_from_any_start",),
    ),
    "hub-forges": Bug(
        "a hub may answer for nodes of other workspaces",
        "kgd/graph/cross_workspace.py",
        "if workspace_of(source) in (None, *self.workspaces):",
        "if True:",
        ("tests/across/test_bad_hubs.py::test_a_hub_speaks_for_its_own_nodes_alone",),
    ),
    "hub-beyond": Bug(
        "a hub continues a walk outside the token's scope",
        "kgd/daemon/other_workspaces.py",
        "if self._allowed is not None and workspace not in self._allowed:",
        "if False:",
        ("tests/across/test_walks.py::test_a_hub_does_not_walk_beyond_the_workspaces_of_a_token",),
    ),
    "hub-kept": Bug(
        "a cached answer is used for another token",
        "kgd/sync/hubs.py",
        "_key(path, body, token)",
        '_key(path, body, "")',
        ("tests/across/test_hub_client.py::test_a_repeated_question_is_revalidated_without_a_second_answer",),
    ),
    "shared-token": Bug(
        "a registry with other writers decides where a secret is sent",
        "kgd/config/entries.py",
        '{"remote", "hub", "ref", "sync"}',
        '{"remote", "hub", "ref", "sync", "token"}',
        ("tests/across/test_registry.py::test_a_shared_registry_cannot_name_a_credential",),
    ),
}


if __name__ == "__main__":
    sys.exit(main(BUGS))
