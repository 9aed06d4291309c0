"""The pages of the manual and the glossary."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from kgd.ui import manual, manual_search
from kgd.ui.visit import ROOT, Download, Entry, Handled, Page, Visit

HOME = f"{ROOT}/manual"
LONGEST_QUERY = 200


def _page(name: str, heading: str) -> str:
    place = HOME if name == manual.INDEX else f"{HOME}/{quote(name)}"
    return f"{place}#{quote(heading)}" if heading else place


PLACES = manual.Places(page=_page, picture=lambda name: f"{HOME}/{manual.PICTURES}/{quote(name)}")


def _around() -> dict[str, Any]:
    """Return the variables of every page: the list of pages, and addresses."""
    return {"groups": manual.groups(), "place": _page, "find": HOME}


def page(visit: Visit) -> Handled:
    name, query = visit.path.get("page", ""), " ".join(visit.query.get("q", "").split())[:LONGEST_QUERY]
    if query and not name:
        return Page("manual_search.html", {**_around(), "query": query, "found": manual_search.find(query)})
    return Page("manual.html", {**_around(), "read": manual.read(name or manual.INDEX, PLACES)})


def glossary(visit: Visit) -> Handled:
    return Page("glossary.html", {**_around(), "words": manual.glossary(PLACES)})


def picture(visit: Visit) -> Handled:
    name = visit.path["name"]
    return Download(manual.picture(name), "image/svg+xml" if name.endswith(".svg") else "image/png")


ENTRIES = (
    Entry("manual", "manual", page),
    Entry("manual", f"manual/{manual.PICTURES}/{{name}}", picture),
    Entry("manual", "manual/{page:path}", page),
    Entry("glossary", "glossary", glossary),
)
