"""Answers of imports and exports as text."""

from __future__ import annotations

import sys
from typing import Any

from kgd.cli import words
from kgd.cli.terminal import bold, say

Answer = dict[str, Any]


def imported(answer: Answer) -> None:
    if answer.get("dry_run"):
        say("dry run: nothing was written")
    say(f"{bold(answer['source'])}, {answer['format']}: {_counts(answer['read'])}")
    done = {name: count for name, count in answer["nodes"].items() if count}
    say(f"  {_counts(done) if done else 'nothing to import'}")
    if not answer["commits"] and not answer.get("dry_run"):
        say("  nothing changed")
    for commit in answer["commits"]:
        say(f"  commit {words.short(commit)}")
    _troubles(answer)


def exported(answer: Answer) -> None:
    if "text" in answer:
        sys.stdout.write(answer["text"])
    else:
        if answer.get("dry_run"):
            say("dry run: nothing was written")
        say(f"{bold(answer['target'])}, {answer['format']}: {_counts(answer['wrote'])}")
        say(f"  files: {_counts({k: v for k, v in answer['files'].items() if v}) or 'none'}")
    out = sys.stderr if "text" in answer else sys.stdout
    if answer["cut"]:
        out.write(f"  ! {answer['cut']} more nodes were left out: --max-nodes N, or --root URI for a part\n")
    for one in answer["troubles"]:
        out.write(f"{_trouble(one)}\n")


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {_named(name, count)}" for name, count in counts.items())


def _named(name: str, count: int) -> str:
    """The name in singular or plural: names of counts are plurals, or outcomes of files and nodes."""
    plain = name.replace("_", " ")
    if count != 1 or not plain.endswith("s"):
        return plain
    return f"{plain[:-3]}y" if plain.endswith("ies") else plain[:-1]


def _troubles(answer: Answer) -> None:
    for one in answer["troubles"]:
        say(_trouble(one))
    if answer.get("more_troubles"):
        say(f"  ! and {answer['more_troubles']} more")


def _trouble(one: dict[str, str]) -> str:
    return f"  ! {one['at']}: {one['reason']}" if one["at"] else f"  ! {one['reason']}"
