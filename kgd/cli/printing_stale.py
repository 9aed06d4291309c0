"""This file is where what is unverified becomes text for a person."""

from __future__ import annotations

from kgd.cli import printing
from kgd.cli.printing import Answer
from kgd.cli.terminal import bold, say


def stale(answer: Answer) -> None:
    if written := answer.get("verified"):
        printing.put(written)
    for node in answer["nodes"]:
        say(f"{bold(node['uri'])}  {node.get('summary') or node['name']}")
        unverified(node["unverified"])
    say(answer["next"])


def unverified(mark: Answer) -> None:
    since = f" (since {mark['since'][:10]})" if mark.get("since") else ""
    say(f"  ! unverified: {mark['reason']}{since}")
