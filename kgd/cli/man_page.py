"""The man page, made from the table of commands; `kgd.cli.reference --man` prints it."""

from __future__ import annotations

import re

from kgd import __version__
from kgd.cli.commands import DRY_RUN, EXIT_CODES, GLOBAL, GROUPS, INTERRUPTED, UNHEALTHY, VERBS, Argument, Verb

_DESCRIPTION = (
    "kgd keeps the knowledge of a team and its agents as a graph of small YAML files in a git repository, serves it to "
    "every MCP client of this machine, and makes each change a durable commit with an author and a reason.",
    "A command that needs the daemon starts it. A URI may be written as a path or in short, such as ./src/auth or "
    "atom:checkout-page. Nothing leaves the machine until you name a remote or a hub.",
)
_ENVIRONMENT = (
    ("KGD_HOME", "the home of kgd, in one directory: registry, state, logs"),
    ("XDG_CONFIG_HOME, XDG_STATE_HOME", "where the home is on Linux without it"),
    ("VISUAL, EDITOR", "the editor of kgd edit"),
    ("NO_COLOR, TERM", "plain output if the first is set, or the second is dumb"),
    ("SHELL", "the shell of kgd completion"),
)
_FILES = (
    (".kgd/", "the workspace of a code repository: its files, for reading and editing"),
    (".git/kgd", "their git repository"),
    ("~/.config/kgd/workspaces.yaml", "which workspaces there are, and the settings; kgd config prints where all is"),
)


def page() -> str:
    """The whole page, in the macros of man."""
    parts = [
        '.\\" Made from kgd/cli/commands.py by python -m kgd.cli.reference --man; a test compares the two.',
        f'.TH KGD 1 "" "kgd {__version__}" "User Commands"',
        ".SH NAME",
        "kgd \\- shared memory of a team and its agents, as a graph in a git repository",
        ".SH SYNOPSIS",
        ".B kgd",
        "[\\fIoptions\\fR] \\fIcommand\\fR [\\fIarguments\\fR]",
        ".SH DESCRIPTION",
        "\n.PP\n".join(_text(paragraph) for paragraph in _DESCRIPTION),
        ".SH OPTIONS",
        "Of every command:",
        *(line for argument in GLOBAL for line in _argument(argument)),
        ".PP",
        "Of commands that write:",
        *_argument(DRY_RUN),
        ".SH COMMANDS",
    ]
    for group in GROUPS:
        parts += [f".SS {_text(group)}", *(line for verb in VERBS if verb.group == group for line in _verb(verb))]
    parts += [".SH EXIT STATUS", *_items([("0", "done"), *_statuses()])]
    parts += [".SH ENVIRONMENT", *_items(_ENVIRONMENT), ".SH FILES", *_items(_FILES)]
    parts += [".SH SEE ALSO", ".BR git (1)", ".PP", _text("kgd ui shows the manual in the browser.")]
    return "\n".join(parts) + "\n"


def _statuses() -> list[tuple[str, str]]:
    named = [(str(number), f"{meaning} ({code})") for code, (number, meaning) in EXIT_CODES.items()]
    found = (str(UNHEALTHY), "doctor or fsck found something")
    return [*named, found, (str(INTERRUPTED), "interrupted")]


def _verb(verb: Verb) -> list[str]:
    places = " ".join(_place(argument) for argument in verb.arguments if argument.is_positional)
    lines = [".TP", f"\\fBkgd {_text(verb.name)}\\fR {places}".rstrip(), _text(f"{_sentence(verb.help)}.")]
    given = [line for argument in verb.arguments if not argument.is_positional for line in _argument(argument)]
    return [*lines, *([".RS", *given, ".RE"] if given else [])]


def _argument(argument: Argument) -> list[str]:
    value = argument.options.get("metavar") or "|".join(argument.options.get("choices", ()))
    takes = not str(argument.options.get("action", "")).startswith("store_")
    flags = ", ".join(f"\\fB{_text(flag)}\\fR" for flag in argument.flags)
    spelled = f"{flags} \\fI{_text(str(value or 'VALUE'))}\\fR" if takes else flags
    return [".TP", spelled, _text(str(argument.options["help"]))]


def _place(argument: Argument) -> str:
    name = f"\\fI{_text(str(argument.options.get('metavar') or argument.flags[0].upper()))}\\fR"
    many = str(argument.options.get("nargs"))
    return {"?": f"[{name}]", "+": f"{name}...", "*": f"[{name}...]"}.get(many, name)


def _items(rows: list[tuple[str, str]] | tuple[tuple[str, str], ...]) -> list[str]:
    return [line for name, meaning in rows for line in (".TP", f"\\fB{_text(name)}\\fR", _text(meaning))]


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]


def _text(text: str) -> str:
    """The text with the characters escaped that roff would interpret."""
    text = re.sub(r"\\", r"\\e", text).replace("-", "\\-").replace("'", "\\(aq").replace("`", "").replace("~", "\\(ti")
    return f"\\&{text}" if text.startswith((".", "'")) else text
