"""This file is where it is printed who wrote which line of a node."""

from __future__ import annotations

from typing import Any

from kgd.cli import words
from kgd.cli.terminal import bold, say

Answer = dict[str, Any]


def blame(answer: Answer) -> None:
    for one in answer["ranges"]:
        earlier = "  or earlier" if one.get("earlier") else ""
        say(f"{bold(words.short(one['commit']))}  {one['at']}  {words.by(one)}{earlier}")
        for number, text in enumerate(one["text"].split("\n"), one["first"]):
            say(f"{number:>6}  {text}")
    if not answer["ranges"]:
        say("no content, so nobody wrote a line of it; `kgd history` has the rest")
