"""The pages *Proposals*: the list, the changes of one proposal by node, and its acceptance or rejection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kgd.errors import Invalid, KgdError, NotFound, Stale
from kgd.model.access import Verb
from kgd.ui.changes import NodeRow, named_in, previewed_commit, rows
from kgd.ui.node_reading import AREAS, code_beside, titles
from kgd.ui.pages.review import ANY_TIME, BY, ReviewFilter, filter_of, found_by
from kgd.ui.rendering import counted
from kgd.ui.visit import Entry, Handled, Page, Redirect, Visit, reported

LISTED, FILTERED = 10, 100
"""Largest number of proposals on a page, and of those from which a page with only some decisions is selected."""
OUTCOMES = {
    "1": ("All", ("accepted", "partly accepted", "rejected", "withdrawn")),
    "accepted": ("Accepted", ("accepted", "partly accepted")),
    "rejected": ("Rejected", ("rejected", "withdrawn")),
}
"""Values of `decided` in the address: the words of a filter, and its decisions."""
SHOWN = 5
"""Largest number of nodes of a proposal that the list shows, and that its page shows with their differences."""
TRIED = 200
"""Largest number of nodes of a proposal whose acceptance its page tries."""


def listing(visit: Visit) -> Handled:
    """List the open proposals that match the filter, or the visitor's own with comments to answer, oldest first; or the
    decided ones, newest decision first."""
    wanted, unanswered = filter_of(visit.query), "unanswered" in visit.query
    if "decided" in visit.query:
        return _decided(visit, wanted)
    answer = found_by(visit, wanted, "proposals", limit=LISTED, unanswered=unanswered)
    return Page(
        "proposals.html",
        {
            "listed": answer["proposals"],
            "shown": {one["id"]: _shown(visit, one["id"]) for one in answer["proposals"]},
            "counts": _counts_of(visit),
            "may": visit.may("accept"),
            "total": answer["total"],
            "wanted": wanted,
            "usual": ANY_TIME,
            "by": [(by, words, None) for by, words in BY],
            "unanswered": unanswered,
            "cursor": answer.get("cursor", ""),
            "begun": "cursor" in visit.query,
        },
    )


def _decided(visit: Visit, wanted: ReviewFilter) -> Handled:
    name, outcome = visit.query.get("id") or None, visit.query["decided"]
    outcome = outcome if outcome in OUTCOMES else "1"
    limit = LISTED if outcome == "1" else FILTERED
    answer = found_by(visit, wanted, "proposals", limit=limit, decided=True, name=name)
    shown = [one for one in answer["decided"] if one["decision"] in OUTCOMES[outcome][1]]
    return Page(
        "proposals_decided.html",
        {
            "listed": shown,
            "name": name,
            "outcome": outcome,
            "outcomes": [(value, words) for value, (words, _) in OUTCOMES.items()],
            "shown": {one["id"]: _shown(visit, one["id"], is_decided=True) for one in shown},
            "counts": _counts_of(visit),
            "cursor": answer.get("cursor", ""),
            "begun": "cursor" in visit.query,
        },
    )


def _counts_of(visit: Visit) -> tuple[int, int]:
    """Return the numbers of open and of decided proposals."""
    answers = (visit.tried("proposals", limit=1, decided=is_decided) for is_decided in (False, True))
    are_open, are_decided = (int(answer.get("total", 0)) for answer in answers)
    return are_open, are_decided


def _shown(visit: Visit, id: str, *, is_decided: bool = False) -> dict[str, Any]:
    """Return the description and first changed nodes of a proposal; empty if it was decided or changed meanwhile."""
    found = visit.tried("proposals", name=id, decided=is_decided).get("decided" if is_decided else "proposals")
    if not found:
        return {}
    diff = found[0].get("diff", [])[:SHOWN]
    return {
        "description": found[0].get("description", ""),
        "rows": rows(diff, titles(visit, named_in(diff))),
    }


@dataclass(frozen=True, slots=True)
class Part:
    """The selected part of a proposal: URIs of whole nodes, fields as ``URI FIELD``, and a commit message."""

    only: Sequence[str]
    fields: Sequence[str]
    message: str

    def __bool__(self) -> bool:
        return bool(self.only or self.fields)

    @property
    def uris(self) -> set[str]:
        return {*self.only, *(field.partition(" ")[0] for field in self.fields)}


def proposal(visit: Visit) -> Handled:
    """Show a proposal, preview its commit, accept or reject it, or comment on it."""
    id, step = visit.required("id"), visit.form.get("step", "")
    only = [uri for value in visit.many("only") for uri in value.split()]
    part = Part(only, visit.many("field"), visit.text("message"))
    try:
        if not step or step == "change":
            return _look(visit, id, part)
        if step == "reject":
            return _reject(visit, id)
        if step == "comment":
            return _comment(visit, id)
        if step == "make-part" and not part:
            nothing = Invalid("nothing is selected", next="Select at least one fact or field, or accept all.")
            return _look(visit, id, part, nothing)
        taken = part if step != "make-all" else Part([], [], part.message)
        done = visit.call(
            "accept",
            name=id,
            only=list(taken.only) or None,
            fields=list(taken.fields) or None,
            message=part.message or None,
            dry_run=step == "show",
        )
    except (NotFound, Stale) as error:
        return _is_over(visit, id, error)
    except KgdError as error:
        return _look(visit, id, part, error)
    if step != "show":
        return _accepted(visit, done)
    told = {
        "id": done["proposal"],
        "is_part": bool(part),
        "only": part.only,
        "fields": part.fields,
        "message": part.message,
        "would": previewed_commit(visit, done.get("would")),
        "warnings": done["warnings"],
    }
    return Page("proposal_preview.html", told)


def _accepted(visit: Visit, done: Mapping[str, Any]) -> Handled:
    to = visit.to("proposal", id=done["proposal"]) if done["left"] else visit.to("proposals")
    left = "The rest is still open." if done["left"] else ""
    return reported(to, done, "Accepted", "The workspace already has these changes.", left)


def _comment(visit: Visit, id: str) -> Handled:
    visit.call("comment", name=id, text=visit.text("text"))
    return Redirect(f"{visit.to('proposal', id=id)}#discussion", said="Comment added. The author can read it.")


def _reject(visit: Visit, id: str) -> Handled:
    reason = " ".join(visit.form.get("reason", "").split())
    done = visit.call("reject", name=id, reason=reason or None)
    said = f"Rejected and archived as {done['kept']}."
    if done.get("still_there"):
        said += f" The remote still lists it: {done['still_there']}."
    return Redirect(visit.to("proposals"), said=said)


def _look(visit: Visit, id: str, part: Part, error: KgdError | None = None) -> Handled:
    answer = visit.call(
        "proposals", name=id, uri=visit.query.get("uri") or None, cursor=visit.query.get("cursor") or None
    )
    if not answer["proposals"]:
        raise NotFound("no open proposal has that name", at=id[:80], next="Open the list of proposals.")
    one = answer["proposals"][0]
    of = len(one["nodes"]) + one.get("more_nodes", 0)
    known = titles(visit, [*named_in(one["diff"]), *one.get("conflicts", ())])
    shown = rows(one["diff"], known)
    opened = {row.uri for row in shown} if of <= SHOWN or len(shown) == 1 else part.uris
    may_accept = visit.may("accept")
    is_tried = may_accept and one["state"] == "open" and of <= TRIED
    why_not = visit.refusal("accept", name=id) if is_tried else None
    return Page(
        "proposal.html",
        {
            "one": one,
            "groups": _groups(shown, one.get("reasons", ())),
            "changes": _counts(shown),
            "alone": visit.query.get("uri", ""),
            "cursor": answer.get("cursor", ""),
            "begun": "cursor" in visit.query,
            "of": of,
            "opened": opened,
            "code": {row.uri: found for row in shown if row.uri in opened and (found := code_beside(visit, row.uri))},
            "names": known,
            "is_ready": is_tried and not why_not,
            "why_not": why_not,
            "only": part.only,
            "fields": part.fields,
            "message": part.message,
            "comment": visit.form.get("text", ""),
            "error": error,
            "may_comment": visit.may("comment", Verb.PROPOSE),
            "may_accept": may_accept,
            "may_reject": visit.may("reject", Verb.PROPOSE),
            "conflicts": frozenset(one.get("conflicts", ())),
        },
        422 if error else 200,
    )


def _is_over(visit: Visit, id: str, error: KgdError) -> Handled:
    """Report that a proposal was decided or changed, with its current version."""
    found = visit.tried("proposals", name=id.partition("@")[0]).get("proposals")
    decided = visit.tried("proposals", name=id, decided=True).get("decided")
    known = {"error": error, "id": id, "now": found[0] if found else None, "decided": bool(decided)}
    return Page("proposal_over.html", known, 200 if found else visit.status_of_missing)


def _groups(
    shown: Sequence[NodeRow], reasons: Sequence[Mapping[str, Any]]
) -> list[tuple[Mapping[str, Any] | None, list[NodeRow], str]]:
    """Group the nodes of a proposal by common reason, or singly. The last member of a group is its form value."""
    by_uri = {one.uri: one for one in shown}
    found: list[tuple[Mapping[str, Any] | None, list[NodeRow], str]] = []
    for reason in reasons:
        together = [by_uri.pop(uri) for uri in reason["nodes"] if uri in by_uri]
        if together:
            found.append((reason, together, " ".join(reason["nodes"])))
    return [*found, *((None, [one], one.uri) for one in by_uri.values())]


def _counts(shown: Sequence[NodeRow]) -> str:
    """Return the numbers of facts and areas by change: ``1 fact created, 1 fact and 1 area changed``."""
    told = []
    for change in ("created", "changed", "deleted"):
        are_areas = [one.type in AREAS for one in shown if one.change == change]
        numbers = (("fact", are_areas.count(False)), ("area", are_areas.count(True)))
        if words := " and ".join(counted(number, word) for word, number in numbers if number):
            told.append(f"{words} {change}")
    return ", ".join(told)


ENTRIES = (
    Entry("proposals", "proposals", listing),
    Entry("proposals", "proposal", proposal, ("GET", "POST")),
)
