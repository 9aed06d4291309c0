"""This file is where answers about the programs that agents run in become text for a person."""

from __future__ import annotations

import json
import os
from typing import Any

from kgd.cli.terminal import bold, say
from kgd.cli.words import counted

Answer = dict[str, Any]

_SAID = {
    "added": "added", "updated": "brought up to date", "removed": "taken out", "present": "is there",
    "absent": "not there", "outdated": "of an earlier kgd: `kgd agents install` brings it up to date",
    "own": "is yours, and stays as it is", "no file": "no such file; --create makes it",
}  # fmt: skip
_WOULD = {"added": "would be added", "updated": "would be brought up to date", "removed": "would be taken out"}


def agents(answer: Answer) -> None:
    """What became of each entry; what a dry run would add is shown as it would be written."""
    dry = answer.get("dry_run")
    for one in answer["entries"]:
        if error := one.get("error"):
            place = error.get("at", "").removeprefix(one["path"]).removeprefix(", ")
            say(f"! {bold(_near(one['path']))}: {error['message']}" + (f" ({place})" if place else ""))
            say(f"    nothing was written there. {error.get('next', '')}".rstrip())
            continue
        path = _near(one["path"])
        readers = ", ".join(one["clients"])
        said = _WOULD.get(one["state"], "") if dry else ""
        say(f"{bold(path)}  {one['kind']} for {readers}: {said or _SAID[one['state']]}")
        if dry and one["kind"] != "skill":
            for line in one.get("adds", "").splitlines():
                say(f"    + {line}")
    for warning in answer.get("warnings", ()):
        say(f"! {warning}")
    changed = sum(one["state"] in ("added", "updated") for one in answer["entries"])
    if changed and not dry:
        say(f"{counted(changed, 'entries')} written. Restart the client; it may ask whether you trust them.")


def _near(path: str) -> str:
    return min(os.path.relpath(path), path, key=len)


def agents_shown(answer: Answer) -> None:
    entries = answer["entries"]
    say("Most clients read an object of servers:")
    say(json.dumps(entries["mcpServers"], indent=2))
    say("VS Code calls it `servers`:")
    say(json.dumps(entries["servers"], indent=2))
    say("Codex has a table:")
    say(entries["toml"].rstrip())
    say("Where a client runs a command when a session starts:")
    say(entries["start hook"])
