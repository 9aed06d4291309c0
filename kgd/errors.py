"""Errors: every error that kgd can report.

    KgdError                 code
    ├── Invalid              VALIDATION_ERROR      the request itself is wrong
    ├── NotFound             NOT_FOUND             the named node, workspace or other object does not exist
    ├── Stale                CONFLICT              an edit expected another version; carries the current one
    ├── InvariantViolation   INVARIANT_VIOLATION   the request is well formed, but would break a rule of the graph
    ├── Forbidden            FORBIDDEN             the caller may not do this
    ├── Unauthorized         UNAUTHORIZED          the caller is not known
    ├── Limit                LIMIT                 a limit was exceeded: size, length or number
    ├── Unavailable          UNAVAILABLE           daemon, disk or remote cannot serve now; nothing was written
    ├── Damaged              DAMAGED               stored bytes are broken
    ├── Refused              REFUSED_CONTENT       the guard or the secret scan refused the content
    └── Internal             INTERNAL              a defect in kgd

A *conflict* between two people's edits is never an error: it is a value (``kgd.model.conflict``).
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

MESSAGE_LIMIT = 512
"""Largest number of characters of message, place and next step together; longer texts are cut."""


class Do:
    """An operation to call next. Each surface names it in its own terms: as a tool, a command or a page."""

    __slots__ = ("arguments", "operation")

    def __init__(self, operation: str, /, **arguments: str) -> None:
        self.operation, self.arguments = operation, arguments

    def as_list(self) -> list[Any]:
        return [self.operation, self.arguments]

    def as_tool(self) -> str:
        """The call as agents and programs write it: ``search with types=atom``."""
        given = ", ".join(f"{name}={value}" for name, value in self.arguments.items())
        return f"{self.operation} with {given}" if given else self.operation


class Advice(str):
    """The next step as text and operations. As plain text it names operations as tools."""

    parts: tuple[str | Do, ...]

    def __new__(cls, *parts: str | Do) -> Advice:
        made = super().__new__(cls, "".join(one if isinstance(one, str) else one.as_tool() for one in parts))
        made.parts = parts
        return made

    def said(self, spelled: Callable[[Do], str]) -> str:
        """The text, with every operation as `spelled` writes it."""
        return "".join(one if isinstance(one, str) else spelled(one) for one in self.parts)

    def as_list(self) -> list[Any]:
        """The advice as plain data, which `of` reads."""
        return [one if isinstance(one, str) else one.as_list() for one in self.parts]

    @classmethod
    def of(cls, parts: list[Any]) -> Advice:
        return cls(*(one if isinstance(one, str) else Do(one[0], **one[1]) for one in parts))

    @classmethod
    def received(cls, text: str, parts: object) -> str:
        """The advice that another machine sent as `text` and its parts; the text alone if the two differ, or if the
        text has characters that must not reach a terminal."""
        try:
            made = cls.of(parts) if isinstance(parts, list) and text.isprintable() else text
        except MALFORMED:
            return text
        return made if made == text else text


class KgdError(Exception):
    """A refusal as the caller sees it: one sentence, the place, and the next step.

    Args:
        message: One sentence. Never contains foreign bytes beyond a short, escaped excerpt.
        at: The place: a URI, ``file:line``, a parameter such as ``changes[2].weight``.
        next: The caller's next step, as an imperative sentence; an `Advice` if it names operations.
    """

    code: ClassVar[str] = "INTERNAL"
    status: ClassVar[int] = 500
    """The status of an HTTP response with this error."""

    def __init__(self, message: str, *, at: str = "", next: str = "") -> None:
        self.message = _clean(message)[:320]
        self.at = _clean(at)[:80] if len(at) > 80 else _clean(at)
        left = max(0, MESSAGE_LIMIT - len(self.message) - len(self.at) - 5)
        self.next = next if isinstance(next, Advice) and len(next) <= left else _clean(next)[:left]
        super().__init__(str(self))

    def __str__(self) -> str:
        place = f" ({self.at})" if self.at else ""
        return f"{self.message}{place}" + (f". {self.next}" if self.next else "")

    def as_dict(self) -> dict[str, Any]:
        """The error as plain data: ``code``, ``message`` and, if known, ``at`` and ``next``."""
        known = {"code": self.code, "message": self.message, "at": self.at, "next": self.next}
        return {key: value for key, value in known.items() if value}


class Invalid(KgdError):
    code, status = "VALIDATION_ERROR", 422


class NotFound(KgdError):
    code, status = "NOT_FOUND", 404


class Stale(KgdError):
    """An edit carried an outdated version. Nothing was written."""

    code, status = "CONFLICT", 409

    def __init__(self, message: str, *, current: int, at: str = "", next: str = "") -> None:
        super().__init__(message, at=at, next=next)
        self.current = current

    def as_dict(self) -> dict[str, Any]:
        return {**super().as_dict(), "current_version": self.current}


class InvariantViolation(KgdError):
    code, status = "INVARIANT_VIOLATION", 409


class Forbidden(KgdError):
    code, status = "FORBIDDEN", 403


class Unauthorized(KgdError):
    code, status = "UNAUTHORIZED", 401


class Limit(KgdError):
    code, status = "LIMIT", 413


class Unavailable(KgdError):
    code, status = "UNAVAILABLE", 503


class Damaged(KgdError):
    code, status = "DAMAGED", 503


class Refused(KgdError):
    code, status = "REFUSED_CONTENT", 422


class Internal(KgdError):
    code = "INTERNAL"


MALFORMED = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)
"""Exceptions raised when a document has an unexpected shape."""

UNUSABLE = (errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Errors of a file or a disk that are not defects."""
LACKING = (errno.EMFILE, errno.ENFILE)
"""Errors of a process or a machine without a free file descriptor."""

BY_CODE: dict[str, type[KgdError]] = {
    cls.code: cls
    for cls in (
        Invalid,
        NotFound,
        InvariantViolation,
        Forbidden,
        Unauthorized,
        Limit,
        Unavailable,
        Damaged,
        Refused,
        Internal,
    )
}
"""The class for every code except CONFLICT, which needs a version; see ``from_dict``."""


def whole(size: int, unit: int) -> int:
    """The size in units, rounded up, so that it differs from a limit of whole units that it exceeds."""
    return -(-size // unit)


def from_dict(answer: Mapping[str, Any]) -> KgdError:
    """The inverse of ``as_dict``, for the other side of a socket."""
    code, message = str(answer.get("code", "INTERNAL")), str(answer.get("message", ""))
    at, next_step = str(answer.get("at", "")), answer.get("next", "")
    if not isinstance(next_step, Advice):
        next_step = str(next_step)
    if code == Stale.code:
        return Stale(message, current=int(answer.get("current_version", 0)), at=at, next=next_step)
    return BY_CODE.get(code, Internal)(message, at=at, next=next_step)


def reason_of(error: BaseException) -> str:
    """The reason for an error, without the number of an OSError: ``Permission denied: /srv/code/.kgd``."""
    if not isinstance(error, OSError) or not error.strerror:
        return str(error)
    return f"{error.strerror}: {error.filename}" if error.filename else error.strerror


def of_defect(error: BaseException, *, at: str = "", next: str = "The daemon's log has the details.") -> KgdError:
    """The error that a client gets for an unexpected exception. A lack of resources, or a disk that cannot be used, is
    not reported as a defect. The error has no path, since a hub's clients must not learn it."""
    if isinstance(error, OSError) and error.errno in UNUSABLE:
        return Unavailable(f"a file on this machine cannot be used: {error.strerror}", at=at, next=next)
    if isinstance(error, OSError) and error.errno in LACKING:
        lacks = "no free file descriptor"
    elif isinstance(error, RuntimeError) and "start new thread" in str(error):
        lacks = "no free thread"
    else:
        return Internal("kgd failed; this is a defect in kgd", at=at, next=next)
    return Unavailable(f"this machine has {lacks}", at=at, next="Stop other programs or raise the limit (`ulimit -a`).")


def _clean(text: str) -> str:
    """Escape unprintable characters: errors quote untrusted bytes, which must not control a terminal or a prompt."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
