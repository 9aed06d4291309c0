"""History of a node: its commits, blame, conversations, and reverting a commit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kgd.errors import Advice, Do, KgdError, NotFound
from kgd.model.uri import name_of
from kgd.ui.changes import VERIFIED, description_of, named_in, rows
from kgd.ui.node_reading import listed as listed_rows
from kgd.ui.node_reading import names, open_conflicts, titles, way_to
from kgd.ui.pages.conflicts import known_sides, listed
from kgd.ui.visit import Entry, Handled, Page, Redirect, Visit, own, reported
from kgd.ui.words import advises, next_step

OLDEST = 3
"""Number of shades of age, less one."""
COMMITS = 20
REVIEWED = 200
"""Largest number of nodes of a commit that are approved at once."""
DISPUTED = 5
"""Largest number of nodes of a commit whose conflicts its page shows."""
UNKNOWN = "A change"
"""Title of a commit without a message whose differences are not known."""


@dataclass(frozen=True, slots=True)
class Side:
    """The side of an open conflict that a commit wrote."""

    conflict: str
    letter: str
    is_shown: bool


@dataclass(frozen=True, slots=True)
class Fork:
    """People who changed the same version without seeing each other's change. `version` is 0 if it is not known."""

    conflict: str
    people: tuple[str, ...]
    version: int


def history(visit: Visit) -> Handled:
    """List the commits of a node with their changes, newest first."""
    uri = visit.required("uri")
    period = {name: value for name in ("since", "until") if (value := visit.query.get(name, "").strip())}
    answer = visit.call("history", uri=uri, diff=True, limit=COMMITS, cursor=visit.query.get("cursor"), **period)
    known = titles(visit, [name for commit in answer["commits"] for name in named_in(commit["diff"])])
    shown = [{**one, "title": title(one, uri), "changes": rows(one["diff"], known)} for one in answer["commits"]]
    if not shown and not visit.query.get("cursor") and not period:
        raise NotFound("no commit has changed this node", at=uri, next="Check its URI.")
    conflicts = open_conflicts(visit, uri)
    sides = _sides(conflicts)
    is_whole = not (period or "cursor" in answer or visit.query.get("cursor"))
    forks = _forks(shown, sides, is_whole=is_whole)
    return Page(
        "node_history.html",
        {
            "uri": uri,
            **_name(visit, uri),
            "commits": shown,
            "sides": sides,
            "forks": forks,
            "versions": _versions(shown, sides, forks) if is_whole else {},
            "has_current": not (visit.query.get("cursor") or "until" in period or conflicts),
            "cursor": answer.get("cursor", ""),
            "writes": visit.may("put"),
            "period": period,
        },
    )


def _sides(conflicts: Sequence[Mapping[str, Any]]) -> dict[str, Side]:
    """Return the sides of conflicts by commit."""
    return {
        side["commit"]: Side(one["id"], side["side"].upper(), side["side"] == field["shown"])
        for one in conflicts
        for field in one["fields"].values()
        for side in field["sides"]
        if "commit" in side
    }


def _forks(shown: Sequence[Mapping[str, Any]], sides: Mapping[str, Side], *, is_whole: bool) -> dict[str, Fork]:
    """Return the conflicts whose sides are all listed, by the newest commit of a side.

    Args:
        shown: Commits, newest first.
        is_whole: Whether these are all commits of the node, so that its versions can be counted.
    """
    places: dict[str, list[int]] = {}
    for number, commit in enumerate(shown):
        if side := sides.get(commit["commit"]):
            places.setdefault(side.conflict, []).append(number)
    found = {}
    for conflict, numbers in places.items():
        if len(numbers) == sum(side.conflict == conflict for side in sides.values()) > 1:
            people = tuple(dict.fromkeys(shown[number]["author"] for number in numbers))
            version = len(shown) - numbers[-1] - 1 if is_whole else 0
            found[shown[numbers[0]]["commit"]] = Fork(conflict, people, version)
    return found


def _versions(
    shown: Sequence[Mapping[str, Any]], sides: Mapping[str, Side], forks: Mapping[str, Fork]
) -> dict[str, str]:
    """Return the number of the version that each commit made, except for the sides of a conflict, by commit."""
    bases = {fork.version: len(fork.people) for fork in forks.values()}
    found = {}
    for number, commit in enumerate(reversed(shown), 1):
        if commit["commit"] not in sides:
            before = {0: "", 2: ", before both changes"}.get(bases.get(number, 0), ", before the conflict")
            found[commit["commit"]] = f"version {number}{before}"
    return found


def _name(visit: Visit, uri: str) -> dict[str, Any]:
    way = way_to(visit, uri)
    return {"name": way[-1][0], "way": way}


def lines(visit: Visit) -> Handled:
    """Show the author and time of the summary and of each line of the content."""
    uri, cursor = visit.required("uri"), visit.query.get("cursor")
    answer = visit.call("blame", uri=uri, cursor=cursor, budget=10_000)
    known = visit.call("history", uri=uri, diff=True, limit=COMMITS)
    commits = known["commits"]
    versions = {one["commit"]: number for number, one in enumerate(reversed(commits), 1)}
    titles = {one["commit"]: title(one, uri) for one in commits}
    content = [{**one, "title": titles.get(one["commit"]) or title(one, uri)} for one in answer["ranges"]]
    blocks = [("Content", content)] if content else []
    if not cursor and (summary := _summary_block(visit, uri, commits)):
        blocks.insert(0, ("Summary", [{**summary, "title": titles[summary["commit"]]}]))
    told = {"answer": answer, "blocks": blocks, "ages": _ages(one for _, ranges in blocks for one in ranges)}
    told |= {"versions": {} if "cursor" in known else versions}
    return Page("node_lines.html", told | {"uri": uri, **_name(visit, uri)})


def _ages(ranges: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Return the age of each commit among those of a page: from 0 for the newest to `OLDEST`."""
    newest_first = sorted({(one["at"], one["commit"]) for one in ranges}, reverse=True)
    return {commit: n * OLDEST // max(len(newest_first) - 1, 1) for n, (_, commit) in enumerate(newest_first)}


def _summary_block(visit: Visit, uri: str, commits: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Return the current summary with the newest of these commits that wrote it; None without a summary or commit."""
    nodes = visit.call("get", uris=[uri], include=[])["nodes"]
    summary = nodes[0].get("summary") if nodes else ""
    for commit in commits if summary else ():
        if any(one["fields"].get("summary", {}).get("after") == summary for one in commit["diff"]):
            return {**commit, "text": summary}
    return None


def messages(visit: Visit) -> Handled:
    """Show the messages of a conversation, page by page."""
    uri, cursor = visit.required("uri"), visit.query.get("cursor")
    order = "messages_back" if visit.query.get("way") == "back" else "messages"
    answer = visit.call("get", uris=[uri], include=[order], budget=8_000, cursor=cursor)
    if not answer["nodes"]:
        raise NotFound("this conversation does not exist", at=uri, next="Check its URI.")
    (found,) = answer["nodes"]
    return Page(
        "node_messages.html",
        {
            "node": found,
            "messages": found.get("messages", []),
            "cursor": answer.get("cursor", ""),
            "order": order,
            "way": way_to(visit, uri),
        },
    )


def revert(visit: Visit) -> Handled:
    """Revert a commit, except for later changes."""
    try:
        answer = visit.call("put", **_revert(visit, visit.form.get("message", "")))
    except KgdError as error:
        return change(visit, error)
    uri = visit.form.get("uri", "")
    back = visit.to("node/history", uri=uri) if uri else visit.to("overview")
    return reported(back, answer, "Reverted")


def undo(visit: Visit) -> Handled:
    """Revert the commit of a message. If a later change is in the way, show what a revert would do instead."""
    reverted = _revert(visit, "")
    would = visit.call("put", **reverted, dry_run=True)
    if in_the_way := _in_the_way(would):
        why = f"Not undone yet. The undo would report: {next_step(in_the_way[0])}. To undo it anyway, revert it here."
        return Redirect(visit.to("change", commit=visit.required("commit"), revert="1"), why)
    answer = visit.call("put", **reverted)
    back = own(visit.form.get("back", ""))
    if len(answer["nodes"]) == 1 and back.startswith(visit.to("node") + "?"):  # its address may have changed
        back = visit.to("node", uri=answer["nodes"][0]["uri"])
    return replace(reported(back, answer, "Undone"), undo="")


def _in_the_way(would: Mapping[str, Any]) -> list[str]:
    """Return the warnings of a revert that is not carried out yet. Leaves out those about open conflicts and about an
    earlier revert, since the page of the commit shows both."""
    return [one for one in would.get("warnings", ()) if not advises(one, "resolve_conflicts", "undo")]


def _commit(visit: Visit, commit: str) -> dict[str, Any]:
    """Return a commit with its differences.

    Raises:
        NotFound: There is no such commit, or it changed only nodes that the visitor may not read.
    """
    found: list[dict[str, Any]] = visit.call("history", commit=commit, diff=True)["commits"]
    if not found:
        raise NotFound("there is no such commit", at=commit[:60], next=Advice("Find one with ", Do("history"), "."))
    return found[0]


def change(visit: Visit, refused: KgdError | None = None) -> Handled:
    """Show a commit with its differences and, to a writer, the effect of reverting it, or the reason for a refusal."""
    found = _commit(visit, visit.required("commit"))
    would: Mapping[str, Any] = {}
    if visit.may("put") and refused is None:
        try:
            would = visit.call("put", **_revert(visit, ""), dry_run=True)
        except KgdError as error:
            refused = error
    subject, _, body = found["message"].partition("\n")
    of_nodes = [*found["diff"], *found.get("resolved", ())]
    about, known = [one["uri"] for one in of_nodes], titles(visit, named_in(of_nodes))
    resolved = [{"uri": one["uri"], **_resolved(one, found, known)} for one in found.get("resolved", ())]
    uri = visit.query.get("uri") or visit.form.get("uri", "")
    told = {
        "commit": found,
        "title": _title_with_name(found, about, known) if about else subject,
        "body": body.strip(),
        "changes": rows(found["diff"], known),
        "names": known,
        "disputes": list(_disputes(visit, found)),
        "resolved": resolved,
        "would": would,
        "warnings": _in_the_way(would),
        "uri": uri,
        "way": way_to(visit, uri) if uri in about else [(visit.workspace, visit.to("overview"))],
        "rows": {row.uri: row for row in listed_rows(visit, [{"uri": one} for one in dict.fromkeys(about)])},
        "review": _review(visit, found["commit"]),
        "refused": refused,
        "writes": visit.may("put"),
    }
    return Page("change.html", told, 422 if visit.form else 200)


def _review(visit: Visit, commit: str) -> dict[str, Any]:
    """Return the review of one commit: the nodes that can be approved, whether all are approved, the nearest unreviewed
    commits, and its place among the commits since the last review; empty without permission."""
    if not (visit.may_do_all and visit.can("review")):
        return {}
    if not (answer := visit.tried("review", commit=commit, limit=REVIEWED)):
        return {}
    nodes = [one for by in answer["authors"] for one in by["nodes"]]
    known = names(visit, [one["uri"] for one in nodes])
    left = [one["uri"] for one in nodes if not ("approved" in one or "reverted" in one)]
    return {
        "left": [uri for uri in left if not known.get(uri, {}).get("is_disputed")],
        "is_approved": bool(nodes) and all("approved" in one for one in nodes),
        "older": answer.get("older", ""),
        "newer": answer.get("newer", ""),
        "place": answer.get("place", 0),
        "of": answer["agents"] + answer["people"] - answer["own"],
        "more": "cut" in answer,
    }


def approve(visit: Visit) -> Handled:
    """Approve the changes of a commit to nodes that are not in conflict, and show the next unreviewed commit; stay at
    the commit if it belongs to the history of a node."""
    commit, uri = visit.required("commit"), visit.form.get("uri")
    found = _review(visit, commit)
    if uris := found.get("left"):
        visit.call("review", approve=uris, commit=commit, limit=1)
    following = "" if uri else found.get("newer") or found.get("older")
    return Redirect(visit.to("change", commit=following or commit, uri=uri), "Marked as reviewed." if following else "")


def _resolved(one: Mapping[str, Any], commit: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Return a conflict that a commit resolved, with the chosen versions; the record has no authors."""
    shown = listed(one, names=names)
    changed: Mapping[str, Any] = next((row["fields"] for row in commit["diff"] if row["uri"] == one["uri"]), {})
    for field in shown["fields"]:
        for side in field["sides"]:
            after = changed.get(field["name"])
            side |= {"author": None, "is_chosen": side["value"] == after["after"] if after else side["is_shown"]}
    return shown


def _disputes(visit: Visit, commit: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], bool]]:
    """Return the open conflicts of the commit's nodes, each with whether the commit wrote one of the sides."""
    for uri in commit["nodes"][:DISPUTED]:
        for one in open_conflicts(visit, uri):
            yield one, commit["commit"] in {side["commit"] for side in known_sides(one)}


def _title_with_name(commit: Mapping[str, Any], about: Sequence[str], known: Mapping[str, str]) -> str:
    """Return the title of a commit; without a message, it names the only node that was created, deleted or verified."""
    shown = title(commit, about[0])
    name = known.get(about[0]) or name_of(about[0])
    return f"{shown} “{name}”" if shown in ("Created", "Deleted", "Verified") and len(commit["nodes"]) == 1 else shown


def _revert(visit: Visit, message: str) -> dict[str, Any]:
    changes = [{"op": "revert", "commit": visit.required("commit")}]
    return {"changes": changes, "message": " ".join(message.split()), "conflicts": "show"}


def title(commit: Mapping[str, Any], uri: str) -> str:
    """Return the title of a commit in a node's history: the commit's subject, or its changes if they are known."""
    subject = str(commit["message"].partition("\n")[0])
    description = description_of(subject, uri)
    if subject and not subject.startswith("put "):
        return description.capitalize() or subject
    for one in commit.get("diff", ()):
        if one["change"] != "changed":
            return f"{one['change'].capitalize()}"
        fields = dict.fromkeys(name.partition("/")[0] for name in one["fields"] if name != VERIFIED)
        return f"Changed {', '.join(fields)}" if fields else "Verified"
    return description.capitalize() or UNKNOWN


ENTRIES = (
    Entry("node", "node/history", history),
    Entry("node", "node/lines", lines),
    Entry("node", "node/messages", messages),
    Entry("node", "change", change),
    Entry("node", "change", revert, ("POST",)),
    Entry("node", "change/approve", approve, ("POST",)),
    Entry("node", "undo", undo, ("POST",)),
)
