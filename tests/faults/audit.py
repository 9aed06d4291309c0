"""The auditor: opens a workspace after a failure, without any help, and compares it with the diary."""

from __future__ import annotations

import re
import subprocess
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from kgd.git.layout import Layout
from kgd.git.pack_upkeep import ROLLED
from kgd.git.refs import HEAD
from kgd.model.change import Append
from kgd.workspace.check import check
from kgd.workspace.workspace import Workspace
from tests.builders import change, uri
from tests.faults.scribes import COUNTERS, LOGS, read_diary
from tests.git.support import fsck

STRAYS = ("*.lock", "*.kgd", "*.kgd-new", "ref,*", "index.new", "objects/pack/*.keep")


@dataclass(slots=True)
class Findings:
    """Counts over all audits of one test; `complaints` must stay empty."""

    acked: int = 0
    unsure: int = 0
    refused: int = 0
    retried: int = 0
    kept: int = 0
    """Unacknowledged changes that turned out to be in history."""
    complaints: list[str] = field(default_factory=list)

    def add(self, more: Findings) -> None:
        for name in ("acked", "unsure", "refused", "retried", "kept"):
            setattr(self, name, getattr(self, name) + getattr(more, name))
        self.complaints += more.complaints

    def __str__(self) -> str:
        return (
            f"{self.acked} acknowledged, {self.refused} refused, {self.unsure} unsure, {self.kept} kept without an"
            f" answer, {self.retried} asked again; complaints: {self.complaints[:4]}"
        )


def git(where: Path, *words: str, check: bool = True) -> str:
    done = subprocess.run(
        ["git", "-C", where, *words], capture_output=True, text=True, check=False, errors="surrogateescape"
    )
    if check and done.returncode:
        raise AssertionError(f"git {words}: {done.stderr}{done.stdout}")
    return done.stdout


def strays(git_dir: Path) -> list[str]:
    """Abandoned locks and half-written files.

    Exceptions: an empty ``.keep`` after a power cut, which could be a person's; the one of a new roll-up, for a minute;
    and the lock of git's own commit-graph, which is removed after a day because a person's gc may hold it.
    """
    found = sorted(path for kind in STRAYS for path in git_dir.rglob(kind) if path.name != "commit-graph.lock")
    return [
        str(path.relative_to(git_dir))
        for path in found
        if path.suffix != ".keep" or path.read_bytes().strip(b"\0") not in (b"", ROLLED)
    ]


def requests_in(git_dir: Path) -> dict[str, list[str]]:
    """Request id to the commits that carry it, according to git."""
    said = git(git_dir, "log", "--format=%H %(trailers:key=Kgd-Request,valueonly,separator=%x20)", HEAD)
    found: dict[str, list[str]] = defaultdict(list)
    for line in said.splitlines():
        commit, _, request = line.partition(" ")
        found[request].append(commit)
    return found


def counted_by_git(git_dir: Path) -> Counter[str]:
    """The number of commits that changed each path; correct without merges."""
    said = git(
        git_dir, "-c", "core.quotePath=false", "log", "--format=", "--name-only", "--no-renames", "refs/kgd/head"
    )
    return Counter(line for line in said.splitlines() if line.startswith("nodes/"))


def audit(layout: Layout, diary: Path, *, publish: bool = False, retries: int = 40) -> Findings:
    """Open, check every promise, repeat the unanswered requests, write, close, check again."""
    found = Findings()
    complain = found.complaints.append
    for line in fsck(layout.git_dir):
        complain(f"fsck before the start: {line}")
    ws = Workspace.open(layout, publish=publish)
    try:
        if ws.degraded():
            complain(f"degraded: {ws.degraded()}")
        _promises(ws, read_diary(diary), found, retries)
        outcome = ws.submit(change(Append(uri("log/0"), f"<after {time.time_ns()}>")))
        if outcome.commit != git(layout.git_dir, "rev-parse", HEAD).strip():
            complain("the next write is not the tip")
        _contents(ws, read_diary(diary), found)
        for finding in check(ws):
            complain(f"check: {finding}")
        _versions(ws, found)
        if publish:
            _published(ws, found)
    finally:
        ws.close()
    found.complaints += [f"left behind: {name}" for name in strays(layout.git_dir)]
    return found


def _promises(ws: Workspace, diary: list[dict[str, str]], found: Findings, retries: int) -> None:
    """Acknowledged: in history, once. Not acknowledged: complete or absent, and a repeated request applies once."""
    history = requests_in(ws.layout.git_dir)
    asked = {line["asked"]: line for line in diary if "asked" in line}
    acked = {line["acked"]: line["commit"] for line in diary if "acked" in line}
    refused = {line["refused"] for line in diary if "refused" in line}
    found.acked, found.refused = len(acked), len(refused)
    found.unsure = sum("unsure" in line for line in diary)
    found.complaints += [f"defect: {line}" for line in diary if "defect" in line]
    found.complaints += [f"twice in history: {request}" for request in asked if len(history.get(request, ())) > 1]
    for request, commit in acked.items():
        if commit and history.get(request) != [commit]:
            found.complaints.append(f"lost: {request} {commit}")
    found.complaints += [f"refused, yet written: {request}" for request in refused & set(history)]
    open_questions = [one for one in asked if one not in acked and one not in refused]
    found.kept = sum(request in history for request in open_questions)
    for request in open_questions[-retries:]:
        if asked[request]["kind"] == "append":
            _ask_again(ws, request, asked[request]["text"], history.get(request), found)
    for request in list(acked)[-3:]:
        if acked[request] and asked[request]["kind"] == "append":
            _ask_again(ws, request, asked[request]["text"], [acked[request]], found)


def _ask_again(ws: Workspace, request: str, text: str, known: list[str] | None, found: Findings) -> None:
    before = ws.tip
    outcome = ws.submit(change(Append(uri(_log_of(ws, text) or "log/1"), text), request=request))
    found.retried += 1
    if known and ([outcome.commit], outcome.repeated, ws.tip) != (known, True, before):
        found.complaints.append(f"{request} was done in {known}, and again in {outcome.commit}")
    if not known and (outcome.repeated or not outcome.commit):
        found.complaints.append(f"{request} was not done, and answered as if it were: {outcome}")


def _log_of(ws: Workspace, text: str) -> str | None:
    for name in range(LOGS):
        node = ws.node(uri(f"log/{name}"))
        if node and text in node.content:
            return f"log/{name}"
    return None


def _contents(ws: Workspace, diary: list[dict[str, str]], found: Findings) -> None:
    """Every text whose change is in history is there exactly once, and no text is invented."""
    history = requests_in(ws.layout.git_dir)
    nodes = [node for n in range(LOGS) if (node := ws.node(uri(f"log/{n}")))]
    there = Counter(text for node in nodes for text in re.findall(r"<[^>]*>", node.content))
    wanted = {line["text"] for line in diary if line.get("text") and line["asked"] in history}
    for text in wanted:
        if there[text] != 1:
            found.complaints.append(f"{text} is there {there[text]} times")
    asked = {line["text"] for line in diary if line.get("text")}
    for text in there.keys() - wanted:
        if text in asked:
            found.complaints.append(f"{text} is there without a commit")
    for n in range(COUNTERS):
        node, version = ws.node(uri(f"counter/{n}")), ws.node_version(uri(f"counter/{n}"))
        if node and version and node.data["n"] != version.count:
            found.complaints.append(f"counter {n} was written {version.count} times and stands at {node.data['n']}")


def _versions(ws: Workspace, found: Findings) -> None:
    counted = counted_by_git(ws.layout.git_dir)
    for node in ws.graph.uris():
        version, path = ws.node_version(node), ws.path(node)
        if version is None or version.count != counted[path]:
            found.complaints.append(f"version of {node} is {version}, git counts {counted[path]}")


def _published(ws: Workspace, found: Findings) -> None:
    """The branch, the index and the work tree are at the tip, and no published file counts as a hand edit."""
    end = time.monotonic() + 60
    said = "?"
    while time.monotonic() < end:
        branch = git(ws.layout.git_dir, "rev-parse", ws.layout.branch).strip()
        if branch == ws.tip:
            said = git(ws.layout.work_tree, "--no-optional-locks", "status", "--porcelain")
            if not said:
                break
        time.sleep(0.02)
    else:
        found.complaints.append(f"not published: {said[:200]} {ws.health()['publish']}")
    by_hand = git(ws.layout.git_dir, "log", "--format=%an %s", "--grep=^Kgd-Op: hand-edit", HEAD)
    if by_hand:
        found.complaints.append(f"taken for a hand edit: {by_hand.splitlines()[:3]}")
