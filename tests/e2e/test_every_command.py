"""Every command of `kgd help --all`, executed once correctly and once with an error.

The rows run in order in one repository, so that later rows find the nodes of earlier ones.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from kgd.cli.commands import EXIT_CODES, VERBS
from kgd.cli.main import run
from kgd.config import Home
from tests.daemon.conftest import ROOT, end_daemon
from tests.e2e.conftest import Machine, make_repository

pytestmark = pytest.mark.slow


class Right(NamedTuple):
    """A correct command line, and a regular expression for its answer."""

    line: list[str]
    says: str
    stdin: str = ""


class Wrong(NamedTuple):
    """A wrong command line, the class of its refusal, and a part of the single message."""

    line: list[str]
    code: str
    says: str
    stdin: str = ""


BAD, GONE, STALE, RULE = "VALIDATION_ERROR", "NOT_FOUND", "CONFLICT", "INVARIANT_VIOLATION"
CHANGES = json.dumps(
    [{"op": "upsert", "uri": "one"}, {"op": "relate", "source": "one", "target": "auth", "type": "related_to"}]
)

RIGHT = [
    Right(["up"], r"workspace shop is (made|up)[\s\S]*kgd agents install"),
    Right(["init"], r"shop"),
    Right(["status"], r"workspace shop in "),
    Right(["doctor"], r"ok +shop"),
    Right(["doctor", "--fix"], r"ok +shop"),
    Right(["config"], r"workspaces.yaml"),
    Right(["ui", "--print"], r"^http://127\.0\.0\.1:\d+/ui/in/"),
    Right(["ui", "--browsers"], r"no browser is signed in"),
    Right(["service", "systemd"], r"ExecStart="),
    Right(["service", "launchd"], r"<plist"),
    Right(["completion", "bash"], r"complete "),
    Right(["completion", "zsh"], r"compdef"),
    Right(["completion", "fish"], r"complete -c kgd"),
    Right(["put", "auth", "--summary", "who may", "--tags", "core", "--content", "A text."], r"auth +new"),
    Right(["put", "auth", "--relations", "about:./src/auth@0.5", "--data", '{"a": 1}'], r"auth +version 2"),
    Right(["put", "auth", "--dry-run", "--summary", "other"], r"auth"),
    Right(["put", "--changes", "-"], r"concept://shop/one", CHANGES),
    Right(["get", "auth", "./src/auth"], r"who may[\s\S]*dir://shop/src/auth"),
    Right(["show", "auth"], r"<- related_to concept://shop/one"),
    Right(["append", "auth", "more to say"], r"auth +version 3"),
    Right(["append", "auth", "-"], r"auth +version 4", "from standard input"),
    Right(["link", "auth", "one", "--type", "before", "--weight", "0.25"], r"version 5"),
    Right(["unlink", "auth", "one", "--type", "before"], r"version 6"),
    Right(["tag", "auth", "hot", "new"], r"version 7"),
    Right(["tag", "auth", "hot", "--remove"], r"version 8"),
    Right(["put", "auth", "--name", "Auth", "--expect-version", "1"], r"auth +version 9"),
    Right(["mv", "one", "two"], r"concept://shop/two"),
    Right(["rm", "two"], r"commit"),
    Right(["remember", "keys rotate on Mondays", "--about", "src/auth", "--tags", "ops"], r"insight://shop/\S+ +new"),
    Right(["recall", "rotate"], r"keys rotate on Mondays"),
    Right(["prime"], r"team knowledge in `shop`[\s\S]*keys rotate on Mondays"),
    Right(["prime", "--hook"], r"hookSpecificOutput"),
    Right(["agents", "install", "--client", "cursor", "--dry-run"], r"mcp.json .* would be added\n +\+ {"),
    Right(["agents", "status", "--client", "codex"], r"config.toml .*absent"),
    Right(["agents", "show"], r"mcpServers"),
    Right(["context", "src/auth/a.py", "./nothing.py"], r"keys rotate on Mondays[\s\S]*nothing.py"),
    Right(["why", "src/auth/session.py:1"], r"src/auth/session.py:1\n  \| "),
    Right(["why", "src/auth/session.py"], r"Recent changes|Facts"),
    Right(["context", "--question", "who may"], r"concept://shop/auth"),
    Right(["search", "who", "--tags", "core", "--limit", "3"], r"concept://shop/auth"),
    Right(["traverse", "auth", "--max-cost", "none", "--max-nodes", "5"], r"dir://shop/src/auth"),
    Right(["path", "auth", "./src/auth"], r"concept://shop/auth[\s\S]*->\n[\s\S]*dir://shop/src/auth"),
    Right(["history", "auth", "--diff", "--limit", "3"], r"untag|hot"),
    Right(["log", "--limit", "2"], r"^[0-9a-f]{7,}"),
    Right(["log", "--path", "auth", "--since", "yesterday", "--limit", "1"], r"^[0-9a-f]{7,}"),
    Right(["blame", "auth"], r"Ann Person \(kgd-cli\)\n +1  |has no content"),
    Right(["diff", "HEAD~2..HEAD"], r"insight://shop"),
    Right(["undo"], r"commit"),
    Right(["revert", "HEAD"], r"commit"),
    Right(["bootstrap"], r"files"),
    Right(["ingest", "."], r"files"),
    Right(["export", "handbook", "--to", "vault"], r"vault: \d+ notes\n  files: \d+ new"),
    Right(["export", "-", "--to", "mermaid", "--root", "auth"], r"^%% written by kgd\nflowchart LR"),
    Right(["import", "handbook", "--dry-run"], r"dry run[\s\S]*vault: \d+ notes"),
    Right(["import", "handbook"], r"\d+ unchanged\n  nothing changed"),
    Right(["reindex"], r"shop"),
    Right(["fsck"], r"shop"),
    Right(["conflicts"], r"no open conflicts"),
    Right(["conflicts", "--suggestions"], r"no suggestions"),
    Right(["stale"], r"no stale facts"),
    Right(["broken"], r"no broken links|from concept"),
    Right(["questions"], r"no open questions|remember"),
    Right(["areas"], r"no areas; this command creates one:\n  kgd put atom:NAME "),
    Right(["coverage", "src"], r"src +\d+ % of \d+ files?"),
    Right(["remote"], r"not shared"),
    Right(["proposals"], r"no open proposals"),
    Right(["compress", "--kind", "merges", "--below", "services", "--days", "30"], r"Nothing to propose"),
    Right(["review", "--since", "yesterday"], r"concept://shop/auth"),
    Right(["author", "Ann Person", "--limit", "3"], r"Ann Person \(kgd-cli\)  person[\s\S]*concept://shop/auth"),
    Right(["whoami"], r"Ann Person"),
    Right(["token", "list"], r"no tokens|token"),
    Right(["task"], r"kgd task add"),
    Right(
        [
            "task",
            "add",
            "ship it",
            "--objective",
            "out by May",
            "--accept",
            "it runs",
            "--file",
            "./src/auth/session.py",
            "--dry-run",
        ],
        r"would add ship it[\s\S]*`src/auth/session.py`",
    ),
    Right(["task", "add", "ship it", "--objective", "out by May", "--file", "src/auth"], r"added ship it"),
    Right(["task", "add", "then", "--depends", "ship it"], r"added then"),
    Right(["task", "show", "then"], r"depends on +task://shop/ship%20it"),
    Right(["task", "start", "ship it", "--notes", "begun in April"], r"ship it .*: in-progress"),
    Right(
        ["task", "done", "ship it", "--gotcha", "May has 31 days", "--notes", "it was June", "--pattern", "ship early"],
        r"begun in April\n +it was June[\s\S]*"
        r"recorded 2 nodes[\s\S]*gotcha +May has 31 days",
    ),
    Right(["task", "cancel", "then"], r"then .*: cancelled"),
    Right(["task", "list", "--status", "completed"], r"completed +ship it: out by May"),
    Right(["task", "list", "June"], r"ship it"),
    Right(["recall", "31 days"], r"May has 31 days"),
]

WRONG = [
    Wrong(["updog"], BAD, r"updog"),
    Wrong(["up", "--id", "Not An Id"], BAD, r"id"),
    Wrong(["up", "--id", "another"], RULE, r"'shop'"),
    Wrong(["up", "--bare"], RULE, r"a workspace with a work tree is here"),
    Wrong(["init", "--id", "-"], BAD, r"id"),
    Wrong(["-C", "/no/such/folder", "status"], BAD, r"/no/such/folder"),
    Wrong(["-w", "nobody", "status"], GONE, r"nobody"),
    Wrong(["doctor", "--fixx"], BAD, r"--fixx"),
    Wrong(["service", "openrc"], BAD, r"openrc"),
    Wrong(["completion", "tcsh"], BAD, r"tcsh"),
    Wrong(["put"], BAD, r"URI"),
    Wrong(["put", "auth", "--summary", "x" * 101], "LIMIT", r"100"),
    Wrong(["put", "auth", "--data", "{nope"], BAD, r"JSON"),
    Wrong(["put", "auth", "--relations", "nocolon"], BAD, r"TYPE:TARGET"),
    Wrong(["put", "auth", "--relations", "about:one@7"], BAD, r"weight|0 to 1|0\.\.1"),
    Wrong(["put", "auth", "--content", "replaced"], STALE, r"version"),
    Wrong(["put", "auth", "--summary", "x", "--expect-version", "0"], STALE, r"version"),
    Wrong(["put", "auth", "--summary", "x", "--expect-version", "99"], STALE, r"version"),
    Wrong(["put", "concept://elsewhere/x", "--summary", "x"], GONE, r"elsewhere"),
    Wrong(["put", "concept://shop/a/../b", "--summary", "x"], BAD, r"\.\."),
    Wrong(["put", "AUTH", "--summary", "a twin"], RULE, r"auth"),
    Wrong(["put", "key", "--content", "ghp_" + "a1B2" * 9], "REFUSED_CONTENT", r"secret|key|token"),
    Wrong(["put", "--changes", "no-such-file.json"], BAD, r"no-such-file.json"),
    Wrong(["put", "--changes", "-"], BAD, r"JSON", "not json"),
    Wrong(["put", "--changes", "-"], BAD, r"nonsense", '[{"op": "upsert", "uri": "x", "nonsense": 1}]'),
    Wrong(["get", "no/such/node"], GONE, r"no/such/node"),
    Wrong(["get", "auth", "--as-of", "badc0de"], GONE, r"badc0de|commit"),
    Wrong(["get", "auth", "--cursor", "made-up"], BAD, r"cursor"),
    Wrong(["show", "no/such/node"], GONE, r"no/such/node"),
    Wrong(["append", "file://elsewhere/x", "text"], GONE, r"elsewhere"),
    Wrong(["edit", "file://elsewhere/x"], GONE, r"elsewhere"),
    Wrong(["rm", "no/such/node"], GONE, r"no/such/node"),
    Wrong(["mv", "no/such/node", "there"], GONE, r"no/such/node"),
    Wrong(["link", "no/such/node", "auth"], GONE, r"no/such/node"),
    Wrong(["link", "auth", "src/auth", "--weight", "2"], BAD, r"weight|0 to 1|0\.\.1"),
    Wrong(["unlink", "no/such/node", "auth"], GONE, r"no/such/node"),
    Wrong(["tag", "auth"], BAD, r"TAG"),
    Wrong(["remember", ""], BAD, r"TEXT"),
    Wrong(["prime", "--budget", "lots"], BAD, r"lots"),
    Wrong(["agents", "install", "--client", "zed"], BAD, r"zed"),
    Wrong(["context"], BAD, r"question"),
    Wrong(["context", "--task", "task://shop/none"], GONE, r"no such task"),
    Wrong(["context", "--task", "task:none"], GONE, r"no such task"),
    Wrong(["why"], BAD, r"FILE\[:LINE\]"),
    Wrong(["why", "src/auth/a.py:9-1"], BAD, r"range"),
    Wrong(["recall"], BAD, r"words"),
    Wrong(["search"], BAD, r"WORD"),
    Wrong(["search", "x", "--limit", "0"], BAD, r"limit"),
    Wrong(["traverse", "no/such/node"], GONE, r"no/such/node"),
    Wrong(["path", "auth", "no/such/node"], GONE, r"no/such/node"),
    Wrong(["traverse", "auth", "--max-cost", "cheap"], BAD, r"max-cost"),
    Wrong(["traverse", "auth", "--direction", "up"], BAD, r"direction"),
    Wrong(["history", "--commit", "badc0de"], GONE, r"commit"),
    Wrong(["history", "--since", "the other day"], BAD, r"since|date"),
    Wrong(["log", "--limit", "many"], BAD, r"many"),
    Wrong(["blame", "no/such/node"], GONE, r"nothing is stored"),
    Wrong(["diff", "badc0de..HEAD"], GONE, r"commit"),
    Wrong(["revert", "badc0de"], GONE, r"commit"),
    Wrong(["ingest", "/etc"], BAD, r"belongs to the operating system"),
    Wrong(["ingest", "/dev/null"], BAD, r"belongs to the operating system"),
    Wrong(["import", "nowhere"], GONE, r"no such file or folder"),
    Wrong(["import", "src", "--from", "film"], BAD, r"'film'"),
    Wrong(["export", "film", "--to", "film"], BAD, r"'film'"),
    Wrong(["export", "-", "--to", "vault"], BAD, r"folder"),
    Wrong(["ingest", ".", "--kind", "film"], BAD, r"film|kind"),
    Wrong(["conflicts", "concept://elsewhere/x"], GONE, r"elsewhere"),
    Wrong(["stale", "--verify", "nobody"], GONE, r"no such node"),
    Wrong(["broken", "--limit", "0"], BAD, r"limit"),
    Wrong(["questions", "--dismiss", "none"], GONE, r"no such question"),
    Wrong(["areas", "nowhere"], GONE, r"no such area"),
    Wrong(["coverage", "no/such/folder"], GONE, r"no such folder"),
    Wrong(["remote", "add", "origin", "ext::sh -c x"], BAD, r"helper"),
    Wrong(["remote", "remove", "nobody"], GONE, r"nobody"),
    Wrong(["share"], RULE, r"no remote"),
    Wrong(["sync"], GONE, r"has no remote"),
    Wrong(["compress", "--kind", "film"], BAD, r"film|kinds"),
    Wrong(["proposals", "nothing-of-the-kind"], GONE, r"nothing-of-the-kind"),
    Wrong(["accept", "nothing-of-the-kind"], GONE, r"nothing-of-the-kind"),
    Wrong(["reject", "nothing-of-the-kind"], GONE, r"nothing-of-the-kind"),
    Wrong(["comment", "nothing-of-the-kind", "Why?"], GONE, r"nothing-of-the-kind"),
    Wrong(["submit", "nobody", "--roots", "auth"], GONE, r"nobody"),
    Wrong(["review", "--since", "the other day"], BAD, r"date|day"),
    Wrong(["author", "Nobody"], GONE, r"by this author"),
    Wrong(["clone", "nosuch"], GONE, r"no workspace 'nosuch'"),
    Wrong(["join", "not-an-address"], BAD, r"address"),
    Wrong(["leave", "http://127.0.0.1:9"], GONE, r"127\.0\.0\.1"),
    Wrong(["whoami", "too", "much"], BAD, r"much"),
    Wrong(["token", "revoke", "0123abcd"], GONE, r"0123abcd|token"),
    Wrong(["resolve", "0123abcd", "--take", "a"], GONE, r"no such node"),
    Wrong(["resolve", "0123abcd", "--take", "a", "--fields", "{}"], BAD, r"--take or --fields"),
    Wrong(["undo", "twice"], GONE, r"no such commit \(twice\)"),
    Wrong(["down", "now"], BAD, r"now"),
    Wrong(["ui", "now"], BAD, r"now"),
    Wrong(["task", "show"], BAD, r"name of a task"),
    Wrong(["task", "start", "nobody"], GONE, r"no such task"),
    Wrong(["task", "list", "--gotcha", "x"], BAD, r"--gotcha"),
    Wrong(["task", "add", "x", "--file", "/etc/passwd"], BAD, r"outside the code tree"),
    Wrong(["task", "finish", "x"], BAD, r"finish"),
    Wrong(["uninstall", "-w", "nobody"], GONE, r"nobody"),
    Wrong(["install", "here"], BAD, r"here"),
    Wrong(["hook", "update"], BAD, r"not a hook of kgd"),
    Wrong(["merge-driver"], BAD, r"FILE"),
    Wrong(["hub", "down"], BAD, r"down"),
    Wrong(["hub", "migrate"], BAD, r"--state"),
    Wrong(["verify-history", "--since", "nothing"], GONE, r"nothing"),
    Wrong(["forget"], BAD, r"the secret is empty"),
]

ELSEWHERE = {
    "mcp",
    "serve",
    "edit",
    "down",
    "uninstall",
    "resolve",
    "share",
    "sync",
    "install",
    "hook",
    "merge-driver",
    "accept",
    "comment",
    "reject",
    "submit",
    "join",
    "leave",
    "clone",
    "hub",
    "verify-history",
    "forget",
}
"""Commands that other tests run; every client runs `mcp`."""


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Home]]:
    home = Home.at(str(tmp_path_factory.mktemp("commands") / "home"))
    yield tmp_path_factory.mktemp("commands") / "shop", home
    end_daemon(home)


@pytest.fixture
def person(places: tuple[Path, Home], monkeypatch: pytest.MonkeyPatch) -> Machine:
    code, home = places
    monkeypatch.setenv("KGD_HOME", home.config)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    machine = Machine(code, home)
    if not code.exists():
        make_repository(code)
        machine("up", "--quiet")
    return machine


def test_every_command_has_its_effect(person: Machine) -> None:
    for row in RIGHT:
        done = person.run(*row.line, stdin=row.stdin)
        assert done.returncode == 0, (row.line, done.stderr)
        assert re.search(row.says, done.stdout, re.MULTILINE), (row.line, done.stdout)
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize("row", WRONG, ids=lambda row: " ".join(row.line)[:60] or "nothing")
def test_a_wrong_command_line_is_refused_with_one_message_about_the_error(person: Machine, row: Wrong) -> None:
    done = person.run(*row.line, stdin=row.stdin)
    assert EXIT_CODES[row.code][0] == done.returncode, done.stderr
    assert done.stdout == ""
    assert done.stderr.count("kgd: ") == 1, done.stderr
    assert re.search(row.says, done.stderr), done.stderr
    assert len(done.stderr.splitlines()) <= 3, "one message, and what to do next"
    assert "Traceback" not in done.stderr


def test_every_command_explains_itself(capsys: pytest.CaptureFixture[str]) -> None:
    for verb in VERBS:
        with pytest.raises(SystemExit) as ended:
            run([verb.name, "--help"])
        assert ended.value.code == 0
        assert capsys.readouterr().out.startswith(f"usage: kgd {verb.name}")


def test_every_command_is_covered() -> None:
    verbs = {verb.name for verb in VERBS}
    assert {row.line[0] for row in RIGHT} | ELSEWHERE == verbs
    tried = {word for row in WRONG for word in row.line if word in verbs}
    without_arguments = {"config", "serve", "mcp", "bootstrap", "reindex", "fsck"}
    assert tried | without_arguments >= verbs
