"""`context` in Django's source: areas and memories about it, and the changes between its patch releases.

The knowledge and the expectations are in `django/`; they were written before the first call of `context`. Slow, and
needs the registry.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from kgd.tools.paging import size_of
from tests.e2e.conftest import Machine, home, machine, shop
from tests.e2e.lean import LeanClient
from tests.e2e.test_django import django

__all__ = ["django", "home", "machine", "shop"]

HERE = Path(__file__).parent / "django"
BUDGET = 4_000
TASK = "https://tracker.example/NOTES-1"
RECALL, PRECISION = 0.9, 0.85
"""Least recall of the areas that readers expect, and least precision of the areas that own a path."""
REMEMBERED = 0.75
"""Least recall of the memories."""


@cache
def read(name: str) -> Any:
    return YAML(typ="safe").load(HERE / name)


@dataclass(slots=True)
class Answer:
    """The answer of `context` to one change set, compared with the expectations."""

    change_set: dict[str, Any]
    told: dict[str, Any]
    named: list[str] = field(default_factory=list)
    """Areas, in order."""
    owners: list[str] = field(default_factory=list)
    """The areas that own a path."""
    memories: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, change_set: dict[str, Any], told: dict[str, Any]) -> Answer:
        areas = [item for item in told["items"] if item["kind"] == "atom"]
        return cls(
            change_set,
            told,
            [item["name"] for item in areas],
            [item["name"] for item in areas if item["why"].startswith("owns ")],
            [item["name"] for item in told["items"] if item["kind"] not in ("atom", "molecule", "file")],
        )

    @property
    def expected(self) -> set[str]:
        return set(self.change_set["expected"])

    @property
    def useful(self) -> set[str]:
        return set(self.change_set["memories"])

    def lines(self) -> Iterator[str]:
        hits, missed = self.expected & set(self.named), self.expected - set(self.named)
        yield f"{self.change_set['release']}: {len(hits)}/{len(self.expected)} areas, {size_of(self.told) // 4} tokens"
        for what, names in (
            ("missed", missed),
            ("owners beside", set(self.owners) - self.expected),
            ("near beside", set(self.named) - set(self.owners) - self.expected),
            ("memories missed", self.useful - set(self.memories)),
        ):
            if names:
                yield f"  {what}: {'; '.join(sorted(names))}"


@pytest.mark.large
@pytest.mark.needs("registry")
@pytest.mark.timeout(240)
def test_context_names_what_a_reader_of_a_change_to_django_wants(machine: Machine, django: Path) -> None:
    here = machine.at(django)
    here("up", "--quiet")
    with here.client() as client:
        write(client)
        answers = [Answer.of(one, asked(client, one["changed"])) for one in read("change_sets.yaml")]
    for answer in answers:
        print("\n".join(answer.lines()))
    recall = share((len(one.expected & set(one.named)), len(one.expected)) for one in answers)
    owners = share((len(one.expected & set(one.owners)), len(one.owners)) for one in answers)
    areas = share((len(one.expected & set(one.named)), len(one.named)) for one in answers)
    memories = share((len(one.useful & set(one.memories)), len(one.useful)) for one in answers)
    print(
        f"recall of areas {recall:.2f}, precision of owners {owners:.2f}, of all areas named {areas:.2f}; "
        f"recall of memories {memories:.2f}"
    )
    for answer in answers:
        assert answer.told["unmatched_paths"] == answer.change_set["unmatched"], answer.change_set["release"]
        assert answer.named[: len(answer.owners)] == answer.owners, "areas that own a path come before related areas"
    assert recall >= RECALL
    assert owners >= PRECISION
    assert memories >= REMEMBERED


def test_the_django_data_has_the_promised_size() -> None:
    known, memories, changes = read("areas.yaml"), read("memories.yaml"), read("change_sets.yaml")
    assert (len(known["molecules"]), len(known["atoms"]), len(memories), len(changes)) == (8, 65, 70, 27)
    areas, titles = {one["name"] for one in known["atoms"]}, {one["name"] for one in memories}
    for one in changes:
        assert set(one["expected"]) <= areas
        assert set(one["memories"]) <= titles
        assert set(one["unmatched"]) < set(one["changed"])


def share(counts: Iterable[tuple[int, int]]) -> float:
    some, whole = map(sum, zip(*counts, strict=True))
    return some / whole


def write(client: LeanClient) -> None:
    """Write the areas and memories with the tools of an agent."""
    known = read("areas.yaml")
    ids: dict[str, str] = {}
    for entity, areas in (("molecule", known["molecules"]), ("atom", known["atoms"])):
        for area in areas:
            more = {"paths": json.dumps(area["paths"]), "moleculeId": ids[area["molecule"]]} if entity == "atom" else {}
            made = client.call(
                "manage_graph",
                operation="create",
                entityType=entity,
                name=area["name"],
                knowledge=area["knowledge"],
                createdByTaskId=TASK,
                **more,
            )
            ids[area["name"]] = made["data"][entity]["id"]
    related = [
        {
            "op": "relate",
            "source": ids[area["name"]],
            "target": ids[other["area"]],
            "type": "related_to",
            "data": {"reason": other["reason"]},
        }
        for area in known["atoms"]
        for other in area.get("related", ())
    ]
    client.call("put", changes=related)
    memories = read("memories.yaml")
    uris = {one["name"]: f"{one['type']}:{one['name']}" for one in memories}
    for begin in range(0, len(memories), 20):
        client.call("put", changes=[memory(one, ids, uris) for one in memories[begin : begin + 20]])


def memory(one: dict[str, Any], areas: dict[str, str], memories: dict[str, str]) -> dict[str, Any]:
    relations = [
        *({"type": "about", "target": f"./{path}"} for path in one.get("about", ())),
        *({"type": "applies_to", "target": areas[name]} for name in one.get("areas", ())),
        *({"type": "because_of", "target": memories[name]} for name in one.get("because", ())),
    ]
    fields = {"content": one["text"]} if "text" in one else {}
    if "cites" in one:
        fields["data"] = {"cites": one["cites"]}
    return {
        "op": "upsert",
        "type": one["type"],
        "name": one["name"],
        "summary": one["summary"],
        "tags": one["tags"],
        "relations": relations,
        **fields,
    }


def asked(client: LeanClient, paths: list[str]) -> dict[str, Any]:
    """The answer to these paths, checked to be within its budget by every count."""
    result = client.request("tools/call", {"name": "context", "arguments": {"paths": paths, "budget": BUDGET}})
    told: dict[str, Any] = result["structuredContent"]
    assert not result.get("isError"), told
    assert size_of(told) <= BUDGET * 4
    (text,) = result["content"]
    assert len(text["text"]) / 4 <= BUDGET, "what a host shows to the model"
    return told
