"""Shell completion: scripts made from the table of commands.

A script finds the command, skipping global options and their values. It then offers the command's options and words, or
the words that an option takes. For nodes, tasks, areas and workspaces it asks a running daemon
(`kgd complete`). If there is nothing to offer, it offers files.
"""

from __future__ import annotations

from kgd.cli.commands import DRY_RUN, GLOBAL, VERBS, Argument, Verb

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
