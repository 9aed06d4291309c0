"""Advice after mistakes: missing nodes, and the commands that words of other programs stand for."""

from __future__ import annotations

from typing import Any

from kgd.cli.terminal import complain
from kgd.git import is_revision

MEANT = {
    "add": "put",
    "area": "areas",
    "cat": "get",
    "check": "fsck",
    "commit": "put",
    "create": "put",
    "delete": "rm",
    "fetch": "sync",
    "find": "search",
    "graph": "traverse",
    "grep": "search",
    "health": "status",
    "hubs": "whoami",
    "list": "search",
    "ls": "search",
    "merge": "resolve",
    "new": "put",
    "note": "remember",
    "open": "ui",
    "pull": "sync",
    "push": "sync",
    "query": "search",
    "rebuild": "reindex",
    "remove": "rm",
    "rename": "mv",
    "restart": "down",
    "start": "up",
    "stop": "down",
    "tasks": "task",
    "tokens": "token",
    "verify": "stale --verify",
    "version": "--version",
    "view": "get",
    "web": "ui",
    "write": "put",
}


NO_NODE = "there is no such node"


def closest(word: str, names: list[str]) -> str:
    """The command that a word probably stands for; empty if none is close."""
    from difflib import get_close_matches

    return MEANT.get(word) or next(iter(get_close_matches(word, names, 1)), "")


def missing(answer: dict[str, Any], *, or_commit: bool = False) -> None:
    """Print missing nodes, with the reason, to standard error. With `or_commit`, the command also shows commits."""
    for one in answer["missing"]:
        if invalid := one.get("invalid_file"):
            said, then = f"{invalid['path']}:{invalid['line']}: {invalid['reason']}", invalid["next"]
        elif why := _UNKNOWN.get(one.get("reason", "")):
            seen = f"; last seen {one['last_seen']}" if one.get("last_seen") else ""
            detail = f": {one['detail']}" if one.get("detail") else ""
            said = why[0].format(workspace=one.get("workspace", ""))
            said, then = f"{said}{detail}{seen} ({one['uri']})", why[1].format(uri=one["uri"])
        else:
            close = ", ".join(one["similar"])
            nothing = _nothing_at(one["uri"])
            if or_commit and nothing == NO_NODE and _is_word(one["uri"]):
                nothing = "there is no such node or commit"
            said, then = f"{nothing} ({one['uri']})", f"Did you mean {close}?" if close else _found_with(one["uri"])
        complain(said, then)


def _found_with(uri: str) -> str:
    """The next step for a missing node. Its name may be meant as a commit."""
    name = uri.rpartition("/")[2]
    if uri.startswith("concept://") and is_revision(name):
        return f"`kgd show {name}` shows a commit; `kgd search` finds a node."
    return "Find it with `kgd search`."


def _nothing_at(uri: str) -> str:
    """The words for a missing node; they name a file if the address has the form of its path."""
    path = uri.partition("://")[2].partition("/")[2]
    is_file = uri.startswith("concept://") and "/" in path and "." in path.rpartition("/")[2]
    return f"there is no file {path} in the code tree, and no such node" if is_file else NO_NODE


def _is_word(uri: str) -> bool:
    """Whether the address may stand for one word, such as a branch, a tag or a commit."""
    return uri.startswith("concept://") and uri.count("/") == 3


_UNKNOWN = {
    "not_then": (
        "this node exists now, but did not exist at that commit",
        "`kgd history {uri}` shows its first commit.",
    ),
    "unreachable": ("the hub of workspace '{workspace}' does not answer", "Ask again later."),
    "forbidden": (
        "the hub of workspace '{workspace}' does not allow you to read this",
        "`kgd whoami` shows your identity there; `kgd join` replaces the token.",
    ),
    "unknown_workspace": (
        "the hub does not serve workspace '{workspace}' to your token",
        "`kgd whoami` lists its workspaces.",
    ),
}
"""The reason for a missing node, if one is known, and the next step."""
