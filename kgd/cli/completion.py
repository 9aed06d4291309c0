"""Shell completion: scripts made from the table of commands, which run without starting kgd.

A script finds the command, skipping global options and their values. It then offers the command's options and words, or
the words that an option takes; if there are none, it offers files.
"""

from __future__ import annotations

from kgd.cli.commands import DRY_RUN, GLOBAL, VERBS, Argument, Verb

SHELLS = ("bash", "zsh", "fish")
_VALUED = "|".join(flag for argument in GLOBAL if "metavar" in argument.options for flag in argument.flags)
"""The global options that take a value, as a pattern of `case`."""


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
  local word="${{COMP_WORDS[COMP_CWORD]}}" verb="" words="" at=1
  while (( at < COMP_CWORD )); do
    case "${{COMP_WORDS[at]}}" in
      {_VALUED}) (( at += 1 )) ;;
      -*) ;;
      *) verb="${{COMP_WORDS[at]}}"; break ;;
    esac
    (( at += 1 ))
  done
  case "$verb" in
    "") words="{" ".join(verb.name for verb in VERBS if verb.group)}" ;;
{cases}
  esac
  case "$verb=${{COMP_WORDS[COMP_CWORD-1]}}" in
{values}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$word"))
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
  local -a verbs
  local verb="" at=2
  verbs=(
{names}
  )
  while (( at < CURRENT )); do
    case "$words[at]" in
      {_VALUED}) (( at += 1 )) ;;
      -*) ;;
      *) verb="$words[at]"; break ;;
    esac
    (( at += 1 ))
  done
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
    ]
    for verb in VERBS:
        if verb.group:
            lines.append(f"complete -c kgd -n 'not __kgd_verb' -a {verb.name} -d {_single(verb.help)}")
        seen = f"complete -c kgd -n '__kgd_verb {verb.name}'"
        lines += [f"{seen}{_fish_option(argument)}" for argument in _options(verb)]
        lines += [f"{seen} -a {choice}" for choice in _positional(verb)]
    return "\n".join(lines) + "\n"


def _fish_option(argument: Argument) -> str:
    spelled = "".join(f" -l {flag[2:]}" if flag.startswith("--") else f" -s {flag[1:]}" for flag in argument.flags)
    words = _choices(argument)
    value = f" -x -a {_single(' '.join(words))}" if words else " -r" if "metavar" in argument.options else ""
    return f"{spelled}{value} -d {_single(str(argument.options['help']))}"


def _single(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
