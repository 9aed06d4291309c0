"""A server's `pre-receive` judges what a push changes as a whole, and each commit that it brings."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hooks.conftest import ROOT, Person, clone
from tests.sshd import Sshd

pytestmark = pytest.mark.slow

KEPT_BY_HUBS = ("refs/kgd/pending/ws/x", "refs/kgd/revoked")
INFRA = "infra/dns"
APP = "app/z"

BILLING = {
    "id": "t1",
    "name": "billing",
    "kind": "agent",
    "scopes": [{"workspace": "ws", "verbs": ["write"], "paths": ["/infra/**"]}],
}
_AS = """\
#!/bin/sh
KGD_PRINCIPAL='{principal}'
PYTHONPATH='{path}'
export KGD_PRINCIPAL PYTHONPATH
exec sh -c "$SSH_ORIGINAL_COMMAND"
"""


class Server:
    """A bare repository with kgd's hooks, and what a scoped person pushes to."""

    def __init__(self, bare: Path, url: str, folder: Path) -> None:
        self.bare, self.url, self._folder = bare, url, folder

    def clone(self, name: str, environment: dict[str, str]) -> Person:
        person = Person(clone(self.bare, self._folder / name).tree, environment)
        person.git("remote", "set-url", "origin", self.url)
        return person

    def git(self, *words: str) -> str:
        return Person(self.bare).git(*words)


over_ssh_too = pytest.mark.parametrize(
    "server", ["file", pytest.param("ssh", marks=[pytest.mark.needs("sshd"), pytest.mark.slow])], indirect=True
)


@pytest.fixture
def server(request: pytest.FixtureRequest, upstream: Path, tmp_path: Path) -> Iterator[Server]:
    """A directory, or over ssh on request: the check does not depend on the transport."""
    Person(upstream).kgd("install")
    if getattr(request, "param", "file") == "file":
        yield Server(upstream, str(upstream), tmp_path)
        return
    (tmp_path / "as-billing").write_text(_AS.format(principal=json.dumps(BILLING), path=ROOT))
    (tmp_path / "as-billing").chmod(0o755)
    sshd = Sshd(tmp_path / "ssh", forced=str(tmp_path / "as-billing"))
    request.getfixturevalue("monkeypatch").setenv("GIT_SSH_COMMAND", sshd.command)
    yield Server(upstream, sshd.url(upstream), tmp_path)
    sshd.stop()


@pytest.fixture
def billing(server: Server) -> Person:
    """May write below /infra, and nowhere else."""
    return server.clone("billing", {"KGD_PRINCIPAL": json.dumps(BILLING)})


@pytest.fixture
def owner(server: Server) -> Person:
    """A pusher that the server does not name."""
    return Server(server.bare, str(server.bare), server.bare.parent).clone("owner", {})


def refused(person: Person, *words: str, because: str) -> None:
    """The push is refused with one sentence, and nothing of it stays on the server."""
    done = person.run("git", "push", *words)
    assert done.returncode != 0, done.stdout + done.stderr
    assert because in done.stderr, done.stderr


@over_ssh_too
def test_a_change_inside_the_scope_is_taken(server: Server, billing: Person) -> None:
    billing.write(INFRA, name="dns", summary="two")
    billing.commit()
    billing.git("push", "-q", "origin", "HEAD:main")
    assert server.git("rev-parse", "main").strip() == billing.head()


def test_a_refusal_names_the_node_that_cannot_be_proposed_either(server: Server) -> None:
    scopes = [{"workspace": "ws", "verbs": ["propose"], "paths": ["/infra/**"]}]
    billing = server.clone("proposing", {"KGD_PRINCIPAL": json.dumps({**BILLING, "scopes": scopes})})
    billing.write("z/b", name="mine")
    billing.write(INFRA, name="dns", summary="two")
    billing.commit()
    refused(billing, "origin", "HEAD:main", because="may not write concept://ws/z/b: no scope of its token")


@over_ssh_too
@pytest.mark.requirement("B5")
def test_a_change_outside_is_refused_with_the_node_and_the_rule_and_leaves_nothing(
    server: Server, billing: Person
) -> None:
    billing.write(APP, name="mine")
    billing.commit()
    refused(billing, "origin", "HEAD:main", because="'billing' may not write concept://ws/app/z: no scope of its token")
    assert server.git("cat-file", "--batch-check", "--batch-all-objects").find(billing.head()) < 0
    assert not list((server.bare / "objects").glob("*incoming*"))


def test_a_change_outside_that_a_later_commit_takes_back_is_refused(billing: Person) -> None:
    billing.write(APP, name="mine")
    billing.commit()
    billing.git("revert", "--no-edit", "HEAD")
    billing.write(INFRA, name="dns", summary="two")
    billing.commit()
    refused(billing, "origin", "HEAD:main", because="concept://ws/app/z")


@pytest.mark.slow
def test_a_node_of_others_cannot_be_moved_into_the_scope(billing: Person) -> None:
    billing.git("rm", "-q", f"nodes/concept/{APP}.yaml")
    billing.write("infra/z", name="app/z", summary="one", content="first")
    billing.commit()
    refused(billing, "origin", "HEAD:main", because="concept://ws/app/z")


@pytest.mark.slow
@pytest.mark.parametrize("ref", ["refs/heads/other", "refs/tags/v1", "refs/kgd/head", *KEPT_BY_HUBS])
def test_no_other_ref_is_made(billing: Person, ref: str) -> None:
    billing.write(INFRA, name="dns", summary="two")
    billing.commit()
    refused(billing, "origin", f"HEAD:{ref}", because="this ref cannot be pushed to")


@pytest.mark.slow
@pytest.mark.parametrize("ref", KEPT_BY_HUBS)
@pytest.mark.parametrize("is_named", [False, True])
def test_hubs_that_may_write_everything_keep_their_refs_there(server: Server, ref: str, is_named: bool) -> None:
    everything = [{"workspace": "ws", "verbs": ["write"], "paths": ["/**"]}]
    named = {"KGD_PRINCIPAL": json.dumps({**BILLING, "name": "hub", "scopes": everything})}
    hub = server.clone("hub", named if is_named else {})
    hub.git("push", "-q", "origin", f"HEAD:{ref}")
    hub.git("push", "-q", "origin", f":{ref}")


@pytest.mark.slow
def test_history_is_not_rewritten(billing: Person) -> None:
    billing.write(INFRA, name="dns", summary="other")
    billing.git("commit", "-qa", "--amend", "--no-edit")
    refused(billing, "--force", "origin", "HEAD:main", because="history cannot be rewritten")


@pytest.mark.slow
def test_the_branch_is_not_deleted(billing: Person) -> None:
    refused(billing, "origin", ":main", because="cannot be deleted")


@pytest.mark.slow
def test_a_merge_of_commits_that_the_server_already_has_is_accepted(
    server: Server, billing: Person, owner: Person
) -> None:
    owner.write(APP, name="theirs")
    owner.commit()
    owner.git("push", "-q", "origin", "HEAD:main")
    billing.write(INFRA, name="dns", summary="two")
    billing.commit()
    billing.git("pull", "-q", "--no-rebase", "--no-edit", str(server.bare), "main")
    billing.git("push", "-q", "origin", "HEAD:main")
    assert server.git("rev-parse", "main").strip() == billing.head()


@pytest.mark.slow
def test_a_merge_that_changes_something_on_the_way_is_refused(server: Server, billing: Person, owner: Person) -> None:
    owner.write("x", name="theirs")
    owner.commit()
    owner.git("push", "-q", "origin", "HEAD:main")
    billing.write(INFRA, name="dns", summary="two")
    billing.commit()
    billing.git("fetch", "-q", str(server.bare), "main")
    billing.git("merge", "-q", "--no-commit", "FETCH_HEAD")
    billing.write(APP, name="hidden in the merge")
    billing.commit("merge")
    refused(billing, "origin", "HEAD:main", because="concept://ws/app/z")


@over_ssh_too
def test_a_merge_that_drops_others_changes_is_refused(server: Server, billing: Person, owner: Person) -> None:
    owner.write(APP, name="theirs")
    owner.commit()
    owner.git("push", "-q", "origin", "HEAD:main")
    billing.write(INFRA, name="dns", summary="two")
    billing.commit()
    billing.git("fetch", "-q", str(server.bare), "main")
    billing.git("merge", "-q", "-s", "ours", "--no-edit", "FETCH_HEAD")
    refused(billing, "origin", "HEAD:main", because="concept://ws/app/z")


# Proposals, and what the policy lets people do


PROPOSER = {**BILLING, "scopes": [{"workspace": "ws", "verbs": ["propose"], "paths": ["/infra/**"]}]}


@pytest.fixture
def plain(upstream: Path, tmp_path: Path) -> Server:
    Person(upstream).kgd("install")
    return Server(upstream, str(upstream), tmp_path)


@pytest.mark.slow
def test_a_holder_who_may_only_propose_learns_where_and_proposes_inside_the_scope(plain: Server) -> None:
    agent = plain.clone("agent", {"KGD_PRINCIPAL": json.dumps(PROPOSER)})
    agent.write(INFRA, name="dns", summary="proposed")
    agent.commit()
    refused(agent, "origin", "HEAD:main", because="Push it to proposals/<your name> instead")
    agent.git("push", "-q", "origin", "HEAD:refs/heads/proposals/dns")
    assert plain.git("rev-parse", "proposals/dns").strip() == agent.head()
    agent.write(APP, name="outside")
    agent.commit()
    agent.git("revert", "--no-edit", "HEAD")
    refused(agent, "origin", "HEAD:refs/heads/proposals/more", because="may not propose concept://ws/app/z")
    agent.git("push", "-q", "origin", ":refs/heads/proposals/dns")


@pytest.mark.slow
def test_the_policy_applies_to_unnamed_people(plain: Server, tmp_path: Path) -> None:
    owner = plain.clone("owner", {})
    with (owner.tree / "kgd.yaml").open("a") as settings:
        settings.write("policy:\n- paths:\n  - /app/**\n  people: propose\n")
    owner.commit("policy")
    owner.git("push", "-q", "origin", "HEAD:main")
    owner.write(INFRA, name="dns", summary="two")
    owner.commit()
    owner.git("push", "-q", "origin", "HEAD:main")
    owner.write(APP, name="new")
    owner.commit()
    refused(owner, "origin", "HEAD:main", because="the policy lets people only propose on /app/**")
    owner.git("push", "-q", "origin", "HEAD:refs/heads/proposals/z")
    owner.git("push", "-q", "origin", "HEAD:refs/heads/of-their-own", "HEAD:refs/tags/v1")


@pytest.mark.slow
def test_a_restricted_holder_cannot_lift_the_policy(billing: Person) -> None:
    with (billing.tree / "kgd.yaml").open("a") as settings:
        settings.write("policy:\n- paths:\n  - /**\n  agents: write\n")
    billing.commit()
    refused(billing, "origin", "HEAD:main", because="may not change kgd.yaml")


@pytest.mark.slow
def test_an_expired_and_a_garbled_right_refuse_everything(plain: Server) -> None:
    for claim, said in (({**BILLING, "expires": 1.0}, "has expired"), ("garbage", "token's holder")):
        person = plain.clone(said.split()[0], {"KGD_PRINCIPAL": json.dumps(claim)})
        person.write(INFRA, name="dns", summary="two")
        person.commit()
        refused(person, "origin", "HEAD:main", because=said)


@pytest.mark.slow
def test_a_foreign_pre_receive_is_asked_first_and_may_protect_the_branch(upstream: Path, bob: Person) -> None:
    hook = upstream / "hooks" / "pre-receive"
    hook.write_text("#!/bin/sh\nread old new ref\n[ $ref != refs/heads/main ] || { echo protected branch; exit 1; }\n")
    hook.chmod(0o755)
    Person(upstream).kgd("install")
    bob.write("x", name="mine")
    bob.commit()
    refused(bob, "origin", "HEAD:main", because="protected branch")
    bob.git("push", "-q", "origin", "HEAD:refs/heads/proposals/x")
    bob.git("pull", "-q")
    assert "name: mine" in bob.file("x").read_text()


@pytest.mark.slow
def test_code_beside_the_workspace_is_not_checked(tmp_path: Path, template: Path, programs: Path) -> None:
    bare = tmp_path / "shop.git"
    Person(tmp_path).git("init", "-q", "--bare", "--template=", str(bare))
    (bare / "hooks").mkdir()
    assert "every push to" in Person(bare).kgd("install")
    code = Person(tmp_path / "shop")
    code.tree.mkdir()
    code.git("init", "-q", "--template=")
    code.git("remote", "add", "origin", str(bare))
    (code.tree / "run.sh").write_text("#!/bin/sh\n")
    (code.tree / "run.sh").chmod(0o755)
    code.commit("code")
    code.git("push", "-q", "origin", "HEAD:main")
    code.git("fetch", "-q", str(template), "main:knowledge")
    code.git("push", "-q", "origin", "knowledge:kgd")
    code.git("switch", "-q", "knowledge")
    code.write("x", name="mine")
    code.commit()
    code.git("push", "-q", "origin", "HEAD:kgd")
    Person(bare).kgd("uninstall")
    assert list((bare / "hooks").iterdir()) == []
    Person(bare).kgd("install")
    code.file("x").write_text("uri: concept://ws/x\nname: one\nname: two\n")
    code.commit()
    refused(code, "origin", "HEAD:kgd", because="nodes/concept/x.yaml:3")
    refused(code, "origin", "HEAD:kgd-proposals/x", because="nodes/concept/x.yaml:3")
    code.git("push", "-q", "origin", "main:proposals/of-the-code")
    code.git("switch", "-q", "main")
    (code.tree / "run.sh").write_text("<<<<<<< any file\n")
    code.commit()
    code.git("push", "-q", "origin", "HEAD:main")
