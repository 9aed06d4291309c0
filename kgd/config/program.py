"""The installed program: its version, and a stamp of its files.

Every command imports this file, so it uses only `os`.
"""

from __future__ import annotations

import os

_PHASES = {"dev": -4, "a": -3, "alpha": -3, "b": -2, "beta": -2, "c": -1, "rc": -1, "": 0, "post": 1}


def stamp() -> str:
    """The folder of the installed package and the identity of its first file, which every installation writes anew.

    Empty if the package is gone. An edit of an editable installation does not change it. Costs one `stat`.
    """
    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    try:
        found = os.stat(os.path.join(folder, "__init__.py"))
    except OSError:
        return ""
    return f"{folder} {found.st_ino} {found.st_mtime_ns}".encode("utf-8", "replace").decode()


def is_replaced(then: str, now: str) -> bool:
    """Whether another installation has replaced the one with the stamp `then`. Installations in two folders never
    replace each other."""
    return then != now and bool(now) and then.rsplit(" ", 2)[0] == now.rsplit(" ", 2)[0]


def is_older(version: str, than: str) -> bool:
    """Whether a version is older than another; ``0.2.0.dev1``, ``0.2.0rc1`` and ``0.2.0`` are in ascending order."""
    return version != than and _order(version) < _order(than)


def _order(version: str) -> tuple[tuple[int, ...], int, int, int]:
    """The numbers of the release; phase and number of a pre-release or post-release; and the number of a dev release
    of that phase."""
    words = _words(version.split("+")[0].lower())
    release = list[int]()
    while words and words[0].isdigit():
        release.append(int(words.pop(0)))
    while release and release[-1] == 0:
        release.pop()
    phases = {word: _number(words[at + 1 : at + 2]) for at, word in enumerate(words) if word in _PHASES}
    dev = phases.pop("dev", None)
    phase, number = next(iter(phases.items()), ("" if dev is None else "dev", 0))
    return tuple(release), _PHASES[phase], number, 1 << 60 if dev is None else dev


def _number(words: list[str]) -> int:
    return int(words[0]) if words and words[0].isdigit() else 0


def _words(version: str) -> list[str]:
    """Runs of digits and runs of letters."""
    words = [""]
    for char in version:
        kind = "digit" if char.isdigit() else "letter" if char.isalpha() else ""
        last = words[-1]
        if not kind:
            words.append("")
        elif last and last.isdigit() != (kind == "digit"):
            words.append(char)
        else:
            words[-1] = last + char
    return [word for word in words if word]
