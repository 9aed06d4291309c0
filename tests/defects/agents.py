"""Defects of what agents are answered and of what they may send."""

from tests.planting import Bug

BUGS = {
    "31-append-to-nothing": Bug(
        "`append` to a mistyped URI creates a node",
        "kgd/tools/write/changes.py",
        "self.text, creates=False)",
        "self.text)",
        (
            "tests/surfaces/test_put.py::test_an_append_to_a_mistyped_uri_creates_no_node_and_suggests_the_likely_one",
            "tests/surfaces/test_submitting.py::"
            "test_an_append_to_a_mistyped_uri_is_refused_and_suggests_the_likely_node",
        ),
    ),
    "31-malformed-citations": Bug(
        "citations that are not texts are accepted and never go stale",
        "kgd/workspace/writing/admission.py",
        "    _refuse_citations(node, before, place)\n",
        "",
        ("tests/surfaces/test_put.py::test_a_malformed_citation_is_refused_with_the_correct_form",),
    ),
    "31-about-a-symbol": Bug(
        "a fact about a symbol does not count as citing it",
        "kgd/freshness/freshness.py",
        'is_about = relation.type == "about" and',
        "is_about = False and",
        ("tests/freshness/test_stale.py::test_a_fact_about_a_symbol_goes_stale_with_it",),
    ),
    "31-dry-run-similar": Bug(
        "a dry run does not fill `similar`",
        "kgd/workspace/workspace.py",
        "            if outcome.would:\n",
        "            if False:\n",
        ("tests/surfaces/test_put.py::test_a_dry_run_names_nodes_similar_to_a_new_one",),
    ),
    "31-one-bad-client": Bug(
        "one bad client stops sampling on a conflict for all clients",
        "kgd/resolution.py",
        "self._failed.setdefault((client, conflict)",
        'self._failed.setdefault(("", conflict)',
        ("tests/resolution/test_attempts.py::test_a_client_that_answers_badly_is_asked_again_after_an_hour",),
    ),
    "31-bad-for-good": Bug(
        "bad answers about a conflict count until the daemon stops",
        "kgd/resolution.py",
        "if sum(at > since for at in failures) >= STRIKES:",
        "if len(failures) >= STRIKES:",
        ("tests/resolution/test_attempts.py::test_a_client_that_answers_badly_is_asked_again_after_an_hour",),
    ),
    "31-suggested-arguments": Bug(
        "a suggested call does not fit the schema of its tool",
        "kgd/tools/context/context.py",
        '            "paths": patterns,\n',
        '            "paths": str(patterns),\n',
        ("tests/knowing/test_context.py::test_every_call_that_an_answer_suggests_fits_the_schema_of_its_tool",),
    ),
    "32-conflict-letters": Bug(
        "`get` and `conflicts` list bare values and do not say which side is a",
        "kgd/tools/nodes.py",
        '[{"side": letter, "value": value} for letter, value in letters.items()]',
        "list(letters.values())",
        ("tests/surfaces/test_get.py::test_an_open_conflict_is_shown_with_both_sides_and_settled",),
    ),
    "32-as-of-version": Bug(
        "`get` with `as_of` returns version 0",
        "kgd/tools/nodes.py",
        'answer["version"] = found.workspace.version_at(found.uri, found.as_of)',
        "pass",
        (
            "tests/surfaces/test_get.py::test_a_node_as_of_a_commit_has_its_former_version",
            "tests/surfaces/test_get.py::test_as_of_a_proposal_the_versions_of_its_own_history_count",
        ),
    ),
    "32-date-of-the-first-commit": Bug(
        "the constant date of the first commit is shown as a time",
        "kgd/tools/nodes.py",
        'return moment(entry.at) if entry.parents or entry.operation != INIT else ""',
        "return moment(entry.at)",
        (
            "tests/surfaces/test_past.py::test_the_first_commit_is_listed_without_a_time",
            "tests/cli/test_commands.py::test_the_first_commit_is_printed_without_a_time",
        ),
    ),
    "32-mentions-in-capitals": Bug(
        "the filter `mentions` does not match MENTIONS",
        "kgd/tools/parameters.py",
        "for one in (type, type.upper(), type.lower())",
        "for one in (type,)",
        ("tests/surfaces/test_traverse.py::test_a_filter_on_relation_types_ignores_their_case",),
    ),
    "32-concepts-and-directories": Bug(
        "`types: [concept]` returns directories",
        "kgd/model/uri.py",
        'and not (scheme == "dir" and type == DIRECTORY_TYPE)',
        "",
        ("tests/surfaces/test_traverse.py::test_the_type_concept_leaves_out_directories",),
    ),
    "32-concepts-and-directories-found": Bug(
        "a search for concepts finds directories",
        "kgd/index/ranking.py",
        "if DIRECTORY_TYPE in types:",
        "if False:",
        ("tests/surfaces/test_search.py::test_the_type_concept_finds_no_directories",),
    ),
    "34-history-by-name": Bug(
        "messages created as nodes are read in order of name, the answer before the question",
        "kgd/ingest/message_nodes.py",
        "if last and not is_id(uri_name(last[0])):",
        "if False:",
        (
            "tests/api/test_asking.py::test_messages_made_as_nodes_are_read_in_the_order_in_which_they_answer",
            "tests/api/test_asking.py::test_messages_that_answer_nothing_are_read_by_their_time",
        ),
    ),
    "34-answers-ignored": Bug(
        "REPLIED_BY does not order the messages of one moment",
        "kgd/ingest/message_nodes.py",
        "if e.type == REPLIED_BY] for uri in uris}",
        "if not e] for uri in uris}",
        ("tests/api/test_asking.py::test_messages_made_as_nodes_are_read_in_the_order_in_which_they_answer",),
    ),
    "34-task-with-blanks": Bug(
        "`task:Two words` is read as prose",
        "kgd/tools/context/context.py",
        'is_uri = text.startswith("task:") or',
        'is_uri = (" " not in text and text.startswith("task:")) or',
        ("tests/knowing/test_context.py::test_a_task_whose_name_has_blanks_is_found_by_its_short_address",),
    ),
    "34-area-bounds": Bug(
        "`put` writes areas beyond the limits of manage_graph",
        "kgd/workspace/writing/admission.py",
        "if size > MAX_KNOWLEDGE and",
        "if False and",
        ("tests/areas/test_managing.py::test_an_area_that_put_writes_has_the_bounds_of_manage_graph",),
    ),
    "34-unknown-molecule": Bug(
        "`put` and submissions accept an atom of a missing molecule",
        "kgd/tools/areas/ids.py",
        "        molecule_of_project(",
        "        str(",
        ("tests/areas/test_managing.py::test_put_and_submissions_take_an_atom_only_into_a_molecule_of_the_project",),
    ),
    "34-area-counts": Bug(
        "areas get more patterns or relations than manage_graph accepts",
        "kgd/workspace/writing/admission.py",
        "        admit_area(node, before, place)\n",
        "        pass\n",
        (
            "tests/admission/test_rules.py::test_every_way_refuses[an atom of too many patterns]",
            "tests/admission/test_rules.py::test_every_way_refuses[an atom with a pattern too long]",
            "tests/admission/test_rules.py::test_every_way_refuses[a molecule of too many relations]",
        ),
    ),
    "34-tags-with-commas": Bug(
        "`--tags a,b` is one tag",
        "kgd/cli/commands.py",
        'for part in text.split(",")',
        "for part in [text]",
        ("tests/cli/test_commands.py::test_tags_and_types_are_listed_with_commas_or_one_by_one",),
    ),
    "34-paths-with-newlines": Bug(
        "paths with newlines are one path",
        "kgd/tools/areas/parameters.py",
        're.split(r"[,\\n]", value)',
        'value.split(",")',
        ("tests/areas/test_managing.py::test_paths_of_a_context_are_one_a_line_too",),
    ),
    "35-list-without-authors": Bug(
        "`kgd conflicts` names no author",
        "kgd/tools/conflicts.py",
        "_with_authors(workspace, found[: params.limit], sees)",
        "[nodes.conflict(one) for one in found[: params.limit]]",
        (
            "tests/sync/test_conflict_authors.py::test_the_list_of_conflicts_names_the_author_of_each_side",
            "tests/sync/test_conflict_authors.py::test_each_of_25_conflicts_names_its_authors",
            "tests/cli/test_commands.py::test_open_conflicts_are_printed_with_the_author_of_each_side",
        ),
    ),
    "35-thirty-versions": Bug(
        "a side that was written more than thirty versions before the merge has no author",
        "kgd/tools/conflicts.py",
        "VERSIONS_READ = 5_000",
        "VERSIONS_READ = 30",
        (
            "tests/sync/test_conflict_authors.py::"
            "test_a_side_that_was_written_forty_commits_before_the_merge_keeps_its_author",
        ),
    ),
    "35-commits-after-the-merge": Bug(
        "a later edit of the node becomes the author of a side",
        "kgd/tools/conflicts.py",
        "past.walk(origin.parents if merged else (origin.id,), files)",
        "past.walk((bytes.fromhex(workspace.tip),), files)",
        (
            "tests/sync/test_conflict_authors.py::"
            "test_the_values_of_a_later_edit_are_not_taken_for_the_side_of_its_author",
        ),
    ),
    "35-mover-as-author": Bug(
        "the author of a move is taken for the author of both sides",
        "kgd/tools/conflicts.py",
        "uris = tuple(dict.fromkeys((uri, *((node.uri, *node.aliases) if node else ()))))",
        "uris = (uri,)",
        ("tests/sync/test_conflict_authors.py::test_a_move_does_not_become_the_author_of_the_sides",),
    ),
    "34-two-of-one-task": Bug(
        "a task whose journal file has another name in the index is imported twice",
        "kgd/exchange/orchestrator_journal.py",
        "ids.get(name) or ",
        "",
        (
            "tests/exchange/test_orchestrator.py::"
            "test_a_task_whose_journal_file_has_another_name_is_one_task[the index]",
        ),
    ),
}
