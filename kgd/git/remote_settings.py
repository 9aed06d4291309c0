"""The remotes of a workspace: ordinary git remotes in its repository's configuration, and their addresses.

So `git fetch`, `git push` and `git pull` in the work tree use the same remotes. kgd uses a remote only if it has the
setting ``kgdref``, the ref that holds the workspace, and leaves other remotes alone. An address is refused where git
could misread it.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pygit2

from kgd.errors import Invalid, InvariantViolation, NotFound, Unavailable
from kgd.git import refs
from kgd.git.layout import Layout
from kgd.git.refs import INCOMING, PROPOSALS

LIMIT = 8
"""Maximum number of remotes of one workspace."""
DIRECTIONS = ("both", "pull", "push")

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]|\.(?!\.)){0,62}\Z").match
_REF = re.compile(
    r"refs/(?:heads|kgd)/(?!.*(?:\.\.|//|@\{|/\.|\.lock(?:/|\Z)))[A-Za-z0-9_][A-Za-z0-9._/+-]*(?<![./])\Z"
).match
_RESERVED = tuple(f"refs/kgd/{one}" for one in ("head", "in", "kept", "rejected", "proposed", "pending"))

PATH, SSH, HTTPS, HTTP = "path", "ssh", "https", "http"
LONGEST_URL = 2048

_SCP_LIKE = re.compile(r"(?:[A-Za-z0-9._+-]+@)?(?:[A-Za-z0-9._-]+|\[[0-9a-fA-F:.]+\]):(?!/?/)?.+\Z").match
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_FORMS = "Write https://host/path, ssh://user@host/path, user@host:path or a directory."


@dataclass(frozen=True, slots=True)
class Remote:
    """A remote that shares this workspace.

    `ref` is the ref's full name on the remote. `token` is a reference to a credential. `seconds` is the interval of
    regular syncs; None means the default for its kind of remote, 0 means never.
    """

    name: str
    url: RemoteUrl
    ref: str
    token: str = ""
    seconds: float | None = None
    direction: str = "both"

    @property
    def branch(self) -> str:
        """The remote's ref as it is named in local refs: ``main`` for ``refs/heads/main``, ``kgd-x`` for
        ``refs/kgd/x``."""
        if self.ref.startswith("refs/heads/"):
            return self.ref.removeprefix("refs/heads/")
        return self.ref.removeprefix("refs/").replace("/", "-")

    @property
    def incoming(self) -> str:
        """The local ref with the last state merged from the remote."""
        return f"{INCOMING}{self.name}/{self.branch}"

    @property
    def tracking(self) -> str:
        """The local ref that git shows as the remote's branch."""
        return f"refs/remotes/{self.name}/{self.branch}"

    @property
    def proposals(self) -> str:
        """Prefix of the remote's refs for proposals."""
        return proposals_beside(self.ref)

    def is_hub_of(self, workspace: str) -> bool:
        """Whether the address looks like that of a hub, which answers fast."""
        return f"/git/{workspace}" in self.url.text

    def kept(self, tip: bytes) -> str:
        """The local ref that keeps a tip that the remote has dropped."""
        return f"refs/kgd/kept/{self.name}/{self.branch}/{tip.hex()[:12]}"


def proposals_beside(branch: str) -> str:
    """Prefix of the refs for proposals to a branch; in a repository that also holds code, ``proposals/`` may have
    another use."""
    return PROPOSALS if branch == "refs/heads/main" else f"{branch}-proposals/"


def remotes(layout: Layout) -> tuple[Remote, ...]:
    """The remotes that share this workspace, by name. Reads one file.

    Raises:
        Unavailable: The configuration cannot be read.
    """
    values = _values(layout)
    found = []
    for name in sorted({key.split(".", 1)[1].rpartition(".")[0] for key in values if key.startswith("remote.")}):
        given = {key.rpartition(".")[2]: value for key, value in values.items() if key.startswith(f"remote.{name}.")}
        if given.get("kgdref") and given.get("url") and _NAME(name):
            found.append(_remote(name, given))
    return tuple(found)


def remote(layout: Layout, name: str) -> Remote:
    """The remote of this name.

    Raises:
        NotFound: There is no such remote."""
    known = remotes(layout)
    for one in known:
        if one.name == name:
            return one
    names = ", ".join(one.name for one in known)
    raise NotFound(
        f"there is no remote '{name[:60]}'", next=f"Known: {names}." if names else "Add one: `kgd remote add NAME URL`."
    )


def add(layout: Layout, wanted: Remote) -> None:
    """Store a remote, and make it the upstream of the visible branch if that branch has no upstream.

    Raises:
        Invalid: Its name or ref is not valid.
        InvariantViolation: Another remote has that name, or there are too many.
    """
    if not _NAME(wanted.name) or wanted.name.endswith(".lock"):
        raise Invalid("a remote's name has letters, digits, dashes, dots and underscores", at="name")
    check_ref(wanted.ref)
    values, base = _values(layout), f"remote.{wanted.name}"
    there = values.get(f"{base}.url")
    if there is not None and parse_stored(layout, take_credential(there)[0]) != wanted.url:
        raise InvariantViolation(
            f"the remote '{wanted.name}' already exists with another address",
            at=wanted.name,
            next=f"Choose another name, or run `kgd remote remove {wanted.name}` first.",
        )
    if f"{base}.kgdref" not in values:
        forget(layout, wanted.name)  # another remote of that name may have been removed with plain git
    if there is None and len(remotes(layout)) >= LIMIT:
        way_out = "Remove one with `kgd remote remove`."
        raise InvariantViolation(f"a workspace has at most {LIMIT} remotes", next=way_out)
    branch = layout.branch.removeprefix("refs/heads/")
    settings: dict[str, str] = {
        f"{base}.url": wanted.url.text,
        f"{base}.fetch": f"+{wanted.ref}:{wanted.tracking}",
        f"{base}.push": f"{layout.branch}:{wanted.ref}",
        f"{base}.kgdref": wanted.ref,
        f"{base}.kgdtoken": wanted.token,
        f"{base}.kgdseconds": "" if wanted.seconds is None else f"{wanted.seconds:g}",
        f"{base}.kgddirection": "" if wanted.direction == "both" else wanted.direction,
    }
    if values.get(f"branch.{branch}.remote", wanted.name) == wanted.name:
        settings |= {f"branch.{branch}.remote": wanted.name, f"branch.{branch}.merge": wanted.ref}
    write(layout, settings)


def remove(layout: Layout, name: str) -> Remote:
    """Remove a remote from the settings, with its last known state; the remote itself and merged changes stay.

    Raises:
        NotFound: There is no remote of that name.
    """
    known = remote(layout, name)
    values = _values(layout)
    gone = [key for key in values if key.startswith(f"remote.{name}.")]
    branch = layout.branch.removeprefix("refs/heads/")
    if values.get(f"branch.{branch}.remote") == name:
        gone += [f"branch.{branch}.remote", f"branch.{branch}.merge"]
    write(layout, dict.fromkeys(gone, ""))
    forget(layout, name)
    drop(layout, f"refs/remotes/{name}/")
    return known


def forget(layout: Layout, name: str) -> None:
    """Remove the refs with this remote's last state, because the next remote of that name may be another repository.

    Tips that were kept because the remote dropped them stay.
    """
    for folder in ("in", "proposed"):
        drop(layout, f"refs/kgd/{folder}/{name}/")


def drop(layout: Layout, prefix: str) -> None:
    """Remove all refs with this prefix. Raises Unavailable."""
    refs.delete_refs(layout.git_dir, refs.list_refs(layout.git_dir, prefix))


def settings_of(layout: Layout, name: str) -> dict[str, str]:
    """All git settings of a remote, kgd's and others, by full name, as `write` takes them."""
    branch = layout.branch.removeprefix("refs/heads/")
    values = _values(layout)
    upstream = values.get(f"branch.{branch}.remote") == name
    return {
        key: value
        for key, value in values.items()
        if key.startswith(f"remote.{name}.") or (upstream and key.startswith(f"branch.{branch}."))
    }


def check_ref(ref: str) -> None:
    """Check that a workspace may be kept under this ref of a remote.

    Raises:
        Invalid: The workspace may not be kept there.
    """
    if len(ref) > 200 or not _REF(ref) or any(ref == one or ref.startswith(f"{one}/") for one in _RESERVED):
        raise Invalid(
            "a workspace cannot be kept under this ref",
            at="ref",
            next="Name a branch, such as refs/heads/kgd, or refs/kgd/main where branches trigger builds.",
        )


def parse_stored(layout: Layout, url: str) -> RemoteUrl:
    """Parse an address from the configuration; relative paths start at the work tree, as in git."""
    return parse_url(url, layout.work_tree)


def _remote(name: str, given: dict[str, str]) -> Remote:
    try:
        check_ref(given["kgdref"])
        url = parse_url(given["url"])
        seconds = float(given["kgdseconds"]) if given.get("kgdseconds") else None
    except (Invalid, ValueError) as error:
        raise Unavailable(
            f"the settings of the remote '{name}' are not valid: {error}"[:300],
            at=name,
            next=f"Run `kgd remote remove {name}`, then add it again.",
        ) from None
    direction = given.get("kgddirection", "both")
    return Remote(
        name, url, given["kgdref"], given.get("kgdtoken", ""), seconds, direction if direction in DIRECTIONS else "both"
    )


def _values(layout: Layout) -> dict[str, str]:
    try:
        config: Any = pygit2.Config(str(layout.git_dir / "config"))
        return {str(entry.name): str(entry.value) for entry in config}
    except (pygit2.GitError, OSError) as error:
        raise Unavailable(f"the repository's config cannot be read: {error}", at=str(layout.git_dir)) from error


def write(layout: Layout, settings: dict[str, str]) -> None:
    """Store the settings that have a value, and remove those that are empty."""
    try:
        config: Any = pygit2.Config(str(layout.git_dir / "config"))
        for key, value in settings.items():
            present = key in config
            if present and (not value or len(list(config.get_multivar(key))) > 1):
                config.delete_multivar(key, ".*")
            if value:
                config[key] = value
    except (pygit2.GitError, OSError, KeyError) as error:
        raise Unavailable(f"the repository's config cannot be written: {error}", at=str(layout.git_dir)) from error


def is_local(remote: Remote) -> bool:
    """Whether the remote is a directory on this machine."""
    return remote.url.kind == PATH


@dataclass(frozen=True, slots=True)
class RemoteUrl:
    """The address of a remote. `text` is what git gets; for a directory that is its absolute path."""

    text: str
    kind: str

    @property
    def directory(self) -> Path | None:
        """The directory, for a remote on this machine."""
        return Path(self.text) if self.kind == PATH else None

    @property
    def protocol(self) -> str:
        """The name in git's allow list of protocols."""
        return "file" if self.kind == PATH else self.kind


def parse_url(text: str, base: Path | None = None) -> RemoteUrl:
    """Parse an address; a relative path starts at `base`.

    Refuses an address that begins like an option, transports that run commands (``ext::``), control characters, a
    password or token inside the address, a query or fragment (which may hold one), and plain http to another machine.

    Raises:
        Invalid: The address is refused; the message gives the reason, and does not repeat an address that may hold a
            secret.
    """
    if not text or len(text) > LONGEST_URL or not text.isprintable() or text != text.strip():
        raise Invalid("a remote's address must be one line of printable characters", at="url", next=_FORMS)
    if text.startswith("-"):
        raise Invalid("a remote's address cannot begin with a dash", at="url", next=_FORMS)
    if re.match(r"[A-Za-z0-9+.-]*::", text):
        raise Invalid("an address that names a transport helper (`ext::`) is refused", at="url", next=_FORMS)
    if "://" in text:
        return _with_scheme(text)
    if _SCP_LIKE(text) and "/" not in text.partition(":")[0] and not (base and (base / text).exists()):
        if "@" in text.partition(":")[0].partition("@")[2] or text.partition("@")[2].startswith("-"):
            raise Invalid("the host's name cannot begin with a dash", at="url", next=_FORMS)
        return RemoteUrl(text, SSH)
    path = os.path.expanduser(text)
    if not os.path.isabs(path) and base is None:
        raise Invalid("the path of a directory must be absolute here", at="url")
    return RemoteUrl(os.path.normpath(os.path.join(base or "/", path)), PATH)


def take_credential(text: str) -> tuple[str, str]:
    """Split an http address into the address without credentials and ``user:password``, which may be empty.

    Credentials that cannot be sent in a header stay in the address, so that `parse_url` refuses them.
    """
    try:
        parts = urlsplit(text)
        user, password = unquote(parts.username or ""), unquote(parts.password or "")
    except ValueError:
        return text, ""
    written = f"{user}:{password}"
    if parts.scheme not in (HTTPS, HTTP) or written == ":" or " " in written or not written.isprintable():
        return text, ""
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl(), written


def _with_scheme(text: str) -> RemoteUrl:
    try:
        parts = urlsplit(text)
        host, password = parts.hostname or "", parts.password
        _ = parts.port
    except ValueError:
        raise Invalid("this address cannot be parsed", at="url", next=_FORMS) from None
    if "?" in text or "#" in text:
        raise Invalid(
            "a remote's address must not have a query or fragment: a token there would show up in settings and logs",
            at="url",
            next="Leave it out; pass a token by reference: --token env:NAME, keyring:NAME or file:PATH.",
        )
    if parts.scheme == "file":
        if parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
            raise Invalid("a file:// address must name a directory on this machine", at="url")
        return RemoteUrl(os.path.normpath(parts.path), PATH)
    if parts.scheme not in (SSH, HTTPS, HTTP):
        raise Invalid(f"'{parts.scheme[:20]}' is not a supported protocol", at="url", next=_FORMS)
    if not host or host.startswith("-"):
        raise Invalid("the address does not name a host", at="url", next=_FORMS)
    if password is not None or (parts.scheme != SSH and parts.username is not None):
        raise Invalid(
            "an address must not contain credentials: anyone who can read the configuration would see them",
            at="url",
            next="Pass them by reference: --token env:NAME, keyring:NAME or file:PATH.",
        )
    if parts.scheme == HTTP and host not in _LOOPBACK:
        raise Invalid("plain http to another machine can be read and changed in transit", at="url", next="Use https.")
    return RemoteUrl(text, parts.scheme)
