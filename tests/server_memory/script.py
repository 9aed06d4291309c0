"""A day of an agent with its memory: a sequence of calls for both servers.

`python -m tests.server_memory.script PROGRAM` asks the official server and records its answers in
`reference.json` beside this file; `PROGRAM` is its `dist/index.js`.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.conftest import SERVER_MEMORY

REFERENCE = Path(__file__).with_name("reference.json")
LONG = 200

Call = tuple[str, dict[str, Any] | None]
TOOLS = (
    "create_entities",
    "create_relations",
    "add_observations",
    "delete_entities",
    "delete_observations",
    "delete_relations",
    "read_graph",
    "search_nodes",
    "open_nodes",
)
UNUSUAL = (
    "",
    " ",
    "  two  blanks ",
    ".",
    "..",
    "a/b/c",
    "~",
    "~tilde",
    "%7Etilde",
    "%2F",
    "C:\\temp\\x",
    "CON",
    "aux.txt",
    "trailing.",
    "trailing ",
    "line\nbreak",
    "tab\there",
    "null",
    "true",
    "1e3",
    "- item",
    "key: value",
    "# comment",
    "'quote'",
    '"double"',
    "{brace}",
    "[bracket]",
    "$(sh)",
    "<b>&amp;</b>",
    "日本語",
    "Ünïcödé",
    "e\u0301 apart",
    "🙂 smile",
    "\u202eright to left",
    "a\u200bb",
    "\u2028line",
    "nul\x00byte",
    "bell\x07",
    "\x7f",
    "x" * 255,
    "y" * 256,
    "z" * 3000,
    "é" * 200,
)


def entity(name: str, type: str = "thing", *observations: str) -> dict[str, Any]:
    return {"name": name, "entityType": type, "observations": list(observations)}


def relation(source: str, target: str, type: str = "knows") -> dict[str, str]:
    return {"from": source, "to": target, "relationType": type}


def calls() -> list[Call]:
    return [*_empty(), *_usual(), *_repeated(), *_missing(), *_unusual(), *_searched(), *_large(), *_wrong(), *_ended()]


def _create(*entities: dict[str, Any]) -> Call:
    return "create_entities", {"entities": list(entities)}


def _relate(*relations: dict[str, str]) -> Call:
    return "create_relations", {"relations": list(relations)}


def _add(*said: tuple[str, list[str]]) -> Call:
    return "add_observations", {"observations": [{"entityName": name, "contents": texts} for name, texts in said]}


def _unsay(*said: tuple[str, list[str]]) -> Call:
    return "delete_observations", {"deletions": [{"entityName": name, "observations": texts} for name, texts in said]}


def _delete(*names: str) -> Call:
    return "delete_entities", {"entityNames": list(names)}


def _part(*relations: dict[str, str]) -> Call:
    return "delete_relations", {"relations": list(relations)}


def _search(query: str) -> Call:
    return "search_nodes", {"query": query}


def _open(*names: str) -> Call:
    return "open_nodes", {"names": list(names)}


READ: Call = ("read_graph", {})


def _empty() -> Iterator[Call]:
    """An empty memory, and empty arguments."""
    yield READ
    yield "read_graph", None
    yield from (_search(""), _search("anything"), _open(), _open("nobody"))
    yield from (_create(), _relate(), _add(), _delete(), _unsay(), _part())
    yield from (_delete("nobody"), _unsay(("nobody", ["x"])), _part(relation("nobody", "nothing")))
    yield READ


def _usual() -> Iterator[Call]:
    yield _create(
        entity("default_user", "person", "Speaks fluent German", "Prefers mail in the morning"),
        entity("Anthropic", "organization", "Founded in 2021"),
        entity("payments", "service", "Retries every webhook three times", "Owned by team Falcon"),
    )
    yield _relate(relation("default_user", "Anthropic", "works_at"), relation("default_user", "payments", "maintains"))
    yield from (READ, _open("default_user"), _open("payments", "Anthropic"), _open("Anthropic", "payments"))
    yield from (_search("german"), _search("GERMAN"), _search("service"), _search("default"), _search("three times"))
    yield _add(("default_user", ["Graduated in 2019"]), ("payments", ["Its queue is in Frankfurt"]))
    yield from (_search("Frankfurt"), _search("2019"), _open("default_user"))
    yield _create(entity("ledger", "service"), entity("billing", "service", "Closes at midnight"))
    yield _relate(
        relation("payments", "ledger", "writes_to"),
        relation("billing", "ledger", "reads_from"),
        relation("ledger", "ledger", "checks"),
        relation("payments", "billing", "calls"),
        relation("billing", "payments", "calls"),
    )
    yield from (READ, _open("ledger"), _search("ledger"), _search("midnight"))
    yield _unsay(("payments", ["Owned by team Falcon"]))
    yield _part(relation("billing", "payments", "calls"))
    yield from (_open("payments"), READ)


def _repeated() -> Iterator[Call]:
    """Existing entities are not created again, and missing entities cannot be deleted."""
    yield _create(entity("ledger", "another type", "another observation"))
    yield _open("ledger")
    yield _create(entity("ledger"), entity("cache", "service"))
    yield _relate(relation("payments", "ledger", "writes_to"))
    yield _relate(relation("payments", "ledger", "writes_to"), relation("payments", "cache", "fills"))
    yield _relate(relation("payments", "ledger", "reads_from"))
    yield _add(("billing", ["Closes at midnight"]))
    yield _add(("billing", ["Closes at midnight", "Opens at six", "Closes at noon on Fridays"]))
    yield _add(("billing", ["Opens at six"]), ("billing", ["Opens at seven"]), ("billing", ["Opens at seven"]))
    yield _add(("cache", ["warm", "warm"]))
    yield _add(("cache", []))
    yield from (_open("billing"), _open("cache"), _open("cache", "cache"))
    yield _unsay(("cache", ["warm"]), ("billing", ["Opens at six", "Opens at six", "never said"]))
    yield _unsay(("cache", ["warm"]))
    yield _part(relation("payments", "cache", "fills"), relation("payments", "cache", "fills"))
    yield _part(relation("payments", "cache", "fills"))
    yield from (_open("cache", "billing"), READ)
    yield _create(entity("twice said", "note", "same", "same", "other"))
    yield from (_open("twice said"), _add(("twice said", ["same", "new"])), _unsay(("twice said", ["same"])))
    yield _open("twice said")
    yield from (_delete("twice said"), _delete("twice said"), _open("twice said"))


def _missing() -> Iterator[Call]:
    """Relations need no entities; observations do."""
    yield _add(("nobody", ["x"]))
    yield _add(("cache", ["never added"]), ("nobody", ["x"]))
    yield _open("cache")
    yield _relate(relation("ghost", "cache", "haunts"), relation("cache", "phantom", "fears"))
    yield _relate(relation("ghost", "phantom", "meets"))
    yield from (_open("ghost"), _open("phantom"), _search("ghost"), _open("cache"), READ)
    yield _add(("ghost", ["is not an entity"]))
    yield _create(entity("ghost", "spirit", "became real"))
    yield from (_open("ghost"), _search("spirit"), READ)
    yield _delete("phantom")
    yield from (_open("cache"), _open("ghost"))
    yield from (_delete("ghost"), _open("cache"))
    yield _relate(relation("left", "right", "leans_on"))
    yield from (_part(relation("left", "right", "leans_on")), READ)
    yield _relate(relation("echo", "nowhere", "calls"))
    yield from (_delete("nowhere"), READ)


def _unusual() -> Iterator[Call]:
    """Names, types and texts that may break files, YAML, URIs or terminals."""
    yield _create(*(entity(name, "unusual", f"about {name}") for name in UNUSUAL))
    yield from (_open(*UNUSUAL[:20]), _open(*UNUSUAL[20:]))
    yield _relate(*(relation(name, "payments", "near") for name in UNUSUAL))
    yield _relate(*(relation("payments", name, "near") for name in UNUSUAL))
    yield _open("payments")
    yield _add(*((name, [f"more about {name}", name]) for name in UNUSUAL))
    yield from (
        _search("more about"),
        _search("日本"),
        _search("ÜNÏ"),
        _search("\u0301"),
        _search("🙂"),
        _search("\x00"),
    )
    yield _unsay(*((name, [f"about {name}"]) for name in UNUSUAL))
    yield _create(*(entity(f"type {number}", type) for number, type in enumerate(UNUSUAL)))
    yield _relate(*(relation("type 0", "type 1", type) for type in UNUSUAL))
    yield from (_open("type 0"), _search("type 1"), _search("e\u0301"), _search("\\"), _search("%"), _search('"'))
    yield _part(*(relation("type 0", "type 1", type) for type in UNUSUAL[::2]))
    yield _open("type 0")
    yield _delete(*UNUSUAL[::3])
    yield READ
    yield _create(entity("Case"), entity("case"), entity("CASE"), entity("ﬁle"), entity("file"))
    yield _relate(relation("Case", "case", "is_not"), relation("case", "CASE", "is_not"), relation("x", "cAse"))
    yield from (_open("case"), _open("Case"), _search("case"), _delete("case"), _search("case"))
    yield from (_create(entity("cAse", "late")), _open("cAse"), _open("CASE"))
    yield _create(entity("İstanbul", "city", "ΟΔΟΣ", "Straße"))
    yield from (
        _search("istanbul"),
        _search("i̇stanbul"),
        _search("οδος"),
        _search("οδοσ"),
        _search("STRASSE"),
        _search("straße"),
    )


def _searched() -> Iterator[Call]:
    yield _create(
        entity("find me", "needle", "In a hay stack, beside the barn"),
        entity("other", "NeedleCase", "x-ray; y_axis"),
        entity("third", "hay", "a\nb  c", "needle's eye"),
    )
    for query in (
        "needle",
        "hay",
        "ay st",
        "stack, beside",
        "me",
        "m",
        "x-ray; y",
        "y_axis",
        "a\nb",
        "b  c",
        " ",
        "\n",
    ):
        yield _search(query)
    for query in ("find me", "find  me", "*", "NOT hay", '"hay"', "hay OR barn", "(", "né", "needle's", "eyeneedle"):
        yield _search(query)


def _large() -> Iterator[Call]:
    yield _create(
        *(entity(f"bulk {number:03}", "bulk", *(f"{number} says {n}" for n in range(3))) for number in range(60))
    )
    yield _relate(*(relation(f"bulk {n:03}", f"bulk {(n * 7 + 1) % 60:03}", "next") for n in range(60)))
    yield from (_search("bulk 1"), _search("17 says 3"), _open(*(f"bulk {n:03}" for n in range(0, 60, 3))))
    yield _add(*((f"bulk {n:03}", [f"later {n}"]) for n in range(0, 60, 2)))
    yield _create(entity("long", "text", "word " * 8_000, "ü" * 20_000))
    yield from (_open("long"), _search("word word"), _add(("long", ["b" * 30_000])))
    yield _unsay(("long", ["ü" * 20_000]))
    yield _open("long")
    yield _create(entity("many", "text", *(f"fact number {n}" for n in range(120))))
    yield from (_add(("many", [f"fact number {n}" for n in range(100, 140)])), _search("number 105"))
    yield _unsay(("many", [f"fact number {n}" for n in range(0, 140, 2)]))
    yield _open("many")
    yield _part(*(relation(f"bulk {n:03}", f"bulk {(n * 7 + 1) % 60:03}", "next") for n in range(0, 60, 2)))
    yield _delete(*(f"bulk {n:03}" for n in range(0, 60, 5)))
    yield from (_search("bulk"), READ)


def _wrong() -> Iterator[Call]:
    """Invalid arguments."""
    yield from ((tool, None) for tool in TOOLS if tool != "read_graph")
    yield from ((tool, {}) for tool in TOOLS if tool != "read_graph")
    values: list[object] = ["text", 5, True, None, {"name": "x"}, [1, None, "x", [], {}, 1.5]]
    for value in values:
        yield "create_entities", {"entities": value}
        yield "open_nodes", {"names": value}
    queries: list[object] = [5, 0.5, False, None, [], {}]
    for query in queries:
        yield "search_nodes", {"query": query}
    yield "create_entities", {"entities": [{"name": 1, "entityType": None, "observations": [1, "a", {}]}, 5]}
    yield "create_entities", {"entities": [{"name": "half"}, entity("whole")]}
    yield "create_entities", {"entities": json.dumps([entity("as text")])}
    yield "create_relations", {"relations": [{"from": "a", "to": "b"}, {"from": 1, "to": None, "relationType": []}]}
    yield "add_observations", {"observations": [{"entityName": "cache", "contents": "not a list"}]}
    yield "add_observations", {"observations": [{"entityName": "cache"}, {"contents": ["x"]}]}
    yield "delete_entities", {"entityNames": "cache"}
    yield "delete_observations", {"deletions": [{"entityName": "cache", "observations": [1]}]}
    yield "delete_relations", {"relations": [relation("cache", "x"), "y"]}
    yield _open("half", "whole", "as text")
    yield "create_entities", {"entities": [{**entity("extra", "x"), "colour": "red"}], "more": 1}
    yield "open_nodes", {"names": ["extra"], "depth": 2}
    yield "read_graph", {"anything": ["goes"]}


def _ended() -> Iterator[Call]:
    yield _delete("extra", "payments", "cache", "nobody")
    yield READ
    yield _create(entity("payments", "service", "made again"))
    yield from (_open("payments"), READ)


DIFFERENT: tuple[tuple[Call, str], ...] = (
    (_create(entity("one"), entity("one", "two")), "the second of two entities of a name in one call is left out"),
    (_relate(relation("a", "b"), relation("a", "b")), "a relation that is twice in one call is made once"),
    (("no_such_tool", {}), "kgd names the tools that there are"),
    (_create(entity("secret", "note", "-----BEGIN RSA PRIVATE KEY-----")), "credentials are kept out of git"),
    (_create(entity("too large", "note", "x" * 300_000)), "one entity has at most 256 KiB"),
    (_search("\ud83d"), "half of a character is no text"),
)
"""Intended differences and their reasons; docs/server-memory.md explains them. The script uses other names."""


class Asked:
    """A server on pipes, one call at a time. A call returns its result or its error."""

    def __init__(self, command: list[str], directory: Path, **environment: str) -> None:
        self._process = subprocess.Popen(
            command,
            cwd=directory,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **environment},
        )
        self._last = 0
        who = {"name": "script", "version": "1"}
        self._request("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": who})
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def call(self, name: str, arguments: dict[str, Any] | None) -> dict[str, Any]:
        given = {} if arguments is None else {"arguments": arguments}
        answer = self._request("tools/call", {"name": name, **given})
        result: dict[str, Any] = answer.get("result", {"error": answer.get("error")})
        return {key: value for key, value in result.items() if key != "isError" or value}

    def tools(self) -> list[dict[str, Any]]:
        listed: list[dict[str, Any]] = self._request("tools/list", {})["result"]["tools"]
        return listed

    def _request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._last += 1
        self._send({"jsonrpc": "2.0", "id": self._last, "method": method, "params": params})
        assert self._process.stdout is not None
        while line := self._process.stdout.readline():
            message: dict[str, Any] = json.loads(line)
            if message.get("id") == self._last:
                return message
        raise EOFError("the server has ended")

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()

    def __enter__(self) -> Asked:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()


def official(file: Path, program: Path | None = None) -> Asked:
    """The official server over a file."""
    found = program or next(one for one in SERVER_MEMORY if one.exists())
    return Asked(["node", str(found)], file.parent, MEMORY_FILE_PATH=str(file))


def shortened(value: Any) -> Any:
    """The same with a digest for every long text: enough for a comparison."""
    if isinstance(value, dict):
        return {key: shortened(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [shortened(inner) for inner in value]
    if isinstance(value, str) and len(value) > LONG:
        return f"{len(value)} characters, sha256 {hashlib.sha256(value.encode()).hexdigest()}"
    return value


def told(answer: dict[str, Any]) -> dict[str, Any]:
    """An answer for the record. Its text is kept only if it differs from the JSON of the data."""
    text, data = answer.get("content"), answer.get("structuredContent")
    if isinstance(data, dict) and text in ([_text(data)], [_text(inner) for inner in data.values()]):
        answer = {**answer, "content": "the JSON of the data"}
    found: dict[str, Any] = shortened(answer)
    return found


def _text(value: Any) -> dict[str, str]:
    return {"type": "text", "text": json.dumps(value, ensure_ascii=False, indent=2)}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, official(Path(folder) / "memory.jsonl", Path(sys.argv[1])) as server:
        recorded = {"tools": server.tools(), "answers": [told(server.call(*one)) for one in calls()]}
    with tempfile.TemporaryDirectory() as folder, official(Path(folder) / "memory.jsonl", Path(sys.argv[1])) as server:
        recorded["different"] = [told(server.call(*one)) for one, _ in DIFFERENT]
    lines = ",\n".join(json.dumps(one, separators=(",", ":")) for one in recorded["answers"])
    tools, different = json.dumps(recorded["tools"]), json.dumps(recorded["different"])
    REFERENCE.write_text(f'{{"tools":{tools},\n"different":{different},\n"answers":[\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
