"""This file is where what nobody verified is listed and verified, and what cannot be read or is not there is listed."""

from __future__ import annotations

from kgd.ui.asked import Asked, Go, Handled, Page
from kgd.ui.entry import Entry
from kgd.ui.reading import names

STALE = 30
BROKEN = 100


def stale(asked: Asked) -> Handled:
    """Facts whose code changed since anybody said that they hold."""
    answer = asked.call("stale", limit=STALE, cursor=asked.query.get("cursor"))
    return Page("stale.html", {"answer": answer, "begun": "cursor" in asked.query})


def verify(asked: Asked) -> Handled:
    """One of them, or those that are ticked, hold for the code as it is now."""
    one = asked.form.get("one", "")
    uris = [one] if one else asked.many("uri")
    if not uris:
        return Go(asked.to("stale"), said="Nothing was ticked, so nothing was verified.")
    done = asked.call("stale", verify=uris, limit=1)["verified"]
    said = f"Verified: {len(uris)} fact{'s' if len(uris) > 1 else ''}"
    return Go(
        asked.to("stale"), said=f"{said}, in commit {done['commit'][:10]}." if done["commit"] else f"{said} already."
    )


def broken(asked: Asked) -> Handled:
    """What relations lead to and nobody has written."""
    answer = asked.call("broken", limit=BROKEN, cursor=asked.query.get("cursor"))
    known = names(asked, [link["source"] for one in answer["broken"] for link in one["links"]])
    return Page("broken.html", {"answer": answer, "known": known, "begun": "cursor" in asked.query})


def unreadable(asked: Asked) -> Handled:
    """Files that somebody edited by hand and that cannot be read."""
    status = asked.call("status")
    total = status["counts"].get("invalid_files", 0)
    folder = f"{status['workspace']['path']}/" if asked.may_do_all else ""
    return Page("unreadable.html", {"files": status["invalid_files"], "total": total, "folder": folder, "polls": True})


ENTRIES = (
    Entry("overview", "stale", stale),
    Entry("overview", "stale", verify, ("POST",)),
    Entry("overview", "broken", broken),
    Entry("overview", "unreadable", unreadable),
)
