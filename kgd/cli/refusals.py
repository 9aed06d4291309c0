"""This file is where a refusal in the words of a tool becomes one in those of the command line.

A tool speaks of ``changes[0].weight`` and of ``expect_version``; who typed ``--weight 2`` never saw either.
"""

from __future__ import annotations

import re
from typing import Any

from kgd.cli.verbs import Argument, Verb
from kgd.errors import KgdError

_OTHER_VERBS = (
    ("Make it with put, or look for it: operation 'search'", "`kgd task list` lists them, `kgd task add` makes one"),
    ("Make it with put (type task)", "Make it with `kgd task add`"),
    ("with query_container, and advance with the current version", "with `kgd task show`, then say it again"),
    ("Look for it: query_graph with operation search", "Look for it with `kgd search WORD --types atom`"),
    ("Ask query_graph for areas", "Look for areas with `kgd search WORD --types atom`"),
    ("Get the node, then put again", "Look at it with `kgd get`, then write again"),
    ("Get the node with its content, then put again", "Look at it with `kgd get`, then write again"),
    ("Get it again, look at what changed, and put with", "Look with `kgd get` at what changed, and write with"),
    ("read both sides with get, then settle it", "`kgd conflicts` shows both sides, `kgd resolve` settles it"),
    ("resolve_conflicts (`kgd resolve`)", "`kgd resolve`"),
    ('resolve_conflicts with ids ["suggestions"], or ', ""),
    ("submit_subgraph", "`kgd submit`"),
    ("append to it instead", "add to it with `kgd append`"),
    ("with put; they verify it", "with `kgd put`; that verifies it"),
    ("with put", "with `kgd put`"),
    ("with search", "with `kgd search`"),
    ("with an upsert", "with `kgd put`"),
    ("an upsert needs", "`kgd put` needs"),
)
"""What tools say, and what the command line says in its place, tried in this order."""
_PLACE = re.compile(r"(?:changes|resolutions)\[(\d+)\](?:[. ](.*))?\Z").match
_INDEXED = re.compile(r"(\w+)\[(\d+)\]\Z").match
_WORD = re.compile(r"`(\w+)`|\b(\w+_\w+)\b")


def spoken(error: KgdError, verb: Verb, given: dict[str, Any]) -> tuple[str, str, str]:
    """(message, place, next step) as the command line names things; `given` is what was typed."""
    if given.get("changes"):  # the person's own file, in the tool's words
        return error.message, error.at, error.next
    flags = {argument.dest: _name(argument) for argument in verb.arguments}
    return _reworded(error.message, flags), _place(error.at, flags, given), _reworded(error.next, flags)


def advice(answer: dict[str, Any]) -> dict[str, Any]:
    """The answer, where what it says to do and to look at names commands."""
    told = {**answer}
    if isinstance(told.get("next"), str):
        told["next"] = _reworded(told["next"], {})
    if isinstance(told.get("warnings"), list):
        told["warnings"] = [_reworded(f"{one}", {}) for one in told["warnings"]]
    return told


def _place(at: str, flags: dict[str, str], given: dict[str, Any]) -> str:
    """The option, or which of several arguments; empty where only the one change can be meant."""
    if found := _PLACE(at):
        number, inner = int(found[1]), found[2] or ""
        several = next((given[name] for name in ("uris", "ids") if len(given.get(name, ())) > 1), ())
        at = inner if inner and inner != "uri" else ""
        if number < len(several):
            return f"{several[number]} {flags.get(at, at)}".strip()
    if (found := _INDEXED(at)) and found[1] in given:
        typed = given[found[1]]
        number = int(found[2])
        return str(typed[number]) if isinstance(typed, list) and number < len(typed) else flags.get(found[1], at)
    return flags.get(at, at)


def _reworded(text: str, flags: dict[str, str]) -> str:
    for theirs, ours in _OTHER_VERBS:
        text = text.replace(theirs, ours)

    def named(match: re.Match[str]) -> str:
        flag = flags.get(match[1] or match[2])
        return match[0] if flag is None else f"`{flag}`" if match[1] else flag

    return _WORD.sub(named, text)


def _name(argument: Argument) -> str:
    if argument.is_positional:
        return str(argument.options.get("metavar") or argument.flags[0].upper())
    return argument.flags[-1]
