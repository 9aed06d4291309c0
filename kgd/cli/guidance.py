"""The commands that words of other programs stand for. Loaded for mistakes only."""

from __future__ import annotations

MEANT = {
    "add": "put",
    "area": "coverage",
    "areas": "coverage",
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
    "version": "--version",
    "view": "get",
    "web": "ui",
    "write": "put",
}


def closest(word: str, names: list[str]) -> str:
    """The command that a word probably stands for; empty if none is close."""
    from difflib import get_close_matches

    return MEANT.get(word) or next(iter(get_close_matches(word, names, 1)), "")
