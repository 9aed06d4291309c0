"""This file is where it is printed what was taken in."""

from __future__ import annotations

from typing import Any

from kgd.cli import words
from kgd.cli.terminal import say

Answer = dict[str, Any]

SHOWN = 10
"""Nodes that are named, and lines of trouble."""
MOST_ANSWERED = 100
"""Nodes that an answer names; there may be more."""


def ingested(answer: Answer) -> None:
    """How much became of it, then what could not be taken."""
    did = "would be taken in" if answer.get("dry_run") else "looked at" if answer["kind"] == "tree" else "taken in"
    what = answer["source"] or "the text"
    say(f"{what} {did}: {words.counts(answer['counts']) or 'nothing new'}")
    nodes = answer.get("nodes", [])
    for uri in nodes[:SHOWN]:
        say(f"  {uri}")
    if len(nodes) > SHOWN:
        say(f"  and {len(nodes) - SHOWN} more" if len(nodes) < MOST_ANSWERED else "  and more")
    trouble = answer.get("trouble", [])
    for line in trouble:
        say(f"  ! {line}")
    if answer.get("more_trouble"):
        say(f"  ! and {answer['more_trouble']} more")
    if answer.get("next"):
        say(answer["next"])


def jobs(answer: Answer) -> None:
    """Those that are under way, or failed."""
    for job in answer.get("jobs", ()):
        if job["state"] == "running":
            of = f" of {job['total']}" if "total" in job else ""
            say(f"  job {job['id']}  takes in {job['source']}: {job['done']}{of}")
        elif job["state"] == "failed":
            say(f"  ! job {job['id']} did not take in {job['source']}: {job.get('failure', '')}")
