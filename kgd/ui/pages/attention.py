"""Pending work as cards, each with its item and its action, and the lists of stale facts, broken links and unreadable
files."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kgd.errors import KgdError, NotFound
from kgd.model.access import Verb
from kgd.model.uri import Uri, name_of, path_of, scheme_of
from kgd.ui.changes import reasons_of, rows, target_of, titled
from kgd.ui.node_reading import cited, lead, names, titles
from kgd.ui.node_reading import listed as listed_rows
from kgd.ui.pages.conflicts import known_sides, listed
from kgd.ui.rendering import counted, listed_words, stale_reason
from kgd.ui.visit import Entry, Handled, Page, Redirect, Visit, reported
from kgd.ui.words import message, sentence, words_of

CARDS = 3
"""Largest number of cards of one kind."""
CONFLICTS = 2
"""Largest number of conflicts; their cards are taller than others."""
STALE = 30
OPEN = 3
"""Number of stale facts whose differences are open."""
BROKEN = 100
PROPOSALS = 50
"""Largest number of proposals that are searched for missing nodes."""
SHORT = 240
"""Largest number of characters of a version that a card shows."""
NODES = 3
"""Largest number of nodes of a proposal that its card names."""
_NUMBER = re.compile(r"(?<![\w.])\d[\d_.,]*(?<=\d)(?!\w)")


@dataclass(frozen=True, slots=True)
class Action:
    """A button that posts `form`, or a link to `to` if the form is empty. `hint` completes the label for screen
    readers."""

    label: str
    to: str
    form: Mapping[str, str] | None = None
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Card:
    """One item of pending work. `versions` are the sides of a conflict, as in its list."""

    title: str
    to: str
    said: str = ""
    about: str = ""
    at: str = ""
    versions: Sequence[Mapping[str, Any]] = ()
    actions: tuple[Action, ...] = ()


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of pending work: the key of its count, its names, its page, and the verb of its remedy.

    Without a remedy, it does not need attention.
    """

    key: str
    one: str
    many: str
    page: str
    why: str
    cards: Callable[[Visit, Mapping[str, Any]], Iterable[Card]]
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Waiting:
    """The pending work of one kind. `cards` are the first of its `count` items."""

    count: int
    one: str
    many: str
    place: str
    why: str
    remedy: str = ""
    cards: tuple[Card, ...] = ()

    @property
    def words(self) -> str:
        """``3 conflicts``."""
        return counted(self.count, self.one, self.many)

    @property
    def instruction(self) -> str:
        """``Resolve 3 conflicts``; empty if nothing needs to be done."""
        return f"{self.remedy} {self.words}" if self.remedy else ""


def waiting(visit: Visit, status: Mapping[str, Any]) -> list[Waiting]:
    """Return the kinds of pending work that have items, with their first cards."""
    mine = visit.call("proposals", unanswered=True, limit=CARDS) if visit.can("proposals") else {"total": 0}
    status = {**status, "mine": mine.get("proposals", [])}
    counts = {
        **status["counts"],
        "conflicts": status["conflicts"],
        "proposals": status["proposals"],
        "mine": mine["total"],
        "failed": sum(job["state"] == "failed" for job in status["jobs"]),
    }
    return [
        Waiting(
            count,
            kind.one,
            kind.many,
            visit.to(kind.page) if kind.page else "",
            kind.why,
            kind.remedy,
            tuple(_tried(kind.cards, visit, status)),
        )
        for kind in KINDS
        if (count := counts.get(kind.key, 0))
    ]


def _tried(
    cards: Callable[[Visit, Mapping[str, Any]], Iterable[Card]], visit: Visit, status: Mapping[str, Any]
) -> list[Card]:
    """Return the cards; none if the visitor may not see the items, or they are gone."""
    try:
        return list(cards(visit, status))
    except KgdError:
        return []


def _conflicts(visit: Visit, status: Mapping[str, Any]) -> list[Card]:
    limit = CONFLICTS + (status["conflicts"] == CONFLICTS + 1)  # a link to one more would take the same space
    found = visit.call("conflicts", limit=limit)["conflicts"]
    known = names(visit, [one["uri"] for one in found])
    return [_conflict(visit, one, known.get(one["uri"], {}).get("name") or name_of(one["uri"])) for one in found]


def _conflict(visit: Visit, one: Mapping[str, Any], name: str) -> Card:
    """A card with both versions if one short field is disputed; otherwise it names the fields."""
    to, label = visit.to("conflict", id=one["id"]), "Resolve" if visit.may("resolve", Verb.RESOLVE) else "View"
    actions = (Action(label, to, hint=f"the conflict about {name}"),)
    disputed, *others = one["fields"].values()
    texts = [side.get("value") for side in disputed["sides"]]
    if others or len(texts) != 2 or any(not isinstance(text, str) or len(text) > SHORT for text in texts):
        targets = [target for field in one["fields"] if (target := target_of(field))]
        about = versions_of(one["fields"], titles(visit, targets))
        return Card(name, to, said=about, actions=actions)
    reasons = reasons_of(visit, (side["commit"] for side in known_sides(one)))
    (field,) = listed(one, reasons)["fields"]
    return Card(name, to, versions=field["sides"], actions=actions)


def versions_of(fields: Mapping[str, Any], names: Mapping[str, str] | None = None) -> str:
    """Say how many versions of its fields a conflict has: ``Two versions of the summary and tags.``"""
    told = listed_words([titled(field, names) for field in fields])
    most = max(len(field["sides"]) for field in fields.values())
    return f"{'Two' if most == 2 else most} versions of the {told}."


def _proposals(visit: Visit, status: Mapping[str, Any]) -> Iterator[Card]:
    found = visit.call("proposals", limit=CARDS)["proposals"]
    known = names(visit, [uri for one in found for uri in one.get("nodes", ())[:NODES]])
    for one in found:
        title = one["message"].partition("\n")[0] or one["id"]
        nodes = one.get("nodes", [])
        changed = [f"“{known[uri].get('name') or name_of(uri)}”" for uri in nodes[:NODES] if uri in known]
        new = [uri for uri in nodes[:NODES] if uri not in known]
        created = [f"“{name}”" for name in _new_names(visit, one["id"], new)]
        said = [f"{verb} {', '.join(some)}." for verb, some in (("Creates", created), ("Changes", changed)) if some]
        said += [f"{len(nodes) - NODES} more."] if len(nodes) > NODES else []
        to = visit.to("proposal", id=one["id"])
        actions = (Action("Open" if visit.may("accept") else "View", to, hint=title),)
        yield Card(title, to, " ".join(said), one["author"], one["at"], (), actions)


def _new_names(visit: Visit, id: str, uris: Sequence[str]) -> list[str]:
    """Return the names of nodes that a proposal creates."""
    proposals = visit.tried("proposals", name=id).get("proposals", ()) if uris else ()
    found = {row.uri: row.label for one in proposals for row in rows(one["diff"])}
    return [found.get(uri) or name_of(uri) for uri in uris]


def _mine(visit: Visit, status: Mapping[str, Any]) -> Iterator[Card]:
    for one in status["mine"]:
        to, last = f"{visit.to('proposal', id=one['id'])}#discussion", one["discussion"][-1]
        title = one["message"] or one["id"]
        actions = (Action("Answer", to, hint=title),)
        yield Card(title, to, last["text"], last["author"], last["at"], actions=actions)


def _stale(visit: Visit, status: Mapping[str, Any]) -> Iterator[Card]:
    for one in visit.call("stale", limit=CARDS)["nodes"]:
        name, to = one["name"], visit.to("node", uri=one["uri"])
        form = {"do": "verify", "uri": one["uri"]}
        actions = (
            (
                Action("Still true", visit.to("attention"), form, name),
                Action("Edit", visit.to("node/edit", uri=one["uri"]), hint=name),
            )
            if visit.may("put")
            else ()
        )
        mark = one["unverified"]
        yield Card(name, to, lead(one), stale_reason(mark), mark.get("since", ""), (), actions)


def _broken(visit: Visit, status: Mapping[str, Any]) -> Iterator[Card]:
    links: dict[str, list[str]] = {}
    for one in status["broken_links"]:  # the first ones; the list of all takes time for each missing node
        links.setdefault(one["target"], []).append(one["source"])
    first = dict(list(links.items())[:CARDS])
    known = names(visit, [sources[0] for sources in first.values()])
    proposed = proposals_creating(visit, first)
    for target, sources in first.items():
        source = known.get(sources[0], {}).get("name") or name_of(sources[0])
        others = f", and {len(sources) - 1} more" if len(sources) > 1 else ""
        name, to = name_of(target), visit.to("node", uri=target)
        said = f"Needed by “{source.removesuffix('.')}”{others}."
        actions = (Action("Write it", visit.to("node/new", uri=target), hint=name),) if visit.may("put") else ()
        if proposal := proposed.get(target):
            said += " An open proposal creates it."
            actions = (Action("Open the proposal", visit.to("proposal", id=proposal["id"]), hint=f"for {name}"),)
        yield Card(name, to, said, target, actions=actions)


def _unreadable(visit: Visit, status: Mapping[str, Any]) -> Iterator[Card]:
    for one in status["invalid_files"][:CARDS]:
        line = f", line {one['line']}" if one.get("line") else ""
        title = f"{one['path'].rpartition('/')[2]}{line}"
        show = Action("Show", visit.to("unreadable"), hint=title)
        yield Card(title, visit.to("unreadable"), one["reason"], one["path"], actions=(show,))


def _failed(visit: Visit, status: Mapping[str, Any]) -> list[Card]:
    failed = [job for job in status["jobs"] if job["state"] == "failed"]
    return [
        Card(job["source"], "", f"{job['failure']}. `kgd ingest {job['source']}` tries again.", "import", job["began"])
        for job in failed[:CARDS]
    ]


KINDS = (
    Kind(
        "conflicts",
        "conflict",
        "conflicts",
        "conflicts",
        "",
        _conflicts,
        "Resolve",
    ),
    Kind("proposals", "proposal", "proposals", "proposals", "", _proposals, "Decide on"),
    Kind(
        "mine",
        "proposal with comments",
        "proposals with comments",
        "proposals?unanswered=1",
        "Comments on your own proposal.",
        _mine,
        "Answer",
    ),
    Kind("unverified", "stale fact", "stale facts", "stale", "The cited code has changed.", _stale, "Check"),
    Kind(
        "invalid_files",
        "unreadable file",
        "unreadable files",
        "unreadable",
        "Hand edits that cannot be parsed.",
        _unreadable,
        "Repair",
    ),
    Kind("failed", "failed job", "failed jobs", "", "An import failed.", _failed, "Repeat"),
    Kind("broken_links", "broken link", "broken links", "broken", "The target is not written yet.", _broken),
)


def act(visit: Visit) -> Handled:
    """Carry out the action of a card."""
    do, overview = visit.required("do"), visit.to("overview")
    if do not in ("verify", "dismiss"):
        raise NotFound("there is no such action", at="do", next="Open the overview again.")
    try:
        if do == "verify":
            return _verified(visit, [visit.required("uri")], overview)
        visit.call("questions", dismiss=visit.required("id"))
        return Redirect(overview, said="Dismissed.")
    except KgdError as error:
        return Redirect(overview, said=f"{sentence(message(error.message))}.")


def _verified(visit: Visit, uris: list[str], to: str) -> Redirect:
    done = visit.call("stale", verify=uris, limit=1)["verified"]
    return reported(to, done, f"Verified {counted(len(uris), 'fact')}", "Verified already.")


def stale(visit: Visit) -> Handled:
    """List the facts whose cited code has changed."""
    answer = visit.call("stale", limit=STALE, cursor=visit.query.get("cursor"))
    changed = {one["uri"]: _changed(visit, one["uri"]) for one in answer["nodes"][:OPEN]}
    told = {
        "answer": answer,
        "changed": changed,
        "writes": visit.may("put"),
        "begun": "cursor" in visit.query,
        "contradicted": {
            one["uri"]: contradicted(f"{one['name']} {lead(one)}", changed.get(one["uri"], ()))
            for one in answer["nodes"]
        },
        "marks": {one["uri"]: one["unverified"] for one in answer["nodes"]},
        "rows": [replace(row, unverified=None) for row in listed_rows(visit, answer["nodes"])],
    }
    return Page("stale.html", told)


def contradicted(text: str, cites: Sequence[Mapping[str, Any]]) -> str:
    """Return the numbers of a text that the changes of cited code remove and do not insert, separated by spaces.

    >>> contradicted("Batches of 200, at most 3", [{"diff": "-BATCH = 200\\n+BATCH = 80\\n-RETRIES = 3\\n+TRIES = 3"}])
    '200'
    """
    lines = [line for one in cites for line in one.get("diff", "").split("\n")]
    old, new = (set(_NUMBER.findall("\n".join(line for line in lines if line[:1] == sign))) for sign in "-+")
    return " ".join(one for one in dict.fromkeys(_NUMBER.findall(text)) if one in old - new)


def _changed(visit: Visit, uri: str) -> list[dict[str, Any]]:
    """Return the changed citations of a fact; none if the visitor may not see code."""
    try:
        return [one for one in cited(visit, uri) if one.get("state") == "changed"]
    except KgdError:
        return []


def verify(visit: Visit) -> Handled:
    """Verify one fact, or the selected facts, for the current code."""
    one = visit.form.get("one", "")
    uris = [one] if one else visit.many("uri")
    if not uris:
        return Redirect(visit.to("stale"), said="Select facts first.")
    return _verified(visit, uris, visit.to("stale"))


def broken(visit: Visit) -> Handled:
    """List the missing targets of relations."""
    answer = visit.call("broken", limit=BROKEN, cursor=visit.query.get("cursor"))
    known = names(visit, [link["source"] for one in answer["broken"] for link in one["links"]])
    told = {
        "answer": answer,
        "known": known,
        "begun": "cursor" in visit.query,
        "words_of": words_of,
        "name_of": name_of,
        "groups": _by_source(answer["broken"]),
        "proposed": proposals_creating(visit, [one["uri"] for one in answer["broken"]]),
    }
    return Page("broken.html", told)


def move(visit: Visit) -> Handled:
    """Move the facts about a renamed file or folder of the code to its new path."""
    uri = Uri(visit.required("uri"))
    was, to = path_of(uri), visit.required("to")
    if scheme_of(uri) == "symbol":
        was = was.rpartition("/")[0]
    done = visit.call("put", changes=[{"op": "move", "uri": was, "to": to}])
    facts = sum(one["facts"] for one in done.get("moved", ()))
    return reported(visit.to("broken"), done, f"Moved {counted(facts, 'fact')} to {to}", "Moved already.")


def remove(visit: Visit) -> Handled:
    """Remove a relation whose target is missing."""
    edge = {name: visit.required(name) for name in ("source", "type", "target")}
    done = visit.call("put", changes=[{"op": "unrelate", **edge}], conflicts="show")
    return reported(visit.to("broken"), done, "Relation removed", "Removed already.")


def _by_source(found: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], list[Mapping[str, Any]]]:
    """Return missing nodes by the source and the type of their first link."""
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for one in found:
        first = one["links"][0]
        groups.setdefault((first["source"], first["type"]), []).append(one)
    return groups


def proposals_creating(visit: Visit, missing: Collection[str]) -> dict[str, Mapping[str, Any]]:
    """Return the open proposals that create missing nodes, by node; of the first `PROPOSALS` ones."""
    if not missing or not visit.can("proposals"):
        return {}
    open_now = visit.tried("proposals", limit=PROPOSALS).get("proposals", ())
    return {uri: one for one in reversed(open_now) for uri in one.get("nodes", ()) if uri in missing}


def unreadable(visit: Visit) -> Handled:
    """List hand-edited files that cannot be parsed."""
    status = visit.call("status")
    total = status["counts"].get("invalid_files", 0)
    folder = f"{status['workspace']['path']}/" if visit.may_do_all else ""
    return Page("unreadable.html", {"files": status["invalid_files"], "total": total, "folder": folder, "polls": True})


ENTRIES = (
    Entry("overview", "attention", act, ("POST",)),
    Entry("overview", "stale", stale),
    Entry("overview", "stale", verify, ("POST",)),
    Entry("overview", "broken", broken),
    Entry("overview", "broken", move, ("POST",)),
    Entry("overview", "broken/remove", remove, ("POST",)),
    Entry("overview", "unreadable", unreadable),
)
