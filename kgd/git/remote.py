"""Access to other repositories: list their refs, fetch, push. The only module that uses the network.

The git program does the transfer with the user's environment (proxies, ssh agent and configuration). Every option that
would let a remote or a repository make git do more is turned off: there are no prompts, credential helpers, redirects
or other protocols. Certificates and host keys are checked; time, bytes and memory are limited; and the process group is
killed as a whole. A token is passed only in the environment of that one program, never in an address, argument or file.
"""

from __future__ import annotations

import base64
import contextlib
import os
import re
import shlex
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kgd.errors import Damaged, KgdError, Limit, Unavailable
from kgd.git import discovery, program, refs
from kgd.git.incoming import Incoming, copied, quoted, scratch_repository
from kgd.git.objects import ObjectId, parse_id
from kgd.git.program import Bounds, GitFailed, Person
from kgd.git.refs import RefUpdate
from kgd.git.remote_errors import PUSHED, LostRace, Trouble, of_failure, of_push
from kgd.git.remote_settings import HTTP, HTTPS, SSH, RemoteUrl
from kgd.git.store import ObjectStore

PATIENCE = 30.0
"""Seconds without progress after which a program that talks to a remote is killed."""
TOTAL = 3600.0
"""Maximum seconds of one fetch or push."""
PACK_BYTES = 2 << 30
MEMORY_BYTES = 4 << 30
LISTING_LIMIT = 4 << 20
REFS_LIMIT = 10_000
HAVES_LIMIT = 64

_SWITCHES = (
    "credential.helper=",
    "core.askPass=",
    "http.followRedirects=false",
    "http.sslVerify=true",
    "http.cookieFile=",
    "http.emptyAuth=false",
    "http.delegation=none",
    "fetch.unpackLimit=1",
    "transfer.unpackLimit=1",
    "fetch.writeCommitGraph=false",
    "fetch.negotiationAlgorithm=default",
    "push.gpgSign=false",
    "push.followTags=false",
    "core.bigFileThreshold=1m",
    "core.alternateRefsCommand=:",
    "pack.threads=1",
    "core.fsync=none",  # fetched objects are flushed when they leave the scratch repository
)
_SSH_OPTIONS = (
    "BatchMode=yes",
    "StrictHostKeyChecking=yes",
    "ForwardAgent=no",
    "ForwardX11=no",
    "ClearAllForwardings=yes",
    "PermitLocalCommand=no",
    "ControlMaster=no",
    "ConnectTimeout=10",
    "ServerAliveInterval=10",
    "ServerAliveCountMax=3",
)

Progress = Callable[[int, int | None, str], None]

_STEPS = re.compile(
    rb"(Counting|Compressing|Receiving|Writing|Unpacking|Resolving) (objects|deltas): +\d+% \((\d+)/(\d+)\)"
).finditer


@dataclass(frozen=True, slots=True)
class Network:
    """How to reach a remote: the user's environment, the credential itself (empty for none), and limits."""

    environment: Mapping[str, str] = field(default_factory=dict)
    secret: str = field(default="", repr=False)
    patience: float = PATIENCE
    total: float = TOTAL
    pack_bytes: int = PACK_BYTES
    memory_bytes: int = MEMORY_BYTES
    stop: threading.Event | None = None
    progress: Progress | None = None
    """Called with the steps of a transfer, in another thread."""


class GitRemote:
    """One remote of one repository.

    Args:
        home: The repository to share. Fetched objects first go to a folder below it.
    """

    def __init__(self, url: RemoteUrl, home: ObjectStore, network: Network) -> None:
        self.url, self._home, self.network = url, home, network
        self._scratch = home.git_dir / "kgd" / "sync"
        self._empty: Path | None = None

    def ls(self, ref: str, prefix: str = "") -> dict[str, ObjectId]:
        """The value of the remote's `ref`, and its refs with `prefix`; absent refs are left out.

        The refs of a remote in a directory are read as files if possible; otherwise git is asked.

        Raises:
            Trouble: The remote cannot be asked.
        """
        if (there := self._read(ref, prefix)) is not None:
            return there
        patterns = [ref, f"{prefix}*"] if prefix else [ref]
        output = self._run(self._asking(), ["ls-remote", "--quiet", "--refs", "--", self.url.text, *patterns])
        found: dict[str, ObjectId] = {}
        for line in output.decode("utf-8", "replace").splitlines():
            id, _, name = line.partition("\t")
            if name == ref or (prefix and name.startswith(prefix)):
                found[name] = _id(id)
            if len(found) > REFS_LIMIT:
                raise Trouble("limit", f"the remote has more than {REFS_LIMIT} refs for kgd")
        return found

    def fetch(self, wanted: Mapping[str, ObjectId]) -> Incoming:
        """Fetch these refs into a scratch repository; use the result as a context manager.

        The result holds every object that our refs do not protect, even if our repository happens to have it.

        Raises:
            Trouble: The refs cannot be fetched, or exceed the limits.
        """
        haves = self._haves()
        if not all(map(self._home.exists, wanted.values())):
            incoming = self._download(wanted, haves)
            if all(map(incoming.is_new, incoming.tips.values())):
                return incoming
            wanted = incoming.tips
            incoming.close()
        with contextlib.suppress(GitFailed):
            return copied(self._home, self._scratch, wanted, haves)
        return self.fetch_whole(wanted)

    def fetch_whole(self, wanted: Mapping[str, ObjectId]) -> Incoming:
        """Like `fetch`, but without relying on our objects: the whole history is transferred.

        Raises:
            Trouble: As `fetch`, or the remote also lacks objects of these refs.
        """
        with self._download(wanted, ()) as whole:
            try:
                return copied(self._home, self._scratch, whole.tips, self._haves(), beside=whole)
            except GitFailed as failed:
                raise of_failure(failed, self.url) from None

    def fetch_missing(self, wanted: Mapping[str, ObjectId], tip: ObjectId) -> Incoming:
        """Fetch the objects reachable from our `tip` that are missing here and reachable from these refs of the
        remote.

        Raises:
            Trouble: The remote cannot be asked.
            GitFailed: An object is missing on the remote as well.
        """
        with self._download(wanted, ()) as whole:
            return copied(self._home, self._scratch, {refs.HEAD: tip}, (), beside=whole, missing=True)

    def _download(self, wanted: Mapping[str, ObjectId], haves: Sequence[ObjectId]) -> Incoming:
        """Fetch into a repository that has `haves`; if there are none, none of our objects is used."""
        scratch = scratch_repository(self._scratch, haves)
        try:
            arguments = [
                "fetch",
                "--progress",
                "--no-tags",
                "--no-write-fetch-head",
                "--refmap=",
                "--no-prune",
                "--no-auto-maintenance",
                "--",
                self.url.text,
            ]
            arguments += [f"+{ref}:refs/in/{number}" for number, ref in enumerate(wanted)]
            self._run(scratch, arguments, borrows=bool(haves))
            tips = {}
            for number, ref in enumerate(wanted):
                tip = refs.read_ref(scratch, f"refs/in/{number}")
                if tip is None:
                    raise Trouble("gone", "the remote no longer has the ref that was to be fetched")
                tips[ref] = tip
            return Incoming(scratch, self._home, tips)
        except BaseException:
            shutil.rmtree(scratch, ignore_errors=True)
            raise

    def push(self, ref: str, old: ObjectId | None, new: ObjectId, also: Sequence[RefUpdate] = ()) -> str | None:
        """Move the remote's `ref` from `old` (None: it does not exist) to `new`, a descendant of `old`. The push
        happens completely or not at all, together with the updates of `also`.

        Returns the ref that the server used instead, such as a proposal's; None if the server used `ref` itself.

        Raises:
            LostRace: A ref has changed in the meantime, even if to `new`.
            Trouble: The push was refused (the message quotes the server), or the remote cannot be reached. After a lost
                connection, ask the remote for its state.
        """
        output = self._push([RefUpdate(ref, old, new), *also]).decode("utf-8", "replace")
        others = {one.name for one in also}
        lines = [(flag, names.rpartition(":")[2]) for flag, names, _ in PUSHED.findall(output)]
        if ("=", ref) in lines:  # git does not compare `old` if there is nothing to do
            raise LostRace("it already has the new value")
        taken = [to for _, to in lines if to not in others]
        return taken[0] if taken and taken[0] != ref else None

    def delete(self, ref: str, old: ObjectId) -> None:
        """Remove the remote's `ref`, which holds `old`.

        Raises:
            LostRace, Trouble: As `push`; an absent ref counts as a lost race.
        """
        self._push([RefUpdate(ref, old, None)])

    def point_head(self, ref: str) -> bool:
        """Make sure that a clone checks out a branch: True if the remote's HEAD now names an existing branch.

        A HEAD that names no existing branch is pointed to `ref` if that is the only branch of a bare repository in a
        directory. On other remotes only the maintainer can change HEAD.

        Raises:
            Trouble: The remote cannot be asked.
        """
        if self._run(self._asking(), ["ls-remote", "--quiet", "--", self.url.text, "HEAD"]).strip():
            return True
        directory = self.url.directory
        git_dir = repository_at(directory) if directory is not None else None
        if git_dir is None or discovery.setting(git_dir, "core.bare") != "true":
            return False
        if list(refs.list_refs(git_dir, "refs/heads/")) != [ref]:
            return False
        try:
            program.run(git_dir, ["symbolic-ref", "HEAD", ref])
        except (GitFailed, KgdError):
            return False
        return True

    # ---- inside

    def _read(self, ref: str, prefix: str) -> dict[str, ObjectId] | None:
        directory = self.url.directory
        git_dir = repository_at(directory) if directory is not None else None
        if git_dir is None or discovery.setting(git_dir, "extensions.refstorage") not in (None, "files"):
            return None
        try:
            found, tip = refs.list_refs(git_dir, prefix) if prefix else {}, refs.read_ref(git_dir, ref)
        except (OSError, Damaged):
            return None
        return None if len(found) > REFS_LIMIT else found | ({ref: tip} if tip else {})

    def _push(self, updates: Sequence[RefUpdate]) -> bytes:
        arguments = [
            "push",
            "--porcelain",
            "--progress",
            "--no-verify",
            "--no-recurse-submodules",
            "--no-signed",
            *(["--atomic"] if len(updates) > 1 else []),
            *(f"--force-with-lease={one.name}:{one.old.hex() if one.old else ''}" for one in updates),
            "--",
            self.url.text,
            *(f"{one.new.hex() if one.new else ''}:{one.name}" for one in updates),
        ]
        return self._run(self._asking(), arguments, of_push)

    def _asking(self) -> Path:
        """An empty repository for calls that need no objects, so that our configuration does not affect git."""
        if self._empty is None or not self._empty.exists():
            self._empty = scratch_repository(self._scratch)
        return self._empty

    def close(self) -> None:
        """Remove the empty repository that is kept between calls."""
        if self._empty is not None:
            shutil.rmtree(self._empty, ignore_errors=True)

    def _haves(self) -> list[ObjectId]:
        """Commits that both sides may have and that our refs protect: our tip, and the tips merged from remotes.

        Proposals are left out: a withdrawn proposal no longer protects its commits.
        """
        ours = self._home.ref(refs.HEAD)
        incoming = refs.list_refs(self._home.git_dir, refs.INCOMING)
        known = [id for name, id in incoming.items() if "/proposals/" not in name][:HAVES_LIMIT]
        return [id for id in dict.fromkeys([*([ours] if ours else []), *known]) if self._home.exists(id)]

    def _run(
        self,
        scratch: Path,
        arguments: list[str],
        explain: Callable[[GitFailed, RemoteUrl], Exception] = of_failure,
        *,
        borrows: bool = True,
    ) -> bytes:
        directory = self.url.directory
        if directory is not None and repository_at(directory) is None:
            problem = "there is no git repository" if directory.exists() else "there is no such directory"
            raise Trouble(
                "vanished",
                f"{problem} at {directory}",
                next="Check the address; restore the repository, or create an empty one with `git init --bare`.",
            )
        network = self.network
        hear = listener(network.progress) if network.progress else None
        bounds = Bounds(network.patience, network.total, network.pack_bytes, network.memory_bytes, network.stop, hear)
        switches = [word for switch in _SWITCHES for word in ("-c", switch)]
        # Certificates are checked even if the user's shell says otherwise: a token may depend on it.
        theirs = {name: value for name, value in network.environment.items() if name != "GIT_SSL_NO_VERIFY"}
        person = Person(theirs, self._variables(borrows))
        try:
            return program.run(scratch, [*switches, *arguments], limit=LISTING_LIMIT, environment=person, bounds=bounds)
        except GitFailed as failed:
            raise explain(failed, self.url) from None
        except Limit as error:
            raise Trouble("limit", error.message) from None
        except Unavailable as error:
            if "did not finish" not in error.message:
                raise Trouble("stopped", error.message) if "was stopped" in error.message else error from None
            raise Trouble("hangs", f"the remote did not answer within {network.patience:g} s") from None

    def _variables(self, borrows: bool) -> dict[str, str]:
        """Variables for this call alone; the git settings in them override the user's configuration."""
        url, network = self.url, self.network
        settings: dict[str, str] = {}
        if url.kind in (HTTP, HTTPS):
            base = f"http.{url.text}"
            settings |= {
                f"{base}.followRedirects": "false",
                f"{base}.sslVerify": "true",
                f"{base}.lowSpeedLimit": "1",
                f"{base}.lowSpeedTime": f"{network.patience:.0f}",
            }
            if network.secret:
                user = network.secret if ":" in network.secret else f"x-access-token:{network.secret}"
                token = base64.b64encode(user.encode()).decode()
                settings[f"{base}.extraHeader"] = f"Authorization: Basic {token}"
        variables = program.config_variables(settings.items())
        if url.kind == SSH:
            variables["GIT_SSH_COMMAND"] = self._ssh()
        if borrows:
            variables["GIT_ALTERNATE_OBJECT_DIRECTORIES"] = quoted(self._home.objects_dir)
        return variables | {"GIT_ALLOW_PROTOCOL": ":".join(sorted({url.protocol, HTTPS, SSH}))}

    def _ssh(self) -> str:
        """The user's own ssh command followed by our options; ssh uses the first value of an option."""
        command = self.network.environment.get("GIT_SSH_COMMAND", "")
        if not command and (named := self.network.environment.get("GIT_SSH")):
            command = shlex.quote(named)
        if not command:
            command = _configured_ssh(self.network.environment)
        words = (command or "ssh").split()
        if words and os.path.basename(words[0].strip("'\"")) not in ("ssh", "ssh.exe"):
            return command
        return " ".join([command or "ssh", *(f"-o {option}" for option in _SSH_OPTIONS)])


def _id(digits: str) -> ObjectId:
    try:
        return parse_id(digits)
    except KgdError:
        raise Trouble("other", "the remote's object ids are not SHA-1, which kgd requires") from None


def repository_at(directory: Path) -> Path | None:
    """The git directory of the repository at a directory; None if there is none."""
    for at in (directory, directory / ".git"):
        if (at / "HEAD").is_file() and (at / "objects").is_dir():
            return at
    with contextlib.suppress(OSError, KgdError):
        found = discovery.find_place(directory)
        if found is not None and found.top == directory.resolve():
            return found.common_dir
    return None


def _configured_ssh(environment: Mapping[str, str]) -> str:
    """``core.sshCommand`` of the user's configuration."""
    try:
        output = program.run(None, ["config", "--global", "core.sshCommand"], environment=environment, deadline=5)
    except (GitFailed, KgdError):
        return ""
    return output.decode("utf-8", "replace").strip()


def listener(report: Progress) -> Callable[[bytes], None]:
    """Report the newest step of each phase in each piece of git's error output, as in ``receiving objects``."""

    def hear(part: bytes) -> None:
        newest = {step[1] + b" " + step[2]: (int(step[3]), int(step[4])) for step in _STEPS(part)}
        with contextlib.suppress(KgdError):  # the client has disconnected; the transfer continues
            for phase, (done, total) in newest.items():
                report(done, total, phase.decode().lower())

    return hear
