"""docs/cli.md, made from the table of commands: ``python -m kgd.cli.reference > docs/cli.md``.

With ``--man`` the man page: ``python -m kgd.cli.reference --man > docs/kgd.1``.
"""

from __future__ import annotations

import sys

from kgd.cli import man_page
from kgd.cli.commands import DRY_RUN, EXIT_CODES, GLOBAL, GROUPS, INTERRUPTED, UNHEALTHY, VERBS, Argument, Verb

_HEAD = """\
# The command line

Made from the declarations of the operations and `kgd/cli/commands.py`; a test compares them. Names and
parameters are the same as in `mcp.md`. Human output is for reading; programs use `--json`, which prints
the structured answer.

A command that needs the daemon starts it. A command marked *local* needs none and starts none.
A URI may be written as a path or in short, such as `./src/auth` or `atom:checkout-page`; answers give it in full.
"""


def page() -> str:
    """The whole page."""
    parts = [_HEAD, "## Options of every command\n", *_table(GLOBAL)]
    parts.append(f"Where something is written, also `{DRY_RUN.flags[0]}`: {DRY_RUN.options['help']}.\n")
    for group in GROUPS:
        parts.append(f"## {group}\n")
        for verb in VERBS:
            if verb.group == group:
                parts += _section(verb)
    parts += [_exit_codes()]
    return "\n".join(parts)


def _section(verb: Verb) -> list[str]:
    positional = [_placeholder(argument) for argument in verb.arguments if argument.is_positional]
    usage = " ".join(["kgd", verb.name, *positional])
    local = " (local)" if verb.alone else ""
    dry = f" Takes `{DRY_RUN.flags[0]}`." if verb.writes else ""
    return [f"### `{usage}`{local}\n", f"{verb.help[0].upper()}{verb.help[1:]}.{dry}\n", *_table(verb.arguments)]


def _table(arguments: tuple[Argument, ...]) -> list[str]:
    if not arguments:
        return []
    rows = [f"| {_spelled(argument)} | {_meaning(argument)} |" for argument in arguments]
    return ["| argument | meaning |\n|---|---|", *rows, ""]


def _spelled(argument: Argument) -> str:
    if argument.is_positional:
        return f"`{_placeholder(argument)}`"
    value = argument.options.get("metavar") or "|".join(argument.options.get("choices", ()))
    takes = not str(argument.options.get("action", "")).startswith("store_")
    return ", ".join(f"`{flag}`" for flag in argument.flags) + (
        f" `{value or 'VALUE'}`".replace("|", "\\|") if takes else ""
    )


def _placeholder(argument: Argument) -> str:
    name = str(argument.options.get("metavar") or argument.flags[0].upper())
    many = argument.options.get("nargs")
    return {"?": f"[{name}]", "+": f"{name}...", "*": f"[{name}...]"}.get(str(many), name)


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
            f"| {UNHEALTHY} | | `doctor` or `fsck` found something |",
            "| 75 | | `serve`: another daemon of this home runs already |",
            f"| {INTERRUPTED} | | interrupted |",
            "| 141 | | the reader of the output has gone |",
            "",
            "Errors go to standard error: `kgd: ` with one sentence and the place, "
            "then what to do next on its own line.",
            "",
        ]
    )


if __name__ == "__main__":
    sys.stdout.write(man_page.page() if sys.argv[1:] == ["--man"] else page())
