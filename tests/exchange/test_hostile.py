"""Untrusted folders: special files are not opened, links out are not followed, the rest is imported."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from kgd.errors import Invalid, InvariantViolation, NotFound, Unavailable
from tests.surfaces.conftest import Ask


def take(ask: Ask, source: Path, **more: Any) -> dict[str, Any]:
    return dict(getattr(ask, "import")(source=str(source), **more))


def orchestrator(root: Path, *nodes: dict[str, Any]) -> Path:
    folder = root / ".orchestrator"
    (folder / "memories").mkdir(parents=True)
    whole = [{"type": "decision", "summary": f"Why {node['id']}", **node} for node in nodes]
    (folder / "knowledge_graph.json").write_text(json.dumps({"nodes": whole}))
    return folder


def test_special_files_are_refused_without_opening_them(ask: Ask, tmp_path: Path) -> None:
    pipe = tmp_path / "memory.jsonl"
    os.mkfifo(pipe)  # without a writer, so opening it would block forever
    for source in (pipe, Path("/dev/zero")):
        for format in ("jsonl", "rules", "vault", "orchestrator", ""):
            with pytest.raises(Invalid, match="pipe or a device"):
                take(ask, source, format=format)
    with pytest.raises(NotFound):
        take(ask, tmp_path / "nothing")


def test_unreadable_files_are_reported(ask: Ask) -> None:
    with pytest.raises(Unavailable, match="cannot be read"):
        take(ask, Path("/proc/self/mem"), format="jsonl")
    assert "cannot be read" in str(take(ask, Path("/proc/self/mem"), format="rules")["troubles"])


def test_a_graph_that_is_a_pipe_is_one_line(ask: Ask, tmp_path: Path) -> None:
    folder = tmp_path / ".orchestrator"
    folder.mkdir()
    os.mkfifo(folder / "knowledge_graph.json")
    assert [one["at"] for one in take(ask, folder)["troubles"]] == ["knowledge_graph.json"]


def test_a_file_is_not_read_through_a_link_a_pipe_or_a_folder(ask: Ask, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    for name in ("task-1.md", "index.md"):
        (outside / name).write_text("# a secret of task-1\n\nstatus: completed\n")
    folder = orchestrator(
        tmp_path / "in",
        {"id": "decision-1", "file": "memories/below/task-1.md"},
        {"id": "decision-2", "file": "memories/alone.md"},
        {"id": "decision-3", "file": "memories/pipe.md"},
        {"id": "decision-4", "file": "memories"},
        {"id": "decision-5", "file": "../../outside/task-1.md"},
    )
    (folder / "memories" / "below").symlink_to(outside)
    (folder / "memories" / "alone.md").symlink_to(outside / "task-1.md")
    (folder / "journal").symlink_to(outside)
    os.mkfifo(folder / "memories" / "pipe.md")
    found = take(ask, folder)
    assert found["nodes"]["new"] == 5
    told = {one["at"].rpartition(" ")[2] for one in found["troubles"]}
    assert told >= {"decision-1", "memories/alone.md", "memories/pipe.md", "memories", "decision-5", "journal"}
    nodes = ask.get(uris=[f"decision://shop/decision-{n}" for n in range(1, 6)])["nodes"]
    assert "secret" not in json.dumps([found, nodes])


def test_values_that_no_node_holds_cost_their_own_entry_alone(ask: Ask, tmp_path: Path) -> None:
    folder = orchestrator(tmp_path, {"id": "decision-1"})
    half, deep = '"\\ud800"', "[" * 500 + "]" * 500
    bad = [
        f'"x": {half}',
        f"{half}: 1",
        f'"connections": [{half}]',
        f'"tags": [{half}]',
        '"x": NaN',
        '"x": 1e999',
        f'"x": {"9" * 400}',
        f'"x": {deep}',
        '"id": "../../x"',
        '"type": "a\\nb\\u202e"',
    ]
    nodes = [f'{{"id": "bad-{n}", "type": "decision", "summary": "s", {one}}}' for n, one in enumerate(bad)]
    nodes.append('{"id": "decision-1", "type": "decision", "summary": "Sound"}')
    (folder / "knowledge_graph.json").write_text(f'{{"nodes": [{", ".join(nodes)}]}}')
    found = take(ask, folder)
    assert ask.get(uris=["decision://shop/decision-1"])["nodes"][0]["summary"] == "Sound"
    assert len({one["at"] for one in found["troubles"]}) >= len(bad) - 2
    assert found == {**take(ask, folder), "commits": found["commits"], "nodes": found["nodes"]}


def test_a_note_that_says_wrongly_which_node_it_is_costs_itself_alone(ask: Ask, tmp_path: Path) -> None:
    vault = tmp_path / "vault"
    vault.mkdir()
    wrong = [
        *("data: [1]", "data: x", "relations: abc", "relations: [1]", "relations: {a: 1}", "relations: [{type: x}]"),
        *("type: [1]", "name: {a: 1}", "source: 5", "source: {type: 1}", "digest: {a: 1}\n  data: 5"),
    ]
    for number, text in enumerate(wrong):
        (vault / f"bad{number}.md").write_text(f"---\nkgd:\n  uri: decision://x/bad{number}\n  {text}\n---\ntext\n")
    (vault / "sound.md").write_text("sound\n")
    found = take(ask, vault, format="vault")
    assert found["nodes"]["new"] == 1
    assert {one["at"] for one in found["troubles"]} == {f"bad{number}.md" for number in range(len(wrong))}


def test_a_line_that_is_no_entity_costs_itself_alone(ask: Ask, tmp_path: Path) -> None:
    big = {"type": "entity", "name": "big", "entityType": "t", "observations": ["o" * 300_000]}
    wrong = [
        *('{"type": ["entity"]}', '{"type": {"a": 1}}', '{"type": null}', "[]", "5", "null", "[" * 3_000, "x" * 10**6),
        '{"type": "entity", "name": "\\ud800", "entityType": "t", "observations": []}',
        '{"type": "entity", "name": 1, "entityType": "t", "observations": []}',
        json.dumps(big),
    ]
    file = tmp_path / "memory.jsonl"
    sound = {"type": "entity", "name": "Sound", "entityType": "t", "observations": ["o"]}
    file.write_text("\n".join([*wrong, json.dumps(sound)]))
    found = take(ask, file, format="jsonl")
    assert found["nodes"]["new"] == 1
    assert [one["at"] for one in found["troubles"]] == [f"memory.jsonl:{n}" for n in range(1, len(wrong) + 1)]


def test_an_export_does_not_write_over_a_pipe_or_wait_for_it(ask: Ask, tmp_path: Path) -> None:
    ask.put(changes=[{"op": "upsert", "uri": "concept://shop/a", "content": "text"}])
    pipe, folder = tmp_path / "out", tmp_path / "vault"
    folder.mkdir()
    for place in (pipe, folder / "a.md", folder / "AGENTS.md"):
        os.mkfifo(place)
    with pytest.raises(InvariantViolation, match="not a file"):
        ask.export(target=str(pipe), format="graphml")
    assert ask.export(target=str(folder), format="vault")["files"]["left"] == 1
    os.mkfifo(folder / ".kgd-export.json")
    with pytest.raises(InvariantViolation, match="not a file"):
        ask.export(target=str(folder), format="vault")
    assert pipe.is_fifo()
