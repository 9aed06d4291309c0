"""This file is where proposed changes are listed, looked at node by node, and accepted whole, in part, or rejected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kgd.errors import KgdError, NotFound, Stale
from kgd.model.access import Verb
from kgd.ui.asked import Asked, Go, Handled, Page
from kgd.ui.changes import NodeRow, foretold, rows
from kgd.ui.entry import Entry
from kgd.ui.reading import names

LISTED = 20


def listing(asked: Asked) -> Handled:
    """What waits, oldest first, by pages."""
    answer = asked.call("proposals", limit=LISTED, cursor=asked.query.get("cursor") or None)
    return Page(
        "proposals.html",
        {"listed": answer["proposals"], "total": answer["total"], "cursor": answer.get("cursor", ""),
         "begun": "cursor" in asked.query},
    )  # fmt: skip


def proposal(asked: Asked) -> Handled:
    """One of them: what it changes, the commit that accepting makes, and the decision."""
    id, step = asked.required("id"), asked.form.get("step", "")
    only = [uri for value in asked.many("only") for uri in value.split()]
    message = asked.form.get("message", "").replace("\r\n", "\n").strip()
    try:
        if not step or step == "change":
            return _look(asked, id, only, message)
        if step == "reject":
            return _reject(asked, id)
        if step in ("all", "make-all"):
            only = []
        elif not only:
            return _look(asked, id, only, message, "Choose at least one node, or accept all of it.")
        makes = step.startswith("make-")
        done = asked.call("accept", name=id, only=only or None, message=message or None, dry_run=not makes)
    except (NotFound, Stale) as error:
        return _is_over(asked, id, error)
    except KgdError as error:
        return _look(asked, id, only, message, error)
    if makes:
        return _accepted(asked, done)
    told = {"id": done["proposal"], "only": only, "message": message, "would": foretold(done.get("would")),
            "warnings": done["warnings"]}  # fmt: skip
    return Page("proposal_preview.html", told)


def _accepted(asked: Asked, done: Mapping[str, Any]) -> Handled:
    told = " ".join(f"{text}." for text in done["warnings"])
    said = f"Accepted, in commit {done['commit'][:10]}. {told}" if done["commit"] else told or "It is here already."
    if done["left"]:
        return Go(asked.to("proposal", id=done["proposal"]), said=f"{said} The rest waits on.".strip())
    return Go(asked.to("proposals"), said=said.strip())


def _reject(asked: Asked, id: str) -> Handled:
    reason = " ".join(asked.form.get("reason", "").split())
    done = asked.call("reject", name=id, reason=reason or None)
    said = f"Rejected. It is kept as {done['kept']}."
    if done.get("still_there"):
        said += f" Here it is off the list; the remote goes on listing it: {done['still_there']}."
    return Go(asked.to("proposals"), said=said)


def _look(asked: Asked, id: str, only: Sequence[str], message: str, error: KgdError | str = "") -> Handled:
    answer = asked.call(
        "proposals", name=id, uri=asked.query.get("uri") or None, cursor=asked.query.get("cursor") or None
    )
    if not answer["proposals"]:
        raise NotFound("no proposal of that name waits for you", at=id[:80], next="The list has those that do.")
    one = answer["proposals"][0]
    known = {uri: card.get("name", "") for uri, card in names(asked, [diff["uri"] for diff in one["diff"]]).items()}
    shown = rows(one["diff"], known)
    return Page(
        "proposal.html",
        {"one": one, "groups": _groups(shown, one.get("reasons", ())), "counts": _counts(shown),
         "alone": asked.query.get("uri", ""), "cursor": answer.get("cursor", ""), "begun": "cursor" in asked.query,
         "only": only, "message": message, "error": error, "may_accept": asked.may("accept"),
         "may_reject": asked.may("reject", Verb.PROPOSE), "conflicts": frozenset(one.get("conflicts", ()))},
        422 if error else 200,
    )  # fmt: skip


def _is_over(asked: Asked, id: str, error: KgdError) -> Handled:
    """It was decided meanwhile, or it is another one by now: said, with what there is of that name."""
    name = id.partition("@")[0]
    try:
        found = asked.call("proposals", name=name)["proposals"]
    except KgdError:
        found = []
    return Page("proposal_over.html", {"error": error, "id": id, "now": found[0] if found else None})


def _groups(
    shown: Sequence[NodeRow], reasons: Sequence[Mapping[str, Any]]
) -> list[tuple[Mapping[str, Any] | None, list[NodeRow], str]]:
    """What can be taken alone: the nodes of one change together with its reason, the others each for itself.

    The last part is what a form sends for it.
    """
    by_uri = {one.uri: one for one in shown}
    found: list[tuple[Mapping[str, Any] | None, list[NodeRow], str]] = []
    for reason in reasons:
        together = [by_uri.pop(uri) for uri in reason["nodes"] if uri in by_uri]
        if together:
            found.append((reason, together, " ".join(reason["nodes"])))
    return [*found, *((None, [one], one.uri) for one in by_uri.values())]


def _counts(shown: Sequence[NodeRow]) -> dict[str, int]:
    return {change: sum(one.change == change for one in shown) for change in ("created", "changed", "deleted")}


ENTRIES = (
    Entry("proposals", "proposals", listing),
    Entry("proposals", "proposal", proposal, ("GET", "POST")),
)
