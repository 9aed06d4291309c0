"""Declarations of commands: values that a static table can hold.

The type, choices and repetition of an argument follow from the operation's parameter of the same name.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

ADDRESS = "a URI, or in short: services/auth, ./src/main.py, insight:a-fact"


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument: its flags, or its name if it is positional.

    Args:
        flags: ``-m --message``, or ``uri``.
        help: Its help text; the parameter's description if empty.
        value: The name of its value in the help; ``N`` for a number if empty.
        more: Options of argparse, besides those derived from the parameter `dest`; None removes a derived option.
            ``type`` is one of the names in `kgd.cli.commands.TYPES`.
    """

    flags: str
    help: str = ""
    value: str = ""
    more: dict[str, Any] = field(default_factory=dict)

    def options(self, Params: type[BaseModel]) -> dict[str, Any]:
        """The options for argparse, as plain data."""
        name = self.more.get("dest", self.flags.split()[-1].lstrip("-").replace("-", "_"))
        parameter = Params.model_fields.get(name)
        derived = {"help": self.help or (parameter and parameter.description) or ""}
        if parameter is not None:
            derived |= _derived(parameter, positional=not self.flags.startswith("-"))
        value = self.value or ("N" if derived.get("type") == "int" else "")
        options = {**derived, **({"metavar": value} if value else {}), **self.more}
        return {name: option for name, option in options.items() if option is not None or name == "default"}


def _derived(parameter: FieldInfo, *, positional: bool) -> dict[str, Any]:
    """The options that follow from a parameter's annotation."""
    kinds = [kind for kind in get_args(parameter.annotation) or (parameter.annotation,) if kind is not NoneType]
    annotation = parameter.annotation if get_origin(parameter.annotation) in (list, Literal) else kinds[0]
    if get_origin(annotation) is Literal:
        return {"choices": list(get_args(annotation))}
    if annotation is bool:
        return {"action": "store_true", "default": None}
    if get_origin(annotation) is list:
        return {} if positional else {"action": "append"}
    return {"type": annotation.__name__} if annotation in (int, float) else {}


@dataclass(frozen=True, slots=True)
class Command:
    """One command of the command line.

    Args:
        group: Its section of the manual; `place` is its order there.
        name: The operation's name if empty.
        ask: The function of `kgd.cli.parameters` that turns options into parameters; if empty they have the same names.
        print: The function below `kgd.cli` that prints the answer, such as ``printing.put``.
        own: The function below `kgd.cli` that runs the whole command instead.
        rehearsal: The operation that answers ``--dry-run``, if different.
        also: Another operation for which next steps suggest this command.
    """

    group: str
    help: str
    arguments: tuple[Argument, ...] = ()
    name: str = ""
    place: int = 500
    ask: str = ""
    print: str = "printing.facts"
    own: str = ""
    rehearsal: str = ""
    also: str = ""

    def row(self, operation: str, Params: type[BaseModel]) -> dict[str, Any]:
        """The command as plain data, without defaults."""
        row = {
            "name": self.name or operation,
            "group": self.group,
            "place": self.place,
            "help": self.help,
            "arguments": [[one.flags.split(), one.options(Params)] for one in self.arguments],
            "call": operation,
            "ask": self.ask,
            "print": self.print if not self.own else "",
            "own": self.own,
            "writes": "dry_run" in Params.model_fields or bool(self.rehearsal),
            "rehearsal": self.rehearsal,
            "also": self.also,
        }
        return {name: value for name, value in row.items() if value}


def option(flags: str, help: str = "", value: str = "", **more: Any) -> Argument:
    """An argument as the parameter of its name declares it, with `more` for argparse."""
    return Argument(flags, help, value, more)


def flag(flags: str, help: str, **more: Any) -> Argument:
    """An option without a value that is not a parameter."""
    return Argument(flags, help, "", {"action": "store_true", "default": None, **more})


def many(flags: str, help: str, value: str, **more: Any) -> Argument:
    """An option that may be repeated and is not a parameter."""
    return Argument(flags, help, value, {"action": "append", **more})


def names(flag: str, help: str, value: str) -> Argument:
    """An option for names without commas: repeated, or several with commas between them."""
    return Argument(flag, help, value, {"action": "extend", "type": "names"})


URI = option("uri", ADDRESS, "URI")
URIS = option("uris", ADDRESS, "URI", nargs="+")
BUDGET = option("--budget", "tokens in the answer (4000)")
CURSOR = option("--cursor", "continue an answer that was cut", "CURSOR")
CONTEXT_ID = option("--context-id", "add the nodes shown to the working set of this conversation", "ID")
AS_OF = option("--as-of", "as of this commit", "COMMIT")
MESSAGE = option("-m --message", "why: the commit's subject", "TEXT", dest="message")
VERSION = option("--expect-version", "refuse if the node is at another version", "N", type="int")
REQUEST = option("--request-id", "a repeat with the same id is applied once", "ID")
DETAIL = option("--detail", "its Markdown detail, kept as a separate file; - is standard input", "FILE")
WRITE = (MESSAGE, REQUEST)
SINCE = option("--since", "not before this date, such as 2026-11-20, monday or last week", "DATE")
UNTIL = option("--until", "not after this date", "DATE")
LIMIT = option("--limit", "largest number (20)")
HITS = option("--limit", "largest number (10)")
OPEN = option("--limit", "largest number (50)")
TYPES = names("--types", "only nodes of this type, such as insight, file or dir; may be repeated", "TYPE")
EDGE_TYPES = names("--edge-types", "only relations of this type; may be repeated", "TYPE")
REF = option("--ref", "the ref on the remote (refs/heads/main; in a code repository refs/heads/kgd)", "REF")
TOKEN = option("--token", "the credential for https: env:NAME, keyring:NAME or file:PATH", "REFERENCE")
SECONDS = option("--sync", "seconds between two fetches; 0 for manual sync only", "SECONDS", type="float")
DIRECTION = option("--direction", "direction (both)")
