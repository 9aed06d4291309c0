"""The manual as a folder of HTML: ``python -m kgd.ui.site FOLDER``."""

from __future__ import annotations

import json
import posixpath
import sys
from functools import partial
from pathlib import Path

from kgd.ui import manual, rendering
from kgd.ui.pages import manual as pages

FILES = ("kgd.css", "code.css", "manual.css", "manual.js", "icon.svg")
SEARCH = "find.html"
INDEX = "search-index.js"


def write(folder: Path) -> int:
    """Write every page with its pictures, and the search; other files in the folder are kept.

    Returns:
        The number of pages.
    """
    chapters = manual.chapters()
    for chapter in chapters:
        places = manual.Places(page=partial(_page, chapter.name), picture=partial(_picture, chapter.name))
        target = folder / _file(chapter.name)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(_html(chapter.name, manual.read(chapter.name, places)), "utf-8")
    (folder / SEARCH).write_text(_html(SEARCH, None), "utf-8")
    (folder / INDEX).write_text(_index(), "utf-8")
    for name in FILES:
        (folder / name).write_bytes(rendering.asset(name)[0])
    for picture in manual.pictures():
        place = folder / manual.PICTURES / picture
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(manual.picture(picture))
    return len(chapters)


def _html(name: str, read: manual.Read | None) -> str:
    """Render a page of the manual; without one, the page of the search."""
    page = partial(_page, name)
    told = {
        "read": read,
        "groups": manual.groups(),
        "place": page,
        "find": _relative(name, SEARCH),
        "file": partial(_relative, name),
        "words": page(*_GLOSSARY),
    }
    return rendering.page("manual_alone.html", told)


def _index() -> str:
    """Return the script with the text of all sections. A script, because browsers do not fetch data from ``file:``."""
    sections = [
        {
            "page": section.chapter.title,
            "heading": section.heading.title,
            "group": section.chapter.group,
            "factor": pages.LATER.get(section.chapter.group, 1.0),
            "address": _page(SEARCH, section.chapter.name, section.heading.anchor),
            "text": section.text,
        }
        for section in manual.sections()
    ]
    index = {
        "sections": sections,
        "common": sorted(pages.COMMON),
        "limit": pages.LIMIT,
        "words": pages.WORDS,
        "snippet": pages.SNIPPET,
        "covered": pages.COVERED,
    }
    return f"window.manualIndex = {json.dumps(index, ensure_ascii=False, separators=(',', ':'))};\n"


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
    try:
        count = write(folder)
    except OSError as error:
        sys.stderr.write(f"{folder} cannot be written: {error.strerror} ({error.filename})\n")
        return 1
    sys.stdout.write(f"{count} pages in {folder}: open {folder / 'index.html'}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
