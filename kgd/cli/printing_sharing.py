"""Answers about remotes, hubs, tokens, proposals and git's own commands as text."""

from __future__ import annotations

from kgd.cli import words
from kgd.cli.printing import Answer, diffs, health, put, tail, warnings
from kgd.cli.terminal import bold, say


def install(answer: Answer) -> None:
    dry, changed = answer.get("dry_run"), answer["changed"]
    would = dry and changed
    if answer["server"]:
        what = f"every push to {answer['git_dir']} {'would be' if would else 'is'} checked"
    else:
        what = f"plain git {'would merge' if would else 'merges'} node by node in {answer['git_dir']}"
    say(what + ("" if changed else "; nothing changed"))
    if answer["settings"]:
        say(f"  {'settings':<11}{', '.join(sorted(answer['settings']))}")
    if answer["hooks"]:
        say(f"  {'hooks':<11}{', '.join(answer['hooks'])}")
    if answer["chained"]:
        say(f"  {'kept':<11}{', '.join(answer['chained'])}: the existing hook runs first")
    for warning in answer["warnings"]:
        say(f"  ! {warning}")


def uninstall_hooks(answer: Answer) -> None:
    what = "would be removed from" if answer.get("dry_run") else "are removed from"
    say(f"kgd's settings and hooks {what} {answer['git_dir']}")
    if answer["chained"]:
        comes = "would be restored" if answer.get("dry_run") else "is restored"
        say(f"  {', '.join(answer['chained'])}: the earlier hook {comes}")
    for warning in answer["warnings"]:
        say(f"  ! {warning}")


def proposals(answer: Answer) -> None:
    for one in answer["proposals"]:
        state = "" if one["state"] == "open" else f"  [{one['state']}]"
        say(f"{bold(one['id'])}  {one['author']}, {words.age(one['age'])} ago{state}")
        if one.get("pushed_by"):
            say(f"    pushed by {one['pushed_by']}")
        say(f"    {one['message']}")
        for uri in () if "diff" in one else one["nodes"]:
            say(f"    {uri}{'  (changed here too)' if uri in one.get('conflicts', ()) else ''}")
        if one.get("more_nodes") and "diff" not in one:
            say(f"    and {one['more_nodes']} more")
        if one.get("why"):
            say(f"    ! {one['why']}")
        for bundle in one.get("reasons", ()):
            say(f"    {bundle['kind']} {' '.join(bundle['nodes'])}: {bundle['reason']}")
        diffs(one.get("diff", ()))
    if not answer["proposals"]:
        say("no open proposals")
    if answer.get("next"):
        say(answer["next"])


def compressed(answer: Answer) -> None:
    for one in answer["changes"]:
        say(f"{bold(one['kind'])}  {'  '.join(one['nodes'])}")
        say(f"    {one['reason']}")
    for line in answer.get("trouble", ()):
        say(f"  ! {line}")
    for id in answer.get("waiting", ()):
        say(f"{id} is still open from an earlier run")
    say(answer["next"])


def accepted(answer: Answer) -> None:
    put(answer)
    if answer["left"]:
        say(f"{words.counted(answer['left'], 'nodes')} of {answer['proposal']} left to decide")


def rejected(answer: Answer) -> None:
    say(f"{answer['proposal']} is rejected and archived as {answer['kept']}")
    if answer.get("still_there"):
        say(f"  ! it is closed here, but still listed by the remote: {answer['still_there']}")


def submitted(answer: Answer) -> None:
    where = answer["workspace"]
    if answer.get("remote", where) != where:
        where = f"{where} at {answer['remote']}"
    what = f" as {bold(answer['proposal'])}" if answer.get("proposal") else ""
    commit = f" ({words.short(answer['commit'])})" if answer.get("commit") else ""
    would = "dry run: nothing was sent; it would be " if answer.get("dry_run") else ""
    say(f"{would}{answer['outcome']} in {where}{what}{commit}")
    for one in answer["changes"]:
        say(f"  {one['outcome']:<10}{one['uri']}{tail(one.get('why'))}")
    if answer.get("why"):
        say(f"  because {answer['why']}")
    say(f"  {answer['look']}")
    warnings(answer)


def joined(answer: Answer) -> None:
    say(f"joined {bold(answer['hub'])}" if answer["registered"] else f"nothing of {bold(answer['hub'])} was registered")
    _holder(answer)
    if answer["registered"]:
        say(f"registered {', '.join(answer['registered'])}")
    for one in answer["kept"]:
        say(f"left {one['id']} unchanged: {one['reason']}")
    if not answer["registered"] and not answer["kept"]:
        say("the hub serves no workspace to this token")
    say(
        f"the token is stored as {answer['token']}"
        if answer.get("token")
        else "the token is not stored: nothing needs it"
    )


def left(answer: Answer) -> None:
    say(f"left {answer['hub']}{tail(', '.join(answer['left']))}")
    if answer["forgotten"]:
        say("its token is deleted here; the hub's operator can revoke it")


def whoami(answer: Answer) -> None:
    if answer["person"]:
        say(f"here: {answer['person']}")
    for hub in answer["hubs"]:
        say(bold(hub["hub"]))
        if hub.get("problem"):
            say(f"  {hub['problem']}")
        _holder(hub)
    if not answer["hubs"]:
        say("no hub was joined; `kgd join URL` joins one")


def _holder(answer: Answer) -> None:
    holder = answer.get("principal")
    if holder:
        until = f", until {holder['expires']}" if holder.get("expires") else ""
        say(f"  {holder['name']} ({holder['kind']}){until}")
        for scope in holder["scopes"]:
            say(f"  {', '.join(scope['verbs'])} on {', '.join(scope['paths'])} of {scope['workspace']}")


def token_list(answer: Answer) -> None:
    for one in answer["tokens"]:
        scopes = "; ".join(f"{','.join(s['verbs'])} {','.join(s['paths'])} of {s['workspace']}" for s in one["scopes"])
        used = f", used {one['last_used']}" if "last_used" in one else ""
        say(f"{one['id']}  {one['state']:<8} {one['name']}: {scopes}; until {one['expires']}{used}")
    if not answer["tokens"]:
        say("no tokens; `kgd token mint WORKSPACE --name NAME` makes one")


def token_revoke(answer: Answer) -> None:
    say(f"revoked {', '.join(answer['revoked'])}" if answer["revoked"] else "it was revoked already")


def token_log(answer: Answer) -> None:
    for one in answer["entries"]:
        say(" ".join(filter(None, (one["at"], one["token"], one["action"], one.get("workspace"), one.get("detail")))))


def remotes(answer: Answer) -> None:
    """Print the remotes, the commits that moved, and held changes."""
    for one in answer["remotes"]:
        say(f"{bold(one['name'])}  {one['url']}  {one['ref']}: {health(one['state'])}")
        moved = [f"{one[way]} {way}" for way in ("pulled", "pushed", "proposed") if one.get(way)]
        if moved or "pulled" in one:
            is_held = any(wait["kind"] != "proposed" for wait in one["waits"])
            say(f"  {', '.join(moved) or ('nothing moved' if is_held else 'nothing to do')}")
        if one.get("merged"):
            say(f"  merged as {words.short(one['merged'])}")
        for wait in one["waits"]:
            say(f"  ! {wait['reason']}")
            if wait.get("next"):
                say(f"    {wait['next']}")
    if not answer["remotes"]:
        say("not shared: nothing leaves this machine")
    for warning in answer.get("warnings", ()):
        say(f"! {warning}")
    if answer.get("next"):
        say(answer["next"])
