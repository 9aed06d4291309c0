"""Output of an answer (JSON for programs, text for a person), and errors in the words of the command line.

Next steps and places use the names that a user types: ``--weight`` instead of ``changes[0].weight``.
"""

from __future__ import annotations

import re
import sys
from typing import Any

from kgd.cli import terminal
from kgd.cli.commands import VERBS, Argument, Verb, function, verb
from kgd.errors import Advice, Do, KgdError

_PLACE = re.compile(r"(?:changes|resolutions)\[(\d+)\](?:[. ](.*))?\Z").match
_INDEXED = re.compile(r"(\w+)\[(\d+)\]\Z").match
_GLOBAL = {"workspace": "-w"}
_PARAMETERS = frozenset("changes cursor hub id ids paths source text to token uri uris url version".split())
"""Parameters that a command may have without an option."""
_OWNER = re.compile(r"\b[a-z]+://([^/\s]+)/").search
_WORD = re.compile(r"`(\w+)`|\b(\w+_\w+)\b")


def show(printer: str, answer: dict[str, Any], options: dict[str, Any]) -> None:
    """Print an answer as JSON, or as text for a person."""
    if options.get("json"):
        import json

        sys.stdout.write(json.dumps(answer, ensure_ascii=False, indent=2) + "\n")
    elif not options.get("quiet"):
        from kgd.cli import pager, printing

        answer = advised(answer, _flags(verb(options["verb"])) if "verb" in options else _GLOBAL)
        if printer != "printing_sharing.exported" or sys.stdout.isatty():  # written to a file, the bytes are kept
            answer = terminal.clean(answer)
        terminal.within(_id(answer.get("workspace")) if _is_here(options) else "")
        with pager.paged(not options.get("no_pager")):
            function(printer)(answer)
            if answer.get("cursor"):
                printing.more(answer, options)
    sys.stdout.flush()


def about(text: str, options: dict[str, Any]) -> None:
    """Begin an error about the first address in a text, whose workspace is the directory's if none was named."""
    found = _OWNER(text)
    terminal.within(found[1] if found and _is_here(options) else "")


def _is_here(options: dict[str, Any]) -> bool:
    """Whether the command was about the directory's workspace, where a short address leads to the same node."""
    return not options.get("workspace") and not options.get("directory") and "://" not in str(options.values())


def _id(workspace: Any) -> str:
    """The id of an answer's workspace, which is a text or an object."""
    return str(workspace.get("id", "")) if isinstance(workspace, dict) else str(workspace or "")


def spoken(error: KgdError, chosen: Verb, given: dict[str, Any]) -> tuple[str, str, str]:
    """(message, place, next step) in the terms of the command line; `given` are the options that were typed."""
    if given.get("changes"):  # a file of changes uses the names of the operation's parameters
        return error.message, error.at, _said(error.next)
    flags = _flags(chosen)
    message, place = _reworded(error.message, flags), _place(error.at, flags, given)
    then = _reworded(_said(error.next), flags)
    return message, "" if f"`{place}`" in message or f"`{place}`" in then else place, then


def _flags(verb: Verb) -> dict[str, str]:
    """The parameters of a command, as options."""
    return _GLOBAL | {argument.dest: _name(argument) for argument in verb.arguments}


def advised(answer: dict[str, Any], flags: dict[str, str] = _GLOBAL) -> dict[str, Any]:
    """The answer, in which next steps and warnings name commands, and a gap in the knowledge names options."""
    told = {
        name: list(map(_with_command, value)) if isinstance(value, list) else value for name, value in answer.items()
    }
    if "next" in told:
        said = _said(told["next"])
        told["next"] = _reworded(said, _GLOBAL) if isinstance(said, str) else said
    if isinstance(gap := told.get("missing"), dict):
        told["missing"] = {**gap, "message": _reworded(gap["message"], flags)}
    return told


def _with_command(row: Any) -> Any:
    """A warning, or a row with a next step of its own, with the commands that they name."""
    return {**row, "next": _said(row["next"])} if isinstance(row, dict) and "next" in row else _said(row)


_NAMES = {"move": "mv", "delete": "rm", "relate": "link", "unrelate": "unlink"}
"""The commands for changes of `put` that have another name."""


def command(do: Do) -> str:
    """The command that carries out an operation, or the operation's name if there is none."""
    for one in VERBS:
        if one.also == do.operation and one.takes in do.arguments:
            return f"`kgd {one.name} {do.arguments[one.takes]}`"
    composed = next((words for one in VERBS for name, words in one.carries_out if name == do.as_tool()), "")
    if composed:
        return f"`kgd {composed}`"
    known = [one for one in VERBS if do.operation in (one.call, one.also) and one.group]
    values = list(do.arguments.values())
    values += [_NAMES[value] for value in values if value in _NAMES]
    chosen = next((one for one in known if one.name in values), None) or min(
        known, key=lambda one: one.place, default=None
    )
    if chosen is None:
        return do.operation
    flags = {argument.dest: argument for argument in chosen.arguments}
    words = [_given(flags[name], value) for name, value in do.arguments.items() if name in flags]
    return f"`{' '.join(['kgd', chosen.name, *words])}`"


def _given(argument: Argument, value: str) -> str:
    if argument.is_positional:
        return f"'{value}'" if " " in value and "'" not in value else value
    return argument.flags[-1] if "action" in argument.options and value == "true" else f"{argument.flags[-1]} {value}"


def _said(text: Any) -> Any:
    return text.said(command) if isinstance(text, Advice) else text


def _place(at: str, flags: dict[str, str], given: dict[str, Any]) -> str:
    """The option, or the position among several arguments; empty if there is only one change."""
    if found := _PLACE(at):
        number, inner = int(found[1]), found[2] or ""
        several = next((given[name] for name in ("uris", "ids") if len(given.get(name, ())) > 1), ())
        at = inner if inner and inner != "uri" else ""
        if number < len(several):
            return f"{several[number]} {flags.get(at, at)}".strip()
    if found := _INDEXED(at):
        typed = given.get(found[1], "")
        number = int(found[2])
        return str(typed[number]) if isinstance(typed, list) and number < len(typed) else flags.get(found[1], "")
    return flags.get(at, "" if at in _PARAMETERS else at)


def _reworded(text: str, flags: dict[str, str]) -> str:
    def named(match: re.Match[str]) -> str:
        flag = flags.get(match[1] or match[2])
        return match[0] if flag is None else f"`{flag}`" if match[1] else flag

    return _WORD.sub(named, text)


def _name(argument: Argument) -> str:
    if argument.is_positional:
        return str(argument.options.get("metavar") or argument.flags[0].upper())
    return argument.flags[-1]
