"""Examples of commands, and the commands that words of other programs stand for. Loaded for help and mistakes only."""

from __future__ import annotations

EXAMPLES: dict[str, tuple[tuple[str, str], ...]] = {
    "remember": (
        ('kgd remember "Sessions last 15 minutes." --about src/auth', "every agent that asks about src/auth gets it"),
        ('kgd remember "renew() is idempotent." --cites src/auth/session.py#renew', "stale once renew changes"),
    ),
    "put": (
        ('kgd put services/auth --summary "Checks tokens" --tags auth', "create a concept, or change its fields"),
        ('kgd put --type gotcha --name "Clock skew" --summary "Tokens may be early"', "any other type"),
    ),
    "link": (("kgd link services/auth services/keys --type depends_on --weight 0.5", "0 is close, 1 is far"),),
    "task": (
        ('kgd task add "Renew earlier" --objective "No sign-outs" --file src/auth/session.py', "create a task"),
        ('kgd task done "Renew earlier" --gotcha "Clients cache the expiry"', "finish it, and keep the lesson"),
    ),
    "get": (
        ("kgd get services/auth", "the concept, or the path if there is no such concept"),
        ("kgd get ./src/auth/session.py --include incoming", "a file, and the relations that lead to it"),
    ),
    "search": (
        ("kgd search sessions renew", "by words and meaning"),
        ("kgd search sessions --types insight --since 'last week'", "recent facts only"),
    ),
    "context": (
        ("kgd context src/auth/session.py", "before you edit a file"),
        ('kgd context --task "Renew sessions earlier"', "before you start a task"),
        ('kgd context "how long do sessions last?"', "a question"),
    ),
    "why": (("kgd why src/auth/session.py:1", "the commit of the line, its reason, and the facts about it"),),
    "path": (("kgd path services/auth src/auth/session.py", "how two nodes are connected"),),
    "traverse": (("kgd traverse services/auth --max-cost 1", "everything within a cost of 1, cheapest first"),),
    "log": (
        ("kgd log --author Ann --since 'last week'", "the commits of one author"),
        ("kgd log --path src/auth", "the commits about some code"),
    ),
    "history": (("kgd history services/auth --diff", "the changes of one node, by field"),),
    "review": (
        ("kgd review", "new knowledge by author"),
        ("kgd review --accept", "mark all of it as reviewed"),
    ),
    "coverage": (("kgd coverage --order gaps", "first the folders with the most files without an area"),),
    "stale": (("kgd stale", "facts whose code has changed, with the reason"),),
    "recall": (("kgd recall sessions --since monday", "facts remembered this week"),),
}
"""Commands with their purpose. A test runs them in this order."""

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


def examples(command: str) -> str:
    """The examples of a command as they end its help; empty without any. Each has its purpose above it."""
    lines = [f"  # {purpose}\n  {line}" for line, purpose in EXAMPLES.get(command, ())]
    return "\n".join(("examples:", *lines)) if lines else ""


def closest(word: str, names: list[str]) -> str:
    """The command that a word probably stands for; empty if none is close."""
    from difflib import get_close_matches

    return MEANT.get(word) or next(iter(get_close_matches(word, names, 1)), "")
