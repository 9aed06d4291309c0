"""Defects of the secret scan, of authorship and of the audit log."""

from __future__ import annotations

from tests.planting import Bug

_SECRETS = "tests/workspace/writing/test_secrets.py"
_PUSHES = "tests/hub/test_git.py"
_AUTHORS = "tests/hub/test_authorship.py"
_AUDIT = "tests/hub/test_audit.py"

BUGS = {
    "24-secret-in-an-earlier-commit": Bug(
        "only the last commit of a push is searched for secrets",
        "kgd/hooks/push_check.py",
        "    _refuse_secrets(pushed, pushed.store, before, commit)\n",
        "",
        (
            f"{_PUSHES}::test_a_secret_that_a_later_commit_removes_is_refused[in_a_node]",
            f"{_PUSHES}::test_a_secret_that_a_later_commit_removes_is_refused[in_a_message]",
        ),
    ),
    "24-secret-in-a-merge-commit": Bug(
        "merge commits of a push are not searched for secrets",
        "kgd/hooks/push_check.py",
        "        _refuse_secrets(pushed, expected.store, expected.id, commit)\n",
        "",
        (f"{_PUSHES}::test_a_secret_that_a_later_commit_removes_is_refused[in_a_merge]",),
    ),
    "24-secret-in-a-broken-file": Bug(
        "a file that cannot be read is not searched for secrets",
        "kgd/workspace/writing/admission.py",
        "        pass  # a later commit may mend",
        "        return  # a later commit may mend",
        (
            f"{_PUSHES}::test_a_secret_that_a_later_commit_removes_is_refused[in_a_file_that_is_no_node]",
            f"{_PUSHES}::test_a_secret_that_a_later_commit_removes_is_refused[in_a_record]",
        ),
    ),
    "24-secret-in-a-message": Bug(
        "the message of a change is not searched for secrets",
        "kgd/workspace/writing/transaction.py",
        '        refuse_secret_text(self.changes.message, "the message", at="message")\n',
        "",
        ("tests/workspace/writing/test_transaction.py::test_a_secret_in_the_message_is_refused",),
    ),
    "24-forms-of-tokens": Bug(
        "tokens of only a few services are recognised",
        "kgd/workspace/writing/secrets.py",
        "enumerate(TOKENS.values())",
        "enumerate(list(TOKENS.values())[:12])",
        (
            f"{_SECRETS}::test_a_credential_of_a_common_kind_is_found[Vault]",
            f"{_SECRETS}::test_a_credential_of_a_common_kind_is_found[JSON web token]",
            f"{_SECRETS}::test_a_credential_of_a_common_kind_is_found[SendGrid]",
            f"{_SECRETS}::test_a_credential_of_a_common_kind_is_found[Hugging Face]",
        ),
    ),
    "24-forms-with-a-keyword": Bug(
        "passwords in URLs, headers and netrc are not recognised",
        "kgd/workspace/writing/secrets.py",
        "return _by_keyword(data, lower) or",
        "return",
        (
            f"{_SECRETS}::test_a_credential_of_a_common_kind_is_found[password in a URL]",
            f"{_SECRETS}::test_a_credential_of_a_common_kind_is_found[netrc]",
            f"{_SECRETS}::test_a_credential_of_a_common_kind_is_found[curl]",
        ),
    ),
    "24-hexadecimal-keys": Bug(
        "hexadecimal keys are missed, because they have too few different letters",
        "kgd/workspace/writing/secrets.py",
        "MIN_ENTROPY_HEX = 2.75",
        "MIN_ENTROPY_HEX = 4.0",
        (
            f"{_SECRETS}::test_a_credential_of_a_common_kind_is_found[hex api key]",
            f"{_SECRETS}::test_a_credential_of_a_common_kind_is_found[Twilio auth token]",
        ),
    ),
    "24-words-are-no-secrets": Bug(
        "an identifier behind a secret's name is refused",
        "kgd/workspace/writing/secrets.py",
        "/ 2 and not _reads_as_words(text.lower())",
        "/ 2",
        (f"{_SECRETS}::test_ordinary_text_is_accepted[a workspace address]",),
    ),
    "25-who-pushed": Bug(
        "it is not recorded which token pushed a commit",
        "kgd/hub/push_execution.py",
        "        self._record(push, new)\n",
        "",
        (
            f"{_AUTHORS}::test_history_blame_and_review_name_the_token_that_pushed",
            f"{_AUTHORS}::test_who_pushed_a_commit_first_stays_its_pusher",
        ),
    ),
    "25-later-pusher": Bug(
        "the last pusher of a commit replaces the first",
        "kgd/workspace/history/pushers.py",
        "if staging.blob_at(path) is None:",
        "if True:",
        (
            "tests/workspace/history/test_pushers.py::test_the_first_record_of_a_commit_stays",
            "tests/workspace/history/test_pushers.py::test_records_of_two_hubs_are_united",
        ),
    ),
    "25-record-cannot-be-fetched": Bug(
        "the record of pushes is hidden from a fetch",
        "kgd/git/program.py",
        '("uploadpack.hideRefs", f"!{shown}"), ',
        "",
        (f"{_AUTHORS}::test_clones_fetch_the_record_and_no_token_pushes_to_it",),
    ),
    "25-record-can-be-pushed": Bug(
        "on a server that guards one branch of several, the record of pushes can be pushed to",
        "kgd/hooks/push_check.py",
        "update.name.startswith((INTERNAL, NOTES))",
        "update.name.startswith(INTERNAL)",
        ("tests/hooks/test_guarded_branch.py::test_the_record_of_pushes_is_not_pushed_to",),
    ),
    "25-clones-lack-the-record": Bug(
        "a clone does not fetch who pushed",
        "kgd/sync/round.py",
        "            _take_ledger(host, transport)\n",
        "            pass\n",
        (f"{_AUTHORS}::test_a_clone_that_kgd_keeps_in_step_shows_who_pushed",),
    ),
    "25-who-accepted": Bug(
        "who accepted a part of a proposal is not recorded",
        "kgd/workspace/writing/transaction.py",
        "        (ACCEPTED_BY, changes.accepted_by),\n",
        "",
        (
            f"{_AUTHORS}::test_an_accepted_proposal_names_who_accepted_it[all]",
            f"{_AUTHORS}::test_an_accepted_proposal_names_who_accepted_it[part]",
        ),
    ),
    "25-forged-acceptance": Bug(
        "a pushed commit says who accepted it",
        "kgd/workspace/history/commits.py",
        "        if accepted and not self.was_made_by_kgd(commit.id):\n",
        "        if False:\n",
        (f"{_AUTHORS}::test_a_commit_cannot_say_who_accepted_it",),
    ),
    "25-name-of-another-holder": Bug(
        "a child token takes the name of another holder",
        "kgd/daemon/tokens.py",
        "            self._refuse_taken(name, above)\n",
        "            pass\n",
        (f"{_AUTHORS}::test_a_holder_makes_no_token_with_the_name_of_another[Ann Keeper]",),
    ),
    "26-refused-calls": Bug(
        "a refused read or write leaves no line",
        "kgd/tools/hubs/token_calls.py",
        "        session.daemon.tokens.refused(",
        "        str(",
        (f"{_AUDIT}::test_a_refused_write_a_refused_read_and_an_unknown_tool_are_noted",),
    ),
    "26-revoked-tokens": Bug(
        "a revoked token that is used leaves no line",
        "kgd/daemon/tokens.py",
        '        self.refused(record.holder.id, "sign in", error)\n',
        "",
        (f"{_AUDIT}::test_a_revoked_token_that_is_used_is_noted",),
    ),
    "26-unknown-tokens": Bug(
        "an unknown token leaves no line",
        "kgd/daemon/tokens.py",
        '            self.refused("", "sign in", error)\n',
        "",
        (f"{_AUDIT}::test_an_unknown_token_is_noted_without_an_id",),
    ),
    "26-refused-fetches": Bug(
        "a refused fetch leaves no line",
        "kgd/hub/smart_http.py",
        '            self._daemon.tokens.refused(record.holder.id, service.removeprefix("git-"), error, id)\n',
        "",
        (f"{_AUDIT}::test_a_fetch_and_a_push_that_are_refused_are_noted",),
    ),
    "26-no-op-writes": Bug(
        "each write that changes nothing is a line",
        "kgd/tools/hubs/token_calls.py",
        'if told or "commit" not in answer:',
        "if True:",
        (f"{_AUDIT}::test_writes_that_change_nothing_are_one_line_a_minute",),
    ),
    "26-flood-of-refusals": Bug(
        "each refusal is a line",
        "kgd/daemon/tokens.py",
        "            line = self._lines.get(key)\n",
        "            line = None\n",
        (f"{_AUDIT}::test_refusals_of_one_kind_are_one_line_a_minute",),
    ),
    "26-old-lines": Bug(
        "the oldest lines are dropped",
        "kgd/index/hub_state.py",
        '        _write_whole(self._audit / f"{rows[0][0]:012d}-{rows[-1][0]:012d}.jsonl", text.encode())\n',
        "",
        (f"{_AUDIT}::test_old_lines_are_moved_to_files_and_stay_in_order",),
    ),
    "26-export": Bug(
        "the export ends after its first page",
        "kgd/cli/hub.py",
        '        after = lines[-1]["number"]\n',
        "        break\n",
        (f"{_AUDIT}::test_a_long_log_is_exported_whole",),
    ),
}
