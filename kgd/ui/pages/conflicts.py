"""This file is where what two people wrote differently is listed, looked at side by side, and settled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kgd.errors import Invalid, KgdError, NotFound
from kgd.model.access import Verb
from kgd.ui.asked import Asked, Go, Handled, Page
from kgd.ui.changes import foretold, rows, titled, written
from kgd.ui.choices import Choice, disputes, is_text, kind_of, resolution
from kgd.ui.entry import Entry
from kgd.ui.reading import names

LISTED = 20
TOGETHER = 12
"""Conflicts that are settled on one page."""
EXCERPT = 160
CONFLICTS, SUGGESTIONS = "conflicts", "suggestions"


@dataclass(frozen=True, slots=True)
class Chosen:
    """What a form says: one choice for each field of each conflict, in their order, and why."""

    choices: Mapping[str, Choice]
    message: str


def listing(asked: Asked) -> Handled:
    """What is open, by pages; or what is suggested."""
    if asked.query.get("part") == SUGGESTIONS:
        return _suggestions(asked)
    uri = asked.query.get("uri", "").strip()
    answer = asked.call("conflicts", uri=uri or None, limit=LISTED, cursor=asked.query.get("cursor") or None)
    known = names(asked, [one["uri"] for one in answer["conflicts"]])
    told = [
        {
            "id": one["id"], "uri": one["uri"], "name": known.get(one["uri"], {}).get("name", ""),
            "kind": kind_of(one["uri"], next(iter(one["fields"]))),
            "fields": [(titled(name), _excerpts(field)) for name, field in one["fields"].items()],
        }
        for one in answer["conflicts"]
    ]  # fmt: skip
    return Page(
        "conflicts.html",
        {"part": CONFLICTS, "uri": uri, "listed": told, "total": answer["total"], "cursor": answer.get("cursor", ""),
         "begun": "cursor" in asked.query, "may_suggest": asked.may_do_all, "may": asked.may("resolve", Verb.RESOLVE)},
    )  # fmt: skip


def conflict(asked: Asked) -> Handled:
    """One conflict, or all of a node: looked at, decided, shown as the commit that it will be, and made so."""
    ids = list(dict.fromkeys(asked.many("id")))[:TOGETHER]
    if not ids:
        uri = asked.required("uri")
        ids = [one["id"] for one in asked.call("conflicts", uri=uri, limit=TOGETHER)["conflicts"]]
        if not ids:
            return Go(asked.to("conflicts"), said=f"Nothing is in conflict about {uri} any more.")
    open_now, gone = _look(asked, ids)
    chosen = _chosen(asked.form)
    if gone:
        return _settled(asked, open_now, gone, chosen)
    step = asked.form.get("step", "")
    if not step or step == "change":
        return _decide(asked, open_now, chosen)
    if step == "model":
        return _have_settled(asked, open_now, ids)
    try:
        resolutions = _resolutions(open_now, chosen)
        done = asked.call("resolve", resolutions=resolutions, message=chosen.message or None, dry_run=step != "make")
    except KgdError as error:
        open_now, gone = _look(asked, ids)
        return _settled(asked, open_now, gone, chosen) if gone else _decide(asked, open_now, chosen, error)
    if step == "make":
        return Go(asked.to("conflicts"), said=_said(done, len(resolutions)))
    told = {"ids": ids, "chosen": chosen, "would": foretold(done.get("would")), "warnings": done["warnings"]}
    return Page("conflict_preview.html", told | {"count": len(resolutions)})


def suggestion(asked: Asked) -> Handled:
    """One suggestion: dismissed, or shown as the commit that it will be and then made so."""
    id, take, step = asked.required("id"), asked.required("take"), asked.form.get("step", "")
    back = asked.to("conflicts", part=SUGGESTIONS)
    shows = take == "accept" and step != "make"
    try:
        done = asked.call("resolve", resolutions=[{"id": id, "take": take}], dry_run=shows)
    except NotFound:
        return Go(back, said="This is not suggested any more: somebody decided it, or what spoke for it has changed.")
    if not shows:
        said = "Dismissed. It comes again when twice as much speaks for it." if take == "reject" else _said(done, 1)
        return Go(back, said=said)
    found = [one for one in asked.call("conflicts", suggestions=True, limit=1)["suggestions"] if one["id"] == id]
    return Page(
        "conflict_suggestion.html",
        {"one": found[0] if found else None, "id": id, "would": foretold(done.get("would")), "back": back},
    )


def _suggestions(asked: Asked) -> Handled:
    answer = asked.call("conflicts", suggestions=True, limit=1)
    told = answer.get("suggestions", ())
    known = names(asked, [uri for one in told for uri in (one["source"], one.get("target", "")) if uri])
    return Page(
        "conflicts.html",
        {"part": SUGGESTIONS, "suggestions": told, "names": {uri: one.get("name", "") for uri, one in known.items()},
         "total": answer["total"], "may_suggest": asked.may_do_all, "may": asked.may_do_all},
    )  # fmt: skip


def _look(asked: Asked, ids: Sequence[str]) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
    """The conflicts that are open, and the answers about those that are not any more."""
    open_now, gone = list[Mapping[str, Any]](), list[Mapping[str, Any]]()
    for id in dict.fromkeys(ids):
        answer = asked.call("conflicts", id=id)
        if "settled" in answer:
            gone.append(answer)
        else:
            open_now.append({**answer["conflicts"][0], "model": answer.get("model")})
    return open_now, gone


def _decide(asked: Asked, found: Sequence[Mapping[str, Any]], chosen: Chosen, error: KgdError | None = None) -> Handled:
    """The versions next to each other, and a form to choose in."""
    groups = [disputes(one) for one in found]
    uris = list(dict.fromkeys(one["uri"] for one in found))
    known = names(asked, uris)
    others = 0
    if len(found) == 1 and kind_of(uris[0], "") != "setting":
        others = asked.call("conflicts", uri=uris[0], limit=1)["total"] - 1
    return Page(
        "conflict.html",
        {
            "groups": groups, "uris": uris, "names": {uri: one.get("name", "") for uri, one in known.items()},
            "chosen": chosen, "error": error, "may": asked.may("resolve", Verb.RESOLVE), "others": others,
            "model": found[0].get("model") if len(found) == 1 else None, "is_text": is_text,
            "ids": [one["id"] for one in found],
        },
        422 if error else 200,
    )  # fmt: skip


def _settled(
    asked: Asked, open_now: Sequence[Mapping[str, Any]], gone: Sequence[Mapping[str, Any]], chosen: Chosen
) -> Handled:
    """What somebody else decided meanwhile, and beside it what was chosen here."""
    told = []
    for answer in gone:
        settled = answer["settled"]
        try:
            (commit,) = asked.call("history", commit=settled["commit"], diff=True)["commits"]
        except KgdError:  # a reader of a part may not see it
            commit = {"message": "", "diff": []}
        told.append({"settled": settled, "message": commit["message"], "rows": rows(commit["diff"]),
                     "open": answer["conflicts"]})  # fmt: skip
    kept = [(key, choice) for key, choice in chosen.choices.items() if choice.take]
    return Page("conflict_settled.html", {"gone": told, "open": open_now, "kept": kept, "message": chosen.message})


def _have_settled(asked: Asked, found: Sequence[Mapping[str, Any]], ids: Sequence[str]) -> Handled:
    """Put it to the model of the settings."""
    answer = asked.call("resolve_conflicts", ids=list(ids), via="provider")
    for one in answer["resolved"]:
        if one.get("by") == "provider":
            said = f"{one['model']} settled it, in commit {one['commit'][:10]}. Look at it; it can be reverted."
            return Go(asked.to("node", uri=one["uri"]), said=said)
    if not answer["remaining"]:
        return Go(asked.here, said="Somebody settled it meanwhile.")
    why = Invalid(f"the model did not settle it: {answer['remaining'][0]['why']}", next="Decide it yourself.")
    return _decide(asked, found, Chosen({}, ""), why)


def _resolutions(found: Sequence[Mapping[str, Any]], chosen: Chosen) -> list[dict[str, Any]]:
    """What is decided of these; those about which nothing was chosen stay open, unless that is all of them.

    Raises:
        Invalid: A choice has no value, or nothing was chosen.
    """
    decided = []
    for number, one in enumerate(found):
        fields = disputes(one)
        choices = [chosen.choices.get(f"{number}-{place}", Choice()) for place in range(len(fields))]
        if any(choice.take for choice in choices) or len(found) == 1:
            decided.append(resolution(fields, choices))
    if not decided:
        raise Invalid("nothing was chosen", next="Choose for at least one of them what shall count.")
    return decided


def _chosen(form: Mapping[str, str]) -> Chosen:
    """What was sent. Fields of the form are called ``take-0-1``: of the first conflict the second field."""
    choices = {}
    for name, take in form.items():
        if name.startswith("take-"):
            key = name.removeprefix("take-")
            begin = f"part-{key}-"
            parts = {int(one[len(begin) :]): value for one, value in form.items()
                     if one.startswith(begin) and one[len(begin) :].isdecimal() and len(one) < 40}  # fmt: skip
            choices[key] = Choice("" if take == "later" else take, form.get(f"own-{key}", ""), parts)
    return Chosen(choices, form.get("message", "").replace("\r\n", "\n").strip())


def _excerpts(field: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The versions of a field, short enough for a list."""
    found = []
    for side in field["sides"]:
        text = " ".join(written(side["value"])[: 4 * EXCERPT].split())
        text = text if len(text) <= EXCERPT else f"{text[:EXCERPT]}…"
        found.append({"text": text, "letter": side["side"], "author": side.get("author", ""),
                      "is_nothing": side["value"] is None, "is_shown": side["side"] == field["shown"]})  # fmt: skip
    return found


def _said(done: Mapping[str, Any], count: int) -> str:
    if not done["commit"]:
        return "Nothing had to be changed."
    what = "Settled" if count == 1 else f"{count} conflicts are settled"
    told = " ".join(f"{text}." for text in done["warnings"])
    return f"{what}, in commit {done['commit'][:10]}. {told}".strip()


ENTRIES = (
    Entry("conflicts", "conflicts", listing),
    Entry("conflicts", "conflict", conflict, ("GET", "POST")),
    Entry("conflicts", "suggestion", suggestion, ("POST",)),
)
