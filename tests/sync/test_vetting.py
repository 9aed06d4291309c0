"""What a remote may not bring: refused before any ref of ours leads to it, quickly, and with the place named."""

from __future__ import annotations

import resource
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kgd.errors import Unavailable
from kgd.git.incoming import Incoming, scratch_repository
from kgd.git.remote_errors import Trouble
from kgd.sync import vetting
from kgd.sync.vetting import Budget, vet
from kgd.workspace.publishing import adoption
from tests.hostile.trees import FILE, FOLDER, LINK, PROGRAM, SUBMODULE, Entry, Smith
from tests.sync.people import Person, bare, git

pytestmark = pytest.mark.slow

NODE = b"uri: concept://infra/x\nsummary: x\n"


@pytest.fixture
def shared(ann: Person, hub: Path) -> Person:
    ann.put("a", summary="a")
    ann.share(hub, sync=0)
    return ann


@pytest.fixture
def smith(hub: Path, shared: Person) -> Smith:
    """Somebody who can write anything into the hub's repository."""
    return Smith(hub)


def refused(shared: Person, tip: str) -> dict[str, str]:
    """The refusal of a sync; afterwards nothing of the remote's is here."""
    before = shared.tip
    (wait,) = shared.sync()["waits"]
    assert wait["kind"] in ("refused", "bad-objects", "limit"), wait
    assert shared.tip == before
    assert tip not in git(shared.tree, "for-each-ref")
    assert subprocess.run(["git", "-C", shared.tree, "cat-file", "-e", tip], capture_output=True).returncode
    return dict(wait)


def at(smith: Smith, path: bytes, mode: bytes, id: bytes) -> str:
    return smith.commit(smith.grafted("main:", path, (mode, id)), "refs/heads/main")


def deep(smith: Smith, levels: int) -> bytes:
    tree = smith.tree([Entry(b"x.yaml", FILE, smith.blob(NODE))])
    for _ in range(levels):
        tree = smith.tree([Entry(b"d", FOLDER, tree)])
    return tree


def _entries(count: int, blob: bytes) -> Iterator[Entry]:
    return (Entry(b"%07d" % number, FILE, blob) for number in range(count))


ATTACKS: dict[str, Callable[[Smith], str]] = {
    "a symbolic link": lambda s: at(s, b"nodes/concept/x.yaml", LINK, s.blob(b"/etc/passwd")),
    "a link instead of a folder": lambda s: at(s, b"nodes/concept", LINK, s.blob(b"/tmp")),
    "a submodule": lambda s: at(s, b"nodes/sub", SUBMODULE, bytes.fromhex(git(s.git_dir, "rev-parse", "main"))),
    "gitmodules": lambda s: at(s, b".gitmodules", FILE, s.blob(b'[submodule "x"]\n\tpath = x\n\turl = -u./p\n')),
    "gitmodules in other letters": lambda s: at(s, b"nodes/.GitModules", FILE, s.blob(b"x\n")),
    "an executable bit": lambda s: at(s, b"nodes/concept/x.yaml", PROGRAM, s.blob(NODE)),
    "a name with a line end": lambda s: at(s, b"nodes/concept/a\nb.yaml", FILE, s.blob(NODE)),
    "a name with a control character": lambda s: at(s, b"nodes/concept/a\x1b[2J.yaml", FILE, s.blob(NODE)),
    "a name that is no text": lambda s: at(s, b"nodes/concept/\xff.yaml", FILE, s.blob(NODE)),
    "a backslash": lambda s: at(s, b"nodes\\concept\\x.yaml", FILE, s.blob(NODE)),
    "a git folder": lambda s: at(s, b"nodes/.git/config", FILE, s.blob(b"[core]\n\tfsmonitor = touch ran\n")),
    "a git folder of Windows": lambda s: at(s, b"GIT~1/config", FILE, s.blob(b"x\n")),
    "dots": lambda s: at(s, b"nodes/../../x", FILE, s.blob(b"x\n")),
    "a file instead of nodes": lambda s: at(s, b"nodes", FILE, s.blob(b"x\n")),
    "attributes below the top": lambda s: at(s, b"nodes/.gitattributes", FILE, s.blob(b"* filter=evil\n")),
    "a huge file": lambda s: at(s, b"memories/x.md", FILE, s.zeros(80 << 20)),
    "a large file": lambda s: at(s, b"memories/x.md", FILE, s.blob(b"x" * (2 << 20))),
    "folders without end": lambda s: at(s, b"nodes/deep", FOLDER, deep(s, 3000)),
    "a bomb of trees": lambda s: at(s, b"nodes/bomb", FOLDER, s.bomb()),
    "a million entries": lambda s: at(s, b"nodes/many", FOLDER, s.tree([*_entries(1_000_000, s.blob(b"x\n"))])),
    "no settings": lambda s: s.commit(s.grafted("main:", b"kgd.yaml", None), "refs/heads/main"),
    "broken settings": lambda s: at(s, b"kgd.yaml", FILE, s.blob(b"workspace: [\n")),
}
SLOW = {"a million entries", "folders without end", "a huge file"}


@pytest.mark.parametrize("attack", ["a symbolic link", "a submodule", "an executable bit"])
def test_commits_fetched_by_the_user_are_vetted_too(shared: Person, smith: Smith, attack: str) -> None:
    tip, before = ATTACKS[attack](smith), shared.tip
    git(shared.tree, "fetch", "-q", "origin")
    assert git(shared.tree, "rev-parse", "origin/main") == tip
    (wait,) = shared.sync()["waits"]
    assert wait["kind"] == "refused"
    assert shared.tip == before


def attacked(shared: Person, smith: Smith, attack: str) -> None:
    tip = ATTACKS[attack](smith)
    before = shared.sync()["waits"][0] if attack == "no settings" else refused(shared, tip)
    assert before["next"], attack
    assert shared.stage("fetch")["state"] == "blocked", attack
    git(smith.git_dir, "update-ref", "refs/heads/main", shared.tip)


def test_each_is_refused_and_nothing_of_it_is_kept(shared: Person, smith: Smith) -> None:
    for attack in ATTACKS.keys() - SLOW:
        attacked(shared, smith, attack)
    assert shared.sync()["state"] == "ok", "a repaired remote is followed again"


@pytest.mark.slow
@pytest.mark.parametrize("attack", sorted(SLOW))
def test_a_large_one_is_refused_as_well(shared: Person, smith: Smith, attack: str) -> None:
    attacked(shared, smith, attack)


@pytest.mark.parametrize("newer", ["format", "merge_rules"])
def test_a_newer_format_is_not_merged_and_local_writes_continue(
    shared: Person, smith: Smith, hub: Path, newer: str
) -> None:
    settings = {"workspace": "infra", "format": 1, "merge_rules": 1, newer: 99}
    text = "".join(f"{key}: {value}\n" for key, value in settings.items()).encode()
    tip = at(smith, b"kgd.yaml", FILE, smith.blob(text))
    before = shared.tip
    (wait,) = shared.sync()["waits"]
    assert (wait["kind"], shared.tip) == ("newer", before)
    assert "99" in wait["reason"]
    assert "newer kgd" in wait["next"]
    assert shared.stage("fetch")["state"] == "blocked"
    shared.put("b", summary="still written")
    assert git(hub, "rev-parse", "main") == tip, "nothing is pushed onto it"
    git(shared.tree, "fetch", "-q", str(hub), "main")
    (wait,) = shared.sync()["waits"]
    assert wait["kind"] == "newer", "also once its commits are here"
    git(shared.tree, "update-ref", "refs/kgd/incoming-by-hand", tip)
    with pytest.raises(Unavailable, match="99"):
        shared.workspace.run(adoption.merge(shared.workspace, bytes.fromhex(tip)), alone=True)
    smith.commit(smith.grafted("main:", b"kgd.yaml", (FILE, smith.blob(text.replace(b"99", b"1")))), "refs/heads/main")
    assert shared.sync()["state"] == "ok"
    assert shared.has("b")


@pytest.mark.slow
def test_a_refused_tip_is_not_fetched_again(shared: Person, smith: Smith, hub: Path) -> None:
    at(smith, b"nodes/concept/x.yaml", LINK, smith.blob(b"/etc/passwd"))
    shared.sync()
    (runner,) = shared.daemon.syncing(shared.workspace)._runners.values()
    hub.joinpath("objects").rename(hub / "objects-away")  # a fetch finds no new commits
    (hub / "objects").mkdir()
    answer = runner.round("both", "", by_hand=False)
    assert isinstance(answer.error, Trouble)
    assert answer.error.kind == "refused"


@pytest.mark.slow
def test_a_slip_is_mended_by_a_further_commit(shared: Person, smith: Smith) -> None:
    """A later commit repairs an executable bit or a picture, without rewriting history."""
    at(smith, b"nodes/concept/x.yaml", PROGRAM, smith.blob(NODE))
    at(smith, b"large.bin", FILE, smith.blob(b"x" * (2 << 20)))
    assert shared.sync()["waits"][0]["kind"] == "refused"
    at(smith, b"nodes/concept/x.yaml", FILE, smith.blob(NODE))
    smith.commit(smith.grafted("main:", b"large.bin", None), "refs/heads/main")
    assert shared.sync()["state"] == "ok"
    assert shared.has("x")


@pytest.mark.slow
def test_a_link_in_the_middle_of_the_history_is_found(shared: Person, smith: Smith) -> None:
    at(smith, b"nodes/concept/x.yaml", LINK, smith.blob(b"/etc/passwd"))
    tip = smith.commit(smith.grafted("main:", b"nodes/concept/x.yaml", None), "refs/heads/main")
    assert "link" in refused(shared, tip)["reason"]


def test_a_case_twin_comes_in_and_is_a_conflict_or_a_node_beside(shared: Person, smith: Smith) -> None:
    at(smith, b"nodes/concept/A.yaml", FILE, smith.blob(b"uri: concept://infra/A\nsummary: twin\n"))
    assert shared.sync()["state"] == "ok"
    assert shared.has("a")
    assert shared.has("A")


@pytest.mark.slow
def test_a_blob_that_inflates_without_end_costs_little_memory(shared: Person, smith: Smith) -> None:
    """A quarter of a gigabyte of zeros is little on the way: git streams it, and we never read it."""
    at(smith, b"memories/x.md", FILE, smith.zeros(256 << 20))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert shared.sync()["waits"]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10


@pytest.mark.slow
def test_sizes_and_counts_are_asked_of_headers_before_anything_is_read(shared: Person, hub: Path) -> None:
    """The budgets themselves, on an honest history that is beyond small ones."""
    bob_tree = shared.folder / "clone"
    subprocess.run(["git", "clone", "-q", str(hub), str(bob_tree)], check=True)
    for number in range(4):
        (bob_tree / f"nodes/concept/n{number}.yaml").write_text(f"uri: concept://infra/n{number}\n")
    git(bob_tree, "add", "-A")
    git(bob_tree, "commit", "-qm", "four")
    git(bob_tree, "push", "-q")
    tip = bytes.fromhex(git(hub, "rev-parse", "main"))
    syncing = shared.daemon.syncing(shared.workspace)
    (runner,) = syncing._runners.values()
    for budget in (
        Budget(objects=3),
        Budget(bytes=100),
        Budget(blob=8),
        Budget(tree=8),
        Budget(changes=3),
        Budget(depth=1),
        Budget(name=2),
        Budget(file=3),
    ):
        with runner.transport().fetch({"refs/heads/main": tip}) as incoming, pytest.raises(Trouble):
            vet(incoming, tip, "infra", frozenset(), budget)
    with runner.transport().fetch({"refs/heads/main": tip}) as incoming:
        assert vet(incoming, tip, "infra", frozenset(), vetting.BUDGET)


@pytest.mark.slow
def test_fetched_objects_that_were_not_kept_are_removed(shared: Person, hub: Path, tmp_path: Path) -> None:
    scratch = scratch_repository(tmp_path / "scratch")
    with Incoming(scratch, shared.workspace.store, {}) as incoming:
        assert incoming.ids == frozenset()
        assert scratch.exists()
    assert not scratch.exists()


# ---- proposals


def test_proposals_of_the_remote_come_under_refs_of_their_own(shared: Person, hub: Path, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", str(hub), str(clone)], check=True)
    (clone / "nodes/concept/proposed.yaml").write_text("uri: concept://infra/proposed\nsummary: proposed\n")
    git(clone, "add", "-A")
    git(clone, "commit", "-qm", "please")
    git(clone, "push", "-q", "origin", "HEAD:refs/heads/proposals/from-billing")
    assert shared.sync()["proposals"] == 1
    proposed = git(clone, "rev-parse", "HEAD")
    assert git(shared.tree, "rev-parse", "refs/kgd/in/origin/proposals/from-billing") == proposed
    assert not shared.has("proposed")
    git(hub, "update-ref", "-d", "refs/heads/proposals/from-billing")
    shared.sync()
    assert "proposals" not in git(shared.tree, "for-each-ref")


@pytest.mark.slow
def test_a_hostile_proposal_keeps_nothing_else_from_coming(shared: Person, smith: Smith, hub: Path) -> None:
    git(hub, "update-ref", "refs/heads/proposals/evil", "main")
    evil = smith.grafted("main:", b"nodes/concept/x.yaml", (LINK, smith.blob(b"/etc/passwd")))
    made = smith.commit(evil, "refs/heads/proposals/evil")
    at(smith, b"nodes/concept/x.yaml", FILE, smith.blob(NODE))
    told = shared.sync()
    assert [one["kind"] for one in told["waits"]] == ["proposal"]
    assert shared.has("x")
    assert made not in git(shared.tree, "for-each-ref")
    assert shared.stage("fetch")["state"] == "degraded"


def test_a_proposal_cannot_name_itself_out_of_its_place(shared: Person, hub: Path) -> None:
    for name in ("x.lock/y", "-rf", "..", "a/../../../head", "%2e", "a b"):
        packed = hub / "packed-refs"
        line = f"{git(hub, 'rev-parse', 'main')} refs/heads/proposals/{name}\n"
        packed.write_text(
            (packed.read_text() if packed.exists() else "# pack-refs with: peeled fully-peeled sorted \n") + line
        )
    shared.published()  # the publication moves a branch as well
    before = git(shared.tree, "for-each-ref")
    shared.sync()
    assert git(shared.tree, "for-each-ref") == before


@pytest.mark.slow
def test_an_honest_workspace_of_some_size_passes(person: Callable[..., Person], tmp_path: Path) -> None:
    """The budgets are far from what people have."""
    ann, hub = person("ann"), bare(tmp_path / "large.git")
    for start in range(0, 2000, 500):
        changes = [
            {"op": "upsert", "uri": f"concept://infra/g{n % 40}/n{n}", "summary": f"{n}"}
            for n in range(start, start + 500)
        ]
        ann.call("put", changes=changes)
    ann.share(hub, sync=0)
    bob = person("bob")
    assert bob.share(hub, sync=0)["pulled"] == 4
    assert bob.tip == ann.tip
