"""The commands of the command line: operations' commands from the generated table, and the commands declared here.

The parser, shell completion, docs/cli.md and the man page are made from `VERBS`. Only the standard library is imported.
"""

from __future__ import annotations

import json
import re
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

_DASH = re.compile(r"- (?:reads|is|for) .*standard (?:input|output)").search
_WORDS = ("WORD", "TAG")
"""Placeholders of arguments for which ``-`` is a word."""
GROUPS = ("Running", "Writing", "Reading", "The past", "Sharing", "Care")


class Argument(NamedTuple):
    """One argument: its flags, or its name if it is positional, and the options that argparse gets."""

    flags: tuple[str, ...]
    options: dict[str, Any]

    @property
    def dest(self) -> str:
        return str(self.options.get("dest", self.flags[0].lstrip("-").replace("-", "_")))

    @property
    def is_positional(self) -> bool:
        return not self.flags[0].startswith("-")

    @property
    def placeholder(self) -> str:
        return str(self.options.get("metavar") or self.flags[0].upper())

    @property
    def value(self) -> str:
        """The placeholder of an option's value, or its choices; empty for a switch."""
        if str(self.options.get("action", "")).startswith("store_"):
            return ""
        return str(self.options.get("metavar") or "|".join(self.options.get("choices", ())) or "VALUE")

    def in_usage(self, name: str) -> str:
        """The name of a positional argument, with brackets if it is optional, and dots if it can be repeated."""
        return {"?": f"[{name}]", "+": f"{name}...", "*": f"[{name}...]"}.get(self.options.get("nargs", ""), name)

    @property
    def takes_dash(self) -> bool:
        """Whether ``-`` stands for standard input or output, as the help says, or is a word."""
        return _DASH(self.options["help"]) is not None or self.options.get("metavar") in _WORDS


class Verb(NamedTuple):
    """One command.

    `call` is its operation, and `rehearsal` is the operation for ``--dry-run``. `ask` is the function of
    `kgd.cli.parameters` that turns options into parameters, by default the one with the command's name; without it,
    options and parameters have the same names.
    `print` is the printer of the answer, and `own` a function that runs the whole command, both as ``module.function``
    below `kgd.cli`. `also` is another operation that the command runs; with `takes`, it gets an argument that is no
    node as this parameter. Next steps that lack the parameter `without` suggest the command if it has all of theirs.
    `before_setup` is a function that answers if nothing is set up on this machine. `unless` is a list of the answer
    that must be empty. `examples` are lines to type, each with its purpose. `secret` is the advice for a word without
    an option, which may be the secret that the command reads. `alone` commands need no daemon and start none.
    `carries_out` maps operations without a command of their own to the words that follow ``kgd`` for them.
    """

    name: str
    group: str
    help: str
    arguments: tuple[Argument, ...] = ()
    call: str = ""
    ask: str = ""
    print: str = ""
    own: str = ""
    writes: bool = False
    rehearsal: str = ""
    place: int = 0
    also: str = ""
    takes: str = ""
    without: str = ""
    before_setup: str = ""
    unless: str = ""
    alone: bool = False
    carries_out: tuple[tuple[str, str], ...] = ()
    examples: tuple[tuple[str, str], ...] = ()
    secret: str = ""


def function(name: str) -> Any:
    """The function ``module.function`` below `kgd.cli`."""
    module, _, found = name.rpartition(".")
    return getattr(import_module(f"kgd.cli.{module}"), found)


def _arg(*flags: str, help: str, **options: Any) -> Argument:
    return Argument(flags, {"help": help, **options})


def _many(flag: str, metavar: str, help: str) -> Argument:
    return _arg(flag, help=help, action="append", metavar=metavar)


def _listed(text: str) -> list[str]:
    return [word for part in text.split(",") if (word := part.strip())]


def _words(flag: str, metavar: str, help: str) -> Argument:
    """An option that takes names without commas: it may be repeated, or take several names separated by commas."""
    return _arg(flag, help=help, action="extend", type=_listed, metavar=metavar)


def _limit(help: str) -> Argument:
    return _arg("-n", "--limit", dest="limit", type=int, help=help, metavar="N")


def _flag(*flags: str, help: str) -> Argument:
    return _arg(*flags, help=help, action="store_true", default=None)


TYPES: dict[str, Any] = {
    "int": int,
    "float": float,
    "names": _listed,
    "remote_action": lambda word: {"rm": "remove"}.get(word, word),
}
"""The meaning of each `type` in the table."""

_LOCAL: tuple[Verb, ...] = (
    Verb(
        "down",
        "Running",
        "stop the daemon; the next command that needs it starts it again",
        own="local.down",
        alone=True,
        place=30,
        examples=(("kgd down", "after an upgrade of kgd"),),
    ),
    Verb(
        "mcp",
        "Running",
        "serve MCP on standard input and output; MCP clients start this command",
        (
            _arg(
                "--tools",
                metavar="A,B",
                help="extra toolsets: tasks, server-memory, apps; only:server-memory for just that one",
            ),
        ),
        own="local.mcp",
        place=70,
        examples=(("kgd mcp --tools tasks", "with the task tools"),),
    ),
    Verb(
        "serve",
        "Running",
        "run the daemon in the foreground; with --listen as a hub of the workspaces -w A,B",
        (
            _flag("--debug", help="log debug messages"),
            _arg("--profile", help="write a profile as collapsed stacks when it stops", metavar="FILE"),
            _arg("--listen", help="serve other machines over HTTP at this address", metavar="HOST:PORT"),
            _arg("--tls-cert", help="certificate chain, for an address beyond this machine", metavar="FILE"),
            _arg("--tls-key", help="its key", metavar="FILE"),
            _arg("--state", help="share tokens with other hubs through this database", metavar="postgres://…"),
            _arg("--drain", help="serve this long after SIGTERM, while /ready reports 503", metavar="SECONDS"),
            _arg("--oidc", help="file that configures how people and programs sign in", metavar="FILE"),
            _flag("--behind-proxy", help="a proxy in front of it terminates TLS"),
            _many("--host-name", "NAME", "accept only this host name; may be repeated"),
        ),
        own="local.serve",
        alone=True,
        place=80,
        examples=(("kgd serve --listen 127.0.0.1:8750 -w infra", "a hub of the workspace infra, for this machine"),),
    ),
    Verb(
        "token",
        "Running",
        "manage the tokens of this hub: mint, list, rotate, revoke, and read the audit log",
        (
            _arg(
                "action",
                choices=("mint", "list", "revoke", "rotate", "child", "log", "audit", "verify"),
                help="what to do; audit prints the whole audit log as JSON lines, and verify checks it",
            ),
            _arg(
                "subject",
                nargs="?",
                help="mint: the workspace; revoke, rotate, child, log: a token's id; verify: an earlier export",
                metavar="WORKSPACE|ID|FILE",
            ),
            _arg("--name", help="mint, child: the holder's name, such as billing-agent", metavar="NAME"),
            _arg("--kind", choices=("agent", "person"), help="mint, child: the kind of holder (default: agent)"),
            _many("--verbs", "V,V", "read, propose, write, resolve, admin (default: read)"),
            _many("--paths", "GLOB,GLOB", "paths that the holder may access (default: /**)"),
            _many("--also", "V,V:GLOB,GLOB", "a further scope, such as 'read:/**'; may be repeated"),
            _arg("--expires", help="30d, 12h, or a date (default: 30d; child: 1d)", metavar="SPAN"),
            _arg("--requests-per-minute", type=int, help="mint: requests per minute (default: 600)", metavar="N"),
            _arg("--bytes-per-day", type=int, help="mint: bytes per day (default: 1 GiB)", metavar="N"),
            _arg("--nodes-per-day", type=int, help="mint: nodes per day (default: 20000)", metavar="N"),
            _arg("--pending-proposals", type=int, help="mint: open proposals at a time (default: 100)", metavar="N"),
            _limit("log: maximum number of lines (default: 50)"),
        ),
        own="hub.token",
        place=90,
        examples=(
            ("kgd token mint infra --name billing-agent --verbs read,propose", "a token that may read and propose"),
            ("kgd token list", "every token, without its secret"),
        ),
    ),
    Verb(
        "hub",
        "Running",
        "watch this hub: requests, latencies, queues and workspaces; or move its state into PostgreSQL",
        (
            _arg(
                "action",
                choices=("top", "migrate"),
                help="top refreshes a table, or prints it once in a pipe; migrate moves tokens, quotas, answers and "
                "the audit log of a stopped hub",
            ),
            _arg("--state", help="migrate: URL of the database, or a reference to it", metavar="postgres://…"),
        ),
        own="hub.hub",
        alone=True,
        place=85,
        examples=(("kgd hub top", "live requests and latencies"),),
    ),
    Verb(
        "service",
        "Running",
        "print a unit that starts the daemon at login",
        (_arg("system", nargs="?", choices=("systemd", "launchd"), help="which kind (default: this machine's)"),),
        own="local.service",
        alone=True,
        place=100,
        examples=(("kgd service systemd", "a unit for ~/.config/systemd/user"),),
    ),
    Verb(
        "agents",
        "Running",
        "connect your agents (Claude Code, Cursor, ...): server, start hook, rules, skill",
        (
            _arg(
                "action",
                choices=("install", "uninstall", "status", "show"),
                help="what to do; show prints the settings for any other program",
            ),
            _many("--client", "A,B", "claude, cursor, vscode, codex (default: every client found here)"),
            _flag("--project", help="in the files of this project, for all who work on it (default)"),
            _flag("--user", help="in your own files, for all of your projects"),
            _flag("--create", help="create AGENTS.md or CLAUDE.md if missing"),
        ),
        own="agents.agents",
        alone=True,
        place=110,
        examples=(
            ("kgd agents install", "every client found here"),
            ("kgd agents show", "the settings for any other program"),
        ),
        writes=True,
    ),
    Verb(
        "completion",
        "Running",
        "print the completion script of a shell",
        (_arg("shell", nargs="?", choices=("bash", "zsh", "fish"), help="which shell (default: yours)"),),
        own="local.completion",
        alone=True,
        place=120,
        examples=(("kgd completion bash", "source its output in ~/.bashrc"),),
    ),
    Verb(
        "config",
        "Running",
        "print paths and settings, and where to set them",
        own="local.config",
        alone=True,
        place=130,
    ),
    Verb(
        "install",
        "Running",
        "set up plain git in this clone: merge driver, strategy, hooks",
        own="local.install",
        alone=True,
        place=140,
        writes=True,
    ),
    Verb(
        "edit",
        "Writing",
        "open a node in your editor and write back what you changed",
        (
            _arg("uri", help="a URI, or in short: services/auth, ./src/main.py, insight:a-fact", metavar="URI"),
            _arg("-m", "--message", dest="message", help="why: the commit's subject", metavar="TEXT"),
        ),
        own="editing.edit",
        place=30,
        examples=(("kgd edit services/auth", "all fields as one file"),),
        writes=True,
    ),
    Verb(
        "task",
        "Writing",
        "manage tasks and their lessons: add, list, show, start, done, cancel",
        (
            _arg(
                "action",
                nargs="?",
                choices=("list", "add", "show", "start", "done", "cancel"),
                help="the action (default: list)",
            ),
            _arg("task", nargs="?", help="add: its name; list: search words; else its name or URI", metavar="NAME"),
            _arg("--objective", help="add: the goal, and why", metavar="TEXT"),
            _many("--accept", "TEXT", "add: an acceptance criterion; may be repeated"),
            _many("--file", "PATH", "add: a file to read first; may be repeated"),
            _many("--depends", "TASK", "add: a task to finish first; may be repeated"),
            _words("--tags", "TAG", "add: a tag; may be repeated"),
            _arg("--status", help="list: only pending, in-progress, completed or cancelled", metavar="STATUS"),
            _limit("list: maximum number of results (default: 20)"),
            _arg("--notes", help="start, done, cancel: notes for the next person or agent", metavar="TEXT"),
            _many("--pattern", "TEXT", "done: a pattern, kept as a node; may be repeated"),
            _many("--gotcha", "TEXT", "done: a gotcha, kept as a node; may be repeated"),
            _arg("--summary", help="done, cancel: the result, in at most 100 characters", metavar="TEXT"),
        ),
        own="tasks.task",
        place=90,
        writes=True,
        carries_out=(
            ("query_container with operation=search", "task list"),
            ("query_container with operation=get", "task show NAME"),
            ("add_task", "task add NAME"),
            ("put with type=task", "task add NAME"),
        ),
        examples=(
            (
                'kgd task add "Renew earlier" --objective "No sign-outs" --file src/auth/session.py',
                "create a task",
            ),
            (
                'kgd task done "Renew earlier" --gotcha "Clients cache the expiry"',
                "finish it, and keep the lesson",
            ),
        ),
    ),
    Verb(
        "areas",
        "Reading",
        "list the areas of the code, or show one: rules, facts, files, changes",
        (
            _arg("area", nargs="?", help="an area or a group, by name or URI", metavar="AREA"),
            _limit("list: maximum number of results (default: 50)"),
        ),
        own="areas.areas",
        place=95,
        examples=(
            ("kgd areas", "every area with its paths"),
            ("kgd areas Authentication", "its rules, facts and files"),
        ),
        carries_out=(
            ("query_graph with operation=search", "areas"),
            ("query_graph with operation=get", "areas NAME"),
            ("search with types=atom", "areas"),
            ("search with types=molecule", "areas"),
        ),
    ),
    Verb(
        "hook",
        "",
        "run by git hooks (docs/git.md)",
        (
            _arg("name", help="which hook", metavar="NAME"),
            _arg("arguments", nargs="*", help="the arguments from git", metavar="ARGUMENT"),
        ),
        own="local.hook",
        alone=True,
        place=10,
    ),
    Verb(
        "merge-driver",
        "",
        "run by git to merge one file (docs/git.md)",
        (_arg("files", nargs="+", help="base, ours, theirs and the path, as git gives them", metavar="FILE"),),
        own="local.merge_driver",
        alone=True,
        place=20,
    ),
)


@cache
def table() -> dict[str, Any]:
    """The generated table of operations and their commands."""
    found: dict[str, Any] = json.loads((Path(__file__).parent.parent / "tools/operations.json").read_bytes())
    return found


def toolsets() -> list[str]:
    """The toolsets of `kgd mcp --tools`."""
    return list(dict.fromkeys(one["offered"] for one in table()["operations"].values()))[1:-1]


def _argument(flags: list[str], options: dict[str, Any]) -> Argument:
    if "type" in options:
        options = {**options, "type": TYPES[options["type"]]}
    return Argument(tuple(flags), options)


def _verb(row: dict[str, Any]) -> Verb:
    return Verb(**{**row, "arguments": tuple(_argument(*one) for one in row.get("arguments", ()))})


VERBS: tuple[Verb, ...] = tuple(
    sorted(
        (*map(_verb, table()["commands"]), *_LOCAL),
        key=lambda verb: (GROUPS.index(verb.group) if verb.group else len(GROUPS), verb.place, verb.name),
    )
)

START = (
    ("kgd up", "start in a code repository"),
    ("kgd agents install", "connect Claude Code, Cursor, VS Code, Codex"),
    ('kgd remember "..." --about PATH', "record a fact about a path"),
    ("kgd context PATH", "read before you edit"),
    ("kgd search WORDS", "find facts and code"),
    ("kgd why PATH:LINE", "the reason for a line"),
    ("kgd undo", "revert the last change"),
    ("kgd status", "what needs attention"),
    ("kgd share", "share with your team"),
    ("kgd ui", "the pages and the manual, in your browser"),
)
"""The ten commands that are enough to start, each with its purpose: `kgd --help` and docs/cli.md list them."""
EXAMPLES = (
    'kgd remember "Sessions last 15 minutes." --about src/auth',
    "kgd context src/auth/session.py",
    "kgd why src/auth/session.py:12",
)
"""The examples of `kgd --help`."""

GLOBAL: tuple[Argument, ...] = (
    _arg("--json", action="store_true", help="print the structured answer"),
    _arg("-w", "--workspace", dest="workspace", help="which workspace (default: the directory's)", metavar="ID"),
    _arg("-C", "--directory", dest="directory", help="run as if started in that directory", metavar="DIR"),
    _arg("-q", "--quiet", dest="quiet", action="store_true", help="print only errors"),
    _arg("--no-pager", dest="no_pager", action="store_true", help="print long output without a pager"),
)
DRY_RUN = _arg("--dry-run", action="store_true", help="show what would be written, and write nothing")

EXIT_CODES = {
    "INTERNAL": (1, "a defect in kgd"),
    "VALIDATION_ERROR": (2, "the request or the command line is wrong"),
    "NOT_FOUND": (3, "a node or workspace does not exist"),
    "CONFLICT": (4, "the node has changed since"),
    "INVARIANT_VIOLATION": (5, "it would break a rule of the graph"),
    "FORBIDDEN": (6, "not allowed"),
    "UNAUTHORIZED": (7, "the token is not valid"),
    "LIMIT": (8, "a limit was exceeded: size, length or number"),
    "UNAVAILABLE": (9, "daemon, disk or remote is not available"),
    "DAMAGED": (10, "stored data is damaged"),
    "REFUSED_CONTENT": (11, "refused by the content guard or the secret scan"),
}
"""Error code to (exit code, meaning)."""

UNHEALTHY = 12
"""Exit code of `doctor`, `fsck` and `verify-history` that found something."""
INTERRUPTED = 130


def verb(name: str) -> Verb:
    return next(one for one in VERBS if one.name == name)
