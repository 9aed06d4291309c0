"""The citations of a node with their code: lines around the cited ones, and the change since they were verified."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kgd.freshness.freshness import Freshness
from kgd.model.access import Principal, Scope
from kgd.tools.read.citations import AROUND, CITED, DIFFERENCE, difference, excerpt
from kgd.tools.session import Session
from kgd.workspace.workspace import Workspace
from tests.freshness.conftest import SESSION, becomes_stale, commit
from tests.surfaces.conftest import Ask, upsert

FACT = "gotcha://shop/tokens"
LINES = [f"line_{number} = {number}" for number in range(1, 31)]
BODY = ["def sign(token):", "    return token"]


def cited(ask: Ask, **asked: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = ask.get(uris=FACT, include=["citations"], **asked)["nodes"][0].get("citations", [])
    return found


def cite(ask: Ask, *cites: str) -> None:
    ask.put(changes=upsert(FACT, summary="tokens are returned unsigned", data={"cites": list(cites)}))


def test_a_cited_symbol_is_shown_with_five_lines_before_and_after_it(ask: Ask, code: Path) -> None:
    commit(code, SESSION, "\n".join([*LINES, *BODY, *LINES, ""]))
    cite(ask, f"{SESSION}#sign")
    (one,) = cited(ask)
    assert (one["state"], one["file"], one["symbol"]) == ("verified", f"file://shop/{SESSION}", "sign")
    assert one["code"].splitlines() == [*LINES[-AROUND:], *BODY, *LINES[:AROUND]]
    assert (one["first"], one["cited"]) == (31 - AROUND, [31, 32])
    assert "diff" not in one


def test_a_long_definition_is_cut_and_a_whole_file_shows_its_first_lines(ask: Ask, code: Path) -> None:
    long = ["def sign(token):", *(f"    step({number})" for number in range(2 * CITED))]
    commit(code, SESSION, "\n".join([*long, ""]))
    cite(ask, f"{SESSION}#sign", SESSION)
    symbol, whole = cited(ask)
    assert symbol["code"].splitlines() == long[:CITED]
    assert symbol["cited"] == [1, len(long)]
    assert whole["code"].splitlines() == long[:AROUND]
    assert "cited" not in whole


def test_changed_code_comes_with_the_difference_since_it_was_verified(ask: Ask, code: Path) -> None:
    commit(code, SESSION, "\n".join([*LINES, *BODY, ""]))
    cite(ask, f"{SESSION}#sign", SESSION)
    later = commit(code, SESSION, "\n".join(["import hmac", *LINES, BODY[0], "    return hmac.new(token)", ""]))
    becomes_stale(ask, FACT)
    symbol, whole = cited(ask)
    assert symbol["state"] == whole["state"] == "changed"
    assert symbol["reason"] == whole["reason"] == f"changed in {later[:10]}"
    assert symbol["diff"].splitlines() == [
        "@@ -31 +32 @@",
        " def sign(token):",
        "-    return token",
        "+    return hmac.new(token)",
    ]
    first, *_, last = whole["diff"].split("@@\n")
    assert first == "@@ -1 +1 "
    assert last.splitlines()[-2:] == ["-    return token", "+    return hmac.new(token)"]
    ask.put(changes={"op": "verify", "uri": FACT})
    assert [one["state"] for one in cited(ask)] == ["verified", "verified"]


def test_a_removed_file_shows_its_lines_as_removed(ask: Ask, code: Path) -> None:
    cite(ask, f"{SESSION}#sign", "book.pdf")
    commit(code, "src/auth/other.py", "")
    (code / SESSION).unlink()
    becomes_stale(ask, FACT)
    symbol, book = cited(ask)
    assert symbol["diff"].splitlines() == ["@@ -1 +1 @@", *(f"-{line}" for line in BODY)]
    assert "code" not in symbol
    assert book["state"] == "absent"


def test_a_long_difference_ends_with_the_number_of_lines_that_are_left_out(ask: Ask, ws: Workspace, code: Path) -> None:
    commit(code, SESSION, "\n".join(LINES * 4))
    cite(ask, SESSION)
    commit(code, SESSION, "\n".join(f"new {line}" for line in LINES * 4))
    becomes_stale(ask, FACT)
    (one,) = cited(ask)
    shown = one["diff"].splitlines()
    assert len(shown) == DIFFERENCE + 1
    assert shown[-1] == f"… {1 + 240 - DIFFERENCE} more lines"


def test_binary_and_ignored_files_are_named_without_content(ask: Ask, ws: Workspace, code: Path) -> None:
    commit(code, ".gitignore", "secret.txt\n")
    (code / "secret.txt").write_text("password\n")
    cite(ask, "logo.bin", "secret.txt")
    assert ["code" in one for one in cited(ask)] == [False, False]
    checker = Freshness.of(ws)
    assert checker.code is not None
    for one in checker.checked(ws.resolve(FACT), ws.node(ws.resolve(FACT))):  # type: ignore[arg-type]
        assert excerpt(checker.code, one.citation) is None
        assert difference(checker.code, replace(one, verified=frozenset(("0" * 12,)))) == ""


@pytest.mark.parametrize("verbs", [["read"], ["read", "write"]])
def test_the_holder_of_a_token_sees_citations_without_code(ask: Ask, session: Session, verbs: list[str]) -> None:
    cite(ask, f"{SESSION}#sign")
    principal = Principal("tok00001", "agent", "agent", (Scope.of("shop", verbs, ["/**"]),))
    holder = Ask(Session(session.daemon, client="claude", principal=principal))
    assert cited(holder) == [{"text": f"{SESSION}#sign", "file": f"file://shop/{SESSION}", "symbol": "sign"}]


@pytest.mark.slow
def test_citations_without_room_are_named_only_and_past_versions_have_no_code(ask: Ask, code: Path) -> None:
    commit(code, SESSION, "\n".join(LINES))
    for number in range(12):
        commit(code, f"src/{number}.py", "\n".join(["def sign():", *(f"    {line}" for line in LINES)]))
    cite(ask, *(f"src/{number}.py#sign" for number in range(12)))
    found = cited(ask, budget=1_500)
    assert len(found) == 12
    assert "code" in found[0]
    assert "code" not in found[-1]
    at = ask.history(uri=FACT)["commits"][0]["commit"]
    assert all("code" not in one for one in cited(ask, as_of=at))
