"""Defects of MCP as a protocol: what hosts may ask for beside tools."""

from tests.planting import Bug

_SUBSCRIPTIONS = "tests/surfaces/test_subscriptions.py::"

BUGS = {
    "19-conflicts-unheard": Bug(
        "subscribers of a node do not hear of a conflict that appears or disappears without a change to its file",
        "kgd/workspace/served.py",
        "            self._disputed.add(uri)\n",
        "            pass\n",
        (f"{_SUBSCRIPTIONS}test_a_conflict_that_leaves_its_node_unchanged_is_announced",),
    ),
    "19-files-unheard": Bug(
        "subscribers do not hear of files of the code tree that changed",
        "kgd/mcp/server.py",
        "        daemon.on_code(self.subscriptions.announce)\n",
        "",
        (f"{_SUBSCRIPTIONS}test_a_saved_file_of_the_code_tree_is_announced",),
    ),
    "19-symbols-unheard": Bug(
        "subscribers do not hear of added and removed symbols",
        "kgd/daemon/code_index.py",
        "            self._on_change(touched)\n",
        "            pass\n",
        (f"{_SUBSCRIPTIONS}test_symbols_that_a_save_adds_or_removes_are_announced",),
    ),
    "19-stale-unheard": Bug(
        "subscribers of a node do not hear that the code it cites changed",
        "kgd/freshness/freshness.py",
        "self.on_change(changed)",
        "self.told(frozenset())",
        (f"{_SUBSCRIPTIONS}test_a_note_on_changed_code_is_announced",),
    ),
    "33-no-progress": Bug(
        "clients that send a progress token receive no progress",
        "kgd/mcp/server.py",
        "progress=progress or session.progress",
        "progress=session.progress",
        ("tests/mcp/test_reporting.py::test_a_folder_that_is_ingested_says_how_far_it_is",),
    ),
    "33-progress-restarts": Bug(
        "progress falls back when the next phase of a tool begins",
        "kgd/mcp/notifications.py",
        "            base += last\n",
        "            base, sent = 0, -1\n",
        ("tests/mcp/test_reporting.py::test_progress_only_grows_over_all_phases_and_is_not_sent_for_every_step",),
    ),
    "33-progress-floods": Bug(
        "each step of a tool sends a notification",
        "kgd/mcp/notifications.py",
        " or time.monotonic() < due:",
        ":",
        ("tests/mcp/test_reporting.py::test_progress_only_grows_over_all_phases_and_is_not_sent_for_every_step",),
    ),
    "33-no-logging": Bug(
        "logging is not offered",
        "kgd/mcp/server.py",
        '"logging/setLevel", SetLevelRequestParams',
        '"logging/none", SetLevelRequestParams',
        ("tests/mcp/test_reporting.py::test_a_connection_of_the_handshake_era_gets_every_record_from_its_level",),
    ),
    "33-oversized-null-id": Bug(
        "a request over 8 MiB is refused with `id: null`, so its sender keeps waiting",
        "kgd/client/pump.py",
        "request_id(head[:OVERSIZED_ENDS], tail[-OVERSIZED_ENDS:])",
        "None",
        (
            "tests/client/test_pump.py::test_a_message_beyond_the_limit_is_refused_under_its_own_id_and_the_next_one_passes",
            "tests/client/test_pump.py::test_the_id_of_such_a_message_is_found_at_its_end_too",
        ),
    ),
    "33-oversized-on-socket": Bug(
        "the daemon refuses a request over 8 MiB with `id: null`",
        "kgd/mcp/server.py",
        "request_id(error.head, error.tail)",
        "None",
        (
            "tests/surfaces/test_stream.py::"
            "test_a_message_that_is_too_long_is_refused_under_its_own_id_and_the_next_one_is_answered[1]",
        ),
    ),
    "33-oversized-nested-id": Bug(
        "an id inside the params of a long message counts as its own",
        "kgd/client/connection.py",
        r'rb")\}\s*$"',
        r'rb")\}+\s*$"',
        (
            "tests/surfaces/test_stream.py::"
            "test_a_message_that_is_too_long_is_refused_under_its_own_id_and_the_next_one_is_answered[4]",
        ),
    ),
    "33-no-roots": Bug(
        "a host that starts servers outside the project is not asked for its roots",
        "kgd/mcp/server.py",
        "                await self._roots.place(ctx, params, session)\n",
        "                pass\n",
        ("tests/mcp/test_roots.py::test_a_server_started_elsewhere_works_in_the_first_root_that_has_a_workspace",),
    ),
    "33-no-roots-later": Bug(
        "a client of the newer protocol is not asked for its roots",
        "kgd/mcp/sampling.py",
        "                raise AnswersNeeded({ROOTS: ListRootsRequest()})\n",
        "                return\n",
        (
            "tests/mcp/test_roots.py::"
            "test_a_server_started_elsewhere_works_in_the_first_root_that_has_a_workspace[auto]",
            "tests/mcp/test_roots.py::test_a_call_may_be_asked_for_roots_and_then_for_the_word_of_a_model",
        ),
    ),
    "33-roots-stay": Bug(
        "roots that changed are not asked for again",
        "kgd/mcp/sampling.py",
        "            session.cwd, session.here = known.started, None\n",
        "            pass\n",
        ("tests/mcp/test_roots.py::test_roots_that_change_are_asked_for_again",),
    ),
    "33-no-completion": Bug(
        "completion is not offered",
        "kgd/mcp/server.py",
        "on_completion=Completing(self._read_session)",
        "on_completion=None",
        (
            "tests/mcp/test_completing.py::"
            "test_an_address_is_completed_by_its_beginning_its_path_or_its_short_form[legacy]",
        ),
    ),
    "33-completion-tells": Bug(
        "completion offers nodes that a token may not read",
        "kgd/mcp/prompts.py",
        "for uri in workspace.graph.uris() if sees is None or sees(uri)",
        "for uri in workspace.graph.uris()",
        ("tests/hub/test_mcp.py::test_a_holder_is_offered_readable_nodes_as_completion[auto]",),
    ),
    "33-log-level-lost": Bug(
        "a new daemon does not know the log level that a client set",
        "kgd/client/pump.py",
        '"logging/setLevel"',
        '"logging/none"',
        ("tests/client/test_pump.py::test_the_log_level_is_set_again_at_the_next_daemon",),
    ),
}
