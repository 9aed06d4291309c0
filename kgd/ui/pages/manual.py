"""This file is where the manual and the glossary are shown, one click away from every page."""

from __future__ import annotations

from urllib.parse import quote

from kgd.ui import manual
from kgd.ui.asked import ROOT, Asked, Handled, Page, Whole
from kgd.ui.entry import Entry


def _page(name: str, heading: str) -> str:
    place = f"{ROOT}/manual" if name == manual.INDEX else f"{ROOT}/manual/{quote(name)}"
    return f"{place}#{quote(heading)}" if heading else place


PLACES = manual.Places(page=_page, picture=lambda name: f"{ROOT}/manual/{manual.PICTURES}/{quote(name)}")


def page(asked: Asked) -> Handled:
    read = manual.read(asked.path.get("page") or manual.INDEX, PLACES)
    return Page("manual.html", {"read": read, "chapters": manual.chapters(), "place": _page})


def glossary(asked: Asked) -> Handled:
    return Page("glossary.html", {"words": manual.glossary(PLACES), "place": _page})


def picture(asked: Asked) -> Handled:
    return Whole(manual.picture(asked.path["name"]), "image/png")


ENTRIES = (
    Entry("manual", "manual", page),
    Entry("manual", f"manual/{manual.PICTURES}/{{name}}", picture),
    Entry("manual", "manual/{page:path}", page),
    Entry("glossary", "glossary", glossary),
)
