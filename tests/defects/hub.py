"""Defects of the hub: who takes what of it without a token, and what a narrow token learns."""

from __future__ import annotations

from tests.planting import Bug

STRANGERS, ORACLES = "tests/hub/test_strangers.py::", "tests/hub/test_oracles.py::"

BUGS = {
    "20-body-before-token": Bug(
        "a body is read before its token is looked up",
        "kgd/hub/v1.py",
        """                async with self._body(request, caller) as body:
""",
        """                async with self._bodies.read(aiter(request.stream()), None, "", BODY_LIMIT):
                    pass
                async with self._body(request, caller) as body:
""",
        (STRANGERS + "test_large_bodies_of_one_token_wait_for_each_other",),
    ),
    "20-mcp-body-before-token": Bug(
        "a body for /mcp is read before its token is looked up",
        "kgd/mcp/http.py",
        """            record = await anyio.to_thread.run_sync(self._auth.admit""",
        """            await request.body()
            record = await anyio.to_thread.run_sync(self._auth.admit""",
        (STRANGERS + "test_without_a_token_a_request_is_answered_before_its_body",),
    ),
    "20-bodies-in-flight": Bug(
        "bodies in flight are unbounded",
        "kgd/daemon/request_bodies.py",
        "        return self._held.total() + size <= self._total and self._held[client] + size <= self._each",
        "        return True",
        (STRANGERS + "test_large_bodies_of_one_token_wait_for_each_other",),
    ),
    "20-idle-strangers": Bug(
        "idle unauthenticated connections keep holders out",
        "kgd/hub/connections.py",
        "        return len(self) < self.limit or self._drop_one((*self._strangers, *self._holders))",
        "        return len(self) < self.limit",
        (STRANGERS + "test_idle_connections_of_strangers_do_not_keep_holders_out",),
    ),
    "20-address-share": Bug(
        "one address takes all connections",
        "kgd/hub/connections.py",
        "        if self._by_address and len(near)",
        "        if False and len(near)",
        (STRANGERS + "test_one_address_has_its_share_of_connections",),
    ),
    "20-token-share": Bug(
        "one token takes all connections",
        "kgd/hub/connections.py",
        "if len(same) >= self.limit // TOKEN_SHARE",
        "if len(same) >= self.limit",
        (STRANGERS + "test_a_token_has_its_share_of_connections",),
    ),
    "20-idle-keep-alive": Bug(
        "an unauthenticated connection is kept alive as long as a holder's",
        "kgd/hub/connections.py",
        "        self.timeout_keep_alive, self._reads = STRANGER_IDLE_SECONDS, 0\n",
        "        self._reads = 0\n",
        (STRANGERS + "test_a_stranger_that_says_nothing_more_is_let_go",),
    ),
    "20-unread-body": Bug(
        "the rest of a body is read without limit",
        "kgd/hub/connections.py",
        "            return LINGER_SECONDS\n",
        "            return None\n",
        (STRANGERS + "test_without_a_token_a_request_is_answered_before_its_body",),
    ),
    "20-requests-without-end": Bug(
        "an unauthenticated client sends requests without limit",
        "kgd/hub/connections.py",
        "        return self._left >= amount",
        "        return True",
        (STRANGERS + "test_a_stranger_that_sends_requests_without_end_has_to_wait",),
    ),
    "20-many-addresses": Bug(
        "many addresses together connect without limit",
        "kgd/hub/connections.py",
        "(address in self._known or everybody.take(1, now))",
        "True",
        (STRANGERS + "test_many_addresses_together_keep_out_neither_holders_nor_newcomers",),
    ),
    "20-newcomers": Bug(
        "many clients keep out holders who connect for the first time",
        "kgd/hub/connections.py",
        "self._again if address in self._each else self._new",
        "self._again",
        (STRANGERS + "test_many_addresses_together_keep_out_neither_holders_nor_newcomers",),
    ),
    "20-answers-without-end": Bug(
        "answers to an unauthenticated client over its limit never end",
        "kgd/hub/connections.py",
        """            app.headers["connection"] = "close"  #""",
        "            pass  #",
        (STRANGERS + "test_a_stranger_that_sends_requests_without_end_has_to_wait",),
    ),
    "20-byte-by-byte": Bug(
        "an unauthenticated client may send a header in any number of pieces",
        "kgd/hub/connections.py",
        "if not self.line and self._reads >",
        "if False and self._reads >",
        (STRANGERS + "test_a_stranger_that_sends_byte_by_byte_is_let_go",),
    ),
    "20-floods-take-the-processor": Bug(
        "unauthenticated clients occupy a processor with endless requests",
        "kgd/hub/connections.py",
        """            app.headers["connection"] = "close"  #""",
        "            pass  #",
        ("tests/hub/test_crowd.py::test_a_hostile_crowd_takes_little_of_a_processor",),
    ),
    "26-refused-resources": Bug(
        "refused reads of MCP resources leave no line in the audit log",
        "kgd/mcp/resources.py",
        "noted(session, session.principal,",
        "noted(session, None,",
        ("tests/hub/test_mcp.py::test_refused_resources_are_in_the_audit_log",),
    ),
    "26-refused-subscriptions": Bug(
        "refused subscriptions to MCP resources leave no line in the audit log",
        "kgd/mcp/server.py",
        "self._on_thread(self.daemon.tokens.refused,",
        "self._on_thread(lambda *_: None,",
        ("tests/hub/test_mcp.py::test_refused_resources_are_in_the_audit_log",),
    ),
    "22-any-commit": Bug(
        "a token may name any commit and ref",
        "kgd/tools/session.py",
        "of_tip=self.principal is not None",
        "of_tip=False",
        (ORACLES + "test_a_token_names_commits_that_led_to_the_tip_alone",),
    ),
    "22-revert-of-a-proposal": Bug(
        "a token reverts commits outside its scope",
        "kgd/tools/session.py",
        "            changes = replace(self.reverting(workspace, changes), request_id",
        "            changes = replace(changes, request_id",
        (ORACLES + "test_a_token_names_commits_that_led_to_the_tip_alone",),
    ),
    "23-conflicts-of-a-hidden-node": Bug(
        "`conflicts` reveals hidden nodes by a different error",
        "kgd/tools/conflicts.py",
        "((sees is None or sees(here)) and workspace.exists(here))",
        "workspace.exists(here)",
        (ORACLES + "test_a_hidden_node_looks_like_a_missing_one[conflicts]",),
    ),
    "23-names-of-proposals": Bug(
        "a token that only pushes sees the names of all proposals",
        "kgd/hub/smart_http.py",
        "hidden = await anyio.to_thread.run_sync(others, workspace, record)",
        "hidden = []",
        ("tests/hub/test_narrow_pushes.py::test_a_token_that_only_pushes_sees_the_branch_and_its_own_proposals",),
    ),
    "23-guessed-text": Bug(
        "a push without an object confirms that the object exists",
        "kgd/hub/smart_http.py",
        "        _Push(_unpacked(body, scratch), ObjectStore(scratch), workspace, record).check(news)\n",
        "",
        (
            "tests/hub/test_narrow_pushes.py::test_a_push_does_not_confirm_a_text_that_is_guessed",
            "tests/hub/test_narrow_pushes.py::test_a_difference_from_a_text_that_is_guessed_is_no_object",
        ),
    ),
    "23-thin-packs": Bug(
        "a narrow token's client sends differences, and is refused",
        "kgd/hub/smart_http.py",
        """                        rest = _narrowed(rest)
""",
        """                        pass
""",
        ("tests/hub/test_narrow_pushes.py::test_a_narrow_token_pushes_with_plain_git",),
    ),
    "27-embeddings-after-the-commit": Bug(
        "the validator of a search ignores new embeddings, which find more by meaning",
        "kgd/hub/v1.py",
        "one.meaning.mark if Reflects.VECTORS in reflects else 0,",
        "0,",
        ("tests/hub/test_api.py::test_a_validator_changes_when_a_write_becomes_searchable_by_meaning",),
    ),
    "27-other-workspaces": Bug(
        "a validator changes with workspaces outside the token",
        "kgd/hub/v1.py",
        "opened(caller.workspaces)",
        "opened()",
        ("tests/hub/test_api.py::test_a_validator_tells_nothing_of_workspaces_that_a_token_is_not_for",),
    ),
    "27-recall": Bug(
        "`recall` is served, but no token may call it",
        "kgd/tools/operations.json",
        '"constant": "RECALL", "offered": "", "scope": "read"',
        '"constant": "RECALL", "offered": "", "scope": ""',
        ("tests/hub/test_api.py::test_a_token_that_may_search_may_recall",),
    ),
    "28-chunked-bodies": Bug(
        "a chunked body for /mcp costs no quota",
        "kgd/mcp/http.py",
        "            await anyio.to_thread.run_sync(self._auth.spend, record, len(body))\n",
        "            await anyio.to_thread.run_sync(self._auth.spend, record, int(declared or 0))\n",
        ("tests/hub/test_mcp.py::test_every_body_counts_as_bytes_of_its_token",),
    ),
    "28-deep-data": Bug(
        "deeply nested data is an INTERNAL error",
        "kgd/tools/hubs/token_calls.py",
        "    except TypeError:",
        "    except KeyError:",
        ("tests/hub/test_api.py::test_deeply_nested_parameters_are_refused_as_such",),
    ),
    "28-host": Bug(
        "a Host with more than a port after the name is accepted",
        "kgd/hub/listen.py",
        "    return name if name and port.isascii() and port.isdecimal() else host\n",
        "    return name or host\n",
        ("tests/hub/test_listen.py::test_it_is_called_by_its_own_names",),
    ),
    "28-host-of-loopback-mcp": Bug(
        "MCP on loopback accepts a Host with more than a port after the name",
        "kgd/mcp/http.py",
        '*(f"{name}:{port}" for name in NAMES)]',
        '*(f"{name}:*" for name in NAMES)]',
        ("tests/surfaces/test_http.py::test_without_the_token_or_with_foreign_names_nothing_is_served",),
    ),
}
