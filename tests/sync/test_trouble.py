"""Remotes that do something else than hold what they were given: each is named, and nothing here is lost."""

from __future__ import annotations

import http.server
import os
import shutil
import signal
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kgd.errors import KgdError
from kgd.git.remote import PATIENCE
from kgd.git.remote_errors import Trouble
from tests.certificates import self_signed
from tests.sync.people import Person, bare, git
from tests.waiting import until

pytestmark = pytest.mark.slow

People = Callable[..., Person]


def waits(told: dict[str, object]) -> list[str]:
    found = told["waits"]
    assert isinstance(found, list)
    return [one["kind"] for one in found]


@pytest.fixture
def shared(ann: Person, hub: Path) -> Person:
    """Ann, with three nodes that are on the hub, synced by hand alone."""
    for number in range(3):
        ann.put(f"n{number}", summary=f"{number}")
    ann.share(hub, sync=0)
    return ann


# ---- its history is unrelated


def test_a_force_push_is_not_followed_and_the_old_tip_is_kept(shared: Person, hub: Path, tmp_path: Path) -> None:
    old = shared.tip
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", str(hub), str(clone)], check=True)
    git(clone, "reset", "-q", "--hard", "HEAD~2")
    (clone / "nodes/concept/other.yaml").write_text("uri: concept://infra/other\nsummary: other\n")
    git(clone, "add", "-A")
    git(clone, "commit", "-qm", "rewritten")
    git(clone, "push", "-qf")
    forced = git(hub, "rev-parse", "main")
    told = shared.sync()
    assert (told["state"], waits(told)) == ("diverged", ["diverged"])
    assert "blocked" in shared.stage("fetch")["state"]
    assert shared.tip == old
    assert not shared.has("other")
    assert git(hub, "rev-parse", "main") == forced, "nothing is pushed over it"
    kept = git(shared.tree, "for-each-ref", "--format=%(refname) %(objectname)", "refs/kgd/kept/")
    assert kept == f"refs/kgd/kept/origin/main/{old[:12]} {old}"
    again = shared.sync()
    assert again["state"] == "diverged", "it stays so until the user decides"
    confirmed = shared.sync(confirm=forced[:10])
    assert confirmed["state"] == "ok"
    assert shared.has("other")
    assert all(shared.has(f"n{n}") for n in range(3)), "nothing of either side is dropped"
    assert git(hub, "rev-parse", "main") == shared.tip
    assert shared.sync()["state"] == "ok"


def _reset(tree: Path) -> bool:
    """Whether it was done: git does not wait for a lock that kgd has while it places files."""
    command = ["git", "-C", str(tree), "reset", "-q", "--hard", "origin/main"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.mark.slow
def test_a_rewritten_history_can_be_accepted_by_a_reset_in_the_work_tree(
    shared: Person, hub: Path, tmp_path: Path
) -> None:
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", str(hub), str(clone)], check=True)
    git(clone, "reset", "-q", "--hard", "HEAD~1")
    (clone / "nodes/concept/other.yaml").write_text("uri: concept://infra/other\nsummary: other\n")
    git(clone, "add", "-A")
    git(clone, "commit", "-qm", "rewritten")
    git(clone, "push", "-qf")
    assert shared.sync()["state"] == "diverged"
    shared.published()
    until(lambda: (shared.tree / "nodes/concept/n2.yaml").exists())
    until(lambda: _reset(shared.tree))
    until(lambda: shared.has("other") and not shared.has("n2"))
    assert shared.sync()["state"] == "ok"
    assert git(hub, "rev-parse", "main") == shared.tip
    assert not shared.has("n2")
    assert shared.has("n1")


@pytest.mark.slow
def test_a_remote_that_was_put_back_by_a_step_is_no_reason_to_push_over_it(shared: Person, hub: Path) -> None:
    git(hub, "update-ref", "refs/heads/main", f"{shared.tip}~1")
    told = shared.sync()
    assert told["state"] == "diverged"
    assert git(hub, "rev-parse", "main") == git(shared.tree, "rev-parse", f"{shared.tip}~1")
    assert shared.sync(confirm="yes")["pushed"] == 1


@pytest.mark.slow
def test_a_confirmation_of_something_else_confirms_nothing(shared: Person, hub: Path) -> None:
    git(hub, "update-ref", "refs/heads/main", f"{shared.tip}~1")
    shared.sync()
    assert shared.sync(confirm="0123456789")["state"] == "diverged"


def test_a_remote_that_became_another_repository_is_refused(shared: Person, hub: Path, tmp_path: Path) -> None:
    tip = shared.tip
    shutil.rmtree(hub)
    bare(hub)
    other = tmp_path / "other"
    subprocess.run(["git", "init", "-q", "-b", "main", str(other)], check=True)
    (other / "kgd.yaml").write_text("workspace: infra\nformat: 1\nmerge_rules: 1\n")
    git(other, "add", ".")
    git(other, "commit", "-qm", "unrelated")
    git(other, "push", "-q", str(hub), "main")
    told = shared.sync()
    assert waits(told) == ["unrelated"]
    assert shared.tip == tip
    assert waits(shared.sync(confirm="yes")) == ["unrelated"], "no word makes one of two histories"
    assert git(hub, "rev-parse", "main") == git(other, "rev-parse", "HEAD")
    assert tip in git(shared.tree, "for-each-ref", "refs/kgd/kept/")


def test_another_workspace_is_refused_with_both_names_and_its_remote_is_not_kept(
    ann: Person, person: People, hub: Path
) -> None:
    person("bob", id="billing").share(hub)
    with pytest.raises(Trouble, match="holds the workspace 'billing', but this is 'infra'"):
        ann.share(hub)
    assert ann.call("remote")["remotes"] == []
    assert git(ann.tree, "remote") == ""


@pytest.mark.slow
def test_a_repository_of_code_is_not_a_workspace(ann: Person, hub: Path, tmp_path: Path) -> None:
    code = tmp_path / "code"
    subprocess.run(["git", "init", "-q", "-b", "main", str(code)], check=True)
    (code / "main.py").write_text("print()\n")
    git(code, "add", ".")
    git(code, "commit", "-qm", "code")
    git(code, "push", "-q", str(hub), "main")
    with pytest.raises(Trouble, match="does not contain a workspace"):
        ann.share(hub)
    assert git(hub, "rev-parse", "main") == git(code, "rev-parse", "HEAD")


def test_an_emptied_remote_is_not_filled_again_without_confirmation(shared: Person, hub: Path) -> None:
    git(hub, "update-ref", "-d", "refs/heads/main")
    told = shared.sync()
    assert (told["state"], waits(told)) == ("emptied", ["emptied"])
    assert git(hub, "for-each-ref") == ""
    assert shared.has("n0")
    assert shared.sync(confirm="yes")["state"] == "ok"
    assert git(hub, "rev-parse", "main") == shared.tip


@pytest.mark.parametrize("by", ["kgd", "git"])
def test_a_new_server_in_place_of_the_old_one_is_filled_without_a_question(
    shared: Person, hub: Path, tmp_path: Path, by: str
) -> None:
    if by == "git":
        git(shared.tree, "remote", "remove", "origin")
    else:
        shared.call("remote", action="remove", name="origin")
        assert git(shared.tree, "for-each-ref", "refs/kgd/in", "refs/remotes") == "", "its known tip is gone"
    told = shared.share(bare(tmp_path / "new.git"))
    assert (told["state"], told["waits"]) == ("ok", [])
    assert git(tmp_path / "new.git", "rev-parse", "main") == shared.tip
    assert git(hub, "rev-parse", "main"), "the old one is as it was"


def test_a_remote_that_vanished_is_named_and_works_again_when_it_is_back(shared: Person, hub: Path) -> None:
    hub.rename(hub.with_name("away"))
    told = shared.sync()
    assert waits(told) == ["vanished"]
    assert str(hub) in told["waits"][0]["reason"]
    assert shared.has("n0")
    hub.with_name("away").rename(hub)
    assert shared.sync()["state"] == "ok"


# ---- it deletes much


def test_a_sync_that_would_remove_much_is_held_until_confirmed(person: People, hub: Path) -> None:
    ann, bob = person("ann"), person("bob")
    for number in range(30):
        ann.put(f"n{number}", summary=f"{number}")
    ann.share(hub, sync=0)
    bob.share(hub, sync=0)
    ann.delete(*(f"n{n}" for n in range(12)))
    ann.sync()
    bob.put("mine", summary="meanwhile")
    told = bob.sync()
    assert (told["state"], waits(told)) == ("held", ["held"])
    assert "12 of 31 nodes" in told["waits"][0]["reason"]
    assert len(bob.workspace.graph) == 31
    assert bob.stage("fetch")["state"] == "blocked"
    commit = told["waits"][0]["commit"]
    assert commit == ann.tip
    assert bob.sync(confirm=commit)["state"] == "ok"
    assert len(bob.workspace.graph) == 19


@pytest.mark.slow
def test_many_nodes_that_moved_are_not_held(person: People, hub: Path) -> None:
    ann, bob = person("ann"), person("bob")
    for number in range(15):
        ann.put(f"n{number}", summary=f"{number}")
    ann.share(hub, sync=0)
    bob.share(hub, sync=0)
    moves = [{"op": "move", "uri": f"concept://infra/n{n}", "to": f"concept://infra/area/n{n}"} for n in range(15)]
    ann.call("put", changes=moves)
    ann.sync()
    assert bob.sync()["state"] == "ok"
    assert bob.has("area/n3")


# ---- it does not want


def test_a_protected_branch_is_a_blocker_with_the_servers_own_sentence(shared: Person, hub: Path) -> None:
    hook = hub / "hooks/pre-receive"
    hook.write_text("#!/bin/sh\necho 'main is protected: open a merge request' >&2\nexit 1\n")
    hook.chmod(0o755)
    shared.put("new", summary="x")
    told = shared.sync()
    assert (told["state"], waits(told)) == ("blocked", ["refused"])
    push = shared.stage("push")
    assert "main is protected: open a merge request" in push["blocker"]
    assert shared.stage("fetch")["state"] == "ok"
    assert "main is protected" in str(shared.call("doctor")["checks"])
    hook.unlink()
    assert shared.sync()["pushed"] == 1


@pytest.mark.parametrize("name", ["update", "reference-transaction"])
def test_any_hook_of_the_server_that_refuses_is_a_blocker_with_its_own_sentence(
    shared: Person, hub: Path, name: str
) -> None:
    hook = hub / "hooks" / name
    hook.write_text("#!/bin/sh\necho 'a ticket is missing' >&2\nexit 1\n")
    hook.chmod(0o755)
    shared.put("new", summary="x")
    assert waits(shared.sync()) == ["refused"]
    assert "the remote refused the push: a ticket is missing" in shared.stage("push")["blocker"]
    hook.unlink()
    assert shared.sync()["pushed"] == 1


def test_a_remote_with_sha256_is_named(ann: Person, tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--bare", "--object-format=sha256", "new.git")
    told = ann.call("remote", action="add", name="origin", url=str(tmp_path / "new.git"))
    assert "the remote has another object format (SHA-256), and kgd writes SHA-1" in str(told)


@pytest.mark.slow
def test_a_network_that_dies_in_the_middle_of_a_push_leaves_all_or_nothing(shared: Person, hub: Path) -> None:
    hook = hub / "hooks/pre-receive"
    hook.write_text("#!/bin/sh\nkill -9 $PPID\n")
    hook.chmod(0o755)
    before = git(hub, "rev-parse", "main")
    shared.put("new", summary="x")
    told = shared.sync()
    assert waits(told) == ["cut"], told
    assert git(hub, "rev-parse", "main") == before
    # The other way: the ref has moved, and the answer is lost.
    hook.unlink()
    after = hub / "hooks/post-receive"
    after.write_text("#!/bin/sh\nkill -9 $PPID\n")
    after.chmod(0o755)
    shared.sync()
    after.unlink()
    told = shared.sync()
    assert (told["state"], git(hub, "rev-parse", "main")) == ("ok", shared.tip)


# ---- it is reached over a network


@contextmanager
def listening(answer: Callable[[socket.socket], None]) -> Iterator[int]:
    """A server on a free port that hands every connection to `answer`."""
    server = socket.create_server(("127.0.0.1", 0))
    held: list[socket.socket] = []

    def accept() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            held.append(connection)
            threading.Thread(target=answer, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield server.getsockname()[1]
    finally:
        server.close()
        for connection in held:
            connection.close()


def test_a_remote_that_never_answers_is_given_up_on_and_its_programs_are_gone(ann: Person) -> None:
    with listening(lambda connection: None) as port:
        syncing = ann.daemon.syncing(ann.workspace)
        usual, syncing.patience = syncing.patience, 0.5
        began = time.monotonic()
        told = ann.share(f"http://127.0.0.1:{port}/infra.git", sync=0)
        assert time.monotonic() - began < usual
        assert waits(told) == ["hangs"]
        ann.put("a", summary="reads and writes go on")
        assert ann.has("a")
    running = subprocess.run(["pgrep", "-f", f"127.0.0.1:{port}"], capture_output=True, text=True, check=False)
    assert running.stdout == ""


@pytest.mark.slow
def test_closing_does_not_wait_for_a_remote_that_never_answers(ann: Person) -> None:
    reached = threading.Event()
    with listening(lambda connection: reached.set()) as port:
        registry = Path(ann.daemon.home.registry)
        registry.write_text(registry.read_text() + f"    remote: http://127.0.0.1:{port}/infra.git\n")
        ann.restart()
        assert reached.wait(60)
        began = time.monotonic()
        ann.daemon.close()
        assert time.monotonic() - began < PATIENCE / 2


def _redirecting(port_of_target: int) -> type[http.server.BaseHTTPRequestHandler]:
    class Redirect(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(302)
            self.send_header("Location", f"http://127.0.0.1:{port_of_target}{self.path}")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    return Redirect


@contextmanager
def web(handler: type[http.server.BaseHTTPRequestHandler], context: ssl.SSLContext | None = None) -> Iterator[int]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.handle_error = lambda *_: None  # type: ignore[method-assign]  # tests a client that disconnects
    if context:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


def test_a_redirect_is_not_followed_and_the_token_does_not_go_there(
    ann: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    class Thief(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(str(self.headers.get("Authorization")))
            self.send_error(404)

        def log_message(self, *_: object) -> None:
            pass

    monkeypatch.setenv("KGD_TEST_TOKEN", "opensesame123")
    with web(Thief) as thief, web(_redirecting(thief)) as port:
        told = ann.share(f"http://127.0.0.1:{port}/infra.git", sync=0, token="env:KGD_TEST_TOKEN")
    assert waits(told) == ["redirect"]
    assert asked == []


def test_a_token_goes_in_the_header_alone(ann: Person, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Not into an address, an argument, a configuration, a log or an answer."""
    seen: list[tuple[str, str | None]] = []
    lines: list[str] = []

    class Git(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append((self.path, self.headers.get("Authorization")))
            listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=False).stdout
            lines.extend(listed.splitlines())
            self.send_error(403)

        def log_message(self, *_: object) -> None:
            pass

    monkeypatch.setenv("KGD_TEST_TOKEN", "opensesame123")
    with web(Git) as port:
        told = ann.share(f"http://127.0.0.1:{port}/infra.git", sync=0, token="env:KGD_TEST_TOKEN")
    assert waits(told) == ["credentials"]
    assert "--token env:NAME" in told["waits"][0]["next"]
    assert "ssh" not in told["waits"][0]["next"]
    assert seen
    assert all(header and header.startswith("Basic ") for _, header in seen)
    import base64

    encoded = base64.b64encode(b"x-access-token:opensesame123").decode()
    assert seen[0][1] == f"Basic {encoded}"
    assert any("git" in line and str(port) in line for line in lines), "the programs were looked at"
    written = [file.read_bytes() for file in (*tmp_path.rglob("*"),) if file.is_file()]
    for secret in ("opensesame123", encoded):
        assert secret not in str(told)
        assert not any(secret in line for line in lines)
        assert not any(secret.encode() in data for data in written)


@pytest.mark.requirement("B4")
def test_the_registrys_token_goes_to_its_own_address_and_to_no_other(
    ann: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[int, set[str | None]] = {}

    class Git(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.setdefault(self.server.server_port, set()).add(self.headers.get("Authorization"))  # type: ignore[attr-defined]
            self.send_error(403)

        def log_message(self, *_: object) -> None:
            pass

    monkeypatch.setenv("KGD_TEST_TOKEN", "opensesame123")
    with web(Git) as mine, web(Git) as other:
        registry = Path(ann.daemon.home.registry)
        lines = f"    remote: http://127.0.0.1:{mine}/infra.git\n    token: env:KGD_TEST_TOKEN\n    sync: 0\n"
        registry.write_text(registry.read_text() + lines)
        ann.call("remote", action="add", name="other", url=f"http://127.0.0.1:{other}/infra.git", sync=0)
        ann.call("sync")
    assert seen[other] == {None}
    assert all(header and header.startswith("Basic ") for header in seen[mine])


@pytest.mark.slow
def test_an_unknown_certificate_is_refused_regardless_of_the_environment(
    ann: Person, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cert, key = self_signed(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    monkeypatch.setenv("GIT_SSL_NO_VERIFY", "1")
    config = Path(os.environ["HOME"], ".gitconfig")
    config.write_text(config.read_text() + "[http]\n\tsslVerify = false\n")
    asked: list[str] = []

    class Git(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(403)

        def log_message(self, *_: object) -> None:
            pass

    with web(Git, context) as port:
        told = ann.share(f"https://127.0.0.1:{port}/infra.git", sync=0)
    assert waits(told) == ["certificate"]
    assert asked == []


BAD_URLS = (
    "ext::sh -c touch% ran",
    "--upload-pack=touch ran",
    "-oProxyCommand=touch ran",
    "https://ann:secret@example.org/x",
    "https://token@example.org/x",
    "ssh://-oProxyCommand=touch/x",
    "-x@example.org:y",
    "https://example.org/x\ny",
    "ftp://example.org/x",
    "http://example.org/x",
    "fd::17/x",
    "",
    "https://",
    "ssh://ann:secret@example.org/x",
    "https://example.org/x?token=secret",
    "https://example.org/x?",
    "https://example.org/x#secret",
    "ssh://git@example.org/x?token=secret",
)


def test_addresses_that_git_could_take_for_something_else_or_that_hold_a_secret_are_refused(ann: Person) -> None:
    for url in BAD_URLS:
        with pytest.raises(KgdError) as refused:
            ann.share(url)
        assert refused.value.code == "VALIDATION_ERROR", url
        assert "secret" not in str(refused.value)
    assert ann.call("remote")["remotes"] == []
    assert not (ann.tree / "ran").exists()


@pytest.mark.slow
def test_a_stop_in_the_middle_of_a_push_leaves_no_lock_in_a_remote_on_this_machine(shared: Person, hub: Path) -> None:
    lock, hook = hub / "refs/heads/main.lock", hub / "hooks/reference-transaction"
    hook.write_text("#!/bin/sh\ntest $1 != prepared || exec sleep 60\n")
    hook.chmod(0o755)
    shared.put("a", summary="a")
    pushing = threading.Thread(target=lambda: shared.call("sync"))
    pushing.start()
    until(lock.exists)
    shared.daemon.close()
    pushing.join()
    assert not lock.exists()
    hook.unlink()
    shared.restart()
    assert shared.sync()["state"] == "ok"
    assert git(hub, "rev-parse", "main") == shared.tip


@pytest.mark.slow
def test_a_lock_that_was_left_in_a_remote_is_named_and_the_push_succeeds_without_it(shared: Person, hub: Path) -> None:
    lock = hub / "refs/heads/main.lock"
    lock.touch()
    shared.put("a", summary="a")
    (wait,) = shared.sync()["waits"]
    assert (wait["kind"], "contains refs/heads/main.lock" in wait["reason"]) == ("locked", True)
    assert "remove this file" in wait["next"]
    lock.unlink()
    assert shared.sync()["state"] == "ok"


@pytest.mark.slow
def test_a_killed_round_leaves_nothing_behind(shared: Person, hub: Path) -> None:
    """Its scratch repository goes with the next start, and what it had fetched is fetched again."""
    left = shared.workspace.layout.derived_dir / "sync" / "net-left"
    (left / "objects").mkdir(parents=True)
    shared.restart()
    shared.call("status")
    assert not left.exists()
    assert shared.sync()["state"] == "ok"


@pytest.mark.slow
def test_a_silent_death_of_git_is_not_a_success(
    shared: Person, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A program that is killed without output: reported, and tried again."""
    shared.put("a", summary="a")
    fake = tmp_path / "bin"
    fake.mkdir()
    (fake / "git").write_text(f"#!/bin/sh\nkill -{int(signal.SIGKILL)} $$\n")
    (fake / "git").chmod(0o755)
    path = os.environ["PATH"]
    monkeypatch.setenv("PATH", f"{fake}:{path}")
    told = shared.sync()
    assert told["waits"], told
    monkeypatch.setenv("PATH", path)
    assert shared.sync()["pushed"] == 1
