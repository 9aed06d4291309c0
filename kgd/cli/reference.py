"""Texts made from the table of commands: docs/cli.md, the man page, and the completion scripts of shells.

``python -m kgd.cli.reference > docs/cli.md`` and ``python -m kgd.cli.reference --man > docs/kgd.1`` make the first two.
A completion script finds the command, skipping global options and their values. It then offers the command's options
and words, or the words that an option takes. For nodes, tasks, areas and workspaces it asks a running daemon
(`kgd complete`). If there is nothing to offer, it offers files.
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
`kgd help COMMAND` shows the options of a command, with examples. `kgd help --all` lists all commands; this page
describes them.

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


SHELLS = ("bash", "zsh", "fish")
_VALUED = "|".join(flag for argument in GLOBAL if "metavar" in argument.options for flag in argument.flags)
"""The global options that take a value, as a pattern of `case`."""
KINDS = {
    **dict.fromkeys(("URI", "START", "FROM", "TO"), "node"),
    "TASK": "task",
    "AREA": "atom",
    "WORKSPACE": "workspace",
}
"""What to ask the daemon for, by the name of an argument's value."""


def script(shell: str) -> str:
    """The script, for evaluation when the shell starts."""
    return {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell]()


def _options(verb: Verb) -> list[Argument]:
    given = [*verb.arguments, *GLOBAL, *([DRY_RUN] if verb.writes else [])]
    return [argument for argument in given if not argument.is_positional]


def _words(verb: Verb) -> str:
    """The words that may follow a command."""
    flags = [flag for argument in _options(verb) for flag in argument.flags]
    return " ".join([*flags, *_positional(verb)])


def _positional(verb: Verb) -> list[str]:
    return [choice for argument in verb.arguments if argument.is_positional for choice in _choices(argument)]


def _choices(argument: Argument) -> list[str]:
    return [str(choice) for choice in argument.options.get("choices", ())]


def _kind(verb: Verb, argument: Argument) -> str:
    """What the daemon completes for an argument, or nothing."""
    if verb.name == "task" and argument.is_positional and "metavar" in argument.options:
        return "task"
    named = str(argument.options.get("metavar"))
    if named in ("SOURCE", "TARGET"):  # the ends of a relation; elsewhere files
        return "node" if verb.group == "Writing" else ""
    return KINDS.get(named, "")


def _asked(*, positional: bool) -> str:
    """The arms of `case` that set `kind`: by command for its positional arguments, else by command and option."""
    found: dict[str, list[str]] = {}
    for verb in VERBS:
        for argument in verb.arguments:
            if (kind := _kind(verb, argument)) and argument.is_positional == positional:
                places = [verb.name] if positional else [f"{verb.name}={flag}" for flag in argument.flags]
                found.setdefault(kind, []).extend(places)
    return "\n".join(f"    {'|'.join(dict.fromkeys(places))}) kind={kind} ;;" for kind, places in found.items())


def _kinds(previous: str) -> str:
    """The statements of bash and zsh that set `kind` to what the daemon completes, if anything.

    Args:
        previous: The expression for the word before the completed one.
    """
    switches = dict.fromkeys(
        flag for verb in VERBS for argument in _options(verb) if not argument.value for flag in argument.flags
    )
    return f"""\
  case "$verb" in
{_asked(positional=True)}
  esac
  case "{previous}" in
    {"|".join(switches)}) ;;
    -*) kind="" ;;
  esac
  case "$verb={previous}" in
{_asked(positional=False)}
    *=-w|*=--workspace) kind=workspace; workspace="" ;;
  esac"""


def _values(separator: str) -> list[tuple[str, str]]:
    """Pairs of a pattern for command and option, and the words that the option takes."""
    return [
        ("|".join(f"{verb.name}{separator}{flag}" for flag in argument.flags), " ".join(_choices(argument)))
        for verb in VERBS
        for argument in _options(verb)
        if _choices(argument)
    ]


def _bash() -> str:
    cases = "\n".join(f'    {verb.name}) words="{_words(verb)}" ;;' for verb in VERBS)
    values = "\n".join(f'    {pattern}) words="{words}" ;;' for pattern, words in _values("="))
    return f"""\
# eval "$(kgd completion bash)"
_kgd() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" verb="" words="" at=1 last=$(( COMP_CWORD - 1 ))
  local workspace="" directory="" kind=""
  while (( last > 0 )) && [[ "$word" == :* || "${{COMP_WORDS[last]}}" == : ]]; do
    word="${{COMP_WORDS[last]}}$word"; (( last -= 1 ))  # bash splits words at colons
  done
  while (( at <= last )); do
    case "${{COMP_WORDS[at]}}" in
      -w|--workspace) workspace="${{COMP_WORDS[at+1]}}"; (( at += 1 )) ;;
      -C|--directory) directory="${{COMP_WORDS[at+1]}}"; (( at += 1 )) ;;
      -*) ;;
      *) verb="${{COMP_WORDS[at]}}"; break ;;
    esac
    (( at += 1 ))
  done
  case "$verb" in
    "") words="{" ".join(verb.name for verb in VERBS if verb.group)}" ;;
{cases}
  esac
  case "$verb=${{COMP_WORDS[last]}}" in
{values}
  esac
{_kinds("${COMP_WORDS[last]}")}
  [[ "$word" != -* ]] || kind=""
  [[ "$kind" != workspace ]] || words=""
  COMPREPLY=($(compgen -W "$words" -- "$word"))
  [[ -n "$kind" ]] || return
  local IFS=$'\\n'
  COMPREPLY+=($(command kgd complete "$kind" "$word" "$workspace" "$directory" 2>/dev/null))
  [[ "$kind" != node ]] || COMPREPLY+=($(compgen -f -- "$word"))
  [[ "$word" != *:* ]] || COMPREPLY=("${{COMPREPLY[@]#"${{word%"${{word##*:}}"}}"}}")
}}
complete -o default -F _kgd kgd
"""


def _zsh() -> str:
    names = "\n".join(f"    {_single(f'{verb.name}:{verb.help}')}" for verb in VERBS if verb.group)
    cases = "\n".join(f"    {verb.name}) compadd -- {_words(verb)} ;;" for verb in VERBS)
    values = "\n".join(f"    {pattern}) compadd -- {words}; return ;;" for pattern, words in _values("="))
    return f"""\
# eval "$(kgd completion zsh)"
(( $+functions[compdef] )) || {{ autoload -Uz compinit && compinit }}
_kgd() {{
  local -a verbs found
  local verb="" at=2 workspace="" directory="" kind=""
  verbs=(
{names}
  )
  while (( at < CURRENT )); do
    case "$words[at]" in
      -w|--workspace) workspace="$words[at+1]"; (( at += 1 )) ;;
      -C|--directory) directory="$words[at+1]"; (( at += 1 )) ;;
      -*) ;;
      *) verb="$words[at]"; break ;;
    esac
    (( at += 1 ))
  done
{_kinds("$words[CURRENT-1]")}
  [[ "$PREFIX" != -* ]] || kind=""
  if [[ -n "$kind" ]]; then
    found=(${{(f)"$(command kgd complete "$kind" "$PREFIX" "$workspace" "$directory" 2>/dev/null)"}})
    compadd -- $found
    [[ "$kind" != workspace ]] || return
  fi
  if [[ -z "$verb" ]]; then _describe command verbs; return; fi
  case "$verb=$words[CURRENT-1]" in
{values}
  esac
  case "$verb" in
{cases}
  esac
  _files
}}
compdef _kgd kgd
"""


def _fish() -> str:
    lines = [
        "# kgd completion fish | source",
        "function __kgd_verb",
        "  set -l words (commandline -opc)",
        "  set -e words[1]",
        "  while set -q words[1]",
        "    switch $words[1]",
        f"      case {_VALUED.replace('|', ' ')}",
        "        set -e words[1]",
        "      case '-*'",
        "      case '*'",
        '        contains -- $words[1] $argv; or test -z "$argv"',
        "        return",
        "    end",
        "    set -e words[1]",
        "  end",
        "  return 1",
        "end",
        "function __kgd_complete",
        "  set -l words (commandline -opc)",
        "  set -l workspace ''",
        "  set -l directory ''",
        "  for at in (seq (math (count $words) - 1))",
        "    contains -- $words[$at] -w --workspace; and set workspace $words[(math $at + 1)]",
        "    contains -- $words[$at] -C --directory; and set directory $words[(math $at + 1)]",
        "  end",
        "  command -q kgd; and command kgd complete $argv[1] (commandline -ct) $workspace $directory 2>/dev/null",
        "end",
        "complete -c kgd -s w -l workspace -x -a '(__kgd_complete workspace)'",
    ]
    for verb in VERBS:
        if verb.group:
            lines.append(f"complete -c kgd -n 'not __kgd_verb' -a {verb.name} -d {_single(verb.help)}")
        seen = f"complete -c kgd -n '__kgd_verb {verb.name}'"
        lines += [f"{seen}{_fish_option(verb, argument)}" for argument in _options(verb)]
        lines += [f"{seen} -a {choice}" for choice in _positional(verb)]
        kinds = dict.fromkeys(_kind(verb, argument) for argument in verb.arguments if argument.is_positional)
        lines += [f"{seen} -a '(__kgd_complete {kind})'" for kind in kinds if kind]
    return "\n".join(lines) + "\n"


def _fish_option(verb: Verb, argument: Argument) -> str:
    spelled = "".join(f" -l {flag[2:]}" if flag.startswith("--") else f" -s {flag[1:]}" for flag in argument.flags)
    words = _choices(argument)
    kind = "workspace" if "-w" in argument.flags else _kind(verb, argument)
    offered = f"(__kgd_complete {kind})" if kind else " ".join(words)
    value = f" -x -a {_single(offered)}" if offered else " -r" if "metavar" in argument.options else ""
    return f"{spelled}{value} -d {_single(str(argument.options['help']))}"


def _single(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


if __name__ == "__main__":
    sys.stdout.write(man() if sys.argv[1:] == ["--man"] else page())
