"""SSH keys: kgd and OpenSSH accept each other's signatures, and refuse those of other keys, texts and uses."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kgd.errors import Unavailable
from kgd.signatures import keys, parse_signers, public_key, public_text
from tests.ssh_keys import allow, new_key, public

pytestmark = [pytest.mark.needs("ssh-keygen"), pytest.mark.requirement("N8")]

KINDS = {
    "ed25519": ("-t", "ed25519"),
    "ecdsa": ("-t", "ecdsa", "-b", "384"),
    "rsa": ("-t", "rsa", "-b", "2048"),
    "rsa-pem": ("-t", "rsa", "-b", "2048", "-m", "PEM"),
}
TEXT = b"tree 0\n\nmessage\n"


def ssh_sign(key: Path, text: bytes = TEXT, use: str = "git") -> str:
    command = ["ssh-keygen", "-Y", "sign", "-q", "-n", use, "-f", str(key)]
    return subprocess.run(command, input=text, capture_output=True, check=True).stdout.decode()


@pytest.mark.parametrize("kind", KINDS)
def test_openssh_and_kgd_accept_each_others_signatures(tmp_path: Path, kind: str) -> None:
    path = new_key(tmp_path, "ann", *KINDS[kind])
    key = keys.load(path, {})
    assert public_text(key.public) == public(path)
    assert keys.check(ssh_sign(path), TEXT) == key.public
    (tmp_path / "sig").write_text(key.sign(TEXT) + "\n")
    (tmp_path / "list").write_text(allow(path))
    command = ["ssh-keygen", "-Y", "verify", "-n", "git", "-I", "ann@example.org"]
    words = [*command, "-f", str(tmp_path / "list"), "-s", str(tmp_path / "sig")]
    subprocess.run(words, input=TEXT, check=True, capture_output=True)


def test_a_signature_of_another_text_or_use_is_refused(tmp_path: Path) -> None:
    path = new_key(tmp_path, "ann")
    for signature, text in ((ssh_sign(path), b"other"), (ssh_sign(path, use="file"), TEXT)):
        with pytest.raises(keys.WrongSignature):
            keys.check(signature, text)
    good = ssh_sign(path).splitlines()
    for bad in ("\n".join([good[0], good[-1]]), "\n".join([*good[:2], good[-1]]), "\n".join([good[0], "!", good[-1]])):
        with pytest.raises(keys.WrongSignature):
            keys.check(bad, TEXT)
    with pytest.raises(keys.UnknownSignature, match="not an SSH signature"):
        keys.check("-----BEGIN PGP SIGNATURE-----", TEXT)


def test_a_key_that_cannot_sign_is_refused_with_a_next_step(tmp_path: Path) -> None:
    locked, text = tmp_path / "locked", tmp_path / "text"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "secret", "-f", str(locked)], check=True)
    text.write_text("hello")
    for path, reason in ((locked, "encrypted"), (text, "not an SSH key"), (tmp_path / "absent", "cannot be read")):
        with pytest.raises(Unavailable, match=reason) as refusal:
            keys.load(path, {})
        assert refusal.value.next


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of a session with an SSH agent."""
    socket = tmp_path / "agent"
    process = subprocess.Popen(["ssh-agent", "-D", "-a", str(socket)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()  # it names the socket once it listens
    yield {"SSH_AUTH_SOCK": str(socket), "PATH": "/usr/bin:/bin"}
    process.terminate()
    process.wait()
    process.stdout.close()


def test_a_key_that_only_an_agent_holds_signs(tmp_path: Path, agent: dict[str, str]) -> None:
    path = new_key(tmp_path, "ann")
    subprocess.run(["ssh-add", "-q", str(path)], env=agent, check=True, capture_output=True)
    path.unlink()
    key = keys.load(path.with_name("ann.pub"), agent)
    assert keys.check(key.sign(TEXT), TEXT) == key.public
    subprocess.run(["ssh-add", "-q", "-D"], env=agent, check=True, capture_output=True)
    with pytest.raises(Unavailable, match="agent did not sign"):
        key.sign(TEXT)


def test_a_line_allows_a_key_for_its_use_and_time(tmp_path: Path) -> None:
    path = new_key(tmp_path, "ann")
    key = public_key(public(path))
    for options, when, is_allowed in (
        ("", 0, True),
        ('namespaces="git"', 0, True),
        ('namespaces="file,g*"', 0, True),
        ('namespaces="file"', 0, False),
        ('valid-after="20260101Z"', 1_767_225_599, False),
        ('valid-after="20260101Z",valid-before="20270101Z"', 1_767_225_600, True),
        ('valid-before="202601010000Z"', 1_767_225_600, False),
    ):
        found = parse_signers(allow(path, options=options).encode())
        assert found.problems == ()
        assert (found.find(key, when) == "ann@example.org") is is_allowed, options


def test_a_line_that_cannot_be_read_allows_nothing_and_is_reported(tmp_path: Path) -> None:
    text = f"# a comment\n\nann\nbob cert-authority {public(new_key(tmp_path, 'ann'))}\ncarl ssh-ed25519 AAAA\n"
    found = parse_signers(text.encode())
    assert found.lines == ()
    assert [problem.partition(": ")[0] for problem in found.problems] == [f"allowed_signers:{n}" for n in (3, 4, 5)]
