"""Random input: every refusal is typed, nothing takes long. Limited by count here, by time in `make soak`."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kgd.codec import documents, paths
from kgd.config import Home
from kgd.daemon.daemon import Daemon
from kgd.errors import Internal, KgdError
from kgd.git.layout import locate
from kgd.model import uri as uris
from kgd.tools import TOOLS, call
from kgd.tools.session import Session
from kgd.workspace.workspace import Workspace
from tests.codec.hostile import PATHS, URIS, YAML
from tests.hostile import arguments, frames
from tests.hostile.target import CODES, Target
from tests.surfaces.conftest import make_code

pytestmark = pytest.mark.slow

PATIENCE = 8.0
"""Seconds that one input may take."""
SOAK_SECONDS = 60.0

Dice = random.Random
Attempt = Callable[[Dice], None]

SYLLABLES = [
    "concept",
    "file",
    "dir",
    "://",
    "/",
    "ws",
    "shop",
    "..",
    ".",
    "%2E",
    "%2F",
    "%",
    "_",
    "~",
    "a",
    "B",
    ".yaml",
    "nodes",
    "\0",
    "\n",
    "\u202e",
    "\ud800",
    "é",
    "e\u0301",
    "\\",
    ":",
    " ",
    "con",
    ".git",
    "https",
    "?x=1",
    "#f",
    "a" * 300,
    "%C3%A4",
]


def text(dice: Dice) -> str:
    return "".join(dice.choices(SYLLABLES, k=dice.randrange(8)))


def mutated(dice: Dice, data: bytes) -> bytes:
    """A few bytes changed, cut, doubled or moved."""
    out = bytearray(data)
    for _ in range(dice.randrange(1, 6)):
        at = dice.randrange(len(out) + 1)
        match dice.randrange(5):
            case 0:
                out[at : at + 1] = bytes([dice.randrange(256)])
            case 1:
                del out[at : at + dice.randrange(1, 20)]
            case 2:
                out[at:at] = dice.choice(
                    [b"- ", b"[", b"{", b": ", b"\n", b"  ", b'"', b"'", b"|", b"&a ", b"*a", b"!!x "]
                )
            case 3:
                out[at:at] = out[at : at + dice.randrange(1, 40)] * dice.randrange(1, 4)
            case _:
                out[at:at] = dice.choice(["\u202e", "é", "\0", "\x85", "\ufeff"]).encode()
    return bytes(out)


def value(dice: Dice, depth: int = 3) -> Any:
    """Any JSON value, often with words that have a meaning."""
    if depth and dice.random() < 0.4:
        if dice.random() < 0.5:
            return [value(dice, depth - 1) for _ in range(dice.randrange(4))]
        return {dice.choice(WORDS): value(dice, depth - 1) for _ in range(dice.randrange(5))}
    return dice.choice(
        [
            None,
            True,
            False,
            0,
            1,
            -1,
            2**63,
            1e308,
            0.5,
            "",
            text(dice),
            dice.choice(WORDS),
            "concept://shop/good",
            "[1]",
            '{"op": "upsert"}',
            "HEAD",
            "x" * 2_000,
        ]
    )


OPS: list[str] = TOOLS["put"].Params.model_json_schema()["properties"]["changes"]["items"]["properties"]["op"]["enum"]
FIELDS = sorted({name for tool in TOOLS.values() for name in tool.Params.model_fields})
WORDS = [
    *FIELDS,
    "op",
    *OPS,
    "uri",
    "type",
    "name",
    "summary",
    "content",
    "tags",
    "data",
    "relations",
    "target",
    "source",
    "weight",
    "to",
    "text",
    "__proto__",
]


def some_arguments(dice: Dice, tool: str) -> dict[str, Any]:
    """Half of it known parameters, half of it anything."""
    if dice.random() < 0.3:
        bad = dice.choice([one for one in arguments.ALL if one.tool == tool] or arguments.ALL)
        return {**bad.arguments, **({dice.choice(FIELDS): value(dice)} if dice.random() < 0.5 else {})}
    known = list(TOOLS[tool].Params.model_fields)
    given = {dice.choice(known): value(dice) for _ in range(dice.randrange(4))} if known else {}
    if tool == "put":
        given["changes"] = [
            {"op": dice.choice(OPS), "uri": text(dice), **{dice.choice(WORDS): value(dice) for _ in range(3)}}
            for _ in range(dice.randrange(1, 4))
        ]
    return given


def parse_uri(dice: Dice) -> None:
    given = (
        text(dice)
        if dice.random() < 0.5
        else mutated(dice, dice.choice(URIS).text.encode("utf-8", "replace")).decode("utf-8", "surrogateescape")
    )
    found = uris.parse(given)
    assert uris.parse(str(found)) == found
    assert ".." not in paths.path_of(found, frozenset()).split("/")


def uri_of_path(dice: Dice) -> None:
    given = f"nodes/{text(dice)}" if dice.random() < 0.5 else dice.choice(PATHS).text + text(dice)
    found = paths.uri_of(given, "shop", frozenset())
    assert found is None or paths.path_of(found, frozenset()) == given


def decode_node(dice: Dice) -> None:
    base = (
        dice.choice(YAML).data[:20_000]
        if dice.random() < 0.5
        else (
            b"uri: concept://shop/a\nname: a\nsummary: b\ntags:\n- x\ncontent: |\n  a\n  b\ndata:\n  k: 1\nrelations:\n"
            b"- type: t\n  target: concept://shop/b\n  weight: 0.5\n"
        )
    )
    node = documents.decode(mutated(dice, base), at="f.yaml")
    assert documents.decode(documents.encode(node), at="f.yaml") == node


def attempts(attempt: Attempt, dice: Dice, count: int, until: float | None = None) -> int:
    """Run it `count` times or until the deadline; return the number of typed refusals. Other errors name the seed."""
    refused = done = 0
    while done < count or (until is not None and time.monotonic() < until):
        state = random.Random(seed := dice.randrange(2**32))
        began = time.monotonic()
        try:
            attempt(state)
        except KgdError as error:
            if isinstance(error, Internal) or len(str(error)) > 512 or not str(error).isprintable():
                raise AssertionError(f"{attempt.__name__}, seed {seed}: {error!r}"[:2_000]) from error
            refused += 1
        except Exception as error:
            raise AssertionError(f"{attempt.__name__}, seed {seed}: {error!r}"[:2_000]) from error
        assert time.monotonic() - began < PATIENCE, (attempt.__name__, seed)
        done += 1
    return refused


PURE = [(parse_uri, 4_000), (uri_of_path, 4_000), (decode_node, 200)]


@pytest.mark.parametrize(("attempt", "count"), PURE, ids=[attempt.__name__ for attempt, _ in PURE])
def test_any_input_is_read_or_refused_with_a_typed_error(attempt: Attempt, count: int) -> None:
    assert attempts(attempt, Dice(1), count) > count // 10


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("attempt", [attempt for attempt, _ in PURE], ids=[attempt.__name__ for attempt, _ in PURE])
def test_any_input_is_read_or_refused_in_a_long_run(attempt: Attempt) -> None:
    attempts(attempt, Dice(time.time_ns()), 1, time.monotonic() + SOAK_SECONDS)


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    home = Home.at(str(tmp_path / "home"))
    home.prepare()
    daemon = Daemon(home, since="2026-11-21T12:00:00Z", locate=locate, open_workspace=Workspace.open)
    made = Session(daemon, cwd=make_code(tmp_path / "shop"), client="fuzz", context_id="fuzz")
    call(made, "up")
    call(made, "put", {"changes": [{"op": "upsert", "uri": "concept://shop/good", "summary": "good"}]})
    yield made
    daemon.close()


def call_tool(session: Session) -> Attempt:
    def call_some_tool(dice: Dice) -> None:
        name = dice.choice(sorted(TOOLS))
        answer = TOOLS[name].call(session, some_arguments(dice, name))
        json.dumps(answer).encode()

    return call_some_tool


def test_a_tool_answers_or_refuses_any_arguments(session: Session) -> None:
    attempts(call_tool(session), Dice(2), 600)
    assert call(session, "fsck")["problems"] == []


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_a_tool_answers_or_refuses_any_arguments_in_a_long_run(session: Session) -> None:
    attempts(call_tool(session), Dice(time.time_ns()), 1, time.monotonic() + SOAK_SECONDS)


def speak(target: Target, dice: Dice, count: int) -> None:
    """Random lines to a socket of each protocol; reconnects after each hang-up."""
    bases = [frame.data for frame in [*frames.NO_MESSAGE, *frames.WRONG_REQUESTS] if len(frame.data) < 2_000]
    bases.append(frames.call(b'{"uris":["concept://shop/good"]}'))
    for _ in range(count):
        with target.mcp() if dice.random() < 0.5 else target.wire() as wire:
            for _ in range(20):
                wire.send(mutated(dice, dice.choice(bases)))
            wire.send(b'\n{"jsonrpc":"2.0","id":"last","method":"ping"}')
            while answer := wire.line():
                code = (answer.get("error") or {}).get("code")
                assert code is None or isinstance(code, int) or code in CODES, answer
                if answer.get("id") == "last":
                    break


def test_random_lines_on_the_socket_never_end_the_daemon(target: Target) -> None:
    with target.memory():
        speak(target, Dice(3), 20)
    target.answers()


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_random_lines_never_end_the_daemon_in_a_long_run(target: Target) -> None:
    until = time.monotonic() + SOAK_SECONDS
    while time.monotonic() < until:
        speak(target, Dice(time.time_ns()), 20)
        target.answers()
