"""Operations: each is declared once, next to the function that runs it, for every surface.

`kgd/tools/operations.json` is made from the declarations, so that a surface knows names without importing them. The
type, choices and repetition of a command's argument follow from the operation's parameter of the same name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Flag, auto
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import orjson
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from kgd.errors import Forbidden, Invalid, KgdError, Limit
from kgd.model.access import Verb
from kgd.tools import addressing, visibility
from kgd.tools.hub_reads import carried_out, forwarded
from kgd.tools.parameters import Params, read
from kgd.tools.session import Session

ADDRESS = "a URI, or in short: services/auth, ./src/main.py, insight:a-fact"


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument: its flags, or its name if it is positional.

    Args:
        flags: ``-m --message``, or ``uri``.
        help: Its help text; the parameter's description if empty. The parameter's default is added, unless the text
            names one.
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
        told = self.help or (parameter and parameter.description) or ""
        derived: dict[str, Any] = {
            "help": _with_default(told, self.more.get("default", parameter and parameter.default))
        }
        if parameter is not None:
            derived |= _derived(parameter, positional=not self.flags.startswith("-"))
        value = self.value or ("N" if derived.get("type") == "int" else "")
        options = {**derived, **({"metavar": value} if value else {}), **self.more}
        return {name: option for name, option in options.items() if option is not None or name == "default"}


def _with_default(help: str, default: Any) -> str:
    """The help text with the default, if this is a number or a word."""
    is_shown = isinstance(default, int | float | str) and not isinstance(default, bool) and default != ""
    if not is_shown or "(default:" in help:
        return help
    return f"{help} (default: {f'{default:g}' if isinstance(default, float) else default})"


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
        ask: The function of `kgd.cli.parameters` that turns options into parameters; if empty, the function with the
            command's name. Without a function, options and parameters have the same names.
        print: The function below `kgd.cli` that prints the answer, such as ``printing.put``.
        own: The function below `kgd.cli` that runs the whole command, in place of `ask` and `print`.
        rehearsal: The operation that answers ``--dry-run``, if different.
        also: Another operation for which next steps suggest this command.
        takes: A parameter of `also`. If the argument is no node, the command calls `also` with it, and next steps with
            this parameter suggest the command.
        without: Next steps that lack this parameter suggest the command, if it has all of theirs.
        before_setup: The function below `kgd.cli` that answers, without a daemon, if nothing is set up on this machine.
        unless: A list of the answer; if it is not empty, the command exits with the code of NOT_FOUND.
        examples: Lines to type, each with its purpose; a test runs them in the order of the manual.
        secret: Advice for a word without an option, if the command reads a secret that such a word may be.
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
    takes: str = ""
    without: str = ""
    before_setup: str = ""
    unless: str = ""
    examples: tuple[tuple[str, str], ...] = ()
    secret: str = ""

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
            "takes": self.takes,
            "without": self.without,
            "before_setup": self.before_setup,
            "unless": self.unless,
            "examples": self.examples,
            "secret": self.secret,
        }
        return {name: value for name, value in row.items() if value}


def option(flags: str, help: str = "", value: str = "", **more: Any) -> Argument:
    """An argument that is declared by the parameter of the same name, with `more` options for argparse."""
    return Argument(flags, help, value, more)


def flag(flags: str, help: str, **more: Any) -> Argument:
    """An option without a value that is not a parameter."""
    return Argument(flags, help, "", {"action": "store_true", "default": None, **more})


def many(flags: str, help: str, value: str, **more: Any) -> Argument:
    """An option that may be repeated and is not a parameter."""
    return Argument(flags, help, value, {"action": "append", **more})


def names(flag: str, help: str, value: str) -> Argument:
    """An option that takes names without commas: it may be repeated, or take several names separated by commas."""
    return Argument(flag, help, value, {"action": "extend", "type": "names"})


URI = option("uri", ADDRESS, "URI")
URIS = option("uris", ADDRESS, "URI", nargs="+")
BUDGET = option("--budget", "tokens in the answer")
CURSOR = option("--cursor", "continue an answer that was cut", "CURSOR")
CONTEXT_ID = option("--context-id", "add the nodes shown to the working set of this conversation", "ID")
AS_OF = option("--as-of", "as of this commit", "COMMIT")
MESSAGE = option("-m --message", "why: the commit's subject", "TEXT", dest="message")
VERSION = option("--expect-version", "refuse if the node has changed since version N", "N", type="int")
REQUEST = option("--request-id", "a call repeated with the same id is applied once", "ID")
DETAIL = option("--detail", "its Markdown detail, kept as a separate file; - is standard input", "FILE")
WRITE = (MESSAGE, REQUEST)
SINCE = option("--since", "not before this date, such as 2026-11-20, monday or last week", "DATE")
UNTIL = option("--until", "not after this date", "DATE")
BELOW = option("--path", "only nodes at or below this path, and nodes about code there; may be repeated", "PATH")
LIMIT = option("-n --limit", "maximum number of results", dest="limit")
TYPES = names("--types", "only nodes of this type, such as insight, file or dir; may be repeated", "TYPE")
EDGE_TYPES = names(
    "--edge-types",
    "only relations of this type, such as depends_on; MENTIONS are names found in texts; may be repeated",
    "TYPE",
)
REF = option("--ref", "the ref on the remote (default: refs/heads/main; in a code repository refs/heads/kgd)", "REF")
TOKEN = option("--token", "the credential for https: env:NAME, keyring:NAME or file:PATH", "REFERENCE")
SECONDS = option("--sync", "seconds between two fetches; 0 for manual sync only", "SECONDS", type="float")
DIRECTION = option("--direction", "pull, push or both")


Answer = Mapping[str, Any]
"""A structured answer: plain data that goes onto the wire unchanged. Its shape is a TypedDict, `Operation.Result`."""

USUAL = "usual"
"""`Operation.offered` of the operations that every MCP client gets."""


class Reflects(Flag):
    """The inputs of an answer besides the parameters and the caller's rights.

    A surface may answer "unchanged" while none of these inputs has changed. NOW stands for everything else: clocks,
    other processes, usage.
    """

    TIP = auto()
    CODE = auto()
    VECTORS = auto()
    NOW = auto()
    WORKSPACE = TIP | CODE | VECTORS


@dataclass(frozen=True, slots=True)
class Hints:
    """Facts that a host may show to its user before it allows a call."""

    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False
    open_world: bool = False


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error as a client sees it: text for the model and, if the operation answers with data, the same error as
    data."""

    text: str
    data: Answer | None


def as_json(answer: Answer) -> str:
    return orjson.dumps(answer).decode()


def refused(error: KgdError) -> Refusal:
    """Code, message, place and next step, in both parts, because some hosts show the model only one of them."""
    answer = {"error": error.as_dict()}
    return Refusal(as_json(answer), answer)


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """One operation, without a transport. Its parameters and its answer are those of the function `run`.

    Args:
        offered: `USUAL`, or the MCP toolset that contains the operation; empty if only the command line and Python have
            it.
        place: Its order among the operations offered with it.
        scope: The verb that the holder of a token needs on the affected nodes; None if no token may call the operation.
        reflects: The inputs of a reading operation's answer.
        commits: The commits that it makes: their `Kgd-Op` trailer, and the verb by which pages report them.
        commands: Its commands on the command line.
        page: Its name in next steps on pages; its first command if empty.
        from_memory: Whether a call with these parameters never waits, because it needs only memory and one look-up.
            It may run on the event loop; all other calls run on a worker thread. Such an operation does not report
            progress, and asks the client's model only if told to settle conflicts.
        computes: Whether a call about workspaces of this machine reads only memory and the index, without another
            program. A hub runs few of these at once.
        forwards: Whether a call is forwarded unchanged if the workspace is on a hub; other operations do that
            themselves.
        text: The answer as text for a model.
        refusal: An error as the client receives it. Operations that replace another server's tools answer in the form
            of that server.
        app: The page with which an agent's host may show the answer; `for_app` are fields of the answer only for this
            page.
    """

    name: str
    title: str
    description: str
    hints: Hints
    run: Callable[[Session, Any], Answer]
    offered: str = ""
    place: int = 0
    scope: Verb | None = None
    reflects: Reflects = Reflects.WORKSPACE
    commits: Mapping[str, str] = field(default_factory=dict)
    commands: tuple[Command, ...] = ()
    page: str = ""
    from_memory: Callable[[Session, Any], bool] | None = None
    computes: bool = False
    forwards: bool = False
    text: Callable[[Any], str] = as_json
    refusal: Callable[[KgdError], Refusal] = refused
    app: str = ""
    for_app: tuple[str, ...] = ()
    Params: type[Params] = field(init=False)
    Result: Any = field(init=False)
    """A TypedDict. Answers are built as plain data and checked by the type checker, not on each call."""

    def __post_init__(self) -> None:
        declared = get_type_hints(self.run)
        object.__setattr__(self, "Params", declared["params"])
        object.__setattr__(self, "Result", declared["return"])

    def call(self, session: Session, arguments: Mapping[str, Any] | None) -> Answer:
        """Read the arguments and answer.

        Raises:
            KgdError: Nothing was written.
        """
        params = read(self.Params, arguments)
        try:
            return self.answer(session, params)
        except KgdError as error:
            if isinstance(error, Invalid | Limit):
                error.next = error.next or self.Params.correction(error.at)
            raise visibility.refusal(session, error, arguments or {}) from error

    def answer(self, session: Session, params: Any) -> Answer:
        """Answer arguments that have already been read, without hiding nodes that a token may not see.

        Raises:
            Forbidden: The caller holds a token, and no token may call this operation.
            KgdError: Nothing was written.
        """
        if session.principal is not None and self.scope is None:
            raise Forbidden("only the user of this machine may call this")
        with session.daemon.open_workspaces.holding():
            if self.forwards:
                texts = [*filter(None, [getattr(params, "uri", None)]), *getattr(params, "only", ())]
                reads = self.hints.read_only
                if far := addressing.far(session, params.workspace, texts, reads=reads):
                    given = params.model_dump(mode="json", exclude_unset=True, exclude={"workspace", "context_id"})
                    return (forwarded if reads else carried_out)(session, far, self.name, given, self.Result)
            found = self.at_once(session, params)
            return self.run(session, params) if found is None else found

    def at_once(self, session: Session, params: Any) -> Answer | None:
        """The answer to a call that waits for nothing; None if it may have to wait."""
        if self.from_memory is None:
            return None
        with session.daemon.steady():
            return self.run(session, params) if self.from_memory(session, params) else None
