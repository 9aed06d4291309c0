"""The manual as a folder of HTML: ``python -m kgd.ui.site FOLDER``."""

from __future__ import annotations

import posixpath
import sys
from functools import partial
from pathlib import Path

from kgd.ui import manual, rendering

SHEET = "kgd.css"


def write(folder: Path) -> int:
    """Write every page with its pictures; other files in the folder are kept.

    Returns:
        The number of pages.
    """
    chapters = manual.chapters()
    for chapter in chapters:
        places = manual.Places(page=partial(_page, chapter.name), picture=partial(_picture, chapter.name))
        told = {
            "read": manual.read(chapter.name, places),
            "chapters": chapters,
            "place": places.page,
            "sheet": _relative(chapter.name, SHEET),
            "icon": _relative(chapter.name, "icon.svg"),
            "words": places.page(*_GLOSSARY),
        }
        target = folder / _file(chapter.name)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(rendering.page("manual_alone.html", told), "utf-8")
    for name in (SHEET, "icon.svg"):
        (folder / name).write_bytes(rendering.asset(name)[0])
    for picture in manual.pictures():
        place = folder / manual.PICTURES / picture
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(manual.picture(picture))
    return len(chapters)


def _page(beside: str, name: str, heading: str) -> str:
    place = _relative(beside, _file(name))
    return f"{place}#{heading}" if heading else place


def _picture(beside: str, name: str) -> str:
    return _relative(beside, f"{manual.PICTURES}/{name}")


def _relative(beside: str, target: str) -> str:
    return posixpath.relpath(target, posixpath.dirname(beside) or ".")


def _file(name: str) -> str:
    """Return the file of a page; a folder's index becomes ``index.html``."""
    folder, last = posixpath.split(name)
    return posixpath.join(folder, "index.html" if last == manual.INDEX else f"{last}.html")


_GLOSSARY = (manual.GLOSSARY[0], manual.anchor(manual.GLOSSARY[1]))


def main(words: list[str]) -> int:
    if len(words) != 1 or words[0].startswith("-"):
        sys.stderr.write("usage: python -m kgd.ui.site FOLDER\n")
        return 2
    folder = Path(words[0])
    sys.stdout.write(f"{write(folder)} pages in {folder}: open {folder / 'index.html'}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
