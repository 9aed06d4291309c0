"""docs/cli.md, made from the table of commands: ``python -m kgd.cli.reference > docs/cli.md``.

With ``--man`` the man page: ``python -m kgd.cli.reference --man > docs/kgd.1``.
"""

from __future__ import annotations

import re
import sys

from kgd import __version__
from kgd.cli.commands import DRY_RUN, EXIT_CODES, GLOBAL, GROUPS, INTERRUPTED, START, UNHEALTHY, VERBS, Argument, Verb

_HEAD = """\
# The command line

Ten commands are enough for most days:

{start}
`kgd help COMMAND` shows the options of a command, with examples; this page describes all commands.

## How commands behave

The normal output is for people; programs use `--json`, which prints the structured answer. Names and parameters are the
same as those of the tools ([MCP and HTTP](mcp.md)).

A terminal gets columns, colours, dates such as "3 days ago", and short URIs: `gotcha:keys-rotate` for a node of the
directory's workspace, a path for a file. Long output opens in a pager, and a call longer than half a second shows its
progress. A pipe gets plain lines with full URIs and exact dates. kgd respects `NO_COLOR`, `CLICOLOR_FORCE`, `TERM`,
`KGD_PAGER` and `PAGER`.

A command with several arguments shows what it finds, and ends with an error if one of them fails.

A command that needs the daemon starts it. A command marked *local* neither needs nor starts it.

You may write a URI as a path or in a short form, such as `./src/auth` or `atom:checkout-page`. A path starts at the top
of the code tree, or in your directory if only that directory has it; `./` is always your directory.

This page is generated from the declarations of the operations and `kgd/cli/commands.py`; a test compares them.
"""


def page() -> str:
    """The whole page."""
    start = ["| command | purpose |\n|---|---|", *(f"| `{line}` | {purpose} |" for line, purpose in START), ""]
    parts = [_HEAD.format(start="\n".join(start)), "## Options of every command\n", *_table(GLOBAL)]
    parts.append(f"Commands that write also have `{DRY_RUN.flags[0]}`: {DRY_RUN.options['help']}.\n")
    for group in GROUPS:
        parts.append(f"## {group}\n")
        for verb in VERBS:
            if verb.group == group:
                parts += _section(verb)
    parts += [_exit_codes()]
    return "\n".join(parts)


def _section(verb: Verb) -> list[str]:
    positional = [argument.in_usage(argument.placeholder) for argument in verb.arguments if argument.is_positional]
    usage = " ".join(["kgd", verb.name, *positional])
    local = " (local)" if verb.alone else ""
    dry = f" Takes `{DRY_RUN.flags[0]}`." if verb.writes else ""
    told = [f"### `{usage}`{local}\n", f"{_sentence(verb.help)}.{dry}\n", *_table(verb.arguments)]
    if lines := [f"{line}  # {purpose}" for line, purpose in verb.examples]:
        told += ["```sh", *lines, "```\n"]
    return told


def _table(arguments: tuple[Argument, ...]) -> list[str]:
    if not arguments:
        return []
    rows = [f"| {_spelled(argument)} | {_meaning(argument)} |" for argument in arguments]
    return ["| argument | meaning |\n|---|---|", *rows, ""]


def _spelled(argument: Argument) -> str:
    if argument.is_positional:
        return f"`{argument.in_usage(argument.placeholder)}`"
    value = f" `{argument.value}`".replace("|", "\\|") if argument.value else ""
    return ", ".join(f"`{flag}`" for flag in argument.flags) + value


def _meaning(argument: Argument) -> str:
    choices = argument.options.get("choices")
    among = f": {', '.join(choices)}" if choices and argument.is_positional else ""
    return str(argument.options["help"]).replace("|", "\\|") + among


def _exit_codes() -> str:
    rows = [f"| {number} | `{code}` | {meaning} |" for code, (number, meaning) in EXIT_CODES.items()]
    return "\n".join(
        [
            "## Exit codes\n",
            "| code | error | meaning |\n|---|---|---|",
            "| 0 | | done |",
            *rows,
            f"| {UNHEALTHY} | | `doctor`, `fsck` or `verify-history` found something |",
            "| 75 | | `serve`: another daemon of this home is already running |",
            f"| {INTERRUPTED} | | interrupted |",
            "| 141 | | the reader of the output has closed it |",
            "",
            "Errors go to standard error: `kgd: ` with one sentence and the place, "
            "then what to do next on its own line.",
            "",
        ]
    )


_DESCRIPTION = (
    "kgd keeps the knowledge of a team and its agents as a graph of small YAML files in a git repository, serves it to "
    "every MCP client of this machine, and makes each change a durable commit with an author and a reason.",
    "A command that needs the daemon starts it. You may write a URI as a path or in a short form, such as ./src/auth "
    "or atom:checkout-page. Nothing leaves the machine until you name a remote or a hub.",
)
_ENVIRONMENT = (
    ("KGD_HOME", "the home of kgd, in one directory: registry, state, logs"),
    ("XDG_CONFIG_HOME, XDG_STATE_HOME", "where the home is on Linux without it"),
    ("VISUAL, EDITOR", "the editor of kgd edit"),
    ("NO_COLOR, TERM", "no colours if the first is set, or if the second is dumb"),
    ("CLICOLOR_FORCE", "colours in a pipe too, if it is set and not 0"),
    ("KGD_PAGER, PAGER", "the pager for long output (less); empty or cat for none"),
    ("SHELL", "the shell of kgd completion"),
)
_FILES = (
    (".kgd/", "the workspace of a code repository: its files, for reading and editing"),
    (".git/kgd", "their git repository"),
    ("~/.config/kgd/workspaces.yaml", "the known workspaces, and the settings; kgd config prints all paths"),
)


def man() -> str:
    """The whole page, in the macros of man."""
    parts = [
        '.\\" Made from kgd/cli/commands.py by python -m kgd.cli.reference --man; a test compares them.',
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
    found = (str(UNHEALTHY), "doctor, fsck or verify-history found something")
    return [*named, found, (str(INTERRUPTED), "interrupted")]


def _verb(verb: Verb) -> list[str]:
    positional = [argument for argument in verb.arguments if argument.is_positional]
    places = " ".join(argument.in_usage(f"\\fI{_text(argument.placeholder)}\\fR") for argument in positional)
    lines = [".TP", f"\\fBkgd {_text(verb.name)}\\fR {places}".rstrip(), _text(f"{_sentence(verb.help)}.")]
    given = [line for argument in verb.arguments if not argument.is_positional for line in _argument(argument)]
    return [*lines, *([".RS", *given, ".RE"] if given else [])]


def _argument(argument: Argument) -> list[str]:
    flags = ", ".join(f"\\fB{_text(flag)}\\fR" for flag in argument.flags)
    spelled = f"{flags} \\fI{_text(argument.value)}\\fR" if argument.value else flags
    return [".TP", spelled, _text(str(argument.options["help"]))]


def _items(rows: list[tuple[str, str]] | tuple[tuple[str, str], ...]) -> list[str]:
    return [line for name, meaning in rows for line in (".TP", f"\\fB{_text(name)}\\fR", _text(meaning))]


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]


def _text(text: str) -> str:
    """The text with the characters escaped that roff would interpret."""
    text = re.sub(r"\\", r"\\e", text).replace("-", "\\-").replace("'", "\\(aq").replace("`", "").replace("~", "\\(ti")
    return f"\\&{text}" if text.startswith((".", "'")) else text


if __name__ == "__main__":
    sys.stdout.write(man() if sys.argv[1:] == ["--man"] else page())
