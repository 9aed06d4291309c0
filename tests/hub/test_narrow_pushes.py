"""Pushes of restricted tokens: they succeed, and reveal no hidden nodes."""

from __future__ import annotations

import os
import subprocess
import urllib.request
from collections.abc import Callable

import pytest

from kgd.errors import Advice, Do, Forbidden
from kgd.hub.push_execution import told
from tests.hub.conftest import Hub
from tests.hub.test_git import CHECKOUT, Clone, clone, summary_of
from tests.waiting import until

__all__ = ["clone"]

PUSH = "application/x-git-receive-pack-request"
SECRET = "uri: concept://infra/app/pay\nsummary: the price is 42\n"


def advertised(hub: Hub, token: str) -> str:
    url = f"{hub.url}/git/infra/info/refs?service=git-receive-pack"
    asked = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(asked, timeout=60) as answer:
        return str(answer.read().decode())


def propose(hub: Hub, clone: Callable[..., Clone], name: str) -> str:
    """The name of a proposal of that holder."""
    mine = clone(hub.mint("read,propose", name=name), name)
    mine.edit(f"nodes/concept/services/of-{name}.yaml", "A proposal")
    said = mine.git("push", "origin", "HEAD:main")
    return said.partition("waits for review: ")[2].split()[0]


@pytest.mark.slow
@pytest.mark.requirement("B5")
def test_a_token_that_only_pushes_sees_the_branch_and_its_own_proposals(hub: Hub, clone: Callable[..., Clone]) -> None:
    theirs = propose(hub, clone, "carol")
    pushes = hub.mint("propose", "/services/**", name="dave")
    assert theirs not in advertised(hub, pushes)
    assert "refs/heads/main" in advertised(hub, pushes)
    mine = clone(pushes, "dave")
    mine.edit("nodes/concept/services/of-dave.yaml", "A proposal")
    mine.git("push", "origin", "HEAD:main")
    assert "refs/heads/proposals/dave-1" in advertised(hub, pushes)
    assert theirs in advertised(hub, hub.mint("read,propose", name="reader"))


@pytest.mark.slow
@pytest.mark.requirement("B5")
@pytest.mark.parametrize("version", ["1", pytest.param("2", marks=pytest.mark.slow)])
def test_a_narrow_token_pushes_with_plain_git(hub: Hub, clone: Callable[..., Clone], version: str) -> None:
    mine = clone(hub.mint("write", "/services/**", name="erin"))
    mine.git("config", "protocol.version", version)
    mine.edit("nodes/concept/services/by-erin.yaml", "one")
    mine.edit("nodes/concept/services/by-erin.yaml", "two, and a good deal more than that to make a difference of")
    mine.git("push", "-q", "origin", "HEAD:main")
    assert summary_of(hub, "services/by-erin") is not None
    mine.edit("nodes/concept/services/by-erin.yaml", "three")
    mine.git("push", "-q", "origin", "HEAD:refs/for/main")
    assert summary_of(hub, "services/by-erin") == "three"
    mine.edit(CHECKOUT, "not theirs")
    assert "app/checkout" in mine.git("push", "origin", "HEAD:main", ok=False)


def push_of(mine: Clone, parent: str, files: dict[str, str], *, without: str) -> bytes:
    """The body of a push of one commit that names these objects and leaves one out."""
    index = {"GIT_INDEX_FILE": str(mine.at / ".git" / "guess")}

    def git(*words: str, data: bytes = b"") -> bytes:
        return subprocess.run(
            ["git", "-C", mine.at, *words], input=data, capture_output=True, check=True, env={**os.environ, **index}
        ).stdout

    git("read-tree", parent)
    for path, id in files.items():
        git("update-index", "--add", "--cacheinfo", f"100644,{id},{path}")
    tree = git("write-tree", "--missing-ok").decode().strip()
    commit = git("commit-tree", tree, "-p", parent, "-m", "guess").decode().strip()
    ids = [commit, *(line.split()[2] for line in git("ls-tree", "-rt", tree).decode().splitlines()), tree]
    packed = git("pack-objects", "--stdout", data="\n".join(id for id in set(ids) if id != without).encode())
    line = f"{'0' * 40} {commit} refs/for/main\0report-status\n".encode()
    return b"%04x" % (len(line) + 4) + line + b"0000" + packed


@pytest.mark.requirement("B5")
def test_a_push_does_not_confirm_a_text_that_is_guessed(hub: Hub, clone: Callable[..., Clone]) -> None:
    hub.put("concept://infra/app/pay", summary="the price is 42")
    token = hub.mint("write", "/services/**", name="guesser")
    mine = clone(token, "guesser")
    until(lambda: "app/pay" in mine.git("fetch") + mine.git("ls-tree", "-r", "--name-only", "origin/main"))
    tip = mine.git("rev-parse", "origin/main").strip()
    there = mine.git("rev-parse", "origin/main:nodes/concept/app/pay.yaml").strip()
    missing = subprocess.run(
        ["git", "-C", mine.at, "hash-object", "-w", "--stdin"],
        input=SECRET.replace("42", "43"),
        text=True,
        capture_output=True,
        check=True,
    ).stdout.strip()
    said = []
    for guess in (there, missing):
        body = push_of(mine, tip, {"nodes/concept/services/guess.yaml": guess}, without=guess)
        answer = hub.ask("POST", "/git/infra/git-receive-pack", token, body, {"Content-Type": PUSH})
        said.append((answer.status, answer.body))
    assert said[0] == said[1]
    assert b"leaves out" in said[0][1]


@pytest.mark.requirement("B5")
def test_a_difference_from_a_text_that_is_guessed_is_no_object(hub: Hub, clone: Callable[..., Clone]) -> None:
    token = hub.mint("write", "/services/**", name="thin")
    mine = clone(token, "thin")
    large = "uri: concept://infra/services/large\nsummary: x\ncontent: |\n" + "".join(
        f"  line {n} of a text that is long enough to send a difference of\n" for n in range(200)
    )
    (mine.at / "nodes/concept/services/large.yaml").write_text(large)
    mine.commit("large")
    mine.git("push", "-q", "origin", "HEAD:main")
    (mine.at / "nodes/concept/services/large.yaml").write_text(large + "  and one more\n")
    tip = mine.commit("larger")
    packed = subprocess.run(
        ["git", "-C", mine.at, "pack-objects", "--thin", "--stdout", "--revs", "--delta-base-offset"],
        input=f"{tip}\n^{tip}~1\n".encode(),
        capture_output=True,
        check=True,
    ).stdout
    line = f"{'0' * 40} {tip} refs/for/main\0report-status\n".encode()
    body = b"%04x" % (len(line) + 4) + line + b"0000" + packed
    answer = hub.ask("POST", "/git/infra/git-receive-pack", token, body, {"Content-Type": PUSH})
    assert b"leaves out" in answer.body
    assert answer.body.startswith(b"00")
    mine.git("push", "-q", "origin", "HEAD:main")
    assert (
        "and one more"
        in hub.call("get", workspace="infra", uris=["concept://infra/services/large"])["nodes"][0]["content"]
    )


def test_a_refused_push_names_commands_and_pages() -> None:
    refusal = Forbidden("it may not", next=Advice("Propose it with ", Do("submit_subgraph"), "."))
    assert told(refusal) == "it may not. Propose it with `kgd submit`."
