"""The audit log of a hub: every refusal is in it, floods are counted, nothing rolls off, and it is exported."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kgd.daemon.tokens import Tokens
from kgd.errors import Forbidden, Unauthorized
from kgd.index import hub_state
from kgd.index.hub_state import SqliteHubState
from kgd.model import token as model
from kgd.model.token import AuditEntry, HubState
from tests import forked
from tests.hub.conftest import Hub
from tests.hub.test_git import Clone, clone  # noqa: F401
from tests.hub.test_tokens import START, Clock, clock, mint, open_state, state, tokens  # noqa: F401

AUTH, CHECKOUT = "concept://infra/services/auth", "concept://infra/app/checkout"


def id_of(token: str) -> str:
    return token.split("_")[2]


def log_of(hub: Hub, token: str) -> list[tuple[str, str, str]]:
    entries = hub.call("token_log", id=id_of(token))["entries"]
    told = [(one["action"], one.get("workspace", ""), one.get("detail", "")) for one in entries]
    return [line for line in told if line[0] != "mint"]


# ---- content


@pytest.mark.slow
def test_a_refused_write_a_refused_read_and_an_unknown_tool_are_noted(hub: Hub) -> None:
    token = hub.mint("read,write", "/services/**")
    hub.post(token, "infra/put", {"changes": [{"op": "upsert", "uri": CHECKOUT, "summary": "Mine"}]})
    hub.post(token, "infra/history", {"uri": CHECKOUT})
    hub.post(token, "infra/uninstall", {})
    found = {action: (workspace, detail.partition(":")[0]) for action, workspace, detail in log_of(hub, token)}
    assert found["put refused"] == ("infra", "FORBIDDEN")
    assert found["history refused"][0] == "infra"
    assert found["call refused"] == ("infra", "NOT_FOUND")


def test_a_revoked_token_that_is_used_is_noted(hub: Hub) -> None:
    token = hub.mint()
    hub.call("token_revoke", id=id_of(token))
    assert hub.post(token, "infra/status").status == 401
    assert hub.post(token, "infra/get", {"uris": [AUTH]}).status == 401
    assert log_of(hub, token)[0] == (
        "sign in refused",
        "",
        "UNAUTHORIZED: the token was revoked. Ask the hub's administrator for a new one. (2 times)",
    )


def test_a_fetch_and_a_push_that_are_refused_are_noted(hub: Hub, clone: Callable[..., Clone]) -> None:  # noqa: F811
    token = hub.mint("read,write", "/services/**")
    mine = clone(token)
    mine.edit("nodes/concept/app/checkout.yaml", "Outside")
    mine.git("push", "origin", "HEAD:main", ok=False)
    mine.git("fetch", hub.git_url(token), ok=False)
    actions = [action for action, _, _ in log_of(hub, token)]
    assert {"push refused", "upload-pack refused"} <= set(actions)


def test_a_child_that_would_be_wider_and_another_workspace_are_noted(hub: Hub) -> None:
    token = hub.mint("read", "/services/**")
    hub.post(token, "tokens", {"name": "x", "verbs": ["write"], "paths": ["/**"]})
    hub.post(token, "shop/status")
    actions = [action for action, _, _ in log_of(hub, token)]
    assert {"mint refused", "workspace refused"} <= set(actions)


def test_an_unknown_token_is_noted_without_an_id(hub: Hub) -> None:
    unknown, _, _ = model.write("agent", b"nobody", b"x" * 32)
    assert hub.post(unknown, "infra/status").status == 401
    entries = hub.call("token_log", limit=10_000)["entries"]
    assert ("", "sign in refused") in [(one["token"], one["action"]) for one in entries]


# ---- floods


def test_writes_that_change_nothing_are_one_line_a_minute(hub: Hub) -> None:
    token = hub.mint("read,write")
    change = {"op": "upsert", "uri": "concept://infra/services/same", "summary": "The same"}
    for _ in range(6):
        assert hub.post(token, "infra/put", {"changes": [change]}).status == 200
    found = log_of(hub, token)
    assert found[-1][2].startswith("commit ")
    assert sum(detail.startswith("commit ") for _, _, detail in found) == 1
    assert len(found) <= 3, "five writes without a change fall into one minute, or into two"


def test_refusals_of_one_kind_are_one_line_a_minute(tokens: Tokens, clock: Clock) -> None:  # noqa: F811
    one = mint(tokens).record.holder.id
    for _ in range(50):
        tokens.refused(one, "put", Forbidden("not there"), "infra")
    tokens.refused(one, "get", Forbidden("not there"), "infra")
    clock.now += 60
    tokens.refused(one, "put", Forbidden("not there"), "infra")
    found = [(entry.action, entry.detail) for entry in tokens.trail(one, 10)]
    assert found[:3] == [
        ("put refused", "FORBIDDEN: not there"),
        ("get refused", "FORBIDDEN: not there"),
        ("put refused", "FORBIDDEN: not there (50 times)"),
    ]


def test_a_flood_of_kinds_is_bounded(tokens: Tokens) -> None:  # noqa: F811
    for number in range(1_200):
        tokens.refused("", "call", Unauthorized("unknown"), f"workspace-{number}")
    found = tokens.trail(None, 10_000)
    assert len(found) == 1_001
    assert found[0].detail == "refusals of many kinds (200 times)"


def test_counts_are_written_at_the_end(tokens: Tokens, open_state: Callable[[], HubState]) -> None:  # noqa: F811
    for _ in range(7):
        tokens.refused("t1", "put", Forbidden("no"))
    tokens.close()
    again = open_state()
    assert [entry.detail for entry in again.trail("t1", 10)] == ["FORBIDDEN: no (7 times)"]
    again.close()


# ---- nothing rolls off


def test_old_lines_are_moved_to_files_and_stay_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_state, "TRAIL_KEPT", 300)
    monkeypatch.setattr(hub_state, "ROTATED", 200)
    state = SqliteHubState(tmp_path / "hub.db")  # noqa: F811
    for number in range(1_050):
        state.note(AuditEntry(START + number, "t1", "put", "infra", f"line {number} \u2028 \n"))
    files = sorted((tmp_path / "audit").iterdir())
    assert len(files) >= 2
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert all(
        set(json.loads(line)) == {"number", "at", "token", "action", "workspace", "detail", "hash"}
        for line in files[0].read_text().splitlines()
    )
    found: list[tuple[int, AuditEntry]] = []
    while page := state.lines(found[-1][0] if found else 0, 70):
        found += page
    assert [entry.at - START for _, entry in found] == list(range(1_050))
    assert found[3][1].detail == "line 3 \u2028 \n"
    assert state.trail(None, 1)[0].at == START + 1_049
    state.close()


def test_lines_stay_in_the_database_while_no_file_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub_state, "TRAIL_KEPT", 100)
    monkeypatch.setattr(hub_state, "ROTATED", 100)
    (tmp_path / "audit").write_text("in the way")
    state = SqliteHubState(tmp_path / "hub.db")  # noqa: F811
    for number in range(500):
        state.note(AuditEntry(START + number, "t1", "put", "infra", str(number)))
    assert len(state.lines(0, 1_000)) == 500
    state.close()


def exported(hub: Hub) -> list[dict[str, Any]]:
    said = forked.run(["token", "audit"], hub.folder, {**os.environ, **hub.environment}).stdout
    return [json.loads(line) for line in said.splitlines()]


def test_the_log_is_exported_as_json_lines(hub: Hub) -> None:
    token = hub.mint("read", name="Exported")
    hub.post(token, "infra/put", {"changes": []})
    lines = exported(hub)
    assert [line["number"] for line in lines] == sorted(line["number"] for line in lines)
    mine = [line for line in lines if line["token"] == id_of(token)]
    assert mine[0]["action"] == "mint"
    assert mine[-1]["action"] == "put refused"


def test_a_long_log_is_exported_whole(hub: Hub) -> None:
    state = SqliteHubState(Path(hub.home.state) / "hub.db")  # noqa: F811
    for number in range(1_100):
        state.note(AuditEntry(START, "long", "put", "infra", str(number)))
    state.close()
    assert [line["detail"] for line in exported(hub) if line["token"] == "long"] == [str(n) for n in range(1_100)]
