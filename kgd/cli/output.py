"""Output of an answer (JSON for programs, text for a person, long text in a pager), and errors in the words of the
command line, with commands that were probably meant.

Next steps and places use the names that a user types: ``--weight`` instead of ``changes[0].weight``.
"""

from __future__ import annotations

import io
import re
import shutil
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from itertools import chain
from typing import Any

from kgd.cli import terminal
from kgd.cli.commands import VERBS, Argument, Verb, function, verb
from kgd.cli.terminal import complain
from kgd.config import pager
from kgd.errors import Advice, Do, KgdError
from kgd.git import is_revision

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
        from kgd.cli import printing

        answer = advised(answer, _flags(verb(options["verb"])) if "verb" in options else _GLOBAL)
        if printer != "printing_sharing.exported" or sys.stdout.isatty():  # written to a file, the bytes are kept
            answer = terminal.clean(answer)
        shortens = _id(answer.get("workspace")) if _is_here(options) else ""
        terminal.within(shortens, detailed=bool(options.get("verbose")))
        with paged(not options.get("no_pager")):
            function(printer)(answer)
            if answer.get("cursor"):
                printing.more(answer, options)
    sys.stdout.flush()


def about(text: str, options: dict[str, Any]) -> None:
    """Begin an error about the first address in a text, whose workspace is the directory's if none was named."""
    found = _OWNER(text)
    values = chain.from_iterable(value if isinstance(value, list) else [value] for value in options.values())
    typed = [value for value in values if isinstance(value, str)]
    terminal.within(found[1] if found and _is_here(options) else "", typed=typed)


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
    said = _nothing_at(error.at) if error.message == NO_NODE else error.message
    message, place = _reworded(said, flags), _place(error.at, flags, given)
    then = _reworded(_said(error.next), flags)
    return message, "" if f"`{place}`" in message or f"`{place}`" in then else place, then


def _flags(verb: Verb) -> dict[str, str]:
    """The parameters of a command, as options."""
    return _GLOBAL | {one.dest: one.placeholder if one.is_positional else one.flags[-1] for one in verb.arguments}


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
    values += [one.name for one in known if one.without and _has_all(one, do.arguments)]
    values += [_NAMES[value] for value in values if value in _NAMES]
    chosen = next((one for one in known if one.name in values), None) or min(
        known, key=lambda one: one.place, default=None
    )
    if chosen is None:
        return do.operation
    flags = {argument.dest: argument for argument in chosen.arguments}
    words = [_given(flags[name], value) for name, value in do.arguments.items() if name in flags]
    words += [f"{_GLOBAL[name]} {value}" for name, value in do.arguments.items() if name in _GLOBAL.keys() - flags]
    return f"`{' '.join(['kgd', chosen.name, *words])}`"


def _has_all(verb: Verb, arguments: Mapping[str, str]) -> bool:
    """Whether the command has all of these parameters, and `without` is not among them."""
    return arguments.keys() <= {one.dest for one in verb.arguments} - {verb.without}


def _given(argument: Argument, value: str) -> str:
    written = f"'{value}'" if " " in value and "'" not in value else value
    if argument.is_positional:
        return written
    return argument.flags[-1] if "action" in argument.options and value == "true" else f"{argument.flags[-1]} {written}"


def _said(text: Any) -> Any:
    return text.said(command) if isinstance(text, Advice) else text


def _place(at: str, flags: dict[str, str], given: dict[str, Any]) -> str:
    """The option, or the position among several arguments; empty if there is only one change."""
    if found := _PLACE(at):
        number, inner = int(found[1]), found[2] or ""
        several = next((given[name] for name in ("uris", "ids") if len(given.get(name, ())) > 1), ())
        at = inner if inner and inner != "uri" else ""
        if number < len(several) and "://" not in at:
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


NOT_RUNNABLE = (126, 127)
"""Exit codes of a shell that could not run the command."""
_UNKNOWN_SIZE = (80, 0)
"""The size if the terminal does not report one."""


class _Page(io.StringIO):
    """The collected output, which is formatted as for a terminal."""

    def isatty(self) -> bool:
        return True


@contextmanager
def paged(is_on: bool) -> Iterator[None]:
    """Show the output of the block in the pager if it has more lines than the terminal.

    This has no effect in a pipe, or on a terminal that does not report its height.
    """
    command, environment = pager()
    if not is_on or not command or not sys.stdout.isatty():
        yield
        return
    page = _Page()
    try:
        with redirect_stdout(page):
            yield
    finally:
        text, rows = page.getvalue(), shutil.get_terminal_size(_UNKNOWN_SIZE).lines
        if not rows or text.count("\n") < rows or not _show(command, environment, text):
            sys.stdout.write(text)


def _show(command: str, environment: dict[str, str], text: str) -> bool:
    """Whether the pager ran. Ctrl-C belongs to the pager meanwhile."""
    import subprocess

    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        done = subprocess.run(command, shell=True, input=text.encode(errors="replace"), env=environment, check=False)
    finally:
        signal.signal(signal.SIGINT, before)
    return done.returncode not in NOT_RUNNABLE


MEANT = {
    "add": "put",
    "area": "areas",
    "cat": "get",
    "check": "fsck",
    "commit": "put",
    "create": "put",
    "delete": "rm",
    "fetch": "sync",
    "find": "search",
    "graph": "traverse",
    "grep": "search",
    "health": "status",
    "hubs": "whoami",
    "list": "search",
    "ls": "search",
    "merge": "resolve",
    "new": "put",
    "note": "remember",
    "open": "ui",
    "pull": "sync",
    "push": "sync",
    "query": "search",
    "rebuild": "reindex",
    "remove": "rm",
    "rename": "mv",
    "restart": "down",
    "start": "up",
    "stop": "down",
    "tasks": "task",
    "tokens": "token",
    "verify": "stale --verify",
    "version": "--version",
    "view": "get",
    "web": "ui",
    "write": "put",
}


NO_NODE = "there is no such node"


def closest(word: str, names: list[str]) -> str:
    """The command that a word probably stands for; empty if none is close."""
    from difflib import get_close_matches

    return MEANT.get(word) or next(iter(get_close_matches(word, names, 1)), "")


def missing(answer: dict[str, Any], *, or_commit: bool = False) -> None:
    """Print missing nodes, with the reason, to standard error. With `or_commit`, the command also shows commits."""
    for one in answer["missing"]:
        if invalid := one.get("invalid_file"):
            said, then = f"{invalid['path']}:{invalid['line']}: {invalid['reason']}", invalid["next"]
        elif why := _UNKNOWN.get(one.get("reason", "")):
            seen = f"; last seen {one['last_seen']}" if one.get("last_seen") else ""
            detail = f": {one['detail']}" if one.get("detail") else ""
            said = why[0].format(workspace=one.get("workspace", ""))
            said, then = f"{said}{detail}{seen} ({one['uri']})", why[1].format(uri=one["uri"])
        else:
            close = ", ".join(one["similar"])
            nothing = _nothing_at(one["uri"])
            if or_commit and nothing == NO_NODE and _is_word(one["uri"]):
                nothing = "there is no such node or commit"
            said, then = f"{nothing} ({one['uri']})", f"Did you mean {close}?" if close else _found_with(one["uri"])
        complain(said, then)


def _found_with(uri: str) -> str:
    """The next step for a missing node. Its name may be meant as a commit."""
    name = uri.rpartition("/")[2]
    if uri.startswith("concept://") and is_revision(name):
        return f"`kgd show {name}` shows a commit; `kgd search` finds a node."
    return "Find it with `kgd search`."


def _nothing_at(uri: str) -> str:
    """The words for a missing node; they name a file if the address has the form of its path."""
    path = uri.partition("://")[2].partition("/")[2]
    is_file = uri.startswith("concept://") and "/" in path and "." in path.rpartition("/")[2]
    return f"there is no file {path} in the code tree, and no such node" if is_file else NO_NODE


def _is_word(uri: str) -> bool:
    """Whether the address may stand for one word, such as a branch, a tag or a commit."""
    return uri.startswith("concept://") and uri.count("/") == 3


_UNKNOWN = {
    "not_then": (
        "this node exists now, but did not exist at that commit",
        "`kgd history {uri}` shows its first commit.",
    ),
    "unreachable": ("the hub of workspace '{workspace}' does not answer", "Ask again later."),
    "forbidden": (
        "the hub of workspace '{workspace}' does not allow you to read this",
        "`kgd whoami` shows your identity there; `kgd join` replaces the token.",
    ),
    "unknown_workspace": (
        "the hub does not serve workspace '{workspace}' to your token",
        "`kgd whoami` lists its workspaces.",
    ),
}
"""The reason for a missing node, if one is known, and the next step."""
