"""Answers about the daemon, workspaces, jobs and connected agents as text. Programs use `--json`."""

from __future__ import annotations

import json
import os
import re
import shlex
from typing import Any

from kgd.cli import printing
from kgd.cli.terminal import (
    address,
    alert,
    bold,
    commit,
    counted,
    counts,
    faint,
    field,
    good,
    is_detailed,
    is_terminal,
    listed,
    red,
    say,
    say_each,
    say_field,
    short_id,
    span,
    verbatim,
    when,
)

Answer = dict[str, Any]
COMMITS_NAMED = 3
_OF_TREE = ("files", "directories", "bytes", "large", "unreadable", "symlinks", "ignored")
"""Counts of the code tree. All counts that begin with ``skipped_`` are about unread files."""
_NAMES = {"unverified": "stale", "ignored": "ignored by git"}


def up(answer: Answer) -> None:
    init(answer)
    findings(answer)
    say()
    say("Connect your agents with `kgd agents install`.")
    if answer.get("created"):
        say('Record a first fact with `kgd remember "…" --about PATH`.')
    say("`kgd ui` shows the workspace in the browser.")
    if not answer.get("code_tree") and answer.get("path"):
        verbatim(
            f"There is no code here. For a client that starts elsewhere, the arguments are: mcp -C {answer['path']}"
        )


def findings(answer: Answer) -> None:
    """Print findings in the code's newest commits, each with some of its commits."""
    if answer.get("findings"):
        say()
        say(bold("Learned from the history of the code:"))
    for one in answer.get("findings", ()):
        named = ", ".join(map(short_id, one["commits"][:COMMITS_NAMED]))
        more = f" and {one['count'] - COMMITS_NAMED} more" if one["count"] > COMMITS_NAMED else ""
        say(f"  {one['what']} ({named}{more})")


def init(answer: Answer) -> None:
    """Print the workspace, new or existing."""
    id = str(answer["workspace"])
    if answer.get("dry_run"):
        say(f"would {'restore' if answer.get('restored') else 'create'} workspace {bold(id)}")
    elif answer.get("restored"):
        say(f"workspace {bold(id)} is restored with the knowledge that was kept here")
    else:
        say(f"workspace {bold(id)} is {'created' if answer.get('created') else 'up'}")
    if remote := answer.get("named_after"):
        _entry("named", f"after the remote {remote}; only the first `kgd up` can choose another name, with --id")
    for name, label in (
        ("path", "files"),
        ("git_dir", "repository"),
        ("code_tree", "code tree"),
        ("adopted", "adopted"),
    ):
        if answer.get(name):
            _entry(label, answer[name])
    _entry("shared", ", ".join(answer["published"]) or "no: nothing leaves this machine")
    counts = answer.get("counts", {})
    if counts:
        _entry("holds", _holds(counts))
    printing.warnings(answer)


def _holds(found: dict[str, int]) -> str:
    """Format the counts of nodes, then the counts of the code tree and its unread files, without the kinds of files."""
    own, tree = dict[str, int](), dict[str, int]()
    for name, value in found.items():
        if name not in ("text", "binary"):
            told = tree if name in _OF_TREE or name.startswith("skipped_") else own
            told[_NAMES.get(name, name)] = value
    return "; code: ".join(filter(None, (counts(own), counts(tree))))


def _entry(label: str, value: str) -> None:
    say(f"  {faint(format(label, '<11'))}{value}", hang=13)


def status(answer: Answer) -> None:
    daemon = answer["daemon"]
    if daemon is None:
        say("nothing is set up on this machine: there is no workspace, and no daemon runs")
        say(answer["next"])
        return
    here = answer.get("workspace")
    if here:
        say(f"workspace {bold(here['id'])} in {here['path']}")
        say_field(here, "note", alert("  ! {}"))
    elif answer.get("unavailable"):
        say(alert(f"the workspace of this directory cannot be opened: {answer['unavailable']}"))
    else:
        say("this directory has no workspace")
    if answer.get("counts"):
        field("holds", _holds(answer["counts"]))
    code(answer)
    _running_jobs(answer)
    stuck = [one for one in answer["stages"] if one["state"] in _STUCK]
    whole = not here or is_detailed() or answer["health"] in _STUCK
    for stage in () if whole else answer["stages"]:
        if stage["state"] == "waiting":
            field(stage["name"], f"waiting{printing.tail(_about(stage))}")
    _attention(answer, stuck)
    if answer.get("next") and not answer["conflicts"]:
        say(answer["next"])
    if here:
        say(f"shared: {_shared(answer)}")
    if whole:
        _daemon(daemon, answer)
        if here:
            field("tip", f"{commit(here['tip'])} on {here['branch']}")
        (_stage_table if is_terminal() else _stage_lines)(answer["stages"])


_STUCK = ("blocked", "degraded")
"""States of a stage, or of everything, that need attention."""


def _attention(answer: Answer, stuck: list[Answer]) -> None:
    """Print the problems and the open work, each with its command or reason."""
    failed = [one for one in answer.get("jobs", ()) if one["state"] == "failed"]
    lists = ("degraded", "invalid_files", "misspelt_keys", "broken_links", "to_do")
    if not stuck and not failed and not any(answer.get(name) for name in lists):
        if "workspace" in answer:
            say(f"needs attention: {good('nothing')}")
        return
    say("needs attention:")
    for stage in stuck:
        if f"{stage['name']}: {stage.get('blocker')}" not in answer["degraded"]:
            say(alert(f"  ! {stage['name']} {stage['state']}{printing.tail(_about(stage))}"), hang=4)
            say_field(stage, "next", "    {}")
    for sentence in answer["degraded"]:
        say(alert(f"  ! {_from_here(sentence)}"))
    for file in answer["invalid_files"]:
        say(red(f"  ! {file['path']}:{file['line']}: {file['reason']}"))
        say_field(file, "next", "    {}")
    say_each(answer.get("misspelt_keys", ()), alert("  ! {}"))
    broken_links(answer)
    for job in failed:
        say(f"  ! job {job['id']} failed to ingest {job['source']}: {job.get('failure', '')}")
    for one in answer.get("to_do", ()):
        say(alert(f"  ! {one['what']}; {one['next'].removesuffix('.')}"))


def _shared(answer: Answer) -> str:
    """The time of the last fetch from each remote. The answer names the remotes only if there are several."""
    told = []
    for stage in answer["stages"]:
        kind, _, remote = stage["name"].partition(" ")
        if kind == "fetch":
            at = f"synced {when(stage['last_success'])}" if "last_success" in stage else "not synced since kgd started"
            told.append(f"{remote}, {at}" if remote else f"yes, {at} (`kgd remote` shows where)")
    if hub := answer["daemon"].get("listening"):
        told.append(f"served at {hub}")
    return "; ".join(told) or "no (`kgd share` shares it)"


def _daemon(daemon: Answer, answer: Answer) -> None:
    started = f"started {when(daemon['since'])}" if is_terminal() else f"since {daemon['since']}"
    say(f"kgd {daemon['version']}, daemon {daemon['pid']} {started}: {printing.health(answer['health'])}")
    field("log", daemon["log"])
    if daemon.get("listening"):
        field("hub at", daemon["listening"])
    if pages := daemon.get("pages"):
        field("pages at", f"{pages['url']}, {counted(pages['browsers'], 'browsers')} signed in")
    if daemon.get("workspaces"):
        count = len(daemon["workspaces"])
        opened = f" ({daemon['open']} of {count} open)" if count > 1 and "open" in daemon else ""
        field("workspaces", f"{', '.join(daemon['workspaces'])}{opened}")


def _about(stage: Answer) -> str:
    return _from_here("; ".join(filter(None, (stage.get("about"), stage.get("blocker")))))


def _stage_lines(stages: list[Answer]) -> None:
    for stage in stages:
        age = f", {span(stage['age'])} ago" if "age" in stage else ""
        told = "" if stage["state"] in _STUCK else _about(stage)
        say(f"  {stage['name']:<11} {printing.health(stage['state'])}{age}{printing.tail(told)}")


def _stage_table(stages: list[Answer]) -> None:
    """Print a line for the stages that are well and have nothing to say, and one for each of the others."""
    well = []
    for stage in stages:
        told = "" if stage["state"] in _STUCK else _about(stage)
        if stage["state"] == "ok" and not told:
            well.append(stage["name"])
        else:
            told = f" ({told})" if stage["state"] == "ok" else printing.tail(told)
            field(stage["name"], f"{printing.health(stage['state'])}{told}")
    if well:
        field("healthy", ", ".join(well))


def broken_links(answer: Answer) -> None:
    """Print broken links, and the number of those left out."""
    links = answer.get("broken_links", ())
    for link in links:
        if is_terminal():
            missing = f"{address(link['source'])} {link['type']} {address(link['target'])}"
            say(f"  {red('! broken link:')} {missing}", hang=4)
        else:
            say(red(f"  ! broken link: {link['source']} {link['type']} {link['target']}"))
    more = answer.get("counts", {}).get("broken_links", 0) - len(links)
    if links and more > 0:
        say(f"  ! and {counted(more, 'broken links')} more")
    if links:
        say("    `kgd broken` shows the remedy")


def doctor(answer: Answer) -> None:
    for check in _together(answer["checks"]) if is_terminal() else answer["checks"]:
        state = f"{check['state']:<8}"
        painted = good(state) if check["state"] == "ok" else faint(state) if check["state"] == "off" else alert(state)
        say(f"{painted} {check['name']}{printing.tail(_from_here(check['detail']))}", hang=9)
        if check.get("next"):
            say(f"{'':<8} {check['next']}", hang=9)


def _together(checks: list[Answer]) -> list[Answer]:
    """The checks; healthy stages of a workspace without details share a line."""
    found: list[Answer] = []
    well: dict[str, Answer] = {}
    for check in checks:
        workspace, _, stage = check["name"].partition(" ")
        if not stage or check["state"] != "ok" or check["detail"] or check.get("next"):
            found.append(check)
        elif workspace in well:
            well[workspace]["detail"] += f", {stage}"
        else:
            well[workspace] = {**check, "name": workspace, "detail": stage}
            found.append(well[workspace])
    return found


def ui(answer: Answer) -> None:
    say(answer["url"])
    if answer.get("opened"):
        say("The pages open in your browser; if they do not, open this link.")
    say(f"It signs in one browser, once, within {answer['minutes']} minutes.")
    say("You are signed in as the holder of your token." if answer.get("hub") else "Over ssh, forward its port first.")


def browsers(answer: Answer) -> None:
    """Print the signed-in browsers."""
    if answer["ended"]:
        say(f"signed out {counted(answer['ended'], 'browsers')}; `kgd ui` signs one in again")
    for one in answer["browsers"]:
        who = f"  as {one['holder'] or one['token']}" if one.get("token") else ""
        since = f"since {when(one['since'])}, last seen {when(one['seen'])}"
        say(f"{one['id']}  {since}{who}{printing.tail(one['program'])}", hang=4)
    if not answer["browsers"] and not answer["ended"]:
        say("no browser is signed in; `kgd ui` signs one in")


def reindex(answer: Answer) -> None:
    say(f"all derived data of {bold(answer['workspace'])} is rebuilt: {counted(answer['nodes'], 'nodes')}")


def fsck(answer: Answer) -> None:
    for one in answer["problems"]:
        say(f"{red(format(one['level'], '<8'))} {one['path']}{printing.tail(one['reason'])}", hang=9)
        if one.get("next"):
            say(f"{'':<8} {one['next']}", hang=9)
    if answer["ok"]:
        nodes = f": {counted(answer['nodes'], 'nodes')} checked" if "nodes" in answer else ""
        say(f"workspace {answer['workspace']} is {good('intact')}{nodes}")


def verify_history(answer: Answer) -> None:
    for one in answer.get("listed", ()):
        who = one.get("by") or one["author"]
        say(f"{commit(one['commit'])} {one['state']:<9}{who}{printing.tail(one.get('reason'))}", hang=4)
    counts = ", ".join(f"{count} {state}" for state, count in sorted(answer["counts"].items()))
    counts = counts.replace(" pure", " pure (kgd can recreate them from their parents)")
    say(f"{counted(answer['commits'], 'commits')}: {counts}")
    for signer in answer["signers"]:
        say(f"{signer['commits']:>8}  {signer['by']}")
    for one in answer["problems"]:
        who = one.get("by") or one["author"]
        say(red(f"! {short_id(one['commit'])} {one['state']} ({who}){printing.tail(one.get('reason'))}"))
    say_field(answer, "more_problems", "  and {} more")
    printing.warnings(answer)
    if answer["ok"]:
        what = "every commit since the requirement is signed" if answer["required"] else "no signature is bad"
        say(f"workspace {answer['workspace']}: {what}")


def forget(answer: Answer) -> None:
    would = answer.get("dry_run")
    files, commits = counted(len(answer["files"]), "files"), counted(answer["rewritten"], "commits")
    if answer["rewritten"]:
        say(f"{'would rewrite' if would else 'rewrote'} {commits}; the secret {'is' if would else 'was'} in {files}:")
    else:
        say("no commit here contains the secret")
    say_each(answer["files"], "  {}")
    if answer.get("commit"):
        say(f"recorded in commit {short_id(answer['commit'])}{'' if answer['signed'] else ', which is not signed'}")
    for remote in answer["remotes"]:
        result = "has the new history" if remote["pushed"] else f"was not changed: {remote['reason']}"
        say(f"{'' if remote['pushed'] else '! '}the remote '{remote['name']}' {result}")
    if answer["to_do"]:
        say(bold("What is left to do:"))
    for number, step in enumerate(answer["to_do"], 1):
        say(f"  {number}. {step}")


def uninstall(answer: Answer) -> None:
    what = "would remove" if answer.get("dry_run") else "removed"
    say(f"{what} {listed(answer['workspaces']) or 'nothing'}")
    say_each(answer["kept"], "  its knowledge is in {}")
    for place in answer["installed"]:
        say(f"  kgd's settings and hooks {'would be' if answer.get('dry_run') else 'are'} removed from {place}")
    say_each(answer["left"], "  ! {} has files that are not part of the workspace yet, and was left unchanged")
    if answer["kept"] and not answer.get("dry_run"):
        say("  `kgd up` in the same directory restores it")


def config(answer: Answer) -> None:
    for name in ("registry", "state", "logs", "socket"):
        say(f"{name:<18}{answer[name]}")
    if answer.get("manual"):
        say(f"{'manual':<18}{answer['manual']} (`man -l` reads it)")
    for name, value in answer["settings"].items():
        say(f"{name:<18}{value or (faint('not set') if is_terminal() else '')}".rstrip())
    for id, path in answer["workspaces"].items():
        say(f"workspace {bold(id)} in {path}")
    say("Set a value under `settings:` in the registry file, such as `log_level: debug`.")


def code(answer: dict[str, Any]) -> None:
    """Print counts, the files that could not be read and why, and how to enable more formats."""
    told = answer.get("code")
    if not told:
        return
    languages = ", ".join(f"{name} ({counted(one['symbols'], 'symbols')})" for name, one in told["languages"].items())
    parts = [languages] if languages else []
    if told["documents"]:
        parts.append(f"{counted(told['documents'], 'documents')} in {counted(told['chunks'], 'chunks')}")
    if told["state"] == "reading":
        parts.append(f"reading, {counted(told['left'], 'files')} left" if told["left"] else "reading")
    if parts:
        field("indexed", "; ".join(parts))
    if told["left_out"]:
        field("not read", ", ".join(f"{reason}: {count}" for reason, count in told["left_out"].items()))
    for install in dict.fromkeys(one["install"] for one in told["missing"]):
        rows = [one for one in told["missing"] if one["install"] == install]
        files = counted(sum(one["files"] for one in rows), "files")
        field("not read", f"{', '.join(one['language'] for one in rows)}: {files}; install {install}")


SHOWN = 10
"""Largest number of nodes and problems to print."""
MOST_ANSWERED = 100
"""Largest number of nodes in an answer; an ingest may have more."""


def ingested(answer: Answer) -> None:
    """Print the counts and nodes of an ingest, then its problems."""
    did = "scanned" if answer["kind"] == "tree" else "would be ingested" if answer.get("dry_run") else "ingested"
    what = answer["source"] or "the text"
    say(f"{what} {did}: {counts(answer['counts']) or 'nothing new'}")
    if stored := answer.get("stored"):
        say(f"stored as {counted(stored, 'nodes')}")
    nodes = answer.get("nodes", [])
    for uri in nodes[:SHOWN]:
        say(f"  {address(uri)}")
    if len(nodes) > SHOWN:
        say(f"  and {len(nodes) - SHOWN} more" if len(nodes) < MOST_ANSWERED else "  and more")
    trouble = answer.get("trouble", [])
    say_each(trouble, "  ! {}")
    say_field(answer, "more_trouble", "  ! and {} more")
    say_field(answer, "next")


def _running_jobs(answer: Answer) -> None:
    for job in answer.get("jobs", ()):
        if job["state"] == "running":
            of = f" of {job['total']}" if "total" in job else ""
            say(f"  job {job['id']}  ingesting {job['source']}: {job['done']}{of}")


_SAID = {
    "added": "added",
    "updated": "updated",
    "removed": "removed",
    "present": "present",
    "absent": "absent",
    "outdated": "from an earlier kgd: `kgd agents install` updates it",
    "own": "yours, left unchanged",
    "no file": "no such file; --create creates it",
}
_WOULD = {"added": "would be added", "updated": "would be updated", "removed": "would be removed"}


def agents(answer: Answer) -> None:
    """Print the outcome for each entry; a dry run shows the text that would be added."""
    dry = answer.get("dry_run")
    for one in answer["entries"]:
        if error := one.get("error"):
            place = error.get("at", "").removeprefix(one["path"]).removeprefix(", ")
            say(f"! {bold(_near(one['path']))}: {error['message']}" + (f" ({place})" if place else ""))
            say(f"    nothing was written to it. {error.get('next', '')}".rstrip())
            continue
        path = _near(one["path"])
        readers = ", ".join(one["clients"])
        said = _WOULD.get(one["state"], "") if dry else ""
        say(f"{bold(path)}  {one['kind']} for {readers}: {said or _SAID[one['state']]}")
        if dry and one["kind"] != "skill":
            for line in one.get("adds", "").splitlines():
                verbatim(f"    + {line}")
    printing.warnings(answer, indent="")
    changed = sum(one["state"] in ("added", "updated") for one in answer["entries"])
    if changed and not dry:
        say(f"{counted(changed, 'entries')} written. Restart the client; it may ask you to trust them.")


_FOLDER_OF_GIT = re.compile(r"(?<=`git -C )('[^'`]+'|[^\s'`]+)(?= )")


def _from_here(text: str) -> str:
    """The text, with the folders of git's commands as seen from the caller's directory."""
    return _FOLDER_OF_GIT.sub(lambda folder: shlex.quote(_near(folder[0].strip("'"))), text)


def _near(path: str) -> str:
    return min(os.path.relpath(path), path, key=len)


def agents_shown(answer: Answer) -> None:
    entries = answer["entries"]
    say("Most clients read a JSON object of servers:")
    verbatim(json.dumps(entries["mcpServers"], indent=2))
    say("VS Code calls it `servers`:")
    verbatim(json.dumps(entries["servers"], indent=2))
    say("Codex uses a table:")
    verbatim(entries["toml"].rstrip())
    say("For clients that run a command at the start of a session:")
    verbatim(entries["start hook"])
