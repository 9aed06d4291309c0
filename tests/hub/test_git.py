"""git's smart HTTP: real git clients clone, fetch and push, and each push is held to the scope of its token."""

from __future__ import annotations

import base64
import gzip
import os
import subprocess
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.hub.conftest import Hub
from tests.waiting import until

AUTH, CHECKOUT = "nodes/concept/services/auth.yaml", "nodes/concept/app/checkout.yaml"


@dataclass
class Clone:
    """A person's clone of the hub's workspace; no kgd in sight."""

    at: Path

    def git(self, *words: str, ok: bool | None = True) -> str:
        done = subprocess.run(
            ["git", "-C", self.at, *words],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "GIT_TERMINAL_PROMPT": "0"},
        )
        assert ok is None or (done.returncode == 0) == ok, done.stdout + done.stderr
        return done.stdout + done.stderr

    def write(self, path: str, summary: str | None) -> None:
        file = self.at / path
        if summary is None:
            file.unlink()
            return
        file.parent.mkdir(parents=True, exist_ok=True)
        uri = path.removeprefix("nodes/concept/").removesuffix(".yaml")
        file.write_text(f"uri: concept://infra/{uri}\nsummary: {summary}\n")

    def commit(self, message: str = "by hand") -> str:
        self.git("add", "-A")
        self.git("commit", "-qm", message)
        return self.git("rev-parse", "HEAD").strip()

    def edit(self, path: str, summary: str | None) -> str:
        self.write(path, summary)
        return self.commit(f"edit {path}")


@pytest.fixture
def clone(hub: Hub, tmp_path: Path) -> Callable[..., Clone]:
    """A clone that pushes with a token; made with a token that may read everything."""
    reader = hub.mint()

    def make(token: str, name: str = "clone") -> Clone:
        at = tmp_path / name
        subprocess.run(["git", "clone", "-q", hub.git_url(reader), at], check=True)
        made = Clone(at)
        made.git("remote", "set-url", "--push", "origin", hub.git_url(token))
        return made

    return make


def summary_of(hub: Hub, uri: str) -> str | None:
    nodes = hub.call("get", workspace="infra", uris=[f"concept://infra/{uri}"])["nodes"]
    return nodes[0].get("summary") if nodes else None


def proposals(hub: Hub) -> list[str]:
    said = subprocess.run(
        ["git", "-C", hub.workspace("infra"), "for-each-ref", "--format=%(refname:lstrip=2)", "refs/heads/proposals"],
        capture_output=True,
        text=True,
        check=True,
    )
    return said.stdout.split()


# ---- fetching


@pytest.mark.slow
@pytest.mark.requirement("B5")
def test_a_token_that_reads_everything_clones_and_others_learn_the_reason(hub: Hub, tmp_path: Path) -> None:
    subprocess.run(["git", "clone", "-q", hub.git_url(hub.mint()), tmp_path / "a"], check=True)
    assert (tmp_path / "a" / AUTH).read_text().startswith("uri: concept://infra/services/auth")
    here = Clone(tmp_path)
    assert "may not fetch" in here.git("clone", hub.git_url(hub.mint(paths="/services/**")), "b", ok=False)
    assert "may not fetch" in here.git("clone", hub.git_url(hub.mint("write")), "b", ok=False)
    assert "Authentication failed" in here.git("clone", hub.git_url("wrong"), "b", ok=False)
    assert "no such workspace" in here.git("clone", hub.git_url(hub.mint(), "private"), "b", ok=False)
    assert not (tmp_path / "b").exists()


@pytest.mark.slow
def test_a_fetch_shows_all_acknowledged_changes(hub: Hub, tmp_path: Path) -> None:
    token = hub.mint("read,write")
    for number in range(3):
        change = {"op": "upsert", "uri": "concept://infra/services/seen", "summary": f"turn {number}"}
        assert hub.post(token, "infra/put", {"changes": [change]}).status == 200
        at = tmp_path / str(number)
        subprocess.run(["git", "clone", "-q", "--depth=1", hub.git_url(token), at], check=True)
        assert f"turn {number}" in (at / "nodes/concept/services/seen.yaml").read_text()


def test_refs_that_are_kgds_own_are_not_shown(hub: Hub) -> None:
    said = subprocess.run(["git", "ls-remote", hub.git_url(hub.mint())], capture_output=True, text=True, check=True)
    names = {line.split("\t")[1] for line in said.stdout.splitlines()}
    assert {"HEAD", "refs/heads/main"} <= names
    assert not any(name.startswith(("refs/kgd", "refs/remotes", "refs/tags")) for name in names)


@pytest.mark.slow
@pytest.mark.parametrize("version", ["0", "1", "2"])
def test_every_protocol_version_clones_also_in_part(hub: Hub, tmp_path: Path, version: str) -> None:
    url = hub.git_url(hub.mint())
    subprocess.run(
        ["git", "-c", f"protocol.version={version}", "clone", "-q", "--depth=1", url, tmp_path / "a"], check=True
    )
    assert (tmp_path / "a" / AUTH).exists()


# ---- pushing


def test_a_push_is_served_and_the_next_fetch_shows_it(hub: Hub, clone: Callable[..., Clone]) -> None:
    token = hub.mint("read,write", name="Ann")
    mine = clone(token)
    pushed = mine.edit("nodes/concept/services/pushed.yaml", "By plain git")
    mine.git("push", "-q")
    assert summary_of(hub, "services/pushed") == "By plain git"
    mine.git("pull", "-q")
    assert pushed in mine.git("log", "--format=%H")
    entry = hub.call("token_log", id=token.split("_")[2])["entries"][0]
    assert (entry["action"], entry["detail"].split()[0]) == ("push", pushed)


@pytest.mark.requirement("B5")
def test_a_push_inside_the_scope_of_propose_becomes_a_proposal(hub: Hub, clone: Callable[..., Clone]) -> None:
    mine = clone(hub.mint("propose", "/services/**", name="billing agent 1"))
    before = summary_of(hub, "services/auth")
    tip = mine.edit(AUTH, "Proposed")
    said = mine.git("push")
    assert "proposals/billing-agent-1-1" in said
    assert "proposals/billing-agent-1-1" in proposals(hub)
    assert mine.git("ls-remote", "origin", "refs/heads/proposals/billing-agent-1-1").split()[0] == tip
    (shown,) = hub.call("proposals", workspace="infra", name="billing-agent-1-1")["proposals"]
    assert shown["pushed_by"].startswith("billing agent 1 ("), "regardless of the commit's author"
    assert summary_of(hub, "services/auth") == before
    assert "proposals/billing-agent-1-1" in mine.git("push", "origin", "HEAD:main"), "again, it is the same one"
    mine.edit(AUTH, "Proposed otherwise")
    assert "proposals/billing-agent-1/idea" in mine.git("push", "origin", "HEAD:proposals/idea")
    assert len([name for name in proposals(hub) if "billing-agent-1" in name]) == 2


@pytest.mark.slow
def test_a_token_cannot_move_another_holders_proposal(hub: Hub, clone: Callable[..., Clone]) -> None:
    mine, theirs = (clone(hub.mint("propose", "/services/**", name=name), name) for name in ("mallory", "alice"))
    tip = theirs.edit(AUTH, "By Alice")
    theirs.git("push", "origin", "HEAD:proposals/x")
    mine.edit(AUTH, "By Mallory")
    mine.git("push", "--force", "origin", "HEAD:refs/heads/proposals/alice/x")
    assert mine.git("ls-remote", "origin", "refs/heads/proposals/alice/x").split()[0] == tip
    assert "proposals/mallory/alice/x" in proposals(hub)


@pytest.mark.slow
def test_waiting_proposals_are_bounded(hub: Hub, clone: Callable[..., Clone]) -> None:
    mine = clone(hub.mint("propose", "/services/**", name="eager", pending_proposals=1))
    mine.edit(AUTH, "One")
    mine.git("push")
    mine.edit(AUTH, "Two")
    assert "are open" in mine.git("push", ok=False)


Steps = Callable[[Clone], object]


def _outside(clone: Clone) -> None:
    clone.edit(CHECKOUT, "Outside")


def _outside_then_back(clone: Clone) -> None:
    before = (clone.at / CHECKOUT).read_text()
    clone.edit(CHECKOUT, "Outside")
    (clone.at / CHECKOUT).write_text(before)
    clone.commit("as it was")


def _symbolic_link(clone: Clone) -> None:
    (clone.at / "nodes/concept/services/link.yaml").symlink_to("/etc/passwd")
    clone.commit()


def _submodule(clone: Clone) -> None:
    clone.git("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},nodes/concept/services/sub.yaml")
    clone.git("commit", "-qm", "submodule")


def _moved_in(clone: Clone) -> None:
    clone.git("mv", CHECKOUT, "nodes/concept/services/checkout.yaml")
    clone.write("nodes/concept/services/checkout.yaml", "Moved")
    clone.commit()


def _settings(clone: Clone) -> None:
    with (clone.at / "kgd.yaml").open("a") as file:
        file.write("# mine\n")
    clone.commit()


def _attributes(clone: Clone) -> None:
    (clone.at / ".gitattributes").write_text("* filter=evil\n")
    clone.commit()


def _evil_merge(clone: Clone) -> None:
    """A merge that changes what neither side changed."""
    clone.git("checkout", "-qb", "side", "HEAD~1")
    clone.edit("nodes/concept/services/side.yaml", "Side")
    clone.git("checkout", "-q", "main")
    clone.edit("nodes/concept/services/main.yaml", "Main")
    clone.git("merge", "-q", "--no-commit", "side")
    clone.write(CHECKOUT, "Changed in the merge alone")
    clone.commit("merge")


def _merge_that_drops(clone: Clone) -> None:
    """`merge -s ours`: each commit alone is harmless, and what others did outside the scope is gone."""
    clone.git("checkout", "-q", "-b", "old", "HEAD~1")
    clone.edit("nodes/concept/services/old.yaml", "From before")
    clone.git("merge", "-q", "-s", "ours", "-m", "merge", "main")
    clone.git("checkout", "-q", "-B", "main")


def _deleted_outside(clone: Clone) -> None:
    clone.edit(CHECKOUT, None)


def _other_uri(clone: Clone) -> None:
    """A file inside the scope that says it is a node outside of it."""
    (clone.at / "nodes/concept/services/auth.yaml").write_text("uri: concept://infra/app/checkout\nsummary: x\n")
    clone.commit()


OUTSIDE = [
    _outside,
    _outside_then_back,
    _symbolic_link,
    _submodule,
    _moved_in,
    _settings,
    _attributes,
    _evil_merge,
    _merge_that_drops,
    _deleted_outside,
    _other_uri,
]
NAMED: dict[Steps, str] = {
    _symbolic_link: "services/link.yaml",
    _submodule: "services/sub.yaml",
    _settings: "kgd.yaml",
    _attributes: ".gitattributes",
    _other_uri: "services/auth.yaml",
}
"""The file that the refusal is about, where it is not about the node outside."""
AT_ONCE = (_outside_then_back, _merge_that_drops, _settings)


@pytest.mark.requirement("B5")
@pytest.mark.parametrize("verb", ["write", pytest.param("propose", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "steps",
    [steps if steps in AT_ONCE else pytest.param(steps, marks=pytest.mark.slow) for steps in OUTSIDE],
    ids=[steps.__name__.strip("_") for steps in OUTSIDE],
)
def test_a_push_that_reaches_outside_its_scope_is_refused_whole(
    hub: Hub, clone: Callable[..., Clone], steps: Steps, verb: str
) -> None:
    hub.put("concept://infra/app/checkout", summary=f"As of {steps.__name__} {verb}")
    until(lambda: _published(hub))
    mine = clone(hub.mint(verb, "/services/**", name=f"{verb}er"))
    packs, before, waiting = _objects(hub), _tip(hub), proposals(hub)
    steps(mine)
    said = mine.git("push", "origin", "HEAD:main", ok=False)
    assert "pre-receive hook declined" in said or "remote rejected" in said
    assert "remote: " in said
    assert NAMED.get(steps, "concept://infra/app/checkout") in said
    assert (_tip(hub), proposals(hub)) == (before, waiting)
    assert _objects(hub) == packs, "nothing of it stays in the repository"


SECRET = "gh" + "p_" + "a1B2c3D4e5F6" * 3


def _in_a_node(clone: Clone) -> None:
    clone.edit("nodes/concept/services/leak.yaml", f"Signs in with {SECRET}")
    clone.edit("nodes/concept/services/leak.yaml", "Signs in")


def _in_a_file_that_is_no_node(clone: Clone) -> None:
    path = "nodes/concept/services/leak.yaml"
    (clone.at / path).write_text(f"summary: [{SECRET}\n")
    clone.commit()
    clone.edit(path, "Mended")


def _in_a_file_that_is_gone(clone: Clone) -> None:
    clone.edit("nodes/concept/services/leak.yaml", SECRET)
    clone.edit("nodes/concept/services/leak.yaml", None)


def _in_a_record(clone: Clone) -> None:
    (clone.at / "conflicts").mkdir(exist_ok=True)
    (clone.at / "conflicts/leak.yaml").write_text(f"note: {SECRET}\n")
    clone.commit()
    (clone.at / "conflicts/leak.yaml").unlink()
    clone.commit()


def _in_a_message(clone: Clone) -> None:
    clone.write("nodes/concept/services/leak.yaml", "Signs in")
    clone.commit(f"sign in with {SECRET}")


def _in_a_merge(clone: Clone) -> None:
    clone.git("checkout", "-qb", "side", "HEAD~1")
    clone.edit("nodes/concept/services/side.yaml", "Side")
    clone.git("checkout", "-q", "main")
    clone.edit("nodes/concept/services/main.yaml", "Main")
    clone.git("merge", "-q", "--no-commit", "side")
    clone.write("nodes/concept/services/leak.yaml", SECRET)
    clone.commit("merge")
    clone.edit("nodes/concept/services/leak.yaml", "Signs in")


LEAKS = [_in_a_node, _in_a_file_that_is_no_node, _in_a_file_that_is_gone, _in_a_record, _in_a_message, _in_a_merge]


@pytest.mark.parametrize(
    "steps",
    [steps if steps is _in_a_node else pytest.param(steps, marks=pytest.mark.slow) for steps in LEAKS],
    ids=[steps.__name__.strip("_") for steps in LEAKS],
)
def test_a_secret_that_a_later_commit_removes_is_refused(hub: Hub, clone: Callable[..., Clone], steps: Steps) -> None:
    hub.put("concept://infra/app/checkout", summary=f"As of {steps.__name__}")
    until(lambda: _published(hub))
    mine = clone(hub.mint("write", name="leaker"))
    packs, before = _objects(hub), _tip(hub)
    steps(mine)
    said = mine.git("push", "origin", "HEAD:main", ok=False)
    assert "what looks like a secret (GitHub)" in said
    assert SECRET not in said
    assert _tip(hub) == before
    assert _objects(hub) == packs, "nothing of it stays in the repository"


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ("HEAD:refs/heads/other",),
        ("HEAD:refs/tags/x",),
        ("HEAD:refs/kgd/head",),
        ("HEAD:refs/for/other",),
        (":main",),
        ("--force", "HEAD~1:main"),
    ],
)
def test_other_refs_deletions_and_force_are_refused(
    hub: Hub, clone: Callable[..., Clone], words: tuple[str, ...]
) -> None:
    mine = clone(hub.mint("read,propose,write,admin"))
    before = _tip(hub)
    mine.edit("nodes/concept/services/x.yaml", "x")
    if words[0] == "--force":
        mine.git("push", "-q")
        before = _tip(hub)
        mine.git("commit", "-q", "--amend", "-m", "rewritten")
        words = ("--force", "HEAD:main")
    mine.git("push", "origin", *words, ok=False)
    assert _tip(hub) == before


@pytest.mark.slow
def test_a_slower_push_fetches_first_or_lets_the_hub_merge(hub: Hub, clone: Callable[..., Clone]) -> None:
    hub.put("concept://infra/services/both", name="Both", summary="At first")
    until(lambda: _published(hub))
    token = hub.mint("read,write")
    one, two = clone(token, "one"), clone(token, "two")
    both = "nodes/concept/services/both.yaml"
    (one.at / both).write_text((one.at / both).read_text().replace("At first", "By one"))
    one.commit()
    (two.at / both).write_text((two.at / both).read_text().replace("name: Both", "name: By two"))
    two.commit()
    one.git("push", "-q")
    assert "fetch first" in two.git("push", ok=False)
    two.git("push", "-q", "origin", "HEAD:refs/for/main")
    node = hub.call("get", workspace="infra", uris=["concept://infra/services/both"])["nodes"][0]
    assert (node["name"], node["summary"]) == ("By two", "By one")
    for clone_of in (one, two):
        clone_of.git("pull", "-q", "--ff-only")
    assert one.git("rev-parse", "HEAD") == two.git("rev-parse", "HEAD")


@pytest.mark.slow
def test_two_versions_of_one_field_are_both_kept_and_reported(hub: Hub, clone: Callable[..., Clone]) -> None:
    hub.put("concept://infra/services/clash", summary="At first")
    until(lambda: _published(hub))
    token = hub.mint("read,write")
    one, two = clone(token, "one"), clone(token, "two")
    one.edit("nodes/concept/services/clash.yaml", "By one")
    two.edit("nodes/concept/services/clash.yaml", "By two")
    one.git("push", "-q")
    assert "open conflict" in two.git("push", "origin", "HEAD:refs/for/main")
    shown = hub.call("conflicts", workspace="infra", uri="concept://infra/services/clash")["conflicts"]
    assert sorted(side["value"] for side in shown[0]["fields"]["summary"]["sides"]) == ["By one", "By two"]
    hub.call("resolve", workspace="infra", resolutions=[{"id": shown[0]["id"], "take": "a"}])


def test_a_revoked_token_cannot_push(hub: Hub, clone: Callable[..., Clone]) -> None:
    token = hub.mint("read,write")
    mine = clone(token)
    mine.edit("nodes/concept/services/late.yaml", "Late")
    hub.call("token_revoke", id=token.split("_")[2])
    assert "Authentication failed" in mine.git("push", ok=False)
    assert summary_of(hub, "services/late") is None


def test_a_reader_does_not_push(hub: Hub, clone: Callable[..., Clone]) -> None:
    mine = clone(hub.mint())
    mine.edit(AUTH, "x")
    assert "may not push" in mine.git("push", ok=False)


# ---- other clients than git


def _raw(hub: Hub, token: str, path: str, body: bytes | None = None, **headers: str) -> int:
    basic = base64.b64encode(f"x:{token}".encode()).decode()
    method = "GET" if body is None else "POST"
    sent = {"Authorization": f"Basic {basic}", **{k.replace("_", "-"): v for k, v in headers.items()}}
    return hub.ask(method, f"/git/infra/{path}", "", body, sent).status


def test_only_the_three_addresses_of_the_protocol_are_there(hub: Hub) -> None:
    token = hub.mint("read,write,admin")
    for path in (
        "HEAD",
        "objects/info/packs",
        "config",
        "info/refs",
        "info/refs?service=git-upload-archive",
        "info/refs?service=git-upload-pack&x=1",
        "../infra/info/refs?service=git-upload-pack",
        "%2e%2e/config",
        "kgd/index.sqlite",
    ):
        assert _raw(hub, token, path) in (404, 405), path
    assert _raw(hub, token, "info/refs?service=git-upload-pack") == 200
    assert _raw(hub, token, "git-receive-pack", b"0000", Content_Type="text/plain") == 422


def test_a_clients_claim_about_the_old_value_is_not_trusted(hub: Hub, clone: Callable[..., Clone]) -> None:
    """A proposed commit, named as the old value, would count as merged already."""
    proposer = clone(hub.mint("propose", "/app/**", name="proposer"), "proposer")
    proposed = proposer.edit(CHECKOUT, "Only proposed")
    proposer.git("push", "-q", "origin", "HEAD:proposals/later")
    token = hub.mint("write", "/services/**")
    mine = clone(token, "mine")
    mine.git("fetch", "-q", "origin", "proposals/proposer/later")
    mine.git("checkout", "-q", "FETCH_HEAD")
    tip = mine.edit("nodes/concept/services/on-top.yaml", "On top of it")
    packed = subprocess.run(
        ["git", "-C", mine.at, "pack-objects", "--revs", "--stdout", "-q"],
        input=f"{tip}\n^{proposed}\n".encode(),
        capture_output=True,
        check=True,
    )
    before = _tip(hub)
    for old in (proposed, tip, "0" * 40):
        line = f"{old} {tip} refs/heads/main\0 report-status\n".encode()
        body = b"%04x" % (len(line) + 4) + line + b"0000" + packed.stdout
        _raw(hub, token, "git-receive-pack", body, Content_Type="application/x-git-receive-pack-request")
        assert _tip(hub) == before
    assert summary_of(hub, "app/checkout") != "Only proposed"


@pytest.mark.slow
def test_a_pack_that_is_garbage_or_inflates_without_end_changes_nothing(hub: Hub) -> None:
    token = hub.mint("read,write")
    before, packs = _tip(hub), _objects(hub)
    line = f"{before} {'1' * 40} refs/heads/main\0 report-status\n".encode()
    command = b"%04x" % (len(line) + 4) + line + b"0000"
    kind = {"Content_Type": "application/x-git-receive-pack-request"}
    bomb = b"PACK\0\0\0\2\0\0\0\1" + b"\xb0\x80\x80\x80\x40" + zlib.compress(bytes(64 << 20), 9)
    for body in (command + b"PACK" + b"\xff" * 1000, command + bomb, b"\xff" * 100, b"0000", b"zzzz"):
        _raw(hub, token, "git-receive-pack", body, **kind)
        _raw(hub, token, "git-receive-pack", gzip.compress(body), Content_Encoding="gzip", **kind)
    assert (_tip(hub), _objects(hub)) == (before, packs)
    assert hub.post(token, "infra/status").status == 200


def _tip(hub: Hub) -> str:
    tip = hub.call("status", workspace="infra")["workspace"]["tip"]
    assert isinstance(tip, str)
    return tip


def _published(hub: Hub) -> bool:
    branch = subprocess.run(
        ["git", "-C", hub.workspace("infra"), "rev-parse", "main"], capture_output=True, text=True, check=True
    )
    return branch.stdout.strip() == _tip(hub)


def _objects(hub: Hub) -> set[str]:
    """Commits that are in the repository, reachable or not, and what quarantine left behind."""
    git_dir = hub.workspace("infra") / ".git"
    said = subprocess.run(
        ["git", "-C", git_dir, "cat-file", "--batch-all-objects", "--batch-check"],
        capture_output=True,
        text=True,
        check=True,
    )
    left = {path.name for path in (git_dir / "objects").glob("*incoming*")}
    left |= {path.name for path in (git_dir / "kgd").glob("pushes/*")}
    return left | {line for line in said.stdout.splitlines() if " commit " in line}
