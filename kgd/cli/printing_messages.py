"""This file is where the messages of a thread are printed."""

from __future__ import annotations

from typing import Any

from kgd.cli import words
from kgd.cli.terminal import bold, say


def message(one: dict[str, Any]) -> None:
    say()
    answered = f", answers {one['answers']}" if one.get("answers") else ""
    say(f"  {bold(one['sender'])} {one.get('at', '')}  {one['uri']}{answered}")
    for line in one["content"].rstrip("\n").split("\n"):
        say(f"    {line}")
    for call in one.get("tool_calls", ()):
        say(f"    [{call.get('name', 'tool')}] {words.text(call.get('arguments', ''))}")
    if one.get("content_cut"):
        say(f"    ... {one['content_cut']['of']:,} characters: `kgd get {one['uri']}`")
