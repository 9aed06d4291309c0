"""`kgd hub`: the traffic and workspaces of a hub as a table, or a move of its state; and `kgd token`."""

from __future__ import annotations

import json
import re
import sys
import time
from datetime import datetime
from typing import Any, NamedTuple

from kgd.cli.commands import UNHEALTHY
from kgd.cli.output import show
from kgd.cli.terminal import bold, clean, say_each
from kgd.client.connection import Connection
from kgd.config import Home
from kgd.config.credentials import secret
from kgd.errors import MALFORMED, Invalid

Given = dict[str, Any]
SECONDS = 2.0
"""Seconds between two refreshes."""
ROWS = 20
REFERENCES = ("env:", "file:", "keyring:")
_LINE = re.compile(r"(\w+)(?:\{(.*)\})? (\S+)").fullmatch
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"').findall

Labels = tuple[tuple[str, str], ...]

SUBJECT = {"mint": "workspace", "child": "id", "revoke": "id", "rotate": "id", "log": "id"} | dict.fromkeys(
    ("list", "audit", "verify"), ""
)
"""The parameter that follows each action."""
OPTIONAL = {"log", "list", "audit", "verify"}


class Snapshot(NamedTuple):
    """Values by name and labels, at a time in seconds."""

    at: float
    values: dict[str, dict[Labels, float]]

    @classmethod
    def read(cls, at: float, text: str) -> Snapshot:
        values: dict[str, dict[Labels, float]] = {}
        for line in text.splitlines():
            if not line.startswith("#") and (found := _LINE(line)):
                values.setdefault(found[1], {})[tuple(_LABEL(found[2] or ""))] = float(found[3])
        return cls(at, values)

    def total(self, name: str, **labels: str) -> float:
        """The sum of the values with these labels."""
        return sum(value for key, value in self.values.get(name, {}).items() if labels.items() <= dict(key).items())

    def labels(self, name: str, label: str) -> list[str]:
        return sorted({dict(key).get(label, "") for key in self.values.get(name, {})})


def hub(given: Given, options: Given) -> int:
    return migrate(given, options) if given["action"] == "migrate" else top(options)


def migrate(given: Given, options: Given) -> int:
    state = given.get("state")
    if not state:
        raise Invalid("`kgd hub migrate` needs --state", next="For example, --state env:KGD_STATE.")
    if state.startswith(REFERENCES):  # resolved here, because the daemon's environment may lack the variable
        state = secret(state, of_command=True)
    with Connection(Home.find()) as connection:
        answer = connection.call("hub_migrate", {"state": state})
    show("printing_sharing.hub_migrate", answer, options)
    return 0


def top(options: Given) -> int:
    """Print the table once, or refresh it until Ctrl-C if standard output is a terminal."""
    refreshes = sys.stdout.isatty() and not options.get("json")
    with Connection(Home.find(), start=False) as connection:
        before = None
        while True:
            answer = connection.call("hub_metrics", {})
            if options.get("json"):
                sys.stdout.write(answer["text"])
                return 0
            now = Snapshot.read(time.monotonic(), answer["text"])
            if refreshes:
                sys.stdout.write("\033[H\033[J")
            say_each(table(now, before), "{}")
            if not refreshes:
                return 0
            before = now
            time.sleep(SECONDS)


def table(now: Snapshot, before: Snapshot | None) -> list[str]:
    """The lines of the table: rates since `before`, or since the start of the hub."""
    if before is None:
        age = max(1.0, time.time() - now.total("process_start_time_seconds"))
        before = Snapshot(now.at - age, {})
    seconds = max(now.at - before.at, 0.001)

    def rate(name: str, **labels: str) -> float:
        return (now.total(name, **labels) - before.total(name, **labels)) / seconds

    memory = now.total("process_resident_memory_bytes") / 2**20
    opened = now.total("kgd_workspaces", state="open")
    lines = [
        f"{opened:.0f} of {now.total('kgd_workspaces', state='registered'):.0f} workspaces open, "
        f"{memory:.0f} MiB, {now.total('process_threads'):.0f} threads, {now.total('process_open_fds'):.0f} files, "
        f"{100 * rate('process_cpu_seconds_total'):.0f} % CPU",
        f"{rate('kgd_flushed_changes_total'):.1f} changes/s in {rate('kgd_flush_seconds_count'):.1f} batches/s, "
        f"p95 {_milliseconds(now, before, 'kgd_flush_seconds', 0.95)}, "
        f"{rate('kgd_races_total'):.1f} lost races/s, {rate('kgd_quota_refusals_total'):.1f} quota refusals/s",
        "",
        bold(f"{'SURFACE':<12}{'PER S':>9}{'5XX/S':>9}{'P50':>10}{'P95':>10}"),
    ]
    for surface in now.labels("kgd_requests_total", "surface"):
        codes = now.labels("kgd_requests_total", "code")
        failed = sum(rate("kgd_requests_total", surface=surface, code=code) for code in codes if code[:1] == "5")
        lines.append(
            f"{surface:<12}{rate('kgd_requests_total', surface=surface):>9.1f}{failed:>9.1f}"
            f"{_milliseconds(now, before, 'kgd_request_seconds', 0.5, surface=surface):>10}"
            f"{_milliseconds(now, before, 'kgd_request_seconds', 0.95, surface=surface):>10}"
        )
    return [*lines, "", *_workspaces(now)]


def _workspaces(now: Snapshot) -> list[str]:
    """The workspaces with the longest queues, then the most nodes."""
    columns = ("kgd_queue_changes", "kgd_nodes", "kgd_open_conflicts", "kgd_blocked_stages", "kgd_sync_age_seconds")
    ids = sorted(
        now.labels("kgd_nodes", "workspace"),
        key=lambda id: (-now.total(columns[0], workspace=id), -now.total(columns[1], workspace=id), id),
    )
    lines = [bold(f"{'WORKSPACE':<24}{'QUEUE':>9}{'NODES':>9}{'CONFLICTS':>11}{'BLOCKED':>9}{'SYNCED':>9}")]
    for id in ids[:ROWS]:
        queue, nodes, conflicts, blocked, age = (now.total(name, workspace=id) for name in columns)
        synced = f"{age:.0f} s" if id in now.labels(columns[4], "workspace") else "-"
        lines.append(f"{clean(id):<24}{queue:>9.0f}{nodes:>9.0f}{conflicts:>11.0f}{blocked:>9.0f}{synced:>9}")
    return [*lines, f"and {len(ids) - ROWS} more"] if len(ids) > ROWS else lines


def _milliseconds(now: Snapshot, before: Snapshot, name: str, share: float, **labels: str) -> str:
    """An upper bound of this quantile of the observations since `before`, in milliseconds; `-` without observations."""
    bounds = sorted(now.labels(f"{name}_bucket", "le"), key=float)
    counts = [
        now.total(f"{name}_bucket", le=le, **labels) - before.total(f"{name}_bucket", le=le, **labels) for le in bounds
    ]
    if not counts or not counts[-1]:
        return "-"
    le = next(bound for bound, count in zip(bounds, counts, strict=True) if count >= share * counts[-1])
    return f"> {float(bounds[-2]):g} s" if le == "+Inf" else f"< {1_000 * float(le):g} ms"


def token(given: Given, options: Given) -> int:
    args = {name: value for name, value in given.items() if name not in ("action", "subject", "dry_run")}
    action, subject = given["action"], given.get("subject")
    field = SUBJECT[action]
    if subject and field:
        args[field] = subject
    if field and field not in args and action not in OPTIONAL:
        what = "a workspace" if field == "workspace" else "the id of a token"
        raise Invalid(f"`kgd token {action}` needs {what}", next="See `kgd token --help`.")
    with Connection(Home.find()) as connection:
        if action == "audit":
            return _audit(connection)
        if action == "verify":
            return _verify(connection, subject, options)
        answer = connection.call(f"token_{action}", args)
    if "token" in answer and not options.get("json"):
        # The token alone on standard output, for scripts.
        sys.stdout.write(answer["token"] + "\n")
        if not options.get("quiet"):
            for line in _beside(answer):
                sys.stderr.write(f"{line}\n")
        return 0
    show(f"printing_sharing.token_{action}", answer, options)
    return 0


def _audit(connection: Connection) -> int:
    """Print the whole audit log, one JSON object per line, oldest first."""
    after = 0
    while lines := connection.call("token_audit", {"after": after})["lines"]:
        for line in lines:
            sys.stdout.write(json.dumps(line, ensure_ascii=False) + "\n")
        after = lines[-1]["number"]
    return 0


def _verify(connection: Connection, export: str | None, options: Given) -> int:
    """Check the audit log and, if given, an export of it."""
    anchor, problems = _anchor(export) if export else ({}, [])
    answer = connection.call("token_verify", anchor)
    answer["problems"] = [*(f"{export}: {problem}" for problem in problems), *answer["problems"]]
    answer["ok"] = not answer["problems"]
    show("printing_sharing.token_verify", answer, options)
    return 0 if answer["ok"] else UNHEALTHY


def _anchor(export: str) -> tuple[Given, list[str]]:
    """The last line of an export that is in the chain, and problems of the export."""
    from kgd.model.token import AuditEntry, ChainCheck

    found = ChainCheck()
    try:
        with open(export, encoding="utf-8") as lines:
            for text in lines:
                line: Given = json.loads(text)
                at, number = datetime.fromisoformat(line.pop("at")), line.pop("number")
                found.add(number, AuditEntry(int(at.timestamp()), **line))
    except (OSError, *MALFORMED) as error:
        raise Invalid(
            f"this is not an export of the audit log: {error}", at=export, next="`kgd token audit` makes one."
        ) from None
    return {"number": found.last, "hash": found.hash}, found.problems


def _beside(answer: Given) -> list[str]:
    lines = [f"token {answer['id']}, until {answer['expires']}; it is not shown again"]
    lines += [f"revoked {id}" for id in answer.get("revoked", ())]
    return lines + [f"warning: {text}" for text in answer["warnings"]]
