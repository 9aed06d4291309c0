"""Answers about remotes, hubs, tokens, proposals, git's own commands, imports and exports as text."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Iterable, Mapping
from typing import Any

from kgd.cli.printing import Answer, health, put, tail, warnings
from kgd.cli.printing_history import diffs
from kgd.cli.terminal import (
    address,
    alert,
    bold,
    commit,
    counted,
    is_terminal,
    say,
    say_each,
    say_field,
    table,
    when,
    with_addresses,
)


def install(answer: Answer) -> None:
    dry, changed = answer.get("dry_run"), answer["changed"]
    would = dry and changed
    if answer["server"]:
        what = f"every push to {answer['git_dir']} {'would be' if would else 'is'} checked"
    else:
        what = f"plain git {'would merge' if would else 'merges'} node by node in {answer['git_dir']}"
    say(what + ("" if changed else "; nothing changed"))
    if answer["settings"]:
        say(f"  {'settings':<11}{', '.join(sorted(answer['settings']))}", hang=13)
    if answer["hooks"]:
        say(f"  {'hooks':<11}{', '.join(answer['hooks'])}", hang=13)
    if answer["chained"]:
        say(f"  {'kept':<11}{', '.join(answer['chained'])}: the existing hook runs first")
    warnings(answer)


def uninstall_hooks(answer: Answer) -> None:
    what = "would be removed from" if answer.get("dry_run") else "are removed from"
    say(f"kgd's settings and hooks {what} {answer['git_dir']}")
    if answer["chained"]:
        comes = "would be restored" if answer.get("dry_run") else "is restored"
        say(f"  {', '.join(answer['chained'])}: the earlier hook {comes}")
    warnings(answer)


def resolve(answer: Answer) -> None:
    put(answer)
    is_one = is_terminal() and len(answer.get("settled", ())) == len(answer.get("nodes", ())) == 1
    for one in answer.get("settled", ()):
        for name, value in one["fields"].items():
            absent = "deleted" if name == "node" else "no value"
            shown = value if isinstance(value, str) else absent if value is None else json.dumps(value)
            text = textwrap.shorten(shown, 160, placeholder=" …") or "empty"
            say(f"    {name}: {text}" if is_one else f"  {address(one['uri'])}  {name}: {text}", hang=6)


def proposals(answer: Answer) -> None:
    for one in answer["proposals"]:
        state = "" if one["state"] == "open" else f"  [{one['state']}]"
        say(f"{bold(one['id'])}  {one['author']}, {when(one['at'])}{state}", hang=4)
        say_field(one, "pushed_by", "    pushed by {}")
        say(f"    {one['message']}")
        say_each(one.get("description", "").splitlines(), "    {}")
        for uri in () if "diff" in one else one["nodes"]:
            say(f"    {address(uri)}{'  (changed here too)' if uri in one.get('conflicts', ()) else ''}")
        if one.get("more_nodes") and "diff" not in one:
            say(f"    and {one['more_nodes']} more")
        say_field(one, "why", alert("    ! {}"))
        for bundle in one.get("reasons", ()):
            named = " ".join(map(address, bundle["nodes"]))
            say(f"    {bundle['kind']} {named}: {with_addresses(bundle['reason'])}", hang=6)
        diffs(one.get("diff", ()))
        _comments(one.get("discussion", ()))
        if "diff" not in one and one.get("comments"):
            say(f"    {counted(one['comments'], 'comments')}; read with `kgd proposals {one['id']}`")
    for one in answer.get("decided", ()):
        _decided(one)
    if not answer["proposals"] and not answer.get("decided"):
        say("no decided proposals" if "decided" in answer else "no open proposals")
    say_field(answer, "next")


def _decided(one: Mapping[str, Any]) -> None:
    by = f" by {one['decided_by']}" if one.get("decided_by") else ""
    where = f" ({commit(one['commit'])})" if one.get("commit") else ""
    decision = f"{one['decision']}{by}, {when(one['decided_at'])}{where}{tail(one.get('reason'))}"
    say(f"{bold(one['id'])}  {decision}", hang=4)
    say(f"    {one['message']} ({one['author']}, {when(one['at'])})")
    say_field(one, "pushed_by", "    pushed by {}")
    for uri in one["nodes"]:
        say(f"    {address(uri)}")
    if one.get("more_nodes"):
        say(f"    and {one['more_nodes']} more")
    _comments(one.get("discussion", ()))
    if "discussion" not in one and one.get("comments"):
        say(f"    {counted(one['comments'], 'comments')}; read with `kgd proposals {one['id']} --decided`")


def compressed(answer: Answer) -> None:
    for one in answer["changes"]:
        say(f"{bold(one['kind'])}  {'  '.join(map(address, one['nodes']))}", hang=4)
        say(f"    {with_addresses(one['reason'])}")
    say_each(answer.get("trouble", ()), "  ! {}")
    say_each(answer.get("waiting", ()), "{} is still open from an earlier run")
    say(answer["next"])


def accepted(answer: Answer) -> None:
    put(answer)
    if answer["left"] and not answer.get("dry_run"):
        say(f"{counted(answer['left'], 'nodes')} of {answer['proposal']} left to decide")


def commented(answer: Answer) -> None:
    say(f"{bold(answer['proposal'])} has {counted(len(answer['comments']), 'comments')}")
    _comments(answer["comments"][-1:])


def _comments(found: Iterable[Mapping[str, Any]]) -> None:
    for one in found:
        say(f"    {one['author']}, {when(one['at'])}: {one['text']}")


def rejected(answer: Answer) -> None:
    say(f"{answer['proposal']} is rejected and archived as {answer['kept']}", hang=2)
    say_field(answer, "still_there", "  ! closed here, but the remote still lists it: {}")


def submitted(answer: Answer) -> None:
    where = answer["workspace"]
    if answer.get("remote", where) != where:
        where = f"{where} at {answer['remote']}"
    proposal = answer.get("proposal")
    what = f" as {bold(proposal)}" if proposal else f" ({commit(answer['commit'])})" if answer.get("commit") else ""
    would = "dry run: nothing was sent; it would be " if answer.get("dry_run") else ""
    say(f"{would}{answer['outcome']} in {where}{what}")
    for one in answer["changes"]:
        say(f"  {one['outcome']:<10}{address(one['uri'])}{tail(one.get('why'))}", hang=12)
    say_field(answer, "why", "  because {}")
    there = f" -w {answer['workspace']}" if answer.get("remote") == answer["workspace"] else ""
    follow = f" `kgd proposals {proposal}{there}` shows it." if proposal else ""
    say(f"  {answer['look']}{follow}")
    warnings(answer)


def joined(answer: Answer) -> None:
    say(f"joined {bold(answer['hub'])}" if answer["registered"] else f"{bold(answer['hub'])}: no workspace registered")
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
    say_field(answer, "person", "here: {}")
    for hub in answer["hubs"]:
        say(bold(hub["hub"]))
        say_field(hub, "problem", "  {}")
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
    rows = [
        (
            one["id"],
            one["state"],
            one["name"],
            one["expires"],
            when(one["last_used"]) if one.get("last_used") else "never",
            _scopes(one),
        )
        for one in answer["tokens"]
    ]
    table(
        ("ID", "STATE", "NAME", "EXPIRES", "LAST USED", "SCOPES"),
        rows,
        "{0}  {1:<8} {2}: {5}; until {3}, used {4}".format,
    )
    if not answer["tokens"]:
        say("no tokens; `kgd token mint WORKSPACE --name NAME` creates one")


def _scopes(token: Answer) -> str:
    return "; ".join(f"{','.join(s['verbs'])} {','.join(s['paths'])} of {s['workspace']}" for s in token["scopes"])


def token_revoke(answer: Answer) -> None:
    say(f"revoked {', '.join(answer['revoked'])}" if answer["revoked"] else "it was already revoked")


def hub_migrate(answer: Answer) -> None:
    tokens, answers, lines = (counted(answer[name], name) for name in ("tokens", "answers", "lines"))
    counts = f"{tokens}, {answers} and {lines} of the audit log"
    is_new = answer["tokens"] or answer["answers"] or answer["lines"]
    say(f"moved {counts} to {answer['database']}" if is_new else f"{answer['database']} already has everything")
    say("start the hub with --state; without it, this home's hub accepts no tokens")


def token_log(answer: Answer) -> None:
    for one in answer["entries"]:
        told = (one["at"], one["token"], one["action"], one.get("workspace"), one.get("detail"))
        say(" ".join(filter(None, told)), hang=4)


def token_verify(answer: Answer) -> None:
    say_each(answer["problems"], "! {}")
    if not answer["last"]:
        say("no line of the audit log is in the chain yet")
    elif answer["ok"]:
        say(f"lines {answer['first']} to {answer['last']} are intact; the last hash is {answer['hash']}")
    say_field(answer, "open", "{} newer lines are not in the chain yet")


def remotes(answer: Answer) -> None:
    """Print the remotes, the commits that moved, and held changes."""
    for one in answer["remotes"]:
        say(f"{bold(one['name'])}  {one['url']}  {one['ref']}: {health(one['state'])}")
        moved = [f"{one[way]} {way}" for way in ("pulled", "pushed", "proposed") if one.get(way)]
        if moved or "pulled" in one:
            is_held = any(wait["kind"] != "proposed" for wait in one["waits"])
            say(f"  {', '.join(moved) or ('nothing moved' if is_held else 'nothing to do')}")
        if one.get("merged"):
            say(f"  merged as {commit(one['merged'])}")
        for wait in one["waits"]:
            say(alert(f"  ! {wait['reason']}"))
            say_field(wait, "next", "    {}")
    if not answer["remotes"]:
        say("not shared: nothing leaves this machine")
    warnings(answer, indent="")
    say_field(answer, "next")


def imported(answer: Answer) -> None:
    if answer.get("dry_run"):
        say("dry run: nothing was written")
    say(f"{bold(answer['source'])}, {answer['format']}: {_counts(answer['read'])}")
    done = {name: count for name, count in answer["nodes"].items() if count}
    say(f"  {_counts(done) if done else 'nothing to import'}")
    if not answer["commits"] and not answer.get("dry_run"):
        say("  nothing changed")
    for id in answer["commits"]:
        say(f"  commit {commit(id)}")
    _troubles(answer)


def exported(answer: Answer) -> None:
    if "text" in answer:
        sys.stdout.write(answer["text"])
    else:
        if answer.get("dry_run"):
            say("dry run: nothing was written")
        say(f"{bold(answer['target'])}, {answer['format']}: {_counts(answer['wrote'])}")
        say(f"  files: {_counts({k: v for k, v in answer['files'].items() if v}) or 'none'}")
    out = sys.stderr if "text" in answer else sys.stdout
    if answer["cut"]:
        out.write(f"  ! {answer['cut']} more nodes were left out: --max-nodes N, or --root URI for a part\n")
    for one in answer["troubles"]:
        out.write(f"{_trouble(one)}\n")


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(counted(count, name.replace("_", " ")) for name, count in counts.items())


def _troubles(answer: Answer) -> None:
    for one in answer["troubles"]:
        say(_trouble(one))
    say_field(answer, "more_troubles", "  ! and {} more")


def _trouble(one: dict[str, str]) -> str:
    return f"  ! {one['at']}: {one['reason']}" if one["at"] else f"  ! {one['reason']}"
