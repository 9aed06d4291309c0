"""This file is where the messages of a thread are printed.

What strangers wrote may hold characters that steer a terminal; each of them is shown as its escape.
"""

from __future__ import annotations

from typing import Any

from kgd.cli import words
from kgd.cli.terminal import bold, say
from kgd.model.fence import fenced, fenced_line


def message(one: dict[str, Any]) -> None:
    say()
    answered = f", answers {one['answers']}" if one.get("answers") else ""
    say(f"  {bold(fenced_line(one['sender'], 255))} {one.get('at', '')}  {one['uri']}{answered}")
    for line in fenced(one["content"]).rstrip("\n").split("\n"):
        say(f"    {line}")
    for call in one.get("tool_calls", ()):
        say(f"    [{fenced_line(call.get('name', 'tool'), 255)}] {fenced(words.text(call.get('arguments', '')))}")
    if one.get("content_cut"):
        say(f"    ... {one['content_cut']['of']:,} characters: `kgd get {one['uri']}`")
