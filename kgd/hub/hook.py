"""The git hooks of a hub, started by git during a push; standard library only.

    pre-receive    the objects are in quarantine: are they accepted?
    proc-receive   the objects are in the repository and no ref has moved: what happens to each update?

Both hooks send git's input to the hub that started git, and return the hub's answer. Without an answer the push is
refused.
"""

from __future__ import annotations

import json
import socket
import sys
from typing import Any, BinaryIO

ANSWER_LIMIT = 1 << 20
SECONDS = 300.0


def main(name: str, where: str, push: str, quarantine: str) -> int:
    """The exit code of the hook. `where` is the hub's socket, `push` the name of the push."""
    try:
        if name == "pre-receive":
            updates = [line.split(" ", 2) for line in sys.stdin.read().splitlines()]
            return _print(_ask(where, {"push": push, "updates": updates, "quarantine": quarantine}))
        return _proc_receive(where, push, sys.stdin.buffer, sys.stdout.buffer)
    except (OSError, ValueError) as error:
        sys.stderr.write(f"the hub could not check this push, so it is refused: {error}\n")
        return 1


def _proc_receive(where: str, push: str, reader: BinaryIO, writer: BinaryIO) -> int:
    """The protocol is described in gitprotocol-pack and githooks(5)."""
    hello = _packet(reader) or b""
    if not hello.startswith(b"version=1"):
        raise ValueError("git speaks another version")
    while _packet(reader) is not None:
        pass
    _send(writer, b"version=1\0")
    _flush(writer)
    updates = []
    while (line := _packet(reader)) is not None:
        updates.append(line.decode().rstrip("\n").split(" ", 2))
    answer = _ask(where, {"push": push, "updates": updates})
    for one in answer.get("results") or [[f"ng {update[2]} not accepted"] for update in updates]:
        for word in one:
            _send(writer, word.encode())
    _flush(writer)
    _print(answer)
    return 0


def _ask(where: str, question: dict[str, Any]) -> dict[str, Any]:
    with socket.socket(socket.AF_UNIX) as hub:
        hub.settimeout(SECONDS)
        hub.connect(where)
        hub.sendall(json.dumps(question).encode() + b"\n")
        said = bytearray()
        while part := hub.recv(1 << 16):
            said += part
            if len(said) > ANSWER_LIMIT:
                raise ValueError("the answer is too long")
    found = json.loads(said)
    if not isinstance(found, dict) or not isinstance(found.get("refused"), str):
        raise ValueError("the answer is invalid")
    return found


def _print(answer: dict[str, Any]) -> int:
    """Print the messages, which git shows to the pusher after `remote:`; returns the exit code."""
    for line in answer.get("say", ()):
        sys.stderr.write(f"{line}\n")
    if answer["refused"]:
        sys.stderr.write(f"{answer['refused']}\n")
        return 1
    return 0


def _packet(reader: BinaryIO) -> bytes | None:
    """The next packet line; None for a flush."""
    size = int(reader.read(4), 16)
    return None if size == 0 else reader.read(size - 4)


def _send(writer: BinaryIO, data: bytes) -> None:
    writer.write(b"%04x" % (len(data) + 4) + data)


def _flush(writer: BinaryIO) -> None:
    writer.write(b"0000")
    writer.flush()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:5]))
