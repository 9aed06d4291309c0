"""Defects of reading nodes, of walks and of the versions that writes answer."""

from __future__ import annotations

from tests.planting import Bug

ADDRESSING = "tests/surfaces/test_addressing.py::"
PUT = "tests/surfaces/test_put.py::"
TRAVERSE = "tests/surfaces/test_traverse.py::"

BUGS = {
    "18-path-repeated": Bug(
        "each node of a walk repeats the whole path to it",
        "kgd/tools/read/traverse.py",
        "            if path:\n",
        "            if True:\n",
        (f"{TRAVERSE}test_a_long_chain_names_predecessors_and_later_pages_are_as_full_as_the_first",),
    ),
    "18-hidden-predecessor": Bug(
        "a path through unlisted nodes cannot be rebuilt",
        "kgd/tools/read/traverse.py",
        "    if at < last:\n",
        "    if False:\n",
        (f"{TRAVERSE}test_a_path_through_omitted_nodes_can_be_rebuilt",),
    ),
    "18-detour": Bug(
        "a node gets a cheaper path than the limit of hops allows",
        "kgd/tools/read/traverse.py",
        " and known[-1] is path[at - 1])",
        " or known)",
        (f"{TRAVERSE}test_a_path_through_omitted_nodes_can_be_rebuilt",),
    ),
    "17-whole-node-version": Bug(
        "a put is refused for its own version although only another field changed since",
        "kgd/tools/write/put.py",
        "        workspace.sent.note_written(outcome.commit, outcome.nodes)\n",
        "        pass\n",
        (f"{PUT}test_a_version_is_compared_field_by_field[from its own put]",),
    ),
    "17-clash-written": Bug(
        "a put with an older version overwrites another client's change",
        "kgd/tools/write/write_conflicts.py",
        "        return self.conflict is None and is_same and upserted(self.current, self.edit) == self.merged\n",
        "        return True\n",
        (
            f"{PUT}test_a_version_is_compared_field_by_field",
            f"{PUT}test_one_field_that_clashes_refuses_the_whole_change",
        ),
    ),
    "17-newer-than-its-version": Bug(
        "content replaced during a read counts as read",
        "kgd/workspace/history/history.py",
        "                return node\n        return None\n",
        "                return node\n        return documents.decode(store.read(sent), at=uri)\n",
        ("tests/surfaces/test_get.py::test_a_value_read_before_a_write_is_never_sent_under_the_later_version[node]",),
    ),
    "17-settled-beside": Bug(
        "a put that also resolves a conflict returns the version before the resolution",
        "kgd/tools/write/put.py",
        "write_conflicts.after(outcome, settled), [",
        "outcome, [",
        ("tests/mcp/test_sampling_places.py::test_a_put_on_a_node_in_conflict_has_it_settled_in_a_commit_of_its_own",),
    ),
    "17-merged-over-a-base": Bug(
        "a submission merged over a base returns the version on the base",
        "kgd/workspace/proposals/deciding.py",
        "tuple((uri, workspace.version(workspace.path(uri)) + 1) for uri in written)",
        "tuple((uri, dict(made.answer.nodes)[uri]) for uri in written)",
        ("tests/access/test_submissions.py::test_changes_since_the_base_are_kept",),
    ),
    "14-file-url": Bug(
        "a file URL of this machine is refused",
        "kgd/tools/addressing.py",
        'if text.startswith("file:///") else text',
        "if False else text",
        (f"{ADDRESSING}test_a_file_url_inside_the_tree_means_the_tree",),
    ),
    "14-folder-as-workspace": Bug(
        "file://src/x.py is stored as a link into a workspace called src",
        "kgd/tools/addressing.py",
        "    return found if workspace.in_overlay(found) and not is_linked else None\n",
        "    return None\n",
        (f"{ADDRESSING}test_a_file_url_without_a_workspace_means_an_existing_file_and_warns",),
    ),
    "14-workspace-hidden": Bug(
        "a folder hides the registered workspace of its name",
        "kgd/tools/addressing.py",
        "if owner == workspace.id or workspace.is_registered(owner) or is_visible(session, owner):",
        "if owner == workspace.id:",
        (f"{ADDRESSING}test_a_known_workspace_comes_before_a_folder_of_its_name",),
    ),
    "15-unknown-workspace": Bug(
        "a link into an unknown workspace is broken only in a walk",
        "kgd/workspace/workspace.py",
        "            return not self.is_registered(owner)\n",
        "            return False\n",
        ("tests/exchange/test_graphs.py::test_every_view_agrees_on_which_links_are_broken",),
    ),
    "19-unrelated-with-its-target": Bug(
        "a relation that is deleted together with its target gets a warning",
        "kgd/workspace/writing/broken_links.py",
        "                is_broken = any((edge.type, one) in kept(source) for one in lost)\n",
        "                is_broken = True\n",
        (f"{PUT}test_relations_deleted_with_their_target_are_not_broken_links",),
    ),
    "19-two-values": Bug(
        "if a relation gets two values, the first is dropped without a warning",
        "kgd/workspace/writing/transaction.py",
        "        draft.warnings += edits.doubled_relations(self.changes.edits)\n",
        "",
        (f"{PUT}test_a_relation_with_two_values_gets_a_warning",),
    ),
    "19-bad-address": Bug(
        "one bad address refuses a whole get or traverse",
        "kgd/tools/addressing.py",
        "            refused[number] = refusal\n",
        "            raise\n",
        ("tests/surfaces/test_get.py::test_one_bad_address_is_missing_and_the_others_are_answered",),
    ),
    "16-size-at-restart": Bug(
        "a new context_size applies only after a restart",
        "kgd/tools/session.py",
        "    session.daemon.contexts.resize(session.daemon.registry.current().settings.context_size)\n",
        "",
        (f"{TRAVERSE}test_a_new_size_of_the_working_set_applies_at_once",),
    ),
    "16-port-in-force": Bug(
        "a setting that needs a restart is shown as active",
        "kgd/daemon/daemon.py",
        "            if getattr(now, name) != getattr(self._settings, name)\n",
        "            if False\n",
        (f"{TRAVERSE}test_a_setting_that_is_read_at_the_start_is_shown_as_not_in_force",),
    ),
    "16-context-unread": Bug(
        "no client can read its working set",
        "kgd/mcp/resources.py",
        'kind == "contexts" and name',
        "False",
        ("tests/surfaces/test_mcp.py::test_the_working_set_of_a_conversation_is_a_resource",),
    ),
}
