"""The page of a node: content, relations, citations, history, and actions; and small changes to it: relations, appended
text, address, verification and deletion.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import nan
from typing import Any
from urllib.parse import unquote

from kgd.codec import documents
from kgd.drawing import in_words, shown_type
from kgd.errors import Invalid, KgdError, NotFound, Stale
from kgd.memories.tasks import CRITERIA, FILES, NEXT, items, read_paths, sections_in
from kgd.model.fields import from_answer
from kgd.model.uri import CODE_TREE, IN_SUMMARY, name_of, path_of, scheme_of
from kgd.tools import as_markdown
from kgd.ui.changes import as_text, named_in
from kgd.ui.node_reading import (
    DERIVED,
    Missing,
    above,
    authors_of,
    below,
    cited,
    lead,
    links,
    listed,
    open_conflicts,
    others_about_code,
    titles,
    way_to,
    whole,
)
from kgd.ui.pages.attention import proposals_creating
from kgd.ui.pages.conflicts import known_sides
from kgd.ui.pages.conflicts import listed as listed_conflict
from kgd.ui.pages.file import redirected
from kgd.ui.pages.history import UNKNOWN, title
from kgd.ui.pages.node_form import FURTHER, LABELS, plain
from kgd.ui.visit import NOTHING, Download, Entry, Handled, Page, Redirect, Visit, reported
from kgd.ui.words import words_of

FEW = 5
BROKEN = 200
"""Largest number of relations to a missing node that its page lists."""
LOOKED_THROUGH = 5
"""Largest number of history pages that are read to find the versions before and after a commit."""
FORMS = ("relate", "append", "move")
"""Values of `do` in the address."""
OWN_PLACE = ("cites", "verified", "renamed_code")
"""Keys of the data that the page shows as citations, or that only kgd reads."""
CODE_TREE_DATA = (*IN_SUMMARY, "mime_type", "last_modified")
"""Keys of the data of a file or folder that its summary repeats, or that the page shows among the details."""
TALK = ("thread", "message")
_PATH = re.compile(r"(?<!`)`([^`\s:#*]+/[^`\s:#*]+\.\w+)`(?!`)")
MOST_FILES = 20
"""Largest number of paths in a text that become links."""
STEPS = {"in-progress": "Start", "completed": "Done"}
"""The buttons of a task, by the status to which each moves it."""


def node(visit: Visit) -> Handled:
    """Show one node, with actions unless it is shown as of a commit."""
    if to_file := redirected(visit):
        return to_file
    uri, as_of = visit.required("uri"), visit.query.get("as_of")
    found = whole(visit, uri, *(("history", "mentions") if not as_of else ()), as_of=as_of)
    if isinstance(found, Missing):
        return missing(visit, found, as_of)
    return Page("node.html", told(visit, found, as_of))


def told(visit: Visit, found: dict[str, Any], as_of: str | None = None) -> dict[str, Any]:
    """Return the variables of a node's page."""
    uri = found["uri"]
    data, stored = found.get("data", {}), bool(found["version"])
    writes = visit.may("put") and not as_of
    wanted = visit.query.get("do") or visit.form.get("do", "")
    sections = sections_of(visit, data)
    task_status = str(data.get("status", "")) if found["type"] == "task" else ""
    cites = cited(visit, uri, as_of) if stored else []
    others = others_about_code(visit, found, cites) if not as_of else []
    conflicts = open_conflicts(visit, uri) if found.get("conflicts") and not as_of else ()
    known = titles(visit, named_in(conflicts))
    may_advance = stored and writes and visit.may("advance")
    of_tree = CODE_TREE_DATA if scheme_of(uri) in CODE_TREE else ()
    own = (*OWN_PLACE, *of_tree, *(("sections",) if sections else ()), *(("status",) if task_status else ()))
    answer: dict[str, Any] = {
        "node": found,
        "as_of": found["origin"].get("commit", "") if as_of else "",
        "writes": writes,
        "above": above(visit, uri),
        "out": links(visit, uri, "relations", visit.query.get("out"), as_of),
        "into": links(visit, uri, "incoming", visit.query.get("into"), as_of),
        "further": [(LABELS[row.name], as_text(found[row.name])) for row in FURTHER if row.name in found],
        "data_shown": [(key, as_text(value)) for key, value in data.items() if key not in own],
        "cites": cites,
        "verified": verified(found, cites),
        "trust": trust(found, cites) if not found.get("unverified") else None,
        "others": listed(visit, others[:FEW]),
        "others_total": len(others),
        "version_authors": authors_of(visit, conflicts),
        "disputed": [field for one in conflicts for field in listed_conflict(one, names=known)["fields"]],
        "sections": sections,
        "names_files": any(one["title"] == FILES and one["items"] for one in sections),
        "content": below(lead(found) or found["name"], found["content"]),
        "files": files_in(visit, found["content"]).get,
        "changes": changes_of(found),
        "mentioned": mentioned(visit, found),
        "do": wanted if writes and wanted in (*FORMS, "relation") else "",
        "is_talk": scheme_of(uri) in TALK,
        "may_verify": writes and visit.may_do_all,
        "task_status": task_status,
        "steps": [(to, STEPS[to]) for to in NEXT.get(task_status, ()) if to in STEPS] if may_advance else [],
        "typed": {},
        "refused": None,
        "words_of": words_of,
        "in_words": in_words,
        "shown_type": shown_type(found),
        "path_of": path_of,
        "change_at": lambda one: (
            visit.to("node", uri=uri, do="relation", type=one["type"], target=one["target"], weight=one["weight"])
            + "#do"
        ),
        "more_out": lambda cursor: visit.to("node", uri=uri, as_of=as_of, out=cursor) + "#out",
        "more_into": lambda cursor: visit.to("node", uri=uri, as_of=as_of, into=cursor) + "#into",
    }
    if as_of:
        answer |= beside(visit, uri, answer["as_of"])
    if answer["do"] == "relation":
        answer["typed"] = {name: visit.query.get(name, "") for name in ("type", "target", "weight")}
    return answer


def sections_of(visit: Visit, data: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the sections of a task: title and text or, for criteria and files, items as pairs of text and address."""
    return [
        {
            "title": one.title,
            "text": one.content,
            "items": [_linked(visit, item) if one.title == FILES else [(item, "")] for item in items(one.content)]
            if one.title in (CRITERIA, FILES)
            else [],
        }
        for one in sections_in(data.get("sections"))
    ]


def _linked(visit: Visit, text: str) -> list[tuple[str, str]]:
    """Split a text so that each path of a file in it is a part with the address of the file's page."""
    parts, rest = [], text
    for path in read_paths(text) if visit.can("code_file") else ():
        before, found, after = rest.partition(path)
        if found and "*" not in path and not path.endswith("/"):
            if before.endswith("`") and after.startswith("`"):
                before, after = before[:-1], after[1:]
            parts += [(before, ""), (path, visit.to("file", path=path.removeprefix("./")))]
            rest = after
    return [*parts, (rest, "")]


def files_in(visit: Visit, text: str) -> dict[str, str]:
    """Return the paths between backticks that are files of the code, each with the address of its page."""
    paths = list(dict.fromkeys(_PATH.findall(text)))[:MOST_FILES]
    answer = visit.tried("get", uris=[f"./{path}" for path in paths], include=[]) if paths else {}
    known = {path_of(one["uri"]) for one in answer.get("nodes", ()) if scheme_of(one["uri"]) == "file"}
    return {path: visit.to("file", path=path) for path in paths if path in known}


def trust(found: Mapping[str, Any], cites: Sequence[Mapping[str, Any]]) -> tuple[str, str] | None:
    """Return whether the cited code has changed since it was verified, and since when; None if that is not known."""
    states = {one.get("state") for one in cites}
    if "changed" in states:
        return "changed", max((one.get("since", "") for one in cites if one.get("state") == "changed"), default="")
    checked = verified(found, cites)
    return ("unchanged", checked[1]) if states == {"verified"} and checked else None


def verified(found: Mapping[str, Any], cites: Sequence[Mapping[str, Any]]) -> tuple[str, str] | None:
    """Return the last verifier of the cited code, and the time; None if the answer names none.

    Writing the first version counts as a verification of the code that it cites.
    """
    stamp = found.get("updated", {})
    if "verified_by" in stamp:
        return stamp["verified_by"], stamp["verified_at"]
    is_first = found["version"] == 1 and stamp and cites and all(one.get("state") == "verified" for one in cites)
    return (stamp["by"], stamp["at"]) if is_first else None


def changes_of(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the newest commits of a node with their titles, newest first."""
    commits = [{**one, "title": title(one, found["uri"])} for one in found.get("history", ())]
    if commits and found["version"] == len(commits) and commits[-1]["title"] in (UNKNOWN, "Changed"):
        commits[-1]["title"] = "Created"
    return commits


def mentioned(visit: Visit, found: dict[str, Any]) -> dict[str, list[tuple[str, str]]]:
    """Return the mentions of written nodes as pairs of URI and name: in this node, and of this node."""
    mentions = {way: found.get("mentions", {}).get(way, ()) for way in ("out", "into")}
    named = titles(visit, [*mentions["out"], *mentions["into"]])
    return {way: [(uri, named[uri] or uri) for uri in uris if is_written(uri, named)] for way, uris in mentions.items()}


def is_written(uri: str, named: Mapping[str, str]) -> bool:
    """Whether a person or an agent wrote a node, rather than the code tree or an import."""
    return uri in named and scheme_of(uri) not in DERIVED


def raw(visit: Visit) -> Handled:
    """Return a node as its YAML file, or as Markdown to save."""
    found = whole(visit, visit.required("uri"), "relations")
    if isinstance(found, Missing):
        raise NotFound("there is no such node", at=found.uri, next="Check its URI.")
    if visit.query.get("format") == "markdown":
        text = as_markdown.nodes({"workspace": visit.workspace, "nodes": [found], "missing": []})
        name = "".join(c if c.isascii() and (c.isalnum() or c in "-_") else "-" for c in name_of(found["uri"]))
        return Download(f"{text}\n".encode(), "text/markdown; charset=utf-8", f"{name[:80] or 'node'}.md")
    return Download(documents.encode(from_answer(found)), "text/plain; charset=utf-8")


def missing(visit: Visit, lacking: Missing, as_of: str | None) -> Handled:
    """Show that a node does not exist, with the relations to it, similar nodes and its former commits."""
    broken = () if as_of else visit.tried("broken", uri=lacking.uri, limit=BROKEN).get("broken", ())
    to_it = broken[0]["links"] if broken else ()
    return Page(
        "node_missing.html",
        {
            "missing": lacking,
            "as_of": as_of or "",
            "commits": visit.tried("history", uri=lacking.uri, limit=FEW).get("commits", ()),
            "writes": visit.may("put"),
            "name": unquote(lacking.uri.rpartition("/")[2]),
            "to_it": to_it,
            "names": titles(visit, [*(one["source"] for one in to_it), *lacking.similar]),
            "proposal": proposals_creating(visit, [lacking.uri]).get(lacking.uri) if to_it else None,
            "words_of": words_of,
        },
        200 if lacking.invalid_file else visit.status_of_missing,
    )


def beside(visit: Visit, uri: str, commit: str) -> dict[str, Any]:
    """Return the versions of a node before and after a commit, and the open conflict that it wrote a side of."""
    (at,) = visit.call("history", commit=commit)["commits"]
    commits: list[dict[str, Any]] = []
    cursor = None
    for _ in range(LOOKED_THROUGH):
        answer = visit.call("history", uri=uri, limit=200, cursor=cursor)
        commits += answer["commits"]
        cursor = answer.get("cursor")
        if not cursor or any(one["commit"] == commit for one in answer["commits"]):
            break
    # A commit that did not change this node shows the version of the commit before it.
    number = next((n for n, one in enumerate(commits) if one["commit"] == commit), -1)
    own = number >= 0
    if not own:
        number = next((n for n, one in enumerate(commits) if one["at"] <= at["at"]), len(commits))
    older = commits[number + own] if number + own < len(commits) else None
    newer = commits[number - 1] if number > 0 else None
    conflicts = [one for one in open_conflicts(visit, uri) if commit in {side["commit"] for side in known_sides(one)}]
    return {"at": at, "older": older, "newer": newer, "conflict": next(iter(conflicts), None)}


SUGGESTED = 8
FIELDS = ("type", "target", "weight", "text", "to")


def relate(visit: Visit) -> Handled:
    """Add a relation, change its cost, or remove it."""
    edge = {"source": visit.required("uri"), "type": visit.text("type"), "target": visit.text("target")}
    if visit.form.get("act") == "unrelate":
        return _made(visit, {"op": "unrelate", **edge}, "Relation removed")
    try:
        weight = float(visit.form.get("weight", ""))
    except ValueError:
        weight = nan
    if not 0 <= weight <= 1:
        return _again(visit, Invalid("a cost is a number from 0 to 1", at="weight", next="Enter a number such as 0.5."))
    return _made(visit, {"op": "relate", **edge, "weight": weight}, "Relation saved")


def append(visit: Visit) -> Handled:
    """Append text to a node."""
    text = plain(visit.form.get("text", ""))
    return _made(visit, {"op": "append", "uri": visit.required("uri"), "text": text}, "Text added")


def move(visit: Visit) -> Handled:
    """Change the address of a node."""
    return _made(visit, {"op": "move", "uri": visit.required("uri"), "to": visit.text("to")}, "Address changed")


def verify(visit: Visit) -> Handled:
    """Verify a node for the current code."""
    return _made(visit, {"op": "verify", "uri": visit.required("uri")}, "Verified")


def advance(visit: Visit) -> Handled:
    """Move a task to another status unless it has changed since it was shown."""
    uri = visit.required("uri")
    there = visit.to("node", uri=uri)
    try:
        answer = visit.call("advance", id=uri, version=_version(visit), to=visit.text("to"))["data"]
    except Stale:
        return Redirect(
            there, said=f"{NOTHING} The task has changed since you loaded the page. Check its status and try again."
        )
    return reported(there, answer, "Started" if answer["task"]["status"] == "in-progress" else "Completed")


def confirm_delete(visit: Visit) -> Handled:
    """Show the node to delete with its incoming relations."""
    visit.form_for("put")
    return _deleting(visit, visit.required("uri"))


def delete(visit: Visit) -> Handled:
    """Delete a node unless it has changed since it was shown."""
    uri, version = visit.required("uri"), _version(visit)
    try:
        answer = visit.call("put", changes=[{"op": "delete", "uri": uri, "expect_version": version}], conflicts="show")
    except KgdError as error:
        return _deleting(visit, uri, error)
    return reported(visit.to("node", uri=uri), answer, "Deleted")


def suggest(visit: Visit) -> Handled:
    """Suggest nodes for the words typed so far."""
    words = next((visit.query[name] for name in ("target", "q", "from", "to") if visit.query.get(name, "").strip()), "")
    # Half-typed words may be an invalid query; the form reports that when it is sent.
    found = visit.tried("search", query=words[:200], limit=SUGGESTED, max_depth=0, lanes="one") if words.strip() else {}
    return Page("node_suggest.html", {"hits": found.get("hits", [])[:SUGGESTED]})


def _made(visit: Visit, change: Mapping[str, Any], done: str) -> Handled:
    """Make one change and show the node; an error shows the form again with its texts."""
    try:
        answer = visit.call("put", changes=[change], conflicts="show")
    except KgdError as error:
        return _again(visit, error)
    changed = [one["uri"] for one in answer["nodes"]]
    uri = str(change.get("uri") or change["source"])
    there = changed[0] if change["op"] == "move" and changed else uri
    return reported(visit.to("node", uri=there), answer, done)


def _version(visit: Visit) -> int:
    """The version that the page showed."""
    version = visit.form.get("version", "")
    if not version.isdecimal() or len(version) > 9:
        raise Invalid("this is not a version", at="version", next="Reload the page.")
    return int(version)


def _again(visit: Visit, error: KgdError) -> Handled:
    found = whole(visit, visit.required("uri"), "history", "mentions")
    if isinstance(found, Missing):
        raise error
    shown = told(visit, found)
    if not shown["do"]:
        raise error
    typed = {name: plain(visit.form.get(name, "")) for name in FIELDS}
    return Page("node.html", shown | {"typed": typed, "refused": error}, 422)


def _deleting(visit: Visit, uri: str, refused: KgdError | None = None) -> Handled:
    found = whole(visit, uri)
    if isinstance(found, Missing):
        return missing(visit, found, None)
    if not found["version"]:
        raise NotFound("this node is not stored, so it cannot be deleted", at=uri, next="Open the node.")
    into = links(visit, uri, "incoming", visit.query.get("into"))
    known = {
        "node": found,
        "way": way_to(visit, uri),
        "into": into,
        "words_of": words_of,
        "refused": refused,
        "more_into": lambda cursor: visit.to("node/delete", uri=uri, into=cursor) + "#into",
    }
    return Page("node_delete.html", known, 422 if refused else 200)


ENTRIES = (
    Entry("node", "node", node),
    Entry("node", "node/raw", raw),
    Entry("node", "node/relate", relate, ("POST",)),
    Entry("node", "node/append", append, ("POST",)),
    Entry("node", "node/move", move, ("POST",)),
    Entry("node", "node/verify", verify, ("POST",)),
    Entry("node", "node/advance", advance, ("POST",)),
    Entry("node", "node/delete", confirm_delete),
    Entry("node", "node/delete", delete, ("POST",)),
    Entry("node", "node/suggest", suggest),
)
