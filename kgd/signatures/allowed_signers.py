"""Lists of allowed signers, in the format of ``ssh-keygen`` (ALLOWED SIGNERS) that git's `gpg.ssh.allowedSignersFile`
takes. Certificate authorities are not supported."""

from __future__ import annotations

import calendar
import re
import time
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache

from kgd.errors import Invalid
from kgd.signatures.wire import GIT, public_key

PATH = "allowed_signers"
"""The file of a workspace, at the top of its tree."""
LARGEST = 1 << 20

_LINE = re.compile(r'("[^"]*"|\S+)\s+(.*)').fullmatch
_OPTION = re.compile(r'([A-Za-z-]+)(?:="([^"]*)"|=([^\s",]*))?(?:,|\s+|$)').match
_KEY = re.compile(r"(?:sk-)?(?:ssh|ecdsa)-\S+ ").match
_MOMENT = re.compile(r"(\d{8})(\d{4}(?:\d{2})?)?(Z?)").fullmatch


@dataclass(frozen=True, slots=True)
class AllowedSigner:
    """One line of the list. The key is valid from `after` up to `before`, in seconds since 1970."""

    principals: str
    key: bytes
    namespaces: tuple[str, ...] = ()
    after: float = 0.0
    before: float = float("inf")

    def signs(self, when: float) -> bool:
        named = not self.namespaces or any(fnmatchcase(GIT.decode(), one) for one in self.namespaces)
        return named and self.after <= when < self.before


@dataclass(frozen=True, slots=True)
class AllowedSigners:
    """A list; `problems` has a sentence for each line that cannot be used."""

    lines: tuple[AllowedSigner, ...] = ()
    problems: tuple[str, ...] = ()

    def find(self, key: bytes, when: float) -> str | None:
        """The principals of the key for commits of this time; None if it is not allowed."""
        return next((one.principals for one in self.lines if one.key == key and one.signs(when)), None)


@lru_cache(maxsize=64)
def parse(data: bytes) -> AllowedSigners:
    """The list in a file. A line that cannot be read allows no key, and is reported in `problems`."""
    lines, problems = list[AllowedSigner](), list[str]()
    for number, line in enumerate(data[:LARGEST].decode("utf-8", "replace").splitlines(), 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        try:
            lines.append(_line(text))
        except Invalid as error:
            problems.append(f"{PATH}:{number}: {error.message}")
    return AllowedSigners(tuple(lines), tuple(problems))


def _line(text: str) -> AllowedSigner:
    found = _LINE(text)
    if not found:
        raise Invalid("a line needs a name and a key")
    rest, options = found[2], dict[str, str]()
    while not _KEY(rest):
        option = _OPTION(rest)
        if not option or not option[0]:
            raise Invalid("this is not a public SSH key")
        options[option[1].lower()] = option[2] or option[3] or ""
        rest = rest[option.end() :].lstrip()
    if unknown := sorted(options.keys() - {"namespaces", "valid-after", "valid-before"}):
        raise Invalid(f"'{unknown[0][:40]}' is not supported")
    return AllowedSigner(
        found[1].strip('"'),
        public_key(rest),
        tuple(filter(None, options.get("namespaces", "").split(","))),
        _moment(options["valid-after"]) if "valid-after" in options else 0.0,
        _moment(options["valid-before"]) if "valid-before" in options else float("inf"),
    )


def _moment(text: str) -> float:
    """Seconds since 1970 of ``YYYYMMDD[HHMM[SS]][Z]``; without Z in local time, as for ``ssh-keygen``."""
    found = _MOMENT(text)
    try:
        if found:
            parts = time.strptime(found[1] + (found[2] or "0000").ljust(6, "0"), "%Y%m%d%H%M%S")
            return float(calendar.timegm(parts) if found[3] else time.mktime(parts))
    except (ValueError, OverflowError):
        pass
    raise Invalid(f"'{text[:20]}' is not a time such as 20261231 or 202612312359Z")
