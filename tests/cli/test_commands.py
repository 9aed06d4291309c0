"""What a person does at the command line, against a real daemon."""

from __future__ import annotations

import json
import os
import re
import shlex
import stat
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from kgd.cli.commands import EXIT_CODES, VERBS
from kgd.cli.main import read
from kgd.cli.output import MEANT, show
from kgd.cli.terminal import STYLES
from kgd.client import start
from kgd.config import Home
from tests.cli.conftest import Kgd
from tests.daemon.conftest import ROOT
from tests.waiting import WATCHED, until


@pytest.mark.slow
@pytest.mark.requirement("B1")
def test_up_shows_where_everything_is_and_the_next_step_and_again_changes_nothing(kgd: Kgd) -> None:
    first, second = kgd("up"), kgd("up")
    assert first == second
    assert "workspace shop is up" in first
    assert str(kgd.directory / ".git" / "kgd") in first
    assert "nothing leaves this machine" in first
    assert "`kgd agents install`" in first


@pytest.mark.slow
def test_a_node_is_put_shown_changed_and_deleted(kgd: Kgd) -> None:
    kgd(
        "put",
        "cart",
        "--summary",
        "What a customer wants",
        "--tags",
        "shop",
        "--relations",
        "uses:prices@0.5",
        "-m",
        "cart is known",
    )
    kgd("append", "cart", "It expires after a day.")
    kgd("tag", "cart", "old")
    kgd("tag", "cart", "old", "--remove")
    kgd("link", "cart", "./src/auth", "--type", "about", "--weight", "0.25")
    node = kgd.json("get", "cart")["nodes"][0]
    assert (node["uri"], node["summary"], node["tags"]) == ("concept://shop/cart", "What a customer wants", ["shop"])
    assert node["content"].strip() == "It expires after a day."
    assert {(r["type"], r["target"], r["weight"]) for r in node["relations"]} == {
        ("uses", "concept://shop/prices", 0.5),
        ("about", "dir://shop/src/auth", 0.25),
    }
    kgd("unlink", "cart", "./src/auth", "--type", "about")
    assert "concept://shop/cart -> concept://shop/basket; the old URI" in kgd("mv", "cart", "concept://shop/basket")
    shown = kgd("show", "basket")
    assert "What a customer wants" in shown
    assert "-> about" not in shown
    assert "  concept://shop/basket  deleted\n" in kgd("rm", "basket")
    assert kgd.run("get", "concept://shop/basket").returncode == EXIT_CODES["NOT_FOUND"][0]


def test_a_fact_is_remembered_about_a_path_and_recalled(kgd: Kgd) -> None:
    kgd("remember", "sessions outlive a restart", "--about", "src/auth")
    assert "sessions outlive a restart" in kgd("recall", "restart", "sessions")
    walked = kgd.json("traverse", "./src/auth", "--direction", "both")
    assert any(node["uri"].startswith("insight://shop/sessions") for node in walked["nodes"])


def test_several_facts_are_verified_by_one_command(kgd: Kgd) -> None:
    facts = [f"insight://shop/verified-{number}" for number in range(3)]
    for one in facts:
        kgd("put", one, "--data", '{"cites": ["src/auth/session.py#check"]}')
    named = (["--verify", *facts], ["--verify", facts[0], "--verify", *facts[1:]])
    for arguments in named:
        told = kgd.json("stale", *arguments)["verified"]["warnings"]
        assert [one for one in facts if any(one in line for line in told)] == facts


def test_a_fact_about_a_line_is_about_its_file(kgd: Kgd) -> None:
    kgd("remember", "Renewal takes two calls.", "--about", "src/auth/session.py:1:2")
    assert "Renewal takes two calls." in kgd("context", "src/auth/session.py")
    assert kgd("broken") == "no broken links\n"
    assert (
        kgd("broken", "src/auth/sesion.py")
        == "no broken links to concept://shop/src/auth/sesion.py; `kgd broken` lists all\n"
    )


def test_a_former_name_can_be_moved_again(kgd: Kgd) -> None:
    kgd("put", "till", "--summary", "s")
    kgd("mv", "till", "shelves/till")
    assert "concept://shop/shelves/till -> concept://shop/desk; the old URI" in kgd("mv", "till", "desk")


def test_an_error_about_one_of_several_nodes_names_it_once(kgd: Kgd) -> None:
    kgd("put", "lamp", "--summary", "s")
    assert kgd.run("rm", "lamp", "nosuch").stderr.startswith("kgd: there is no such node (concept://shop/nosuch)\n")


def test_the_refusal_to_verify_a_node_without_citations_names_the_command_that_adds_one(kgd: Kgd) -> None:
    kgd("put", "bulb", "--summary", "s")
    told = kgd.run("stale", "--verify", "bulb").stderr
    assert told.endswith("""with `kgd put concept://shop/bulb --data '{"cites": ["PATH#NAME"]}'`.\n"""), told


def test_an_area_is_found_by_its_name(kgd: Kgd) -> None:
    kgd("put", "atom:signing-in", "--name", "Signing In", "--data", '{"paths": ["src/auth/**"]}', "--content", "Rules.")
    assert "Rules." in kgd("areas", "signing in")


def test_the_code_tree_is_walked_and_a_limit_says_what_it_left_out(kgd: Kgd) -> None:
    everything = kgd.json("traverse", "./src", "--max-cost", "none")
    assert "file://shop/src/auth/session.py" in [node["uri"] for node in everything["nodes"]]
    (cut,) = kgd.json("traverse", "./src", "--max-cost", "0")["cut"]
    shown = kgd("traverse", "./src", "--max-cost", "0")
    assert re.search(rf"cut by --max-cost, first at {cut['at']}: {cut['count']} more relations?\n", shown)
    assert re.search(
        r"cut by --max-nodes, first at \S+: at least \d+ more nodes?\n", kgd("traverse", "./src", "--max-nodes", "1")
    )


def test_a_walk_shows_the_path_to_each_node_and_its_last_part_on_a_later_page(kgd: Kgd) -> None:
    uris = [f"concept://shop/step{n}" for n in range(9)]
    steps = [
        {"op": "upsert", "uri": uri, "relations": [{"type": "uses", "target": next}]} for uri, next in pairwise(uris)
    ]
    kgd("put", "--changes", "-", stdin=json.dumps([{"op": "upsert", "uri": uris[-1]}, *steps]))
    walk = ("traverse", "step0", "--max-cost", "none", "--max-nodes", "4")
    assert "step0 > step1 > step2 > step3\n" in kgd(*walk)
    cursor = kgd.json(*walk)["cursor"]
    second = kgd(*walk, "--cursor", cursor)
    assert "        … > step3 > step4\n" in second
    assert "        … > step3 > step4 > step5 > step6 > step7\n" in second
    assert [step["from"][-1] for step in kgd.json(*walk, "--include", "path")["nodes"][-1]["path"]] == ["0", "1", "2"]


def test_changes_come_from_a_file_or_standard_input(kgd: Kgd, tmp_path: Path) -> None:
    changes = [{"op": "upsert", "uri": "concept://shop/from-file", "summary": "one"}]
    (tmp_path / "changes.json").write_text(json.dumps(changes))
    kgd("put", "--changes", str(tmp_path / "changes.json"))
    changes[0]["uri"] = "concept://shop/from-stdin"
    kgd("put", "--changes", "-", stdin=json.dumps(changes))
    assert len(kgd.json("get", "from-file", "from-stdin")["nodes"]) == 2


def test_a_dry_run_writes_nothing(kgd: Kgd) -> None:
    before = kgd.json("log")["commits"]
    assert "nothing was written" in kgd("put", "rehearsed", "--summary", "x", "--dry-run")
    assert kgd.json("log")["commits"] == before


def test_a_submission_is_rehearsed_and_not_sent(kgd: Kgd) -> None:
    changes = json.dumps([{"op": "upsert", "uri": "concept://shop/handed-in", "summary": "s"}])
    told = kgd("submit", "--changes", "-", "--dry-run", stdin=changes)
    assert told.startswith(
        "dry run: nothing was sent; it would be merged in shop\n  merged    concept://shop/handed-in\n"
    )
    assert kgd.run("get", "handed-in").returncode == EXIT_CODES["NOT_FOUND"][0]
    assert kgd("submit", "--changes", "-", stdin=changes).startswith("merged in shop")
    refused = kgd.run("submit", "nosuch", "--changes", "-", stdin=changes).stderr
    assert "`kgd remote list` shows this one's remotes." in refused


@pytest.mark.slow
def test_a_task_that_is_done_is_not_done_again(kgd: Kgd) -> None:
    kgd("task", "add", "renew early", "--objective", "renew")
    done = ("task", "done", "renew early", "--gotcha", "clocks differ", "--notes", "at 12\n\nas before")
    assert "recorded 1 node:" in kgd(*done)
    tip = kgd.json("log", "--limit", "1")["commits"][0]
    again = kgd(*done)
    assert f"it was already completed, since {tip['at']}, by {tip['author']}; nothing changed" in again
    assert "recorded" not in again
    assert kgd.json("log", "--limit", "1")["commits"][0] == tip
    later = kgd("task", "done", "renew early", "--gotcha", "clocks differ", "--gotcha", "days do, too")
    assert "it was already completed" in later
    assert "nothing changed" not in later
    assert later.partition("recorded 1 node:")[2].count("gotcha://") == 1


def test_the_length_of_a_log_is_written_as_for_git(kgd: Kgd) -> None:
    for number in range(3):
        kgd("put", "length", "--summary", f"{number} m")
    two = kgd("log", "--limit", "2")
    assert len(two.splitlines()) == 2
    assert two == kgd("log", "-n", "2") == kgd("log", "-2") == kgd("-w", "shop", "log", "-2")
    assert len(kgd.json("history", "length", "-1")["commits"]) == 1


def test_show_takes_a_commit_instead_of_a_node(kgd: Kgd) -> None:
    commit = kgd.json("put", "width", "--summary", "2 m")["commit"]
    for name in (commit, commit[:7], "HEAD", "head"):
        assert kgd("show", name).startswith(commit[:10])
        assert "+ summary: 2 m" in kgd("show", name)
    assert kgd.json("show", "HEAD")["commits"][0]["commit"] == commit
    assert "there is no such node, and no such commit (HEAD~9999)" in kgd.run("show", "HEAD~9999").stderr
    assert "there is no such node or commit (concept://" in kgd.run("show", "nosuch").stderr
    assert "there is no such node (insight://" in kgd.run("show", "insight:nosuch").stderr
    assert "there is no such node (concept://" in kgd.run("get", "nosuch").stderr
    kgd("put", "decade", "--summary", "ten years")
    assert "ten years" in kgd("show", "decade")
    kgd("put", commit[:7], "--summary", "a node of this name")
    assert "a node of this name" in kgd("show", commit[:7])


@pytest.mark.parametrize("command", ["log", "history", "get"])
def test_a_commit_in_place_of_a_node_names_the_command_that_shows_it(kgd: Kgd, command: str) -> None:
    commit = kgd.json("put", "width", "--summary", f"3 m for {command}")["commit"]
    error = kgd.run(command, commit[:10]).stderr
    assert f"`kgd show {commit[:10]}` shows" in error


@pytest.mark.slow
def test_the_past_is_shown_compared_and_taken_back(kgd: Kgd) -> None:
    kgd("put", "price", "--summary", "in cents")
    kgd("put", "price", "--summary", "in euros", "-m", "euros it is")
    commits = kgd.json("history", "price")["commits"]
    assert commits[0]["message"].splitlines()[0] == "euros it is"
    assert "in cents" in kgd("history", "price", "--diff")
    compared = kgd("diff", f"{commits[1]['commit']}..{commits[0]['commit']}")
    assert "- summary: in cents" in compared
    assert "+ summary: in euros" in compared
    then = kgd("get", "price", "--as-of", commits[1]["commit"])
    assert then.startswith(f"concept://shop/price  concept, as of {commits[1]['commit'][:10]}\n")
    assert "in cents" in then
    assert f"reverts {commits[0]['commit'][:10]}: euros it is ({commits[0]['author']})\n" in kgd(
        "revert", commits[0]["commit"]
    )
    assert kgd.json("get", "price")["nodes"][0]["summary"] == "in cents"
    kgd("put", "fleeting", "--summary", "gone soon")
    undone = kgd("undo")
    assert "reverts" in undone
    assert "  concept://shop/fleeting  deleted\n" in undone
    assert "euros it is" in kgd("log")


@pytest.mark.slow
def test_a_missing_node_is_not_found_and_similar_names_are_suggested(kgd: Kgd) -> None:
    kgd("put", "services/payment", "--summary", "Takes money")
    for words in (
        ["get", "service/payment"],
        ["history", "service/payment"],
        ["show", "service/payment"],
        ["get", "service/payment", "--quiet"],
    ):
        done = kgd.run(*words)
        assert done.returncode == EXIT_CODES["NOT_FOUND"][0]
        assert done.stdout == ""
        assert done.stderr == (
            "kgd: there is no such node (concept://shop/service/payment)\n"
            "     Did you mean concept://shop/services/payment?\n"
        )
    asked = kgd.run("get", "service/payment", "--json")
    assert asked.returncode == EXIT_CODES["NOT_FOUND"][0]
    assert json.loads(asked.stdout)["missing"][0]["similar"] == ["concept://shop/services/payment"]
    assert "no such node" in kgd.run("traverse", "services/payment", "nosuch").stderr
    facts, code = "kgd log --path src/auth/session.py", "kgd context ./src/auth/session.py"
    own = "This lists only the changes of the path's own node"
    told = f"{own}; `{facts}` lists the changes of facts about it, and `{code}` lists the commits of the code.\n"
    for command in ("history", "log"):
        assert kgd(command, "src/auth/session.py") == f"no commits\n{told}"


def test_a_file_that_could_never_be_read_is_named_instead_of_its_node(kgd: Kgd) -> None:
    kgd("put", "readable", "--summary", "s")
    file = kgd.directory / ".kgd" / "nodes" / "concept" / "unreadable.yaml"
    until(file.parent.exists)
    file.write_text("uri: concept://shop/unreadable\nsummary: [a\n")
    until(lambda: "unreadable.yaml:3: this is not YAML: a bracket" in kgd.run("get", "unreadable").stderr)
    assert "this is not YAML" in kgd.run("history", "unreadable").stderr
    file.unlink()


@pytest.mark.slow
def test_a_command_that_fails_for_one_of_its_arguments_shows_the_others_and_exits_with_an_error(kgd: Kgd) -> None:
    kgd("put", "services/payment", "--summary", "Takes money")
    kgd("remember", "Checks are cheap", "--about", file := "src/auth/session.py")
    for words, shown, missing in (
        (["get", "services/payment", "nosuch"], "Takes money", "there is no such node (concept://shop/nosuch)"),
        (["traverse", "services/payment", "nosuch"], "Takes money", "there is no such node (concept://shop/nosuch)"),
        (["why", f"{file}:1", "nosuch.py:2"], "def check", "there is no readable file nosuch.py in the code tree"),
        (["why", f"{file}:1", f"{file}:9"], "def check", f"{file} has 2 lines, so there is no line 9"),
        (["why", file, "nosuch.py"], "Checks are cheap", "there is no file nosuch.py in the code tree"),
    ):
        done = kgd.run(*words)
        assert (done.returncode, shown in done.stdout) == (EXIT_CODES["NOT_FOUND"][0], True)
        assert done.stderr.startswith(f"kgd: {missing}\n")
        assert kgd.run(*words, "--json").returncode == done.returncode


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["put", "x", "--summary", "s", "--expect-version", "7"],
            "kgd: the node is at version 0, but the change expected 7 (concept://shop/x)\n"
            "     See the change with `kgd get`, then write with the current version.\n",
        ),
        (["link", "a", "b", "--weight", "2"], "(--weight)"),
        (["put", "--summary", "s"], "kgd: a node needs `URI`, or `--type` and `--name`\n"),
        (["rm", "shelf", "kgd://shop/status"], "(kgd://shop/status)"),
        (["resolve", "nosuch", "--take", "a"], "kgd: there is no such node (concept://shop/nosuch)\n"),
        (["resolve", "shelf", "--take", "a"], "kgd: this node has no open conflict (concept://shop/shelf)\n"),
        (["resolve", "0123456789abcdef", "--take", "a"], "kgd: this conflict is not open\n"),
        (["--bogus"], "kgd: there is no option '--bogus'\n     See `kgd --help`.\n"),
        (["--jsno"], "kgd: there is no option '--jsno'\n     Did you mean `--json`?\n"),
        (["--json"], "kgd: `kgd` needs COMMAND\n     See `kgd --help`.\n"),
        (["get", "shelf", "../../.."], "(../../..)"),
        (["log", "-w", "nosuch"], "(-w)"),
        (
            ["get", "shelf", "--as-of", "2026-11-20"],
            "kgd: this is a date, but a commit is needed (2026-11-20)\n"
            "     Take the first commit of `kgd log --until 2026-11-20`.\n",
        ),
        (["get", "shelf", "--as-of", "nosuch"], "(nosuch)\n     Find one with `kgd log`.\n"),
        (["undo", "nosuch"], "(nosuch)\n     Find one with `kgd log`.\n"),
        (["undo", "2026-11-20"], "(2026-11-20)\n     Take the first commit of `kgd log --until 2026-11-20`.\n"),
        (["search"], "kgd: there is nothing to look for (WORD)\n"),
        (["serch", "x"], "kgd: there is no command 'serch'\n     Did you mean `kgd search`?\n"),
        (["area"], "kgd: there is no command 'area'\n     Did you mean `kgd areas`?\n"),
        (["hub"], "kgd: `kgd hub` needs one of top, migrate\n     See `kgd hub --help`.\n"),
        (["get"], "kgd: `kgd get` needs URI\n"),
        (
            ["path"],
            "kgd: `kgd path` needs FROM, TO\n"
            "     For example, `kgd path services/auth src/auth/session.py`. See `kgd path --help`.\n",
        ),
        (["task", "show", "nosuch"], "kgd: there is no such task (nosuch)\n"),
        (["zzzzzz"], "`kgd help --all` lists the commands."),
        (["traverse", "shelf", "--max-nodes", "0"], "kgd: `--max-nodes` must be at least 1\n"),
        (["get", "shelf", "--nosuch"], "kgd: there is no option '--nosuch'\n     See `kgd get --help`.\n"),
        (["log", "--autor", "Ann"], "kgd: there is no option '--autor'\n     Did you mean `--author`?\n"),
        (["traverse", "a", "--limit", "5"], "kgd: there is no option '--limit'\n     Did you mean `--max-nodes`?\n"),
        (["search", "x", "--path", "y"], "kgd: there is no option '--path'\n     See `kgd search --help`.\n"),
        (["log", "--dry-run"], "kgd: there is no option '--dry-run'\n     See `kgd log --help`.\n"),
        (["log", "--limit", "ten"], "kgd: --limit must be a whole number, not 'ten'\n     See `kgd log --help`.\n"),
        (["link", "a", "b", "--weight", "x"], "kgd: --weight must be a number, not 'x'\n"),
        (["forget", "leaked_secret"], "Pipe it in, as in `kgd forget < FILE`"),
        (["author", "Ann", "Person"], "'Person'\n     Quote a text with spaces. See `kgd author --help`.\n"),
        (["stale", "shelf"], "'shelf'\n     See `kgd stale --help`.\n"),
        (["verify"], "kgd: there is no command 'verify'\n     Did you mean `kgd stale --verify`?\n"),
        (
            ["get", "src/no.py"],
            "kgd: there is no file src/no.py in the code tree, and no such node (concept://shop/src/no.py)\n",
        ),
        (
            ["path", "shelf", "src/no.py"],
            "kgd: there is no file src/no.py in the code tree, and no such node (concept://shop/src/no.py)\n",
        ),
        (["join", "https://hub.example.org", "kgd_person_Ab3_secret"], "Pipe it in, as in `kgd join URL < FILE`"),
        (["sync", "--confirm", "nonsense"], "kgd: only a commit can be confirmed (--confirm)\n"),
        (["remote", "add"], "`kgd remote add NAME URL`"),
        (["remote", "rm", "nosuch"], "kgd: there is no remote 'nosuch'\n"),
        (["remote", "add", "origin", "/no/where"], "kgd: there is no such directory at /no/where"),
        (
            ["search", "x", "--area", "nosuch"],
            "kgd: there is no such area (--area)\n     Find it with `kgd areas`.\n",
        ),
        (["areas", "src/auth/session.py"], "`kgd context src/auth/session.py` shows the areas of a file.\n"),
        (["rm", "src/auth/session.py"], "     See the facts about it with `kgd context`.\n"),
        (["blame", "src/auth/session.py"], "     See the facts about it with `kgd context`.\n"),
        (["path", "shelf", "shelff"], "Did you mean concept://shop/shelf?\n"),
        (
            ["path", "src/auth", "shelf", "--edge-types", "bogus"],
            "kgd: the first node has no relation of the types in --edge-types\n     Its relations have the types ",
        ),
        (["traverse", "shelf", "--direction", "up"], "kgd: --direction must be one of out, in, both, not 'up'\n"),
        (["log", "--author"], "kgd: --author needs a value\n     See `kgd log --help`.\n"),
        (["uninstall", "--al"], "kgd: there is no option '--al'\n     Did you mean `--all`?\n"),
        (["search", "x", "--t", "y"], "kgd: there is no option '--t'\n     Did you mean `--types`?"),
        (
            ["put", "shelf", "--content", "@src/auth/session.py"],
            "kgd: this text is the name of a file (@src/auth/session.py)\n"
            "     To pass the content of the file, write `-` instead and add `< src/auth/session.py`.\n",
        ),
        (
            ["export", "src/auth/session.py", "--to", "vault"],
            "exports a folder of files, but the target is a file (TARGET)\n",
        ),
        (
            ["task", "add"],
            "kgd: `kgd task add` needs the name of a task\n     Write `kgd task add NAME --objective TEXT`.\n",
        ),
    ],
    ids=range(56),
)
def test_a_refusal_quotes_the_typed_options(kgd: Kgd, words: list[str], said: str) -> None:
    kgd("put", "shelf", "--summary", "s")
    error = kgd.run(*words).stderr
    assert said in error
    assert "changes[" not in error
    assert "resolutions[" not in error
    assert "_secret" not in error


SHELF = "concept://shop/shelf"
EXISTING: dict[str, list[str]] = {
    "get": [],
    "show": [],
    "edit": [],
    "append": ["text"],
    "rm": [],
    "mv": ["x"],
    "link": ["shelf"],
    "unlink": ["shelf"],
    "tag": ["x"],
    "history": [],
    "blame": [],
    "conflicts": [],
}
"""Commands that need an existing node, with their further arguments: none of them creates it or offers to."""


@pytest.mark.slow
def test_a_command_that_needs_an_existing_node_names_near_ones_and_never_creates_it(kgd: Kgd) -> None:
    kgd("put", SHELF, "--summary", "s")
    for verb, more in EXISTING.items():
        for name, then in (("nosuch", "Find it with `kgd search`."), ("shelff", f"Did you mean {SHELF}?")):
            refused = kgd.run(verb, name, *more, EDITOR="true")
            assert refused.returncode == EXIT_CODES["NOT_FOUND"][0], verb
            named = f"no node is called {name}" if verb == "mv" else f"(concept://shop/{name})"
            assert refused.stderr.endswith(f"{named}\n     {then}\n"), verb
            assert refused.stdout == "", verb


def test_outside_of_all_workspaces_the_option_that_names_one_is_named(kgd: Kgd, tmp_path: Path) -> None:
    refused = kgd.run("remember", "Rain is wet.", "-C", str(tmp_path))
    assert refused.stderr.startswith("kgd: this directory has no workspace\n     Name one with `-w`: ")
    assert kgd("remember", "Rain is wet.", "-C", str(tmp_path), "-w", "shop").startswith("commit ")


@pytest.mark.slow
def test_counts_are_in_words_and_nothing_is_repeated(kgd: Kgd) -> None:
    (kgd.directory / ".gitignore").write_text("debug.log\n")
    (kgd.directory / "debug.log").write_text("noise\n")
    kgd("ingest", ".")
    shown = kgd("status")
    assert re.search(r"holds .*\d nodes?.*; code: .*\bdirector(y|ies)\b, \d+ bytes?, 1 ignored by git\n", shown)
    kgd("link", "./src/auth", "https://example.org/paper", "--type", "see")
    assert kgd("get", "https://example.org/paper").splitlines()[0].count("https://example.org/paper") == 1
    assert kgd("get", "https://example.org/paper").count("https://example.org/paper") == 1
    assert kgd("path", "https://example.org/paper", "./src/auth").splitlines()[1] == "        <- see -"
    refused = kgd("path", "https://example.org/paper", "./src/auth", "--direction", "out")
    told = "no path leads to dir://shop/src/auth\n    `kgd traverse dir://shop/src/auth` shows its relations\n"
    assert told in refused
    assert "no path leads to dir://shop/src/auth within these limits\n    Raise --max-depth or --max-cost\n" in kgd(
        "path", "./src/auth/session.py", "./src/auth", "--max-depth", "0"
    )
    assert "no path leads to" in kgd(
        "traverse", "https://example.org/paper", "--to", "./src/auth", "--direction", "out"
    )
    assert "->" not in kgd("path", "https://example.org/paper", "./src/auth", "--max-cost", "none")
    walked = kgd("traverse", "./src/auth", "--edge-types", "see")
    assert walked.count("https://example.org/paper") == 1
    assert "working set" not in walked


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"limit": None}, "more: --cursor abc\n"),
        ({"limit": 2}, ""),
        ({"limit": 3}, "more: --cursor abc\n"),
        ({"limit": 2, "cursor": "abb"}, "more: --cursor abc\n"),
        ({}, "more: --cursor abc\n"),
    ],
    ids=["not asked", "as many as asked for", "fewer than asked for", "paging", "no limit to ask for"],
)
def test_a_list_that_goes_on_says_so_in_as_many_words_as_are_needed(
    capsys: pytest.CaptureFixture[str], options: dict[str, Any], said: str
) -> None:
    commit = {"commit": "c" * 40, "at": "2026-11-21T12:00:00Z", "author": "Ann", "message": "m"}
    show("printing_history.log", {"commits": [commit, commit], "cursor": "abc"}, options)
    assert capsys.readouterr().out.partition("m\n")[2].partition("m\n")[2] == said


@pytest.mark.slow
def test_an_edit_in_an_editor_writes_only_the_changed_fields(kgd: Kgd, tmp_path: Path) -> None:
    kgd("put", "edited", "--summary", "before", "--tags", "a", "--data", '{"keep": 1, "drop": 2}')
    editor = tmp_path / "ed.py"
    editor.write_text(
        "#!/usr/bin/env python3\nimport sys\np = sys.argv[1]\nt = open(p).read()\n"
        "t = t.replace('summary: before', 'summary: after').replace('- a', '- b').replace('  drop: 2\\n', '')\n"
        "open(p, 'w').write(t)\n"
    )
    editor.chmod(editor.stat().st_mode | stat.S_IXUSR)
    done = kgd.run("edit", "edited", EDITOR=str(editor))
    assert done.returncode == 0, done.stderr
    node = kgd.json("get", "edited")["nodes"][0]
    assert (node["summary"], node["tags"], node["data"]) == ("after", ["b"], {"keep": 1})
    editor.write_text("#!/bin/sh\nprintf 'license: MIT\\nsumary: x\\n' >> \"$1\"\n")
    assert (
        "the key 'sumary' has no meaning; did you mean 'summary'?"
        in kgd.run("edit", "edited", EDITOR=str(editor)).stdout
    )
    assert "unknown key license: MIT\n" in kgd("get", "edited")
    kgd("put", "edited", "--unset", "sumary")
    assert kgd.json("get", "edited")["nodes"][0]["others"] == {"license": "MIT"}
    assert kgd.run("edit", "edited", EDITOR="true").stdout == "nothing changed\n"
    assert "the editor 'false' ended with 1; nothing was changed" in kgd.run("edit", "edited", EDITOR="false").stderr
    assert "cannot be started" in kgd.run("edit", "edited", EDITOR="/nowhere/ed").stderr
    assert "kgd: the editor 'vi' needs a terminal\n" in kgd.run("edit", "edited", EDITOR="vi", VISUAL="").stderr


def test_the_log_of_a_node_has_only_its_commits(kgd: Kgd) -> None:
    for name in ("services/one", "services/two"):
        kgd("put", name, "--summary", "x", "-m", f"write {name}")
    assert [line.partition("write ")[2] for line in kgd("log", "services/one").splitlines()] == ["services/one"]
    assert kgd.run("log", "services/none").returncode == EXIT_CODES["NOT_FOUND"][0]


@pytest.mark.parametrize("words", [["log"], ["history"], ["review"]])
def test_an_empty_list_names_the_unknown_filter(kgd: Kgd, words: list[str]) -> None:
    kgd("put", "services/auth", "--summary", "x")
    author = kgd.json("log", "services/auth")["commits"][0]["author"]
    others = {one["author"] for one in kgd.json("log", "--limit", "200")["commits"]} - {"kgd", author}
    known = "The authors are " if others else f"The authors are '{author}'.\n"  # other tests write here too
    for given, said in (
        (["--author", "Zed"], f"No author's name contains 'Zed'. {known}"),
        (["--author", author[:-1] + "x"], f"Did you mean '{author}'?\n"),
        (
            ["--path", "nope"],
            "There is nothing at or below nope. Give a path from the top of the code tree, or a node's path.\n",
        ),
        (["--path", "src/auht"], "There is nothing at or below src/auht. "),
        (["--path", "services/atuh"], "There is nothing at or below services/atuh. Did you mean concept://"),
        (["--author", author, "--path", "nope"], "There is nothing at or below nope. "),
    ):
        assert said in kgd(*words, *given)
    for given in (["--path", "src"], ["--path", "src/**"], ["--author", author, "--path", "src/auth"]):
        told = kgd(*words, *given, "--since", "2090-01-01").splitlines()
        assert told[1:] == ["'2090-01-01' is in the future, so nothing has happened since then."], "both exist"
    assert "There is nothing at or below nope." in kgd("proposals", "--path", "nope")
    assert f"No author's name contains 'Zed'. {known}" in kgd("proposals", "--author", "Zed")
    assert f"No author's name contains 'Zed'. {known}" in kgd.run("author", "Zed").stderr


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["get", "concept://elsewhere/x"], "NOT_FOUND"),
        (["put", "concept://shop/x", "--data", "{"], "VALIDATION_ERROR"),
        (["link", "a", "b", "--weight", "2"], "VALIDATION_ERROR"),
        (["put", "concept://shop/x", "--summary", "s" * 101], "LIMIT"),
        (["put", "concept://shop/x", "--summary", "s", "--expect-version", "7"], "CONFLICT"),
        (["revert", "0123456789abcdef"], "NOT_FOUND"),
        (["no-such-command"], "VALIDATION_ERROR"),
        (["traverse"], "VALIDATION_ERROR"),
        (["-C", "/no/such/place", "status"], "VALIDATION_ERROR"),
        (["mcp", "--tools", "nonsense"], "VALIDATION_ERROR"),
        (["ingest", "https://example.org/paper"], "VALIDATION_ERROR"),
        (["remember", "a fact", "--detail", "/no/such/file"], "VALIDATION_ERROR"),
    ],
    ids=range(12),
)
def test_a_refusal_is_one_sentence_a_next_step_and_the_exit_code_of_its_class(
    kgd: Kgd, words: list[str], expected: str
) -> None:
    done = kgd.run(*words)
    assert done.returncode == EXIT_CODES[expected][0]
    assert done.stderr.startswith("kgd: ")
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_options_may_stand_before_or_after_the_command(kgd: Kgd, tmp_path: Path) -> None:
    kgd.directory, here = tmp_path, kgd.directory
    before = json.loads(kgd("--json", "-C", str(here), "-w", "shop", "status"))
    after = json.loads(kgd("status", "--json", "-C", str(here), "-w", "shop"))
    assert before["workspace"] == after["workspace"]
    assert kgd("-q", "status", "-C", str(here)) == ""


@pytest.mark.slow
def test_status_doctor_and_fsck_say_that_all_is_well(kgd: Kgd) -> None:
    lines = kgd("status").splitlines()
    assert lines[0].startswith("workspace shop in ")
    assert lines[-1] == "shared: no (`kgd share` shares it)"
    assert [line for line in lines if line.startswith("needs attention:")]
    assert kgd.json("doctor")["ok"]
    assert kgd.json("fsck")["ok"]
    assert kgd("config").splitlines()[0].endswith("workspaces.yaml")


@pytest.mark.slow
@pytest.mark.parametrize("words", [["status"], ["up"], ["down"], ["config"], ["context", "."], ["hub", "top"], ["ui"]])
def test_a_file_as_home_is_reported_in_a_sentence(kgd: Kgd, tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "file").write_text("")
    asked = kgd.run(*words, KGD_HOME=str(tmp_path / "file"))
    assert "Traceback" not in asked.stderr
    assert asked.returncode in (0, EXIT_CODES["UNAVAILABLE"][0])


def test_a_registry_that_cannot_be_read_is_reported_in_a_sentence(kgd: Kgd, tmp_path: Path) -> None:
    (tmp_path / "home/workspaces.yaml").mkdir(parents=True)
    asked = kgd.run("config", KGD_HOME=str(tmp_path / "home"))
    assert asked.returncode == EXIT_CODES["UNAVAILABLE"][0]
    assert "kgd: this file cannot be read: Is a directory (" in asked.stderr


def test_up_reports_a_removed_directory(kgd: Kgd, tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    program = "import os, sys; os.rmdir(os.getcwd()); from kgd.cli import main; sys.argv = ['kgd', 'up']; main()"
    command = [sys.executable, "-P", "-c", program]
    asked = subprocess.run(command, cwd=tmp_path / "gone", capture_output=True, text=True, check=False)
    assert asked.stderr.startswith("kgd: your current directory does not exist any more")


def test_a_command_that_needs_no_daemon_starts_none(kgd: Kgd, tmp_path: Path) -> None:
    home = {"KGD_HOME": str(tmp_path / "other")}
    for words in (
        ["config"],
        ["service", "systemd"],
        ["service", "launchd"],
        ["completion", "zsh"],
        ["down"],
        ["--help"],
        ["--version"],
    ):
        assert kgd.run(*words, **home).returncode == 0
    assert not os.path.exists(tmp_path / "other" / "state")


def test_status_starts_nothing_where_nothing_is_set_up(kgd: Kgd, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    elsewhere = Kgd(tmp_path / "empty", Home.at(str(tmp_path / "other")))
    for words in (["status"], ["status", "--json"]):
        done = elsewhere.run(*words, KGD_HOME=str(tmp_path / "other"))
        assert (done.returncode, done.stderr) == (0, "")
        assert "Run `kgd up`" in done.stdout
    assert not (tmp_path / "other").exists()


@pytest.mark.slow
def test_down_stops_the_daemon_and_the_next_command_starts_it_again(kgd: Kgd) -> None:
    kgd("put", "kept", "--summary", "over a restart")
    pid = kgd.json("status")["daemon"]["pid"]
    assert f"pid {pid}" in kgd("down")
    assert not start.running(kgd.home)
    assert "no daemon" in kgd("down")
    assert "over a restart" in kgd("get", "kept")
    assert kgd.json("status")["daemon"]["pid"] != pid


@pytest.mark.slow
def test_what_changes_in_the_code_tree_and_in_the_work_tree_is_served_soon(kgd: Kgd) -> None:
    (kgd.directory / "src" / "late.py").write_text("x = 1\n")
    until(lambda: kgd.run("get", "file://shop/src/late.py").returncode == 0, WATCHED)
    kgd("put", "by-hand", "--summary", "kgd wrote this")
    file = kgd.directory / ".kgd" / "nodes" / "concept" / "by-hand.yaml"
    until(file.exists)
    file.write_text(file.read_text().replace("kgd wrote this", "a person wrote this"))
    until(lambda: "a person wrote this" in kgd("get", "by-hand"), WATCHED)


def test_output_is_for_a_terminal_even_where_the_content_is_hostile(kgd: Kgd) -> None:
    kgd("put", "hostile", "--content", "a\x1b]0;title\x07 b \u202e c")
    printed = kgd("get", "hostile")
    assert "\x1b" not in printed
    assert "\x07" not in printed
    assert "\u202e" not in printed


def test_a_commit_message_from_git_is_escaped(kgd: Kgd) -> None:
    kgd("put", "hostile", "--summary", "one")
    git = ["git", "-C", str(kgd.directory / ".kgd")]
    until((kgd.directory / ".kgd/nodes/concept/hostile.yaml").exists)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "a\x1b]0;title\x07 b \u202e c"], check=True)
    until(lambda: "a\\x1b]0;title\\x07 b \\u202e c" in kgd("log"))
    assert not set(kgd("log", "--json")) & {"\x1b", "\x07"}


def test_the_program_is_started_with_the_interpreter_it_has(kgd: Kgd) -> None:
    unit = kgd("service", "systemd")
    assert f"--home {kgd.home.config} {kgd.home.state} {kgd.home.logs}" in unit
    assert "Restart=on-failure" in unit
    assert "-P -m kgd.serve --foreground" in unit


def test_ingesting_an_unchanged_folder_succeeds_despite_an_empty_file(kgd: Kgd, tmp_path: Path) -> None:
    (tmp_path / "good.md").write_text("Keys rotate every night.\n")
    (tmp_path / "empty.md").touch()
    kgd("ingest", str(tmp_path))
    assert "1 document unchanged" in kgd("ingest", str(tmp_path))
    (tmp_path / "good.md").unlink()
    assert kgd.run("ingest", str(tmp_path)).returncode == EXIT_CODES["VALIDATION_ERROR"][0]


def test_a_later_node_is_distinguished_from_a_nonexistent_one(kgd: Kgd) -> None:
    before = kgd.json("put", "night/first", "--summary", "first")["commit"]
    kgd("put", "night/keys", "--summary", "Keys rotate")
    done = kgd.run("get", "night/keys", "--as-of", before)
    assert done.returncode == EXIT_CODES["NOT_FOUND"][0]
    assert done.stderr == (
        "kgd: this node exists now, but did not exist at that commit (concept://shop/night/keys)\n"
        "     `kgd history concept://shop/night/keys` shows its first commit.\n"
    )
    assert "there is no such node" in kgd.run("get", "night/nokeys", "--as-of", before).stderr


def test_without_arguments_the_first_commands_are_printed(kgd: Kgd) -> None:
    listed = [line.split()[1] for line in kgd().partition("examples:")[0].splitlines() if line.startswith("  kgd ")]
    assert len(set(listed)) == 10
    assert set(listed) <= {one.name for one in VERBS}
    assert (ROOT / "docs/cli.md").read_text().startswith("# The command line\n\nTen commands ")
    assert kgd("--help") == kgd("help") == kgd()
    assert kgd("help", "--all") == kgd("--help", "--all") != kgd()
    examples = kgd().partition("\nexamples:\n")[2].partition("\n\n")[0]
    assert examples.count("kgd ") == 3
    assert kgd().endswith("\nall commands: `kgd help --all`\n")
    assert len(kgd().splitlines()) <= 24, "one screen"
    assert kgd("help", "get") == kgd("get", "--help")
    for options in (["-q"], ["-C", ".", "-w", "shop"], ["--directory=.", "--json"]):
        assert kgd(*options, "help", "get") == kgd("get", "--help")
        assert kgd(*options, "help") == kgd("--help")


def test_the_help_of_an_option_names_its_default(kgd: Kgd) -> None:
    shown = " ".join(kgd("help", "traverse").split())
    for told in ("nodes in the answer (default: 50)", "'none' for no limit (default: 1)", "(default: out)"):
        assert told in shown
    assert "'none' for no limit (default: none)" in " ".join(kgd("help", "path").split())
    helps = [str(argument.options["help"]) for one in VERBS for argument in one.arguments]
    assert [told for told in helps if re.search(r"\(\d[^()]*\)", told)] == []


def test_the_usage_of_a_command_is_one_line_with_its_arguments(kgd: Kgd) -> None:
    for words, usage in (
        ("search", "kgd search [options] [WORD...]"),
        ("export", "kgd export [options] TARGET --to FORMAT"),
        ("remote", "kgd remote [options] [list|add|remove|show] [NAME] [URL]"),
    ):
        assert kgd("help", words).splitlines()[0] == f"usage: {usage}"


NEED_MORE = frozenset(
    """
    accept agents areas author clone comment down edit export forget hub import ingest init join mcp mv reject remote
    resolve revert rm serve share submit sync token up
    """.split()
)
"""Commands whose examples need a hub, a remote, a proposal or a file, or change this machine: only their words are
read."""


@pytest.mark.slow
def test_the_examples_of_the_help_run(kgd: Kgd) -> None:
    assert all(line in kgd("get", "--help") for verb in VERBS if verb.name == "get" for line, _ in verb.examples)
    kgd("put", "decision:sessions-in-redis", "--summary", "Sessions are in Redis", "--quiet")
    for line in [line for verb in VERBS for line, _ in verb.examples]:
        words = shlex.split(line.partition(" < ")[0])[1:]
        if read(words)["verb"] not in NEED_MORE:
            kgd(*words)


def test_every_word_of_another_program_leads_to_a_command() -> None:
    assert {meant.partition(" ")[0] for meant in MEANT.values()} <= {verb.name for verb in VERBS if verb.group} | {
        "--version"
    }
    assert not MEANT.keys() & {verb.name for verb in VERBS}


def test_a_scan_of_the_code_tree_is_reported_in_a_sentence(kgd: Kgd) -> None:
    (scanned,) = kgd("bootstrap").splitlines()
    assert re.fullmatch(r"\S+/shop scanned: \d+ files?, .*", scanned)


@pytest.mark.parametrize("command", ["traverse", "why", "get"])
def test_a_refusal_names_no_place_that_the_command_lacks(kgd: Kgd, command: str) -> None:
    said = kgd.run(command, "concept://elsewhere/x").stderr
    assert said.startswith("kgd: no workspace 'elsewhere' is known here\n")


def test_a_line_that_does_not_exist_is_not_found(kgd: Kgd) -> None:
    kgd("remember", "Checks are cheap", "--about", "src/auth/session.py")
    for named, said in (
        ("src/auth/session.py:99999", r"src/auth/session.py has 2 lines, so there is no line 99999"),
        ("src/auth/nosuch.py:1", "there is no readable file src/auth/nosuch.py in the code tree"),
        ("src/auth/sesion.py:1", ".* src/auth/sesion.py in the code tree; similar: src/auth/session.py"),
        ("src/auth/nosuch.py", "there is no file src/auth/nosuch.py in the code tree"),
        ("src/auth/sesion.py", "there is no file src/auth/sesion.py in the code tree; similar: src/auth/session.py"),
    ):
        asked = kgd.run("why", named)
        assert asked.returncode == EXIT_CODES["NOT_FOUND"][0]
        assert re.fullmatch(f"kgd: {said}\n     Write a file and .*\n", asked.stderr)
        assert not asked.stdout, "the error alone"
    assert kgd.run("why", "src/auth/session.py:1", "-q").returncode == 0
    for command, place in (("why", "FILE[:LINE]"), ("context", "PATH")):
        told = f"kgd: a path is empty ({place})\n     Give a path of the code tree, such as src/app.py.\n"
        assert kgd.run(command, " ").stderr == told


def test_why_names_the_command_for_a_node_and_a_folder(kgd: Kgd) -> None:
    kgd("put", "services/door", "--summary", "x")
    told = kgd.run("why", "services/door").stderr
    assert "concept://shop/services/door is a node\n     `kgd get concept://shop/services/door` shows it" in told
    told = kgd.run("why", "src/auth:3").stderr
    assert "src/auth is a folder, so it has no lines\n     `kgd why src/auth` shows" in told


def test_a_wrong_folder_is_corrected_and_a_wrong_kind_of_path_leads_to_its_command(kgd: Kgd) -> None:
    for words, said in (
        (["why", "src/auht"], "there is no file or folder src/auht in the code tree; similar: src/auth\n"),
        (["why", "scr/auth/session.py"], "scr/auth/session.py in the code tree; similar: src/auth/session.py\n"),
        (["coverage", "src/auht"], "there is no such folder in the code tree (src/auht)\n     Did you mean src/auth?"),
        (["coverage", "src/auth/session.py"], "\n     `kgd context src/auth/session.py` shows its areas and facts."),
        (["get", "src/auht"], "Did you mean dir://shop/src/auth?"),
    ):
        asked = kgd.run(*words)
        assert asked.returncode == EXIT_CODES["NOT_FOUND"][0]
        assert said in asked.stderr
    assert "Pass a sentence as `--task` or `--question`." in kgd("context", "two words/x")


@pytest.mark.parametrize("command", "log history coverage conflicts import show areas clone put search".split())
def test_an_empty_argument_is_refused_and_does_not_count_as_left_out(kgd: Kgd, command: str) -> None:
    refused = kgd.run(command, "")
    assert refused.returncode == EXIT_CODES["VALIDATION_ERROR"][0]
    assert re.fullmatch(r"kgd: [A-Z|]+ is empty\n     Give a value\.\n", refused.stderr)


def test_too_few_file_descriptors_are_reported_with_a_next_step(tmp_path: Path) -> None:
    program = f'ulimit -n 8; exec "{sys.executable}" -m kgd.cli up'
    environment = {**os.environ, "KGD_HOME": str(tmp_path / "home")}
    subprocess.run(["git", "init", "-q", tmp_path / "code"], check=True)
    told = subprocess.run(
        ["sh", "-c", program], cwd=tmp_path / "code", env=environment, capture_output=True, text=True, timeout=60
    )
    assert told.returncode == EXIT_CODES["UNAVAILABLE"][0]
    assert told.stderr.startswith("kgd: this machine has no free file descriptor\n     Stop other programs or raise")


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (["status", "-w", ""], "--workspace"),
        (["-C", "", "status"], "--directory"),
        (["log", "--author", ""], "--author"),
        (["log", "--since="], "--since"),
        (["search", "x", "--tags", " , "], "--tags"),
        (["remember", "x", "--about", "src", "--about", ""], "--about"),
        (["put", "a", "--summary", "x", "-m", ""], "--message"),
        (["task", "list", "--status", ""], "--status"),
        (["serve", "--listen", ""], "--listen"),
    ],
)
def test_an_empty_option_is_refused_and_does_not_count_as_left_out(kgd: Kgd, words: list[str], option: str) -> None:
    refused = kgd.run(*words)
    assert refused.returncode == EXIT_CODES["VALIDATION_ERROR"][0]
    said = f"kgd: the value of {option} is empty\n     Give a value, or leave the option out.\n"
    assert refused.stderr == said


@pytest.mark.parametrize("command", ["get", "why", "context", "import", "log", "rm", "clone"])
def test_a_dash_is_refused_by_a_command_that_does_not_read_standard_input(kgd: Kgd, command: str) -> None:
    refused = kgd.run(command, "-", stdin="services/auth\n")
    assert refused.returncode == EXIT_CODES["VALIDATION_ERROR"][0]
    told = "`kgd ingest -` reads a text" if command == "import" else f"or pass several with `xargs kgd {command}`"
    assert refused.stderr.startswith(f"kgd: `kgd {command}` does not read standard input\n     Give ")
    assert told in refused.stderr


def test_a_dash_reads_a_text_from_standard_input(kgd: Kgd) -> None:
    kgd("put", "hall", "--content", "It is dark.\n", "-q")
    kgd("append", "hall", "-", "-q", stdin="The lamp hums.\n")
    assert kgd.json("get", "hall")["nodes"][0]["content"] == "It is dark.\n\nThe lamp hums.\n"
    assert "/lamps-are-warm" in kgd("remember", "-", stdin="Lamps are warm.\n")
    kgd("ingest", "-", "--uri", "document:manual", "-q", stdin="# Manual\n\nTurn it on.\n")
    assert "\n  Manual\n  bytes: 22\n" in kgd("get", "document:manual")
    commit = kgd.json("log", "--limit", "1")["commits"][0]["commit"]
    place = kgd.json("status")["workspace"]["path"]
    subprocess.run(["git", "-C", place, "update-ref", "refs/heads/proposals/lamp", commit], check=True)
    assert kgd("comment", "lamp", "-", stdin="Why?\n").endswith(": Why?\n")


def test_an_empty_text_clears_a_field(kgd: Kgd) -> None:
    kgd("put", "cleared", "--summary", "x")
    kgd("put", "cleared", "--summary", "")
    assert "summary" not in kgd.json("get", "cleared")["nodes"][0]


def test_why_of_a_file_shows_its_facts(kgd: Kgd) -> None:
    kgd("remember", "Checks are cheap", "--about", "src/auth/session.py")
    for named in ("src/auth/session.py", "src/auth", "src/auth/session.py:"):
        assert "Checks are cheap" in kgd("why", named)


@pytest.mark.parametrize("command", ["why", "context"])
@pytest.mark.parametrize(
    ("named", "said"),
    [
        ("src/auth/session.py:x", "'x' is not a line of src/auth/session.py"),
        ("src/auth/session.py:99999999", "'99999999' is not a line of src/auth/session.py"),
        (":abc", "there is no file before the colon"),
        ("../session.py:1", "outside the code tree"),
        ("../../../etc/passwd", "outside the code tree"),
        ("/etc/passwd", "outside the code tree"),
        ("concept://shop/services/auth", "not a path of the code tree"),
    ],
)
def test_a_path_outside_the_code_is_a_wrong_argument(kgd: Kgd, command: str, named: str, said: str) -> None:
    asked = kgd.run(command, named)
    assert asked.returncode == EXIT_CODES["VALIDATION_ERROR"][0]
    assert said in asked.stderr
    assert asked.stderr.count("\n") == 2, "an error and a next step"
    assert not asked.stdout


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (["why", "\udcff:1"], "not valid UTF-8"),
        (["search", "\udcff"], "not valid UTF-8"),
        (["search", "x", "--min-score", "nan"], "not a finite number"),
    ],
)
def test_an_argument_that_json_cannot_hold_is_refused(kgd: Kgd, words: list[str], fault: str) -> None:
    asked = kgd.run(*words)
    assert asked.returncode == EXIT_CODES["VALIDATION_ERROR"][0]
    assert f"an argument is {fault}" in asked.stderr


@pytest.mark.parametrize("text", ["{", "[1]", "5", "null", "[" * 100_000, "{'a': 1}"])
@pytest.mark.parametrize("words", [["resolve", "x", "--fields"], ["put", "x", "--data"]])
def test_an_option_that_is_not_a_json_object_is_refused_with_an_example(kgd: Kgd, words: list[str], text: str) -> None:
    asked = kgd.run(*words, text)
    assert asked.returncode == EXIT_CODES["VALIDATION_ERROR"][0]
    option = words[-1]
    assert f"kgd: this must be a JSON object ({option})\n     For example, {option} '{{" in asked.stderr


@pytest.mark.parametrize(
    ("text", "at"), [("[\n{", ": there is an error in line 2, column 2"), ("5", ""), ("[" * 100_000, "")]
)
def test_a_file_without_changes_is_refused_with_the_place(kgd: Kgd, tmp_path: Path, text: str, at: str) -> None:
    (tmp_path / "changes.json").write_text(text)
    for source, named in ((str(tmp_path / "changes.json"), "changes.json"), ("-", "standard input")):
        asked = kgd.run("put", "--changes", source, stdin=text)
        assert asked.returncode == EXIT_CODES["VALIDATION_ERROR"][0]
        assert f"kgd: this is not a list of changes in JSON{at} (" in asked.stderr
        assert f"{named})\n     For example, [{{" in asked.stderr


def test_a_variable_missing_in_the_command_is_not_taken_from_the_daemon(kgd: Kgd) -> None:
    refused = kgd.run("hub", "migrate", "--state", "env:KGD_NO_SUCH_VARIABLE")
    assert "run the command again" in refused.stderr
    assert "daemon" not in refused.stderr


STATUS: dict[str, Any] = {
    "daemon": {"version": "1", "pid": 1, "since": "now", "log": "/logs/daemon.log"},
    "health": "ok",
    "workspace": {"id": "shop", "path": "/shop/.kgd", "branch": "b", "tip": "0123456789abcdef"},
    "stages": [{"name": "commit", "state": "ok"}, {"name": "index", "state": "waiting", "blocker": "two files"}],
    "degraded": [],
    "invalid_files": [],
    "conflicts": 0,
    "counts": {"nodes": 2},
}


def test_status_shows_the_daemon_and_healthy_stages_only_on_request_or_if_something_is_wrong(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def shown(options: dict[str, Any] | None = None, **changed: Any) -> str:
        show("printing_running.status", STATUS | changed, options or {})
        return capsys.readouterr().out

    assert shown().splitlines() == [
        "workspace shop in /shop/.kgd",
        "  holds       2 nodes",
        "  index       waiting: two files",
        "needs attention: nothing",
        "shared: no (`kgd share` shares it)",
    ]
    stuck = [{"name": "publish", "state": "blocked", "blocker": "HEAD is detached"}]
    for told in (shown({"verbose": True}), shown(health="blocked", stages=[*STATUS["stages"], *stuck])):
        assert "/logs/daemon.log" in told
        assert "  commit      ok\n" in told
    assert "needs attention:\n  ! publish blocked: HEAD is detached\n" in told
    work = [{"what": "1 stale node", "next": "`kgd stale` shows what changed."}]
    assert "needs attention:\n  ! 1 stale node; `kgd stale` shows what changed\n" in shown(to_do=work)


def test_status_names_the_time_of_the_last_sync(capsys: pytest.CaptureFixture[str]) -> None:
    def shared(*stages: dict[str, str], **daemon: str) -> str:
        show("printing_running.status", STATUS | {"stages": stages, "daemon": STATUS["daemon"] | daemon}, {})
        return capsys.readouterr().out.splitlines()[-1]

    at = "2026-11-30T22:49:20Z"
    one = {"name": "fetch", "state": "ok", "last_success": at}
    assert shared(one) == f"shared: yes, synced {at} (`kgd remote` shows where)"
    several = ({**one, "name": "fetch origin"}, {"name": "fetch backup", "state": "ok"})
    assert shared(*several) == f"shared: origin, synced {at}; backup, not synced since kgd started"
    assert shared(listening="http://127.0.0.1:8750") == "shared: served at http://127.0.0.1:8750"


def test_an_unreadable_file_is_red_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    file = {"path": "nodes/a.yaml", "line": 3, "reason": "is not YAML"}
    daemon = {"version": "1", "pid": 1, "since": "now", "log": "l"}
    answer = {"daemon": daemon, "health": "ok", "stages": [], "degraded": [], "invalid_files": [file], "counts": {}}
    show("printing_running.status", answer | {"proposals": 0, "conflicts": 0}, {})
    assert f"\033[{STYLES['bad'][0]}m  ! nodes/a.yaml:3: is not YAML\033[0m" in capsys.readouterr().out


def test_open_conflicts_are_printed_with_the_author_of_each_side(kgd: Kgd) -> None:
    second = [kgd.json("put", "night/lamp", "--summary", text)["commit"] for text in ("one", "two")][1]
    kgd("put", "night/lamp", "--summary", "three")
    kgd("revert", second, "-q")
    sides = [line for line in kgd("conflicts", "night/lamp").splitlines() if "summary, " in line]
    assert [line.split()[1:3] for line in sides] == [["base:", "two"], ["a:", "one"], ["b:", "three"]]
    author = kgd.json("history", "night/lamp")["commits"][0]["author"]
    assert all(f"  {author}, " in line for line in sides[1:])


def test_the_first_commit_is_printed_without_a_time(kgd: Kgd) -> None:
    for command in ("log", "history"):
        printed = kgd(command, "--limit", "100")
        assert "workspace shop" in printed
        assert "2023-11-14" not in printed, "the constant date that makes first commits alike"


def test_tags_and_types_are_listed_with_commas_or_one_by_one(kgd: Kgd) -> None:
    kgd("put", "night/tagged", "--tags", "red,green", "--tags", "blue", "-q")
    assert kgd.json("get", "night/tagged")["nodes"][0]["tags"] == ["blue", "green", "red"]
    hits = kgd.json("search", "--tags", "red,none", "--types", "insight,concept")["hits"]
    assert [hit["uri"] for hit in hits] == ["concept://shop/night/tagged"]


@pytest.mark.slow
@pytest.mark.parametrize("words", ["log", "config", "completion bash", "export - --to jsonl"])
def test_output_that_cannot_be_written_is_one_error_and_a_closed_output_is_none(kgd: Kgd, words: str) -> None:
    program = f"{sys.executable} -P -m kgd.cli {words}"
    for target, code, said in (
        ("/dev/full", EXIT_CODES["UNAVAILABLE"][0], "kgd: the output cannot be written: No space left on device\n"),
        ("&-", 0, ""),
    ):
        done = subprocess.run(
            ["sh", "-c", f"{program} >{target}"], cwd=kgd.directory, capture_output=True, text=True, check=False
        )
        assert done.returncode == code
        assert done.stderr.endswith(said)
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("show", "::"), "kgd: this is not a URI\n"),
        (("join", "x y"), "kgd: this is not the address of a hub\n"),
        (("clone", "a b\n"), "kgd: a remote's address must be one line of printable characters\n"),
        (("ingest", "-"), "kgd: a text needs a name\n     Give its `--uri`, such as"),
    ],
)
def test_a_refusal_does_not_name_a_parameter_that_the_command_lacks(
    kgd: Kgd, words: tuple[str, ...], told: str
) -> None:
    assert kgd.run(*words).stderr.startswith(told)


@pytest.mark.skipif(not os.path.isdir("/sys/kernel"), reason="Linux has a folder in which even root creates no files")
def test_a_file_that_cannot_be_written_is_one_error(kgd: Kgd) -> None:
    hooks = kgd.directory / ".git/kgd/hooks"
    aside = hooks.rename(hooks.with_name("hooks.aside"))
    hooks.symlink_to("/sys/kernel")
    refused = kgd.run("install")
    hooks.unlink()
    aside.rename(hooks)
    assert refused.returncode == EXIT_CODES["UNAVAILABLE"][0]
    assert re.fullmatch(r"kgd: this file cannot be used: [\w -]+ \(\S+/hooks/\S+\)\n", refused.stderr)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "returned"),
    [("mcp", 0), ("forget", 2), ("put night/closed --content -", 0), ("join http://127.0.0.1:1", 2)],
)
def test_a_closed_input_is_an_empty_one(kgd: Kgd, words: str, returned: int) -> None:
    done = subprocess.run(
        ["sh", "-c", f"{sys.executable} -P -m kgd.cli {words} <&-"],
        cwd=kgd.directory,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == returned
    assert "Traceback" not in done.stderr
