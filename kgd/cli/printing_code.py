"""This file is where it is printed what was read inside of the code tree's files."""

from __future__ import annotations

from typing import Any

from kgd.cli import words
from kgd.cli.terminal import say


def code(answer: dict[str, Any]) -> None:
    """What was read, what was not and why, and what to install for the rest."""
    told = answer.get("code")
    if not told:
        return
    languages = ", ".join(
        f"{name} ({words.counted(one['symbols'], 'symbols')})" for name, one in told["languages"].items()
    )
    parts = [languages] if languages else []
    if told["documents"]:
        parts.append(f"{words.counted(told['documents'], 'documents')} in {words.counted(told['chunks'], 'chunks')}")
    if told["state"] == "reading":
        parts.append(f"reading, {words.counted(told['left'], 'files')} left")
    if parts:
        say(f"  {'inside':<11} {'; '.join(parts)}")
    if told["left_out"]:
        say(f"  {'not read':<11} {', '.join(f'{reason}: {count}' for reason, count in told['left_out'].items())}")
    for one in told["missing"]:
        say(f"  ! {one['language']}: {words.counted(one['files'], 'files')} not read; install {one['install']}")
    if told.get("trouble"):
        say(f"  ! code: {told['trouble']}")
