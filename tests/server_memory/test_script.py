"""One script for the official memory server and kgd: the same answers, except for the listed differences."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import Machine
from tests.server_memory.conftest import kgds
from tests.server_memory.script import DIFFERENT, REFERENCE, TOOLS, Asked, calls, official, told


@pytest.fixture(scope="module")
def reference() -> dict[str, Any]:
    recorded: dict[str, Any] = json.loads(REFERENCE.read_text())
    return recorded


@pytest.mark.slow
def test_kgd_answers_a_script_of_234_calls_as_the_official_server_does_except_for_listed_differences(
    machine: Machine, reference: dict[str, Any]
) -> None:
    machine("up")
    script = calls()
    assert len(script) == len(reference["answers"]) >= 150
    assert {name for name, _ in script} == set(TOOLS)
    with kgds(machine.directory) as server:
        for number, (call, expected) in enumerate(zip(script, reference["answers"], strict=True)):
            assert told(server.call(*call)) == expected, f"call {number}: {json.dumps(call)[:400]}"
        described_alike(server.tools(), reference["tools"])
        differs_as_said(server, reference["different"])


def described_alike(mine: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> None:
    """Exactly these tools. The schemas omit only the descriptions of answer fields."""
    assert tuple(tool["name"] for tool in mine) == TOOLS
    for tool, other in zip(mine, theirs, strict=True):
        same = ("name", "title", "description", "annotations")
        assert {key: tool[key] for key in same} == {key: other[key] for key in same}
        assert tool["inputSchema"] == {key: value for key, value in other["inputSchema"].items() if key != "$schema"}
        assert set(other["outputSchema"]["properties"]) <= set(tool["outputSchema"]["properties"])


def differs_as_said(server: Asked, theirs: list[dict[str, Any]]) -> None:
    """Intended differences are the only differences."""
    mine = [server.call(*one) for one, _ in DIFFERENT]
    assert all(told(one) != other for one, other in zip(mine, theirs, strict=True))
    made, related, unknown, secret, large, half = mine
    assert made["structuredContent"]["entities"] == theirs[0]["structuredContent"]["entities"][:1]
    assert related["structuredContent"]["relations"] == theirs[1]["structuredContent"]["relations"][:1]
    assert "create_entities" in unknown["content"][0]["text"]
    for one, code in ((secret, "REFUSED_CONTENT"), (large, "LIMIT")):
        assert one["isError"]
        assert one["content"][0]["text"].startswith(f"{code}: ")
    assert "valid Unicode" in half["error"]["message"]
    left = server.call("open_nodes", {"names": ["one", "secret", "too large"]})["structuredContent"]["entities"]
    assert left == made["structuredContent"]["entities"]


def test_the_script_has_refusals_and_results_of_every_kind(reference: dict[str, Any]) -> None:
    answers = reference["answers"]
    assert sum("isError" in one for one in answers) > 40
    assert sum(bool(one.get("structuredContent", {}).get("entities")) for one in answers) > 80


@pytest.mark.slow
@pytest.mark.needs("server-memory")
def test_the_recorded_answers_match_the_official_server(tmp_path: Path, reference: dict[str, Any]) -> None:
    with official(tmp_path / "memory.jsonl") as server:
        assert server.tools() == reference["tools"]
        assert [told(server.call(*one)) for one in calls()] == reference["answers"]
