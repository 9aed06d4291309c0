"""This file is where completion scripts are made from the table of commands; they run without starting kgd."""

from __future__ import annotations

from kgd.cli.verbs import DRY_RUN, GLOBAL, VERBS, Argument, Verb

SHELLS = ("bash", "zsh", "fish")


def script(shell: str) -> str:
    """The script, to be evaluated at the start of that shell."""
    return {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell]()


def _flags(verb: Verb) -> list[str]:
    given = [*verb.arguments, *GLOBAL, *([DRY_RUN] if verb.writes else [])]
    return [flag for argument in given if not argument.is_positional for flag in argument.flags]


def _choices(argument: Argument) -> list[str]:
    return [str(choice) for choice in argument.options.get("choices", ())]


def _bash() -> str:
    cases = "\n".join(f'    {verb.name}) words="{" ".join(_flags(verb) + _positional(verb))}" ;;' for verb in VERBS)
    return f"""\
# eval "$(kgd completion bash)"
_kgd() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" verb="" words="" each
  for each in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    case "$each" in -*) ;; *) verb="$each"; break ;; esac
  done
  case "$verb" in
    "") words="{" ".join(verb.name for verb in VERBS)}" ;;
{cases}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o default -F _kgd kgd
"""


def _zsh() -> str:
    names = "\n".join(f"    {_single(f'{verb.name}:{verb.help}')}" for verb in VERBS)
    cases = "\n".join(f"    {verb.name}) compadd -- {' '.join(_flags(verb) + _positional(verb))} ;;" for verb in VERBS)
    return f"""\
# eval "$(kgd completion zsh)"
_kgd() {{
  local -a verbs
  verbs=(
{names}
  )
  if (( CURRENT == 2 )); then _describe command verbs; return; fi
  case "$words[2]" in
{cases}
  esac
  _files
}}
compdef _kgd kgd
"""


def _fish() -> str:
    lines = ["# kgd completion fish | source"]
    for verb in VERBS:
        lines.append(f"complete -c kgd -n __fish_use_subcommand -a {verb.name} -d {_single(verb.help)}")
        seen = f"'__fish_seen_subcommand_from {verb.name}'"
        lines += [f"complete -c kgd -n {seen} -l {flag[2:]}" for flag in _flags(verb) if flag.startswith("--")]
        lines += [f"complete -c kgd -n {seen} -a {choice}" for choice in _positional(verb)]
    return "\n".join(lines) + "\n"


def _positional(verb: Verb) -> list[str]:
    return [choice for argument in verb.arguments if argument.is_positional for choice in _choices(argument)]


def _single(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
