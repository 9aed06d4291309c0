"""Commits of any bytes: what one person's git wrote never takes an answer away from the others."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.hub.conftest import Hub
from tests.waiting import until

pytestmark = pytest.mark.slow

BYTES, LATIN = b"\xff\xfe <x@y> 1700000000 +0000", b"J\xfcrgen <j\xfc@y> 1700000000 +0000"
YEAR_10000 = b"x <x@y> 253402300800 +9999"


def git(at: Path, *words: str, input: bytes = b"") -> str:
    done = subprocess.run(["git", "-C", at, *words], input=input, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode().strip()


def commit_of(at: Path, name: str, author: bytes, *, encoding: bytes = b"", message: bytes = b"by hand") -> str:
    """A commit on top of what the clone has, as no careful program would write it."""
    node = f"uri: concept://infra/services/{name}\nsummary: wombat {name}\n".encode()
    blob = git(at, "hash-object", "-w", "--stdin", input=node)
    git(at, "read-tree", "HEAD")
    git(at, "update-index", "--add", "--cacheinfo", f"100644,{blob},nodes/concept/services/{name}.yaml")
    head = [b"tree " + git(at, "write-tree").encode(), b"parent " + git(at, "rev-parse", "HEAD").encode()]
    head += [
        b"author " + author,
        b"committer x <x@y> 1700000000 +0000",
        *([b"encoding " + encoding] if encoding else []),
    ]
    body = b"\n".join(head) + b"\n\n" + message
    return git(at, "hash-object", "-t", "commit", "-w", "--stdin", "--literally", input=body)


@pytest.fixture
def served(own_hub: Callable[..., Hub]) -> Hub:
    found = own_hub().start()
    found.put("concept://infra/services/auth", summary="Issues tokens")
    return found


def cloned(hub: Hub, tmp_path: Path) -> Path:
    at = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", hub.git_url(hub.mint()), at], check=True)
    return at


def answers(hub: Hub, token: str, node: str) -> dict[str, int]:
    asked = {
        "history": {},
        "get": {"uris": [node], "include": ["history"]},
        "resolve_conflicts": {},
        "search": {"query": "wombat"},
        "node_history": {"uri": node},
    }
    return {
        name: hub.post(token, f"infra/{name.removeprefix('node_')}", arguments).status
        for name, arguments in asked.items()
    }


def found(hub: Hub, token: str, word: str) -> set[str]:
    return {hit["uri"].rpartition("/")[2] for hit in hub.post(token, "infra/search", {"query": word}).json["hits"]}


def test_any_author_of_pushed_commits_leaves_answers_to_others_intact(served: Hub, tmp_path: Path) -> None:
    at, writer, admin = cloned(served, tmp_path), served.mint("write"), served.mint("read,write,resolve,admin")
    for n, author in enumerate([BYTES, LATIN, YEAR_10000]):
        odd = commit_of(at, f"odd{n}", author)
        git(at, "push", served.git_url(writer), f"{odd}:refs/heads/main")
        git(at, "reset", "-q", "--hard", odd)
        assert set(answers(served, admin, f"services/odd{n}").values()) == {200}
    served.put("concept://infra/services/later", summary="wombat later")
    until(lambda: found(served, admin, "wombat") == {"odd0", "odd1", "odd2", "later"}, say=lambda: "not all are found")
    served.put("concept://infra/services/odd0", name="edited")
    until(lambda: found(served, admin, "edited") == {"odd0"}, say=lambda: "the edited text is not found")
    assert {stage["name"]: stage["state"] for stage in served.call("status", workspace="infra")["stages"]}[
        "index"
    ] == "ok"


def test_any_author_of_proposals_leaves_answers_to_others_intact(served: Hub, tmp_path: Path) -> None:
    at, proposer, admin = cloned(served, tmp_path), served.mint("propose"), served.mint("read,write,resolve,admin")
    for n, author in enumerate([BYTES, YEAR_10000]):
        odd = commit_of(at, f"odd{n}", author, message=b"\xff\xfe odd")
        git(at, "push", served.git_url(proposer), f"{odd}:refs/heads/proposals/odd{n}")
    named = f"{odd}:refs/heads/proposals/".encode() + b"\xff\xfe"
    assert subprocess.run(["git", "-C", at, "push", served.git_url(proposer), named], capture_output=True).returncode
    assert set(answers(served, admin, "services/auth").values()) == {200}
    waits = served.call("proposals", workspace="infra")["proposals"]
    assert len(waits) == 2
    for one in waits:
        assert served.call("proposals", workspace="infra", name=one["id"])["total"] == 1
    assert served.call("accept", workspace="infra", name=waits[0]["id"])["proposal"] == waits[0]["id"]


def test_an_honest_name_in_an_older_encoding_is_read_as_it_was_written(served: Hub, tmp_path: Path) -> None:
    at, writer = cloned(served, tmp_path), served.mint("write")
    odd = commit_of(at, "odd", LATIN, encoding=b"ISO-8859-1", message=b"f\xfcr alle")
    git(at, "push", served.git_url(writer), f"{odd}:refs/heads/main")
    entries = served.call("history", workspace="infra")["commits"]
    assert [entry["author"] for entry in entries if "für alle" in entry["message"]] == ["Jürgen"]
    [node] = served.call("get", workspace="infra", uris=["services/odd"], include=["history"])["nodes"]
    assert "Jürgen" in str(node)


@pytest.mark.parametrize("newer", ["format", "merge_rules"])
def test_a_push_of_a_newer_format_is_refused(hub: Hub, tmp_path: Path, newer: str) -> None:
    at, admin = cloned(hub, tmp_path), hub.mint("read,write,resolve,admin")
    settings = (at / "kgd.yaml").read_text().replace(f"{newer}: 1", f"{newer}: 2")
    (at / "kgd.yaml").write_text(settings)
    git(at, "-c", "user.name=x", "-c", "user.email=x@y", "commit", "-qam", "newer")
    push = ["git", "-C", str(at), "push", hub.git_url(admin), "HEAD:refs/heads/main"]
    refused = subprocess.run(push, capture_output=True, text=True, check=False)
    assert refused.returncode
    assert "this kgd supports 1" in refused.stderr
    assert (
        hub.post(admin, "infra/put", {"changes": [{"op": "upsert", "uri": "services/auth", "tags": ["on"]}]}).status
        == 200
    )
