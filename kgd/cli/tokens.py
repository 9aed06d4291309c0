"""`kgd token`: one call to the daemon for each action."""

from __future__ import annotations

import json
import sys
from typing import Any

from kgd.cli.output import show
from kgd.client.connection import Connection
from kgd.config import Home
from kgd.errors import Invalid

Given = dict[str, Any]

SUBJECT = {"mint": "workspace", "child": "id", "revoke": "id", "rotate": "id", "log": "id", "list": "", "audit": ""}
"""The parameter that follows each action."""
OPTIONAL = {"log", "list", "audit"}


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
    """Print the whole audit log, a JSON object a line, oldest first."""
    after = 0
    while lines := connection.call("token_audit", {"after": after})["lines"]:
        for line in lines:
            sys.stdout.write(json.dumps(line, ensure_ascii=False) + "\n")
        after = lines[-1]["number"]
    return 0


def _beside(answer: Given) -> list[str]:
    lines = [f"token {answer['id']}, until {answer['expires']}; it is not shown again"]
    lines += [f"revoked {id}" for id in answer.get("revoked", ())]
    return lines + [f"warning: {text}" for text in answer["warnings"]]
