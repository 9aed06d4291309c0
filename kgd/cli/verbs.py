"""This file is where every command is listed once; the parser, shell completion and docs/cli.md are made from it.

A command is a call to the daemon, or a function of its own where there is nothing to ask the daemon. Its arguments have
the names of the tool's parameters, so that `kgd traverse START --max-cost 1` needs no second manual.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Argument(NamedTuple):
    """One argument: its flags, or its name where it is positional, and what argparse is told about it."""

    flags: tuple[str, ...]
    options: dict[str, Any]

    @property
    def dest(self) -> str:
        return str(self.options.get("dest", self.flags[0].lstrip("-").replace("-", "_")))

    @property
    def is_positional(self) -> bool:
        return not self.flags[0].startswith("-")


class Verb(NamedTuple):
    """One command.

    `call` is the daemon's call that answers it. `ask` names the function of `kgd.cli.requests` that turns options into
    the call's arguments; without it they are the options of the same names. `print` names the function of
    `kgd.cli.printing` or `printing_sharing`. `own` names one of `kgd.cli.local` that does all by itself instead.
    `rehearsal` is the call that answers `--dry-run`, where that is another one.
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


def _arg(*flags: str, help: str, **options: Any) -> Argument:
    return Argument(flags, {"help": help, **options})


def _many(flag: str, metavar: str, help: str) -> Argument:
    return _arg(flag, help=help, action="append", metavar=metavar)


def _listed(text: str) -> list[str]:
    return [word for part in text.split(",") if (word := part.strip())]


def _words(flag: str, metavar: str, help: str) -> Argument:
    """An option for names without commas: repeated, or several with commas between them."""
    return _arg(flag, help=help, action="extend", type=_listed, metavar=metavar)


def _flag(*flags: str, help: str) -> Argument:
    return _arg(*flags, help=help, action="store_true", default=None)


_ADDRESS = "a URI, or in short: services/auth, ./src/main.py, insight:a-fact"
_URI = _arg("uri", help=_ADDRESS, metavar="URI")
_BUDGET = _arg("--budget", type=int, help="tokens that the answer may cost (4000)", metavar="N")
_CURSOR = _arg("--cursor", help="continue an answer that was cut", metavar="CURSOR")
_CONTEXT = _arg("--context-id", help="enter what is shown into the working set of that conversation", metavar="ID")
_AS_OF = _arg("--as-of", help="as it was at that commit", metavar="COMMIT")
_MESSAGE = _arg("-m", "--message", dest="message", help="why: the commit's subject", metavar="TEXT")
_VERSION = _arg("--expect-version", type=int, help="refuse if it is no longer at this version", metavar="N")
_REQUEST = _arg("--request-id", help="a repeat with the same id is applied once", metavar="ID")
_DETAIL = _arg("--detail", help="Markdown behind it, kept as a file of its own; - is standard input", metavar="FILE")
_WRITE = (_MESSAGE, _REQUEST)
_LIMIT = _arg("--limit", type=int, help="at most so many (20)", metavar="N")
_HITS = _arg("--limit", type=int, help="at most so many (10)", metavar="N")
_OPEN = _arg("--limit", type=int, help="at most so many (50)", metavar="N")
_TYPES = _words("--types", "TYPE", "only nodes of this type, such as insight, file or dir; may be repeated")
_EDGE_TYPES = _words("--edge-types", "TYPE", "only relations of this type; may be repeated")

_REF = _arg("--ref", help="the ref to be kept under there (refs/heads/main; in a code repository refs/heads/kgd)",
            metavar="REF")  # fmt: skip
_TOKEN = _arg("--token", help="where the credential for https is: env:NAME, keyring:NAME or file:PATH",
              metavar="REFERENCE")  # fmt: skip
_SECONDS = _arg("--sync", type=float, help="seconds between two looks at it; 0 is by hand only", metavar="SECONDS")
_DIRECTION = _arg("--direction", choices=("both", "pull", "push"), help="which way (both)")

VERBS: tuple[Verb, ...] = (
    Verb("up", "Running", "make a workspace here, or find the one that is here, and start the daemon",
         (_arg("--id", help="the workspace's id (from the remote's or the folder's name)", metavar="ID"),
          _flag("--standalone", help="a repository of its own, here, instead of one inside the code's git directory"),
          _flag("--replace", help="take the place of another repository that is registered under this id")),
         call="up", ask="place", print="up", writes=True),
    Verb("init", "Running", "like up, and say nothing about wiring",
         (_arg("--id", help="the workspace's id", metavar="ID"),
          _flag("--standalone", help="a repository of its own"),
          _flag("--replace", help="take the place of another repository of this id")),
         call="up", ask="place", print="init", writes=True),
    Verb("down", "Running", "stop the daemon; the next command that needs it starts it again", own="down"),
    Verb("ui", "Running", "see it all in the browser: a link that lets one browser in, once",
         (_flag("--print", help="print the link, and open nothing"),
          _flag("--browsers", help="which browsers were let in"),
          _flag("--end", help="let in no longer all those that were")), own="ui"),
    Verb("status", "Running", "how kgd is here: the daemon, the workspace, what waits and why", call="status",
         print="status"),
    Verb("doctor", "Running", "check everything, and say what helps",
         (_flag("--fix", help="mend what kgd can mend by itself without a loss"),
          _flag("--confirm-deletions", help="many files are missing in .kgd and are kept: delete their nodes")),
         call="doctor", print="doctor"),
    Verb("mcp", "Running", "serve MCP on standard input and output: what an MCP client starts",
         (_arg("--tools", metavar="A,B",
               help="toolsets beside the usual tools: tasks, server-memory, apps; only:server-memory for it alone"),),
         own="mcp"),
    Verb("serve", "Running", "run the daemon in the foreground; with --listen it is a hub, for which -w takes A,B",
         (_flag("--debug", help="log debug messages"),
          _arg("--profile", help="write a profile as collapsed stacks when it stops", metavar="FILE"),
          _arg("--listen", help="serve others over HTTP at this address", metavar="HOST:PORT"),
          _arg("--tls-cert", help="certificate chain, for an address beyond this machine", metavar="FILE"),
          _arg("--tls-key", help="its key", metavar="FILE"),
          _flag("--behind-proxy", help="a proxy in front of it ends TLS"),
          _many("--host-name", "NAME", "a name that clients call it by; others are then refused; may be repeated")),
         own="serve"),
    Verb("token", "Running", "who may come into this hub: make, list, narrow, replace and revoke tokens",
         (_arg("action", choices=("mint", "list", "revoke", "rotate", "child", "log", "audit"),
               help="what to do; audit prints the whole audit log as JSON lines"),
          _arg("subject", nargs="?", help="mint: the workspace; revoke, rotate, child, log: a token's id",
               metavar="WORKSPACE|ID"),
          _arg("--name", help="mint, child: who holds it, such as billing-agent", metavar="NAME"),
          _arg("--kind", choices=("agent", "person"), help="mint, child: what the holder is (agent)"),
          _many("--verbs", "V,V", "read, propose, write, resolve, admin (read)"),
          _many("--paths", "GLOB,GLOB", "what it reaches (/**)"),
          _many("--also", "V,V:GLOB,GLOB", "a further scope, such as 'read:/**'; may be repeated"),
          _arg("--expires", help="30d, 12h, or a date (30d; child: 1d)", metavar="SPAN"),
          _arg("--requests-per-minute", type=int, help="mint: what it may use up (600)", metavar="N"),
          _arg("--bytes-per-day", type=int, help="mint: likewise (1 GiB)", metavar="N"),
          _arg("--nodes-per-day", type=int, help="mint: likewise (20000)", metavar="N"),
          _arg("--pending-proposals", type=int, help="mint: that may wait at a time (100)", metavar="N"),
          _arg("--limit", type=int, help="log: at most so many (50)", metavar="N")),
         own="token"),
    Verb("service", "Running", "print a unit that starts the daemon at login",
         (_arg("system", nargs="?", choices=("systemd", "launchd"), help="which kind (this machine's)"),),
         own="service"),
    Verb("agents", "Running", "tell the programs that agents run in of kgd: server, start hook, rules, skill",
         (_arg("action", choices=("install", "uninstall", "status", "show"),
               help="what to do; show prints what any other program needs"),
          _many("--client", "A,B", "claude, cursor, vscode, codex (those that are seen here)"),
          _flag("--project", help="in the files of this project, for all who work on it (this is what happens)"),
          _flag("--user", help="in your own files, for all of your projects"),
          _flag("--create", help="make AGENTS.md or CLAUDE.md where there is none")), own="agents", writes=True),
    Verb("completion", "Running", "print the completion script of a shell",
         (_arg("shell", nargs="?", choices=("bash", "zsh", "fish"), help="which shell (yours)"),), own="completion"),
    Verb("config", "Running", "print where everything is and what is set", own="config"),
    Verb("install", "Running", "let plain git merge and check in this clone as kgd does: merge driver, strategy, hooks",
         own="install", writes=True),
    Verb("uninstall", "Running", "take kgd away from here; the knowledge stays, and it says where",
         (_flag("--all", help="every workspace, and the home itself"),), own="uninstall", writes=True),

    Verb("put", "Writing", "write a node (what is not named stays as it is), or a set of changes as one commit",
         (_arg("uri", nargs="?", help="the node; without it, --type and --name make its URI", metavar="URI"),
          _arg("--changes", help="a file of JSON changes, as the tool takes them; - is standard input", metavar="FILE"),
          _arg("--type", help="what it is", metavar="TYPE"),
          _arg("--name", help="its title", metavar="TEXT"),
          _arg("--summary", help="one line of at most 100 characters", metavar="TEXT"),
          _arg("--content", metavar="TEXT",
               help="its text; - reads standard input; to replace one, also --expect-version"),
          _DETAIL, _words("--tags", "TAG", "add a tag; may be repeated"),
          _many("--relations", "RELATION", "add a relation, TYPE:TARGET or TYPE:TARGET@WEIGHT; may be repeated"),
          _many("--unset", "FIELD", "clear a field, or data.KEY; may be repeated"),
          _arg("--data", help="JSON object; merged by key", metavar="JSON"), _VERSION, *_WRITE),
         call="put", ask="put", print="put", writes=True),
    Verb("get", "Reading", "show nodes: summary, content, relations",
         (_arg("uris", nargs="+", help=_ADDRESS, metavar="URI"),
          _many("--include", "PART", "content, relations, incoming, history, mentions, messages (of a thread, or "
                "behind a message), messages_back (newest first); may be repeated"),
          _AS_OF, _BUDGET, _CURSOR, _CONTEXT), call="get", print="get"),
    Verb("append", "Writing", "add a paragraph to a node",
         (_URI, _arg("text", help="the paragraph; - reads standard input", metavar="TEXT"), *_WRITE),
         call="put", ask="append", print="put", writes=True),
    Verb("edit", "Writing", "open a node in your editor and write back what you changed", (_URI, _MESSAGE),
         own="edit", writes=True),
    Verb("rm", "Writing", "delete nodes with their outgoing relations; incoming ones become broken links",
         (_arg("uris", nargs="+", help=_ADDRESS, metavar="URI"), _VERSION, *_WRITE),
         call="put", ask="rm", print="put", writes=True),
    Verb("mv", "Writing", "give a node another URI; the old one stays as an alias",
         (_URI, _arg("to", help="the new URI", metavar="TO"), *_WRITE), call="put", ask="mv", print="put", writes=True),
    Verb("link", "Writing", "relate one node to another",
         (_arg("source", help="where the relation begins", metavar="SOURCE"),
          _arg("target", help="where it leads", metavar="TARGET"),
          _arg("--type", default="related_to", help="its type (related_to)", metavar="TYPE"),
          _arg("--weight", type=float, help="cost, 0 = always together to 1 = one full step (1)", metavar="W"),
          *_WRITE), call="put", ask="link", print="put", writes=True),
    Verb("unlink", "Writing", "remove a relation",
         (_arg("source", help="where the relation begins", metavar="SOURCE"),
          _arg("target", help="where it leads", metavar="TARGET"),
          _arg("--type", default="related_to", help="its type (related_to)", metavar="TYPE"), *_WRITE),
         call="put", ask="unlink", print="put", writes=True),
    Verb("tag", "Writing", "add tags to a node, or take them away",
         (_URI, _arg("tags", nargs="+", help="the tags", metavar="TAG"),
          _flag("--remove", help="take them away"), *_WRITE), call="put", ask="tag", print="put", writes=True),
    Verb("task", "Writing", "tasks, and what is learned from them: add, list, show, start, done, cancel",
         (_arg("action", nargs="?", choices=("list", "add", "show", "start", "done", "cancel"), help="(list)"),
          _arg("task", nargs="?", help="add: what it is called; list: words to look for; else its name or URI",
               metavar="NAME"),
          _arg("--objective", help="add: what is to be reached, and why", metavar="TEXT"),
          _many("--accept", "TEXT", "add: when it is done; may be repeated"),
          _many("--file", "PATH", "add: a file that one has to know; may be repeated"),
          _many("--depends", "TASK", "add: a task that comes before; may be repeated"),
          _words("--tags", "TAG", "add: a tag; may be repeated"),
          _arg("--status", help="list: pending, in-progress, completed or cancelled alone", metavar="STATUS"),
          _arg("--limit", type=int, help="list: at most so many (20)", metavar="N"),
          _arg("--notes", help="start, done, cancel: what whoever goes on should know", metavar="TEXT"),
          _many("--pattern", "TEXT", "done: what is always done this way, kept as a node; may be repeated"),
          _many("--gotcha", "TEXT", "done: what one trips over, kept as a node; may be repeated"),
          _arg("--summary", help="done, cancel: what came of it, in at most 100 characters", metavar="TEXT")),
         own="task", writes=True),
    Verb("remember", "Writing", "write down one fact, to be found again with recall",
         (_arg("text", help="the fact, in one sentence; - reads standard input", metavar="TEXT"),
          _many("--about", "URI", "a node or path that it is about; may be repeated"),
          _many("--cites", "PATH#SYMBOL", "code that it holds for: unverified once that changes; may be repeated"),
          _words("--tags", "TAG", "a tag; may be repeated (keywords of the text)"),
          _arg("--type", help="what it is: decision, pattern, gotcha, ... (insight)", metavar="TYPE"),
          _DETAIL),
         call="remember", ask="remember", print="put", writes=True),
    Verb("recall", "Reading", "find what was remembered, by words, or by tags: with most of them first",
         (_arg("query", nargs="*", help="words", metavar="WORD"),
          _words("--tags", "TAG", "with this tag; repeated: with any of them"), _TYPES, _HITS,
          _CURSOR), call="recall", ask="search", print="search"),

    Verb("search", "Reading", "find nodes by words, meaning and what leads to them",
         (_arg("query", nargs="*", help="words", metavar="WORD"), _TYPES,
          _words("--tags", "TAG", "with this tag; repeated: with any of them"),
          _arg("--namespace", help="below this path", metavar="PATH"), _EDGE_TYPES,
          _arg("--max-depth", type=int, help="steps to expand from each hit (1)", metavar="N"),
          _arg("--min-score", type=float, help="leave out what scores less", metavar="X"),
          _HITS, _BUDGET, _CURSOR), call="search", ask="search", print="search"),
    Verb("traverse", "Reading", "walk from nodes along the cheapest paths",
         (_arg("start", nargs="+", help=_ADDRESS, metavar="START"),
          _arg("--max-cost", help="what a path may cost (1); 'none' for no limit", metavar="COST"),
          _arg("--max-depth", type=int, help="relations on a path", metavar="N"), _EDGE_TYPES, _TYPES,
          _arg("--direction", choices=("out", "in", "both"), help="along relations, against them, or both (out)"),
          _arg("--max-nodes", type=int, help="nodes in the answer (50)", metavar="N"),
          _many("--include", "PART", "path: each node's whole path, for --json"),
          _AS_OF, _BUDGET, _CURSOR, _CONTEXT), call="traverse", ask="traverse", print="traverse"),
    Verb("prime", "Reading", "what an agent should know when it starts; never fails, for it is what start hooks run",
         (_arg("--budget", type=int, help="tokens that it may cost (1500)", metavar="N"),
          _arg("--hook", nargs="?", const="claude", choices=("claude", "cursor"),
               help="print it as a host's start hook has to")), own="prime"),
    Verb("context", "Reading", "what to know before you touch files, begin a task or answer a question",
         (_arg("paths", nargs="*", help="files or directories of the code", metavar="PATH"),
          _arg("--task", help="a task's URI or name, or its text", metavar="TASK"),
          _arg("--question", help="a question in words", metavar="TEXT"), _BUDGET, _CONTEXT),
         call="context", print="context"),
    Verb("show", "Reading", "everything about one node, with incoming relations and history; of a thread its messages",
         (_URI, _AS_OF, _CURSOR),
         call="get", ask="show", print="get"),

    Verb("history", "The past", "who changed what and why; of one node or of all",
         (_arg("uri", nargs="?", help="a URI or path", metavar="URI"),
          _arg("--commit", help="this commit alone", metavar="COMMIT"),
          _arg("--since", help="not before this date, such as 2026-11-20 or 2026-11-20T14:00", metavar="DATE"),
          _arg("--until", help="not after this date", metavar="DATE"),
          _arg("--author", help="by whom", metavar="TEXT"),
          _flag("--diff", help="with the fields that changed"), _LIMIT, _CURSOR), call="history", print="history"),
    Verb("blame", "The past", "who wrote which line of a node's content, and when", (_URI, _BUDGET, _CURSOR),
         call="blame", print="blame"),
    Verb("log", "The past", "the commits of the workspace, newest first",
         (_arg("--author", help="by whom", metavar="TEXT"), _LIMIT, _CURSOR), call="history", print="log"),
    Verb("diff", "The past", "what differs between two commits, field by field",
         (_arg("range", help="A..B, or one commit: what it changed", metavar="A..B"),
          _arg("uri", nargs="?", help="of this node alone", metavar="URI")), call="diff", ask="diff", print="diff"),
    Verb("revert", "The past", "take one commit back; what changed since is kept",
         (_arg("commit", help="the commit", metavar="COMMIT"), _MESSAGE), call="revert", print="put", writes=True),
    Verb("undo", "The past", "take back the newest change that was not undone yet, a revert too", (),
         call="undo", print="put", writes=True),

    Verb("bootstrap", "Care", "take the code tree into the graph; it is served as it is, and nothing is stored",
         (_flag("--store", help="write the nodes once, for a tree that colleagues do not have"),),
         call="bootstrap", print="facts", writes=True),
    Verb("ingest", "Care", "take in documents and conversations; a second time changes only what changed there",
         (_arg("source", nargs="?", metavar="SOURCE",
               help="a file or folder; - is a text on standard input; none looks at the code tree anew"),
          _arg("--kind", help="what it is, where it does not show: document, conversation, ... (docs/ingest.md)",
               metavar="KIND"),
          _arg("--uri", help="the node that it becomes, or the URL that it is from", metavar="URI")),
         own="ingest", writes=True),
    Verb("import", "Care", "take in what other programs' files say; a second time changes nothing",
         (_arg("source", help="a file or folder", metavar="SOURCE"),
          _arg("--from", dest="format", help="its format, where it does not show (docs/exchange.md)", metavar="FORMAT"),
          _arg("--below", help="a path that the new URIs begin with", metavar="PATH"),
          _flag("--replace", help="take theirs also where it was changed here")),
         call="import", ask="import_", print="imported", writes=True),
    Verb("export", "Care", "write nodes as files of another program; never over what a person wrote",
         (_arg("target", help="a file or folder; - is standard output", metavar="TARGET"),
          _arg("--to", dest="format", required=True, help="which format (docs/exchange.md)", metavar="FORMAT"),
          _arg("--root", dest="roots", action="append", metavar="URI",
               help="only this node and what a walk from it reaches; may be repeated"),
          _arg("--max-cost", help="what a path of the walk may cost (1); 'none' for no limit", metavar="COST"),
          _arg("--direction", choices=("out", "in", "both"), help="along relations, against them, or both (out)"),
          _arg("--max-nodes", type=int, help="at most so many nodes", metavar="N"),
          _flag("--replace", help="write over files that kgd did not write")),
         call="export", ask="export", print="exported", writes=True),
    Verb("reindex", "Care", "throw away all that is derived and build it anew", (), call="reindex", print="facts"),
    Verb("fsck", "Care", "check every stored object and node", (), call="fsck", print="fsck"),
    Verb("share", "Sharing", "publish the workspace to its repository's own remote; from then on it is kept in step",
         (_arg("--remote", help="which of its remotes (origin)", metavar="NAME"), _REF, _TOKEN, _SECONDS),
         call="share", ask="place", print="remotes"),
    Verb("remote", "Sharing", "list, add and remove what the workspace is shared through",
         (_arg("action", nargs="?", type=lambda word: {"rm": "remove"}.get(word, word),
               choices=("list", "add", "remove", "show"), help="what to do (list)"),
          _arg("name", nargs="?", help="its name, such as origin", metavar="NAME"),
          _arg("url", nargs="?", help="https://..., user@host:path or a directory", metavar="URL"), _REF, _TOKEN,
          _SECONDS, _DIRECTION), call="remote", ask="place", print="remotes"),
    Verb("sync", "Sharing", "fetch, merge and push now; it also happens by itself",
         (_arg("remote", nargs="?", help="with this remote alone", metavar="REMOTE"), _DIRECTION,
          _arg("--confirm", nargs="?", const="yes", metavar="COMMIT",
               help="take what is held: a commit that deletes much, or a history that was rewritten")),
         call="sync", print="remotes"),
    Verb("proposals", "Sharing", "list what waits to be accepted, or show one with what it changes",
         (_arg("name", nargs="?", help="a proposal", metavar="PROPOSAL"), _OPEN, _CURSOR),
         call="proposals", print="proposals"),
    Verb("accept", "Sharing", "bring a proposal into the workspace, whole or in part",
         (_arg("name", help="a proposal, as `kgd proposals` lists it", metavar="PROPOSAL"),
          _many("--only", "URI", "this node alone; may be repeated"), _MESSAGE),
         call="accept", print="accepted", writes=True),
    Verb("reject", "Sharing", "take a proposal off the list; it is kept, with the reason",
         (_arg("name", help="a proposal", metavar="PROPOSAL"),
          _arg("--reason", help="why, for whoever looks it up", metavar="TEXT")), call="reject", print="rejected"),
    Verb("compress", "Care", "propose merges of doubles, marks on stale facts, idle relations to prune; change nothing",
         (_arg("--kind", dest="kinds", action="append", metavar="KIND",
               choices=("merges", "marks", "prunings", "summaries"),
               help="merges, marks, prunings or summaries alone; may be repeated"),
          _arg("--below", help="a path or URI: change nothing else", metavar="PATH"),
          _arg("--days", type=int, help="what nobody touched or read for so long is old (180)", metavar="N")),
         call="compress", print="compressed", writes=True),
    Verb("clone", "Sharing", "clone a shared workspace here, and keep it in step with where it came from",
         (_arg("source", help="a workspace of the registry, or a git address", metavar="ID|URL"),
          _arg("path", nargs="?", help="into which folder (the registry's path, or one named as ID or URL)",
               metavar="PATH"),
          _arg("--ref", help="the ref that it is kept under there", metavar="REF"), _TOKEN,
          _flag("--replace", help="take the place of another repository that is registered under its id")),
         call="clone", ask="place", print="init"),
    Verb("join", "Sharing", "join a hub: its workspaces can be read here; asks for a token, or takes it from a pipe",
         (_arg("url", help="https://HOST[:PORT]", metavar="URL"),
          _flag("--replace", help="take the hub's workspaces also where their ids are known from elsewhere")),
         own="join"),
    Verb("leave", "Sharing", "forget a hub, its workspaces and its token; nothing there changes",
         (_arg("url", help="the hub's address, or the id of one of its workspaces", metavar="URL"),),
         call="leave", print="left"),
    Verb("whoami", "Sharing", "who your commits are by, and who each hub takes you for",
         (_arg("url", nargs="?", help="this hub alone", metavar="URL"),), call="whoami", print="whoami"),
    Verb("submit", "Sharing", "hand changes to another team; alone: what changed since your last submission",
         (_arg("remote", nargs="?", help="a registered workspace, or a remote of this one", metavar="WORKSPACE"),
          _arg("--changes", help="a JSON file with a list of changes, as put takes them; - reads standard input",
               metavar="FILE"),
          _many("--roots", "URI", "instead: this node of mine, and what --max-cost reaches; may be repeated"),
          _arg("--max-cost", type=float, help="cost up to which roots take others with them (0)", metavar="N"),
          _arg("--base", help="the commit that you saw", metavar="COMMIT"), *_WRITE),
         call="submit_subgraph", ask="submit", print="submitted", writes=True, rehearsal="would_submit"),
    Verb("review", "The past", "what was learned, by author: to accept, or to take back in part",
         (_arg("--since", help="monday, yesterday, 2 days ago, 2026-11-20 (your last review)", metavar="WHEN"),
          _arg("--by", help="agent, person, or part of a name", metavar="WHO"),
          _many("--path", "GLOB", "only nodes of these paths, such as '/services/**'; may be repeated"),
          _flag("--accept", help="note that all up to now is reviewed"),
          _many("--revert", "URI", "take back what was done to this node; may be repeated"), _MESSAGE,
          _arg("--until", help="look at nothing newer than this commit", metavar="COMMIT"),
          _arg("--limit", type=int, help="at most so many nodes", metavar="N"), _CURSOR),
         call="review", print="review", writes=True),
    Verb("stale", "Care", "list what nobody verified since the code behind it changed; or say that it still holds",
         (_many("--verify", "URI", "this node still holds, I looked at the code again; may be repeated"), _OPEN,
          _CURSOR), call="stale", print="stale", writes=True),
    Verb("broken", "Care", "list relations to what nobody has written yet, by what is missing",
         (_OPEN, _CURSOR), call="broken", print="broken"),
    Verb("coverage", "Reading", "how much of the code has an area, folder by folder; where areas overlap",
         (_arg("path", nargs="?", help="a folder of the code tree (its top)", metavar="FOLDER"),
          _arg("--area", help="instead: the files of this area", metavar="ATOM"),
          _arg("--order", choices=("name", "gaps"), help="gaps: what has the most files without an area comes first"),
          _OPEN, _CURSOR), call="coverage", print="coverage"),
    Verb("conflicts", "Care", "list what two people wrote differently, with both sides",
         (_arg("uri", nargs="?", help="of this node alone", metavar="URI"),
          _flag("--suggestions", help="also relations and weights that use on this machine speaks for"), _OPEN,
          _CURSOR),
         call="conflicts", print="conflicts"),
    Verb("resolve", "Care", "settle conflicts: take a side, or give each field its value",
         (_arg("ids", nargs="+", help="the node, if it has one open conflict, or the conflict's or suggestion's id",
               metavar="ID"),
          _arg("--take", choices=("a", "b", "base", "accept", "reject"),
               help="a side, as `kgd conflicts` shows it, or what was before; of a suggestion accept or reject"),
          _arg("--fields", help="JSON object: a value for each field", metavar="JSON"), _MESSAGE),
         call="resolve", ask="resolve", print="put", writes=True),

    Verb("hook", "", "what a git hook runs (docs/git.md)",
         (_arg("name", help="which hook", metavar="NAME"),
          _arg("arguments", nargs="*", help="what git gave it", metavar="ARGUMENT")), own="hook"),
    Verb("merge-driver", "", "what git runs to merge one file (docs/git.md)",
         (_arg("files", nargs="+", help="base, ours, theirs and the path, as git gives them", metavar="FILE"),),
         own="merge_driver"),
)  # fmt: skip

GROUPS = ("Running", "Writing", "Reading", "The past", "Sharing", "Care")

GLOBAL: tuple[Argument, ...] = (
    _arg("--json", action="store_true", help="print the structured answer"),
    _arg("-w", "--workspace", dest="workspace", help="which workspace (that of the directory)", metavar="ID"),
    _arg("-C", "--directory", dest="directory", help="as if started in that directory", metavar="DIR"),
    _arg("-q", "--quiet", dest="quiet", action="store_true", help="print nothing but errors"),
)
DRY_RUN = _arg("--dry-run", action="store_true", help="say what would be written, and write nothing")

EXIT_CODES = {
    "INTERNAL": (1, "a defect of kgd"),
    "VALIDATION_ERROR": (2, "the request itself is wrong, or the command line is"),
    "NOT_FOUND": (3, "what it names is not there"),
    "CONFLICT": (4, "the node has another version by now"),
    "INVARIANT_VIOLATION": (5, "it would break a rule of the graph"),
    "FORBIDDEN": (6, "not allowed"),
    "UNAUTHORIZED": (7, "not known"),
    "LIMIT": (8, "larger, longer or more than is allowed"),
    "UNAVAILABLE": (9, "daemon, disk or remote cannot serve just now"),
    "DAMAGED": (10, "stored bytes are not what they claim to be"),
    "REFUSED_CONTENT": (11, "the guard or the secret scan said no"),
}
"""Error code to (exit code, meaning)."""

UNHEALTHY = 12
"""Exit code of `doctor` and `fsck` that found something."""
INTERRUPTED = 130


def verb(name: str) -> Verb:
    return next(one for one in VERBS if one.name == name)
