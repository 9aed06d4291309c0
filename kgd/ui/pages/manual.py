"""The pages of the manual and the glossary."""

from __future__ import annotations

from urllib.parse import quote

from kgd.ui import manual
from kgd.ui.visit import ROOT, Download, Entry, Handled, Page, Visit


def _page(name: str, heading: str) -> str:
    place = f"{ROOT}/manual" if name == manual.INDEX else f"{ROOT}/manual/{quote(name)}"
    return f"{place}#{quote(heading)}" if heading else place


PLACES = manual.Places(page=_page, picture=lambda name: f"{ROOT}/manual/{manual.PICTURES}/{quote(name)}")


def page(visit: Visit) -> Handled:
    read = manual.read(visit.path.get("page") or manual.INDEX, PLACES)
    return Page("manual.html", {"read": read, "chapters": manual.chapters(), "place": _page})


def glossary(visit: Visit) -> Handled:
    return Page("glossary.html", {"words": manual.glossary(PLACES), "place": _page})


def picture(visit: Visit) -> Handled:
    return Download(manual.picture(visit.path["name"]), "image/png")


ENTRIES = (
    Entry("manual", "manual", page),
    Entry("manual", f"manual/{manual.PICTURES}/{{name}}", picture),
    Entry("manual", "manual/{page:path}", page),
    Entry("glossary", "glossary", glossary),
)
