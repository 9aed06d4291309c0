"""Failures of remotes: git's error output is turned into a kind, a sentence and a next step."""

from __future__ import annotations

import re
from typing import NamedTuple

from kgd.errors import Unavailable
from kgd.git.program import GitFailed
from kgd.git.remote_settings import SSH, RemoteUrl

PUSHED = re.compile(r"^([ +*=!-])\t([^\t]*)\t(.*)$", re.M)
"""A line of `git push --porcelain`: flag, refs, summary."""
_LOCKED = re.compile(r"Unable to create '[^'\n]{0,400}\b(refs/[^'\n]{1,400}\.lock)': File exists")
_BY_HOOK = "ref updates aborted by hook"
_OF_GIT = re.compile(r"(fatal|error|send-pack|To|warning):? .*").match
_NO_PROGRESS = re.compile(
    r"(remote: )?(Enumerating|Counting|Compressing|Receiving|Resolving|Writing|Total|Unpacking|Processing|Delta) ?.*"
).fullmatch


class Trouble(Unavailable):
    """A remote does not work at the moment; nothing was changed here. `kind` is a word for programs to test."""

    def __init__(self, kind: str, message: str, *, at: str = "", next: str = "") -> None:
        super().__init__(message, at=at, next=next)
        self.kind = kind


class LostRace(Exception):
    """The remote's ref has changed since it was read, or is locked. Fetch, merge, try again.

    `lock` is the lock file in the remote's repository, if git named one. It exists for milliseconds, except after its
    program was killed.
    """

    def __init__(self, message: str, *, lock: str = "") -> None:
        super().__init__(message)
        self.lock = lock

    def lasting(self, tries: int) -> Trouble:
        """The error after `tries` lost races in a row."""
        if self.lock:
            return Trouble(
                "locked",
                f"the remote's ref is locked: its repository contains {self.lock}",
                next="If no git program is running there, remove this file.",
            )
        return Trouble("race", f"others pushed before us {tries} times in a row: {self}"[:200])


class _Known(NamedTuple):
    pattern: str
    kind: str
    message: str
    next: str = ""


_KNOWN = (
    _Known(
        r"HOST IDENTIFICATION HAS CHANGED|Host key verification failed|host key is known|differs from the key",
        "host-key",
        "the host's key is unknown or has changed",
        "Verify its fingerprint with the host's administrator, then `ssh-keyscan HOST >> ~/.ssh/known_hosts`.",
    ),
    _Known(
        r"certificate|SSL|TLS",
        "certificate",
        "the host's certificate is not valid",
        "Renew it, or name your own certificate authority with git's http.sslCAInfo.",
    ),
    _Known(
        r"unable to update url base from redirection|requested URL returned error: 30\d|redirect",
        "redirect",
        "the address redirects, and redirects are not followed",
        "Use the new address: `kgd remote remove NAME`, then `kgd remote add NAME NEW-URL`.",
    ),
    _Known(
        r"Permission denied \(|publickey|Authentication failed|could not read (Username|Password)|error: 40[13]"
        r"|Invalid username or password|terminal prompts disabled|Access denied|HTTP Basic",
        "credentials",
        "the remote rejects the credentials",
        "Pass a token by reference to `kgd clone` or `kgd remote add`: `--token env:NAME`.",
    ),
    _Known(
        r"Operation timed out|timed out|transfer speed|Operation too slow", "hangs", "the remote did not answer in time"
    ),
    _Known(
        r"Could not resolve host|Name or service not known|Connection refused|Network is unreachable"
        r"|No route to host|Failed to connect|Couldn't connect|Connection reset|Connection closed",
        "unreachable",
        "the remote's host cannot be reached",
    ),
    _Known(
        r"not found|does not exist|does not appear to be a git repository|no such repository|error: 404",
        "vanished",
        "there is no such repository at the remote's address",
        "Restore the repository, or correct the address: `kgd remote remove NAME`, then `kgd remote add NAME URL`.",
    ),
    _Known(
        r"File size limit exceeded|signal 25|SIGXFSZ|Out of memory|memory exhausted|cannot allocate|mmap failed"
        r"|Cannot allocate memory|unable to create thread",
        "limit",
        "the remote sends more than kgd accepts at once",
    ),
    _Known(r"No space left on device", "disk", "the disk is full", "Free some space; kgd retries by itself."),
    _Known(
        r"dubious ownership|safe.directory",
        "ownership",
        "the remote's directory belongs to another user",
        "If you trust that user: `git config --global --add safe.directory DIRECTORY`.",
    ),
    _Known(
        r"does not support --atomic",
        "protocol",
        "the remote's git server cannot move several refs together",
        "Use a server that supports atomic pushes.",
    ),
    _Known(
        r"hash algorithm|mismatched algorithms|object format",
        "protocol",
        "the remote has another object format (SHA-256), and kgd writes SHA-1",
        "Share through a repository made with `git init --bare --object-format=sha1`.",
    ),
    _Known(r"transport '.*' not allowed", "protocol", "the address uses a protocol that is not allowed"),
    _Known(
        r"fsck error|fatal: fsck|hasDot|badTree|zeroPadded|unknownType|nullSha1|index-pack died|index-pack failed"
        r"|invalid index-pack|unpack-objects|early EOF|inflate|pack is corrupted|bad object|did not send all"
        r"|remote error|pack has bad object|invalid.*pack",
        "bad-objects",
        "the remote's objects are truncated, damaged or invalid",
        "Nothing was stored. Ask its maintainer to run `git fsck` there.",
    ),
    _Known(r"hung up unexpectedly|unexpected disconnect|RPC failed|Broken pipe|EOF", "cut", "the connection was lost"),
)


def of_failure(failed: GitFailed, url: RemoteUrl) -> Trouble:
    """The error for git's error output; quotes git's first complaint."""
    code, lines = failed.code, [line.strip() for line in failed.complaints.replace("\r", "\n").splitlines()]
    lines = [line for line in lines if line and not _NO_PROGRESS(line)]
    output = " ".join(lines)
    if code == -25 or code == 153:
        output += " File size limit exceeded"
    for known in _KNOWN:
        if re.search(known.pattern, output, re.I):
            then = "Check `ssh` to that host." if known.kind == "credentials" and url.kind == SSH else known.next
            return Trouble(known.kind, _with(known.message, lines), at=url.text, next=then)
    return Trouble("other", _with(f"git ended with exit code {code}", lines), at=url.text)


def _with(message: str, lines: list[str]) -> str:
    """The message, followed by git's first complaint."""
    telling = [line for line in lines if line.startswith(("fatal:", "error:", "remote:", "ssh:"))] or lines
    return f"{message}: {telling[0][:160]}" if telling else message


def of_push(failed: GitFailed, url: RemoteUrl) -> Exception:
    """The reason why a push failed, from git's line for the ref."""
    lines = PUSHED.findall(failed.out.decode("utf-8", "replace"))
    # If several refs move together, git reports the reason for one of them, and for the others only that they stayed.
    for flag, _, summary in sorted(lines, key=lambda line: "atomic push" in line[2]):
        if flag != "!":
            continue
        reason = summary.partition("(")[2].rstrip(")") or summary
        if any(
            word in summary
            for word in (
                "stale info",
                "fetch first",
                "non-fast-forward",
                "cannot lock ref",
                "failed to update ref",
                "reference already exists",
                "failed to lock",
                "incorrect old value",
                "atomic transaction failed",
            )
        ):
            lock = _LOCKED.search(failed.complaints)
            return LostRace(reason, lock=lock[1] if lock else "")
        if "remote failure" in summary or "remote end hung up" in failed.complaints:
            break
        output = _server_words(failed.complaints, reason)
        if "fetch first" in output:  # a hub's hook reports a lost race in a sentence
            return LostRace(output)
        return _refused(output)
    if _BY_HOOK in failed.complaints:  # the server ends without a line for the ref
        lines = [line.removeprefix("remote:").strip() for line in failed.complaints.splitlines()]
        said = [line for line in lines if line and not _NO_PROGRESS(line) and not _OF_GIT(line)]
        return _refused(f"{' '.join(said)[:240]} (reference-transaction hook)".strip())
    return of_failure(failed, url)


def _refused(reason: str) -> Trouble:
    return Trouble(
        "refused",
        f"the remote refused the push: {reason}",
        next="Ask its maintainer for push access, or share under another ref (`kgd share --ref refs/heads/kgd`).",
    )


def _server_words(complaints: str, reason: str) -> str:
    """The server's own messages, without the messages of git."""
    lines = [line[7:].strip() for line in complaints.replace("\r", "\n").splitlines() if line.startswith("remote:")]
    noise = re.compile(r"(Resolving deltas|Counting|Compressing|Enumerating|Total |Processing)").match
    words = " ".join(line for line in lines if line and not noise(line))[:240]
    return f"{words} ({reason[:60]})" if words else reason[:240]
