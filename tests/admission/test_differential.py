"""Random changes get one answer on every way into a workspace, and leave the same node."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kgd.model.fields import plain_relation
from kgd.model.node import Node
from kgd.model.uri import Uri
from kgd.workspace.proposals import submission
from kgd.workspace.proposals.submission import Submitter
from kgd.workspace.publishing import adoption
from kgd.workspace.writing.edits import upserted
from tests.admission.conftest import KEY
from tests.admission.test_rules import THEIRS, deep, named_by
from tests.admission.ways import Change, Ways
from tests.builders import ANN, change

NAMES = (
    "concept://ws/auth",
    "concept://ws/Auth",
    "concept://ws/old",
    "concept://ws/new",
    "concept://ws/deep/er",
    "decision://ws/pub/mine",
    "decision://ws/pub/new",
    "gotcha://ws/new",
    "entity://ws/Ann",
    "entity://ws/ann",
    "concept://other/x",
    "https://example.com/a?b",
    "x.y-z+1://h/a",
    "file://ws/src/a.py",
    "atom://ws/area",
    "concept://ws/" + "y" * 220,
)
FIELDS: dict[str, tuple[Any, ...]] = {
    "name": ("A name", "N" * 255, "N" * 256, "two\nlines", "\u202eeman"),
    "summary": ("One", "s" * 100, "s" * 101, "a\tb", "\ufeffhidden"),
    "content": ("text\n", "text", f"key {KEY}", "a\x01b", "w " * 140_000),
    "tags": (["t"], ["T", "t"], [""], ["a b"], ["x\u200b"]),
    "type": ("decision", "note", " x", "y" * 129),
    "data": (
        {"a": 1},
        {"a": [1.5, None, {"b": []}]},
        deep(12),
        deep(13),
        deep(15),
        deep(40),
        {"k": KEY},
        {"k" * 257: 1},
        {"a\u202e": 1},
        {"file": "memories/none.md"},
        {"file": "?"},
        {"file": "src/a.py"},
        {"n": 2**63},
        {"n": 2**63 - 1},
        {"paths": [f"{n}/**" for n in range(20)]},
        {"paths": [f"{n}/**" for n in range(21)]},
        {"paths": ["p" * 513]},
    ),
    "relations": (
        [{"type": "t", "target": "concept://ws/auth"}],
        [{"type": "t", "target": "concept://far/x"}],
        [{"type": "t", "target": "concept://ws/auth", "weight": 1.5}],
        [{"type": " ", "target": "x:y"}],
        [{"type": "t", "target": "x:y", "data": deep(14)}],
        [{"type": "related_to", "target": f"atom://ws/{n}"} for n in range(51)],
    ),
}


def anything(chance: random.Random, ways: Ways) -> Change:
    values: dict[str, Any] = {"uri": chance.choice(NAMES)}
    for field in chance.sample(sorted(FIELDS), chance.randrange(1, 4)):
        sound = chance.random() < 0.7
        values[field] = FIELDS[field][0] if sound else chance.choice(FIELDS[field])
    if (values.get("data") or {}).get("file") == "?":
        values["data"] = {"file": named_by(ways.ws, THEIRS)}
    known = ways.ws.node(Uri(values["uri"]))
    if known is not None:  # a file holds the whole node, and an edit leaves what it does not name
        if "file" in known.data and "data" in values:
            values["data"] = {"file": known.data["file"], **values["data"]}
        values = {
            **{name: getattr(known, name) for name in ("name", "summary", "content") if getattr(known, name)},
            **values,
        }
        values["data"] = {**known.data, **values.get("data", {})}
        values["tags"] = [*known.tags, *values.get("tags", [])]
        values.setdefault("type", known.type)
        values["relations"] = [plain_relation(relation) for relation in known.relations]
    return Change(values)


def carry_out(chance: random.Random, ways: Ways, one: Change) -> str:
    """Write it by any of the ways; return the way."""
    ws, way = ways.ws, chance.choice(["put", "submit", "sync", "save"])
    if way == "put":
        ws.submit(change(one.edit(ws)))
    elif way == "submit":
        submission.submit(ws, change(one.edit(ws)), Submitter("ann"), base=ws.tip)
    elif way == "sync":
        ws.run(adoption.merge(ws, ways.commit(one)), alone=True)
    else:
        ws.run(adoption.commit_edits(ws, ways.looked_at(one)[0], ANN, 1))
    return way


def play(ways: Ways, seed: int, steps: int) -> dict[str, int]:
    chance, counts = random.Random(seed), {"taken": 0, "refused": 0}
    for step in range(steps):
        one = anything(chance, ways)
        said = {way: ask(one) for way, ask in ways.all().items()}
        refused = {way for way, refusal in said.items() if refusal is not None}
        assert refused in (set(), set(said)), f"seed {seed}, step {step}: {one} {said}"
        counts["refused" if refused else "taken"] += 1
        if not refused and chance.random() < 0.5:
            wanted = upserted(ways.ws.node(one.uri) or Node(one.uri), one.edit(ways.ws))
            way = carry_out(chance, ways, one)
            assert ways.ws.node(one.uri) == wanted, f"seed {seed}, step {step}: {way} of {one}"
    return counts


def test_a_few_changes_get_the_same_answer(ways: Ways) -> None:
    counts = play(ways, 0, 25)
    assert min(counts.values()) > 4


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_many_changes_get_the_same_answer(ways: Ways, seed: int) -> None:
    play(ways, seed, 100)
