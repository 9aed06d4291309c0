"""`kgd token`: one call to the daemon for each action."""

from __future__ import annotations

import json
import sys
from datetime import datetime
from typing import Any

from kgd.cli.commands import UNHEALTHY
from kgd.cli.output import show
from kgd.client.connection import Connection
from kgd.config import Home
from kgd.errors import Invalid

Given = dict[str, Any]

SUBJECT = {"mint": "workspace", "child": "id", "revoke": "id", "rotate": "id", "log": "id"} | dict.fromkeys(
    ("list", "audit", "verify"), ""
)
"""The parameter that follows each action."""
OPTIONAL = {"log", "list", "audit", "verify"}


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
    from kgd.model.audit_chain import ChainCheck
    from kgd.model.token import AuditEntry

    found = ChainCheck()
    try:
        with open(export, encoding="utf-8") as lines:
            for text in lines:
                line: Given = json.loads(text)
                at, number = datetime.fromisoformat(line.pop("at")), line.pop("number")
                found.add(number, AuditEntry(int(at.timestamp()), **line))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise Invalid(
            f"this is not an export of the audit log: {error}", at=export, next="`kgd token audit` makes one."
        ) from None
    return {"number": found.last, "hash": found.hash}, found.problems


def _beside(answer: Given) -> list[str]:
    lines = [f"token {answer['id']}, until {answer['expires']}; it is not shown again"]
    lines += [f"revoked {id}" for id in answer.get("revoked", ())]
    return lines + [f"warning: {text}" for text in answer["warnings"]]
