"""The pages *Conflicts*: the list, the versions side by side, their resolution, and suggestions from use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from kgd.errors import Invalid, KgdError, NotFound
from kgd.model.access import Verb
from kgd.ui.changes import (
    Mark,
    are_lists,
    marked,
    marked_items,
    named_in,
    newer,
    previewed_commit,
    reasons_of,
    rows,
    shortened,
    titled,
    written,
)
from kgd.ui.choices import Choice, disputes, is_text, kind_of, resolution, text_of
from kgd.ui.node_reading import code_beside, titles, written_since
from kgd.ui.node_reading import listed as listed_rows
from kgd.ui.visit import Entry, Handled, Page, Redirect, Visit, reported

LISTED = 20
TOGETHER = 12
"""Largest number of conflicts on one page."""
EXCERPT = 160
CONFLICTS, SUGGESTIONS = "conflicts", "suggestions"


@dataclass(frozen=True, slots=True)
class Chosen:
    """A submitted form: a choice for each field of each conflict, in their order, and a message."""

    choices: Mapping[str, Choice]
    message: str


def listing(visit: Visit) -> Handled:
    """List the open conflicts, or the suggestions."""
    if visit.query.get("part") == SUGGESTIONS:
        return _suggestions(visit)
    uri = visit.query.get("uri", "").strip()
    answer = visit.call("conflicts", uri=uri or None, limit=LISTED, cursor=visit.query.get("cursor") or None)
    known = titles(visit, named_in(answer["conflicts"]))
    reasons = reasons_of(visit, (side["commit"] for one in answer["conflicts"] for side in known_sides(one)))
    told = [
        {
            "id": one["id"],
            "uri": one["uri"],
            "name": known.get(one["uri"], ""),
            **listed(one, reasons, known),
        }
        for one in answer["conflicts"]
    ]
    return Page(
        "conflicts.html",
        {
            "part": CONFLICTS,
            "uri": uri,
            "listed": told,
            "total": answer["total"],
            "cursor": answer.get("cursor", ""),
            "begun": "cursor" in visit.query,
            "may_suggest": visit.may_do_all,
            "may": visit.may("resolve", Verb.RESOLVE),
        },
    )


def known_sides(one: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the sides of a conflict whose commits are known."""
    return [side for field in one["fields"].values() for side in field["sides"] if "commit" in side]


def listed(
    one: Mapping[str, Any], reasons: Mapping[str, str] | None = None, names: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return the kind of a conflict, and its fields with shortened versions. It `is_short` if the list shows all
    versions as a whole, so that a reader can choose there.

    Args:
        reasons: Messages by commit, for the versions.
        names: Names by URI, for the targets of relations.
    """
    fields = [
        {
            "title": titled(name, names),
            "name": name,
            "before": _before(one["uri"], name, field),
            "sides": _excerpts(one["uri"], name, field, reasons or {}),
        }
        for name, field in one["fields"].items()
    ]
    kind, sides = kind_of(one["uri"], next(iter(one["fields"]))), fields[0]["sides"]
    is_short = all(isinstance(side["value"], str) and len(side["value"]) <= EXCERPT for side in sides)
    is_whole = kind == "field" and len(fields) == 1 and any(side["is_shown"] for side in sides)
    return {"kind": kind, "fields": fields, "is_short": is_short and is_whole}


def conflict(visit: Visit) -> Handled:
    """Show one conflict or all of a node, preview the chosen commit, and make it."""
    ids = list(dict.fromkeys(visit.many("id")))[:TOGETHER]
    if not ids:
        uri = visit.required("uri")
        ids = [one["id"] for one in visit.call("conflicts", uri=uri, limit=TOGETHER)["conflicts"]]
        if not ids:
            return Redirect(visit.to("conflicts"), said=f"{uri} has no open conflict.")
    open_now, gone = _look(visit, ids)
    chosen = _chosen(visit.form)
    if gone:
        return _settled(visit, open_now, gone, chosen)
    step = visit.form.get("step", "")
    if not step or step == "change":
        return _decide(visit, open_now, chosen)
    if step == "model":
        return _have_settled(visit, open_now, ids)
    try:
        resolutions = _resolutions(open_now, chosen)
        done = visit.call("resolve", resolutions=resolutions, message=chosen.message or None, dry_run=step != "make")
    except KgdError as error:
        open_now, gone = _look(visit, ids)
        return _settled(visit, open_now, gone, chosen) if gone else _decide(visit, open_now, chosen, error)
    if step == "make":
        what = "Resolved" if len(resolutions) == 1 else f"{len(resolutions)} conflicts resolved"
        return reported(_following(visit, visit.form.get("next", "")), done, what)
    told = {
        "ids": ids,
        "chosen": chosen,
        "would": previewed_commit(visit, done.get("would")),
        "warnings": done["warnings"],
    }
    return Page("conflict_preview.html", told | {"count": len(resolutions)})


def suggestion(visit: Visit) -> Handled:
    """Dismiss a suggestion, or preview its commit and make it."""
    id, take, step = visit.required("id"), visit.required("take"), visit.form.get("step", "")
    back = visit.to("conflicts", part=SUGGESTIONS)
    shows = take == "accept" and step != "make"
    try:
        done = visit.call("resolve", resolutions=[{"id": id, "take": take}], dry_run=shows)
    except NotFound:
        return Redirect(back, said="This suggestion no longer exists: it was decided, or its evidence has changed.")
    if take == "reject":
        return Redirect(back, said="Dismissed. It returns when the evidence has doubled.")
    if not shows:
        return reported(back, done, "Resolved")
    found = [one for one in visit.call("conflicts", suggestions=True, limit=1)["suggestions"] if one["id"] == id]
    return Page(
        "conflict_suggestion.html",
        {
            "one": found[0] if found else None,
            "id": id,
            "would": previewed_commit(visit, done.get("would")),
            "back": back,
        },
    )


def _suggestions(visit: Visit) -> Handled:
    answer = visit.call("conflicts", suggestions=True, limit=1)
    told = answer.get("suggestions", ())
    known = titles(
        visit, [uri for one in told for uri in (one["source"], one.get("target", ""), *one.get("texts", ())) if uri]
    )
    return Page(
        "conflicts.html",
        {
            "part": SUGGESTIONS,
            "suggestions": told,
            "names": known,
            "total": answer["total"],
            "may_suggest": visit.may_do_all,
            "may": visit.may_do_all,
        },
    )


def _following(visit: Visit, id: str) -> str:
    """Return the address of a conflict if it is open, else of the list."""
    with suppress(KgdError):
        if id and "settled" not in visit.call("conflicts", id=id):
            return visit.to("conflict", id=id)
    return visit.to("conflicts")


def _turn(visit: Visit, id: str) -> tuple[int, int, str] | None:
    """Return the place of a conflict in the list, the number of conflicts, and the next one's id; None if it is the
    only one, or further down than the first page."""
    answer = visit.call("conflicts", limit=LISTED)
    ids = [one["id"] for one in answer["conflicts"]]
    if len(ids) < 2 or id not in ids:
        return None
    place = ids.index(id) + 1
    return place, answer["total"], ids[place % len(ids)]


def _look(visit: Visit, ids: Sequence[str]) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
    """Return the open conflicts, and the answers for those already resolved."""
    open_now, gone = list[Mapping[str, Any]](), list[Mapping[str, Any]]()
    for id in dict.fromkeys(ids):
        answer = visit.call("conflicts", id=id)
        if "settled" in answer:
            gone.append(answer)
        else:
            open_now.append({**answer["conflicts"][0], "model": answer.get("model")})
    return open_now, gone


def _decide(visit: Visit, found: Sequence[Mapping[str, Any]], chosen: Chosen, error: KgdError | None = None) -> Handled:
    """Show the versions side by side, with a form to choose."""
    known = titles(visit, named_in(found))
    groups = [disputes(one, known) for one in found]
    uris = list(dict.fromkeys(one["uri"] for one in found))
    others, is_of_node = 0, len(uris) == 1 and not uris[0].startswith("kgd://")
    if len(found) == 1 and kind_of(uris[0], "") != "setting":
        others = visit.call("conflicts", uri=uris[0], limit=1)["total"] - 1
    return Page(
        "conflict.html",
        {
            "groups": groups,
            "uris": uris,
            "names": known,
            "row": next(iter(listed_rows(visit, [{"uri": uri} for uri in uris])), None) if is_of_node else None,
            "chosen": chosen,
            "is_written": bool(visit.form),
            "error": error,
            "may": visit.may("resolve", Verb.RESOLVE),
            "others": others,
            "turn": _turn(visit, found[0]["id"]) if len(found) == 1 else None,
            "model": found[0].get("model") if len(found) == 1 else None,
            "reasons": reasons_of(
                visit, (side.by.get("commit", "") for fields in groups for one in fields for side in one.sides)
            ),
            "later": {(one["id"], name): later for one in found for name, later in written_since(visit, one).items()},
            "code": code_beside(visit, uris[0]) if len(uris) == 1 else (),
            "is_text": is_text,
            "text_of": text_of,
            "ids": [one["id"] for one in found],
        },
        422 if error else 200,
    )


def _settled(
    visit: Visit, open_now: Sequence[Mapping[str, Any]], gone: Sequence[Mapping[str, Any]], chosen: Chosen
) -> Handled:
    """Show how others have resolved the conflicts, and the choices of this form."""
    told = []
    for answer in gone:
        settled = answer["settled"]
        found = visit.tried("history", commit=settled["commit"], diff=True).get("commits", ())
        unseen: Mapping[str, Any] = {"message": "", "diff": []}  # a restricted reader may not see the commit
        commit = next(iter(found), unseen)
        told.append(
            {
                "settled": settled,
                "message": commit["message"],
                "rows": rows(commit["diff"], titles(visit, named_in(commit["diff"]))),
                "open": answer["conflicts"],
            }
        )
    kept = [(key, choice) for key, choice in chosen.choices.items() if choice.take]
    return Page("conflict_settled.html", {"gone": told, "open": open_now, "kept": kept, "message": chosen.message})


def _have_settled(visit: Visit, found: Sequence[Mapping[str, Any]], ids: Sequence[str]) -> Handled:
    """Resolve a conflict with the configured model."""
    answer = visit.call("resolve_conflicts", ids=list(ids), via="provider")
    for one in answer["resolved"]:
        if one.get("by") == "provider":
            what = f"{one['model']} resolved it"
            return reported(visit.to("node", uri=one["uri"]), one, what, more="Check the result.")
    if not answer["remaining"]:
        return Redirect(visit.here, said="This conflict has already been resolved.")
    why = Invalid(f"the model did not resolve it: {answer['remaining'][0]['why']}", next="Choose a version yourself.")
    return _decide(visit, found, Chosen({}, ""), why)


def _resolutions(found: Sequence[Mapping[str, Any]], chosen: Chosen) -> list[dict[str, Any]]:
    """Return the chosen resolutions; conflicts without a choice stay open.

    Raises:
        Invalid: A choice has no value, or no conflict has a choice.
    """
    decided = []
    for number, one in enumerate(found):
        fields = disputes(one)
        choices = [chosen.choices.get(f"{number}-{place}", Choice()) for place in range(len(fields))]
        if any(choice.take for choice in choices) or len(found) == 1:
            decided.append(resolution(fields, choices))
    if not decided:
        raise Invalid("nothing was chosen", next="Choose a version for at least one conflict.")
    return decided


def _chosen(form: Mapping[str, str]) -> Chosen:
    """Parse a form. Its field ``take-0-1`` is the choice for the second field of the first conflict."""
    choices = {}
    for name, take in form.items():
        if name.startswith("take-"):
            key = name.removeprefix("take-")
            begin = f"part-{key}-"
            parts = {
                int(one[len(begin) :]): value
                for one, value in form.items()
                if one.startswith(begin) and one[len(begin) :].isdecimal() and len(one) < 40
            }
            choices[key] = Choice("" if take == "later" else take, form.get(f"own-{key}", ""), parts)
    return Chosen(choices, form.get("message", "").replace("\r\n", "\n").strip())


def _excerpts(uri: str, name: str, field: Mapping[str, Any], reasons: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the versions of a field, shortened for a list, each with the reason of its commit."""
    compared = newer(*(_compared(uri, name, field["base"], side["value"]) for side in field["sides"]))
    return [
        {
            "marks": shortened(marks, 3 * EXCERPT, EXCERPT // 2),
            "letter": side["side"],
            "author": side.get("author", ""),
            "value": side["value"],
            "at": side.get("at", ""),
            "is_nothing": side["value"] is None,
            "is_shown": side["side"] == field["shown"],
            "reason": _excerpt(reasons.get(side.get("commit", ""), "")),
        }
        for side, marks in zip(field["sides"], compared, strict=True)
    ]


def _compared(uri: str, name: str, base: Any, value: Any) -> list[Mark]:
    """Compare a version with its base; without a base, nothing is marked."""
    text = written(value)
    if base is None or kind_of(uri, name) in ("node", "twin", "uri"):
        return [Mark("same", _excerpt(value))]
    compare = marked_items if are_lists(base, value) else marked
    return compare(written(base), text)


def _before(uri: str, name: str, field: Mapping[str, Any]) -> str:
    """Return the field's value before both changes, shortened for a list; empty for whole nodes and for twins."""
    return "" if kind_of(uri, name) in ("node", "twin") else _excerpt(field["base"]) or "nothing"


def _excerpt(value: Any) -> str:
    text = " ".join(written(value)[: 4 * EXCERPT].split())
    return f"{text[:EXCERPT]}…" if len(text) > EXCERPT else text


ENTRIES = (
    Entry("conflicts", "conflicts", listing),
    Entry("conflicts", "conflict", conflict, ("GET", "POST")),
    Entry("conflicts", "suggestion", suggestion, ("POST",)),
)
