"""This file is where what must be known before one touches something becomes text for a person: `kgd context`."""

from __future__ import annotations

from typing import Any

from kgd.cli import words
from kgd.cli.terminal import bold, say

Answer = dict[str, Any]

_HEADINGS = {
    "molecule": "Areas", "atom": "Areas", "gotcha": "Traps", "pattern": "Patterns", "decision": "Decisions",
    "insight": "Facts", "task": "Tasks", "concept": "Concepts", "file": "Files", "dir": "Files",
}  # fmt: skip
_NAMED = 20


def context(answer: Answer) -> None:
    heading = ""
    for item in answer["items"]:
        if (found := _HEADINGS.get(item["kind"], "Other nodes")) != heading:
            heading = found
            say(bold(heading))
        _item(item)
    if answer["changes"]:
        say(bold("Changed lately"))
        for one in answer["changes"]:
            where = one.get("area") or words.short(one["commit"])
            by = f" {one['by']}:" if one.get("by") else ""
            say(f"  {one['at'][:10]} {where}{by} {_line(one['what'])}")
    if answer["changed_together"]:
        say(bold("Often changed together with them"))
        for one in answer["changed_together"]:
            say(f"  {one['path']}, in {one['count']} of {words.counted(one['of'], 'commits')}")
    if paths := answer["unmatched_paths"]:
        say(bold("In no area"))
        described = set(answer.get("described", ()))
        for path in paths[:_NAMED]:
            say(f"  {path}{'' if path in described else ' (nobody has described it)'}")
        if len(paths) > _NAMED:
            say(f"  and {len(paths) - _NAMED} more")
    if answer["cut"]:
        told = ", ".join(f"{one['count']} {one['what'].replace('_', ' ')}" for one in answer["cut"])
        say(f"left out for want of room: {told}; --budget N makes more")
    if missing := answer.get("missing"):
        say(missing["message"])


def _item(item: Answer) -> None:
    say(f"  {bold(item['name'])}  {item['uri']}")
    say(f"    {_line(item['why'])}")
    if stale := item.get("unverified"):
        say(f"    ! unverified: {_line(stale['reason'])}")
    if item.get("summary"):
        say(f"    {item['summary']}")
    for line in item.get("text", "").splitlines():
        say(f"    {line}" if line.strip() else "")
    if item.get("more"):
        say(f"    (more: kgd get {item['uri']})")


def _line(text: str) -> str:
    return " ".join(text.split())
