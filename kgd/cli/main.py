"""The program `kgd`: reads a command line, makes the call, prints the answer or the error, and returns an exit code.

Nothing large is imported for `--help` or for a call to a running daemon.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
from collections.abc import Sequence
from itertools import chain
from typing import Any, NoReturn

from kgd import __version__
from kgd.cli import parameters, terminal
from kgd.cli.commands import (
    DRY_RUN,
    EXAMPLES,
    EXIT_CODES,
    GLOBAL,
    GROUPS,
    INTERRUPTED,
    START,
    UNHEALTHY,
    VERBS,
    Argument,
    Verb,
    function,
    verb,
)
from kgd.cli.output import about, closest, missing, show, spoken
from kgd.cli.progress import shown
from kgd.cli.terminal import clean, complain
from kgd.client.connection import Connection
from kgd.config import Home
from kgd.errors import LACKING, UNUSABLE, Invalid, KgdError, NotFound, of_defect
from kgd.git import is_revision

_TOKEN = re.compile(r"kgd_[a-z]+_\w").search
_NO_NUMBER = re.compile(r"argument (\S+): invalid (int|float) value: (.*)").fullmatch
_NO_CHOICE = re.compile(r"argument (\S+): invalid choice: (.*) \(choose from (.*)\)").fullmatch
_NO_VALUE = re.compile(r"argument (\S+): expected (?:at least )?one argument").fullmatch
"""Sentences of argparse that are reworded."""
_IS_COUNT = re.compile(r"-\d+").fullmatch
_IN_SIGHT = "does not belong on the command line, where others can see it"
LIKE_AN_OPTION = 0.65
"""Lowest similarity, without dashes, at which an unknown option counts as a misspelling."""
_ALSO_CALLED = {"limit": "max-nodes", "max-nodes": "limit"}
"""Options that limit an answer. If a command lacks one of them, its error suggests the other."""
_TEXTS = ("NAME", "TEXT")
"""Placeholders of arguments whose values may contain spaces."""
_MISSING = "the following arguments are required: "
_CLEARED_BY_EMPTY = ("name", "summary", "content")
"""Fields of a node that an empty value clears, where fields can be cleared."""
_MINE = ("json", "directory", "quiet", "no_pager", "verbose", "verb")
"""Options that only the command line reads."""


def run(argv: Sequence[str]) -> int:
    """Carry out one command and return its exit code. Expected errors never print a traceback."""
    options: dict[str, Any] = {}
    try:
        options = read(argv)
        _refuse_values(verb(options["verb"]), options)
        _go_to(options.get("directory"))
        code = _carry_out(verb(options["verb"]), options)
        sys.stdout.flush()
        return code
    except KgdError as error:
        message, at, then = spoken(error, verb(options["verb"]), options)
        about(f"{at} {message} {then}", options)
        if isinstance(error, Invalid) and not then:
            then = f"See `kgd {options['verb']} --help`."
        complain(f"{message}{f' ({at})' if at else ''}", then)
        return EXIT_CODES[error.code][0]
    except KeyboardInterrupt:
        sys.stderr.write("\n")
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of the output is gone, as with `| head`; nothing may be flushed to it at exit.
        _discard_output()
        return 128 + signal.SIGPIPE
    except OSError as error:
        if error.errno in LACKING:
            lack = of_defect(error)
            complain(lack.message, lack.next)
        elif error.errno not in UNUSABLE:
            raise
        elif error.filename is None:
            _discard_output()
            complain(f"the output cannot be written: {error.strerror}", "")
        else:
            complain(f"this file cannot be used: {error.strerror} ({error.filename})", "")
        return EXIT_CODES["UNAVAILABLE"][0]


def _discard_output() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _carry_out(chosen: Verb, options: dict[str, Any]) -> int:
    given = {name: value for name, value in options.items() if value is not None and name not in _MINE}
    if not given.get("dry_run"):
        given.pop("dry_run", None)
    if chosen.own:
        code: int = function(chosen.own)(given, options)
        return code
    is_new = chosen.before_setup and not os.path.exists(Home.find().registry)
    if is_new and (early := function(chosen.before_setup)(given)) is not None:
        show(chosen.print, early, options)
        return 0
    called = chosen.rehearsal if chosen.rehearsal and given.pop("dry_run", None) else chosen.call
    args = getattr(parameters, chosen.ask or chosen.name, dict)(given)
    if "request_id" not in args and any(argument.dest == "request_id" for argument in chosen.arguments):
        args["request_id"] = os.urandom(12).hex()  # a call repeated after a daemon's end is applied once
    with Connection(Home.find()) as connection:
        try:
            with shown(chosen.name, options) as progress:
                answer = connection.call(called, args, progress)
        finally:
            if connection.older_hub:
                newer = f"kgd {__version__}" if connection.older_hub != __version__ else "another build of it"
                found = f"the hub of this home runs kgd {connection.older_hub}, and {newer} is installed"
                complain(found, "Restart the hub: `kgd down`, then `kgd serve --listen` or its service.")
        absent = _absent(answer)
        if absent and chosen.takes and is_revision(options["uri"]):
            return _shown_commit(connection, chosen, options)
    if not absent or answer.get("nodes") or options.get("json"):
        show(chosen.print, answer, options)
    if absent and not options.get("json"):
        about(absent[0]["uri"], options)
        missing(clean({"missing": absent}), or_commit=bool(chosen.takes))
    if absent:
        return EXIT_CODES[_why_absent(absent)][0]
    if any(answer.get(name) for name in ("other_types", "unknown_lines", *filter(None, [chosen.unless]))):
        return EXIT_CODES["NOT_FOUND"][0]
    return UNHEALTHY if answer.get("ok") is False else 0


def _refuse_values(chosen: Verb, options: dict[str, Any]) -> None:
    """Refuse empty values, and ``-``, which means standard input, where a command does not read it.

    An empty text clears the field of a node. git may pass empty arguments to its hooks.
    """
    clears = _CLEARED_BY_EMPTY if any(argument.dest == "unset" for argument in chosen.arguments) else ()
    for argument in (*chosen.arguments, *GLOBAL) if chosen.group else ():
        value = options.get(argument.dest)
        values, repeats = value if isinstance(value, list) else [value], argument.options.get("nargs")
        if ("" in values or (not values and repeats != "*")) and argument.dest not in clears:
            if not argument.is_positional:
                advice = "Give a value, or leave the option out."
                raise Invalid(f"the value of {argument.flags[-1]} is empty", next=advice)
            raise Invalid(f"{argument.placeholder} is empty", next="Give a value.")
        if "-" in values and argument.is_positional and not argument.takes_dash:
            several = f", or pass several with `xargs kgd {chosen.name}`"
            other = "; `kgd ingest -` reads a text" if argument.placeholder == "SOURCE" else several
            advice = f"Give {argument.placeholder}{other}."
            raise Invalid(f"`kgd {chosen.name}` does not read standard input", next=advice)


def _absent(answer: dict[str, Any]) -> list[dict[str, Any]]:
    """The requested nodes that do not exist. `missing` may also be an object, which describes gaps in the knowledge."""
    missing = answer.get("missing", ())
    listed = missing if isinstance(missing, list) else ()
    return [{"uri": one, "similar": []} if isinstance(one, str) else one for one in listed]


def _why_absent(absent: Sequence[dict[str, Any]]) -> str:
    """The error code for missing nodes: an unreachable hub takes precedence over a node that does not exist."""
    reasons = {one.get("reason") for one in absent}
    codes = {"unreachable": "UNAVAILABLE", "forbidden": "FORBIDDEN"}
    return next((code for reason, code in codes.items() if reason in reasons), "NOT_FOUND")


def _go_to(directory: str | None) -> None:
    if directory:
        try:
            os.chdir(directory)
        except OSError as error:
            raise Invalid(
                f"cannot change to this directory: {error.strerror}", at=directory, next="Name an existing folder."
            ) from None


_ALL = "--all"
"""With `help`, lists all commands."""


class _Parser(argparse.ArgumentParser):
    """Accepts global options before and after the command; prints errors as one line and a next step."""

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Suggest a close command name. argparse would list all of them."""
        if action.dest != "verb" or value in (action.choices or ()):
            super()._check_value(action, value)
            return

        close = closest(str(value), [one.name for one in VERBS if one.group])
        advice = f"Did you mean `kgd {close}`?" if close else "`kgd help --all` lists the commands."
        _refuse(f"there is no command '{value}'", advice)

    def unexpected(self, word: str, chosen: Verb | None) -> None:
        """Refuse a word that the command, or `kgd` alone, does not accept, with a similar option if there is one."""
        if chosen and not word.startswith("-"):
            if chosen.secret:
                self.error(f"a secret {_IN_SIGHT}", chosen.secret)
            takes_text = any(one.is_positional and one.options.get("metavar") in _TEXTS for one in chosen.arguments)
            advice = f"Quote a text with spaces. See `{self.prog} --help`." if takes_text else ""
            self.error(f"unexpected argument '{word}'", advice)
        from difflib import get_close_matches

        own = (*chosen.arguments, DRY_RUN) if chosen and chosen.writes else chosen.arguments if chosen else ()
        flags = [flag for one in (*own, *GLOBAL) for flag in one.flags if flag.startswith("--")]
        option = word.partition("=")[0]
        names, given = [flag.lstrip("-") for flag in flags], option.lstrip("-")
        meant = [name for name in names if name == _ALSO_CALLED.get(given) or name.startswith(given)]
        close = meant or get_close_matches(given, names, 1, LIKE_AN_OPTION)
        self.error(f"there is no option '{option}'", f"Did you mean `--{close[0]}`?" if close else "")

    def error(self, message: str, then: str = "") -> Any:
        then = then or f"See `{self.prog} --help`."
        if wrong := _NO_NUMBER(message):
            message = f"{_long(wrong[1])} must be a {'whole ' if wrong[2] == 'int' else ''}number, not {wrong[3]}"
        elif wrong := _NO_CHOICE(message):
            message = f"{_long(wrong[1])} must be one of {wrong[3].replace(chr(39), '')}, not {wrong[2]}"
        elif wrong := _NO_VALUE(message):
            message = f"{_long(wrong[1])} needs a value"
        if _TOKEN(message):  # never shown again
            message = f"a token {_IN_SIGHT}"
            then = "Pipe it in, as in `kgd join URL < FILE`, or type it when you are asked."
        elif missing := message.partition(_MISSING)[2]:
            choices = next((one.choices for one in self._actions if one.dest == missing and one.choices), ())
            needed = f"one of {', '.join(choices)}" if choices else missing
            message = f"`{self.prog}` needs {needed}"
            examples = next((one.examples for one in VERBS if self.prog == f"kgd {one.name}"), ())
            then = f"For example, `{examples[0][0]}`. {then}" if examples and not choices else then
        _refuse(message, then)


class _ShortHelp(_Parser):
    """The parser of the program whose help shows only the first commands."""

    def format_help(self) -> str:
        return _first_commands()


def _long(flags: str) -> str:
    """The long name of an option: ``-n/--limit`` is ``--limit``."""
    return flags.rpartition("/")[2]


def _refuse(message: str, then: str) -> NoReturn:
    complain(message, then)
    sys.exit(EXIT_CODES["VALIDATION_ERROR"][0])


def read(argv: Sequence[str]) -> dict[str, Any]:
    """The options of a command line. Errors point to the help of the command."""
    argv = _with_limit(_with_help(argv))
    parser = _parser(argv)
    if not argv:
        parser.print_help()
        parser.exit()
    options, unknown = parser.parse_known_args(argv)
    if unknown:
        parser.prog = f"kgd {options.verb}" if options.verb else "kgd"
        parser.unexpected(unknown[0], verb(options.verb) if options.verb else None)
    if not options.verb:
        parser.error(f"{_MISSING}COMMAND")
    return vars(options)


def _with_help(argv: Sequence[str]) -> Sequence[str]:
    """The command line with ``help COMMAND`` as ``COMMAND --help``, also after global options. ``help --all`` becomes
    ``--all --help``."""
    with_value = {flag for one in GLOBAL if "action" not in one.options for flag in one.flags}
    at = 0
    while at < len(argv) and argv[at].startswith("-"):
        at += 2 if argv[at] in with_value else 1
    return [*argv[:at], *argv[at + 1 : at + 2], "--help"] if argv[at : at + 1] == ["help"] else argv


def _with_limit(argv: Sequence[str]) -> list[str]:
    """The command line with ``-3`` as ``-n 3``, as in ``git log``, unless the command takes a list of words."""
    options = argv[: argv.index("--")] if "--" in argv else argv
    commands = {one.name: one for one in VERBS}
    arguments = next((commands[word].arguments for word in options if word in commands), ())
    is_list = any(one.dest == "limit" for one in arguments)
    takes_words = any(one.is_positional and one.options.get("nargs") in ("*", "+") for one in arguments)
    found = (["-n", word[1:]] if is_list and not takes_words and _IS_COUNT(word) else [word] for word in options)
    return [*chain.from_iterable(found), *argv[len(options) :]]


def _parser(argv: Sequence[str]) -> _Parser:
    """The parser of this command line. Only the command in use gets its arguments, which saves most of the time."""
    lists_all = _ALL in argv
    parser = (_Parser if lists_all else _ShortHelp)(
        prog="kgd",
        usage="kgd [options] COMMAND ...",
        description=_overview() if lists_all else None,
        epilog="`kgd help COMMAND` shows its options, with examples for common commands.",
        add_help=True,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"kgd {__version__}")
    for argument in GLOBAL:
        parser.add_argument(*argument.flags, **argument.options)
    commands = parser.add_subparsers(
        dest="verb", metavar="COMMAND", help=argparse.SUPPRESS, prog="kgd", parser_class=_Parser
    )
    used = {word for word in argv if not word.startswith("-")}
    for one in VERBS:
        sub = commands.add_parser(
            one.name, description=one.help, allow_abbrev=False, usage=None if one.name in used else ""
        )
        if one.name not in used:
            continue
        if not {"-h", "--help"}.isdisjoint(argv):
            _explain(sub, one)
        for argument in (*one.arguments, *([DRY_RUN] if one.writes else [])):
            sub.add_argument(*argument.flags, **argument.options)
        shared = sub.add_argument_group("options of every command")
        for argument in GLOBAL:  # a default here would replace a value given before the command
            shared.add_argument(*argument.flags, **{**argument.options, "default": argparse.SUPPRESS})
    return parser


def _explain(parser: argparse.ArgumentParser, chosen: Verb) -> None:
    """Add the examples of a command to its help."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = _sentence(chosen.help)
    parser.usage = " ".join(["kgd", chosen.name, "[options]", *filter(None, map(_in_usage, chosen.arguments))])
    if chosen.examples:
        parser.epilog = "\n".join(("examples:", *(f"  # {purpose}\n  {line}" for line, purpose in chosen.examples)))


def _in_usage(argument: Argument) -> str:
    """A positional argument or a required option, for the first line of the help, which lists the others below."""
    if not argument.is_positional:
        return f"{argument.flags[-1]} {argument.value}" if argument.options.get("required") else ""
    choices = "" if "metavar" in argument.options else "|".join(argument.options.get("choices", ()))
    return argument.in_usage(choices or argument.placeholder)


def _sentence(text: str) -> str:
    from textwrap import fill

    return fill(f"{text[0].upper()}{text[1:]}.", terminal.width() - 2)


_ABOUT = "Shared memory for coding agents, kept in git."
_JOBS = {
    "Running": "Set up and run",
    "Writing": "Write knowledge",
    "Reading": "Find knowledge",
    "The past": "See and undo changes",
    "Sharing": "Share with your team",
    "Care": "Keep it correct",
}
"""The headings of the list of all commands."""


def _first_commands() -> str:
    """The help without a command: the first commands to try, with examples."""
    lines = [_ABOUT, "", *_columns(START), "", "examples:", *(f"  {line}" for line in EXAMPLES), ""]
    return "\n".join([*lines, "the options of a command: `kgd help COMMAND`", f"all commands: `kgd help {_ALL}`", ""])


def _overview() -> str:
    lines = [_ABOUT, ""]
    longest = max(len(one.name) for one in VERBS if one.group)
    for group in GROUPS:
        lines.append(terminal.bold(f"{_JOBS[group]}:"))
        lines += [*_columns([(one.name, one.help) for one in VERBS if one.group == group], longest), ""]
    return "\n".join(lines)


def _columns(rows: Sequence[tuple[str, str]], longest: int = 0) -> list[str]:
    """Lines of names and purposes. The names take as many columns as the longest of them, or `longest`."""
    column = (longest or max(len(name) for name, _ in rows)) + 4
    return [terminal.fitted(f"  {name:<{column - 2}}{purpose}", column) for name, purpose in rows]


def _shown_commit(connection: Connection, chosen: Verb, options: dict[str, Any]) -> int:
    """Print a commit with its changes, and return the exit code.

    Raises:
        NotFound: There is no such commit.
    """
    owner = {"workspace": options["workspace"]} if options.get("workspace") else {}
    try:
        answer = connection.call(chosen.also, {chosen.takes: options["uri"], "diff": True, **owner})
    except NotFound:
        refusal = "there is no such node, and no such commit"
        raise NotFound(refusal, at=options["uri"], next="Find it with `kgd search` or `kgd log`.") from None
    show("printing_history.history", answer, options)
    return 0
