"""The form of a node: editing, creation, preview, and merging with a concurrent change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kgd.errors import Invalid, KgdError, NotFound, Stale
from kgd.ui.changes import Mark, marked
from kgd.ui.forms import FIELDS, LABELS, Texts, changes, meet, plain, tags_of, texts_of, typed_of
from kgd.ui.node_reading import Missing, whole
from kgd.ui.rendering import sentence
from kgd.ui.visit import Entry, Handled, Page, Redirect, Visit

TYPES = ("concept", "insight", "decision", "gotcha", "pattern", "task", "entity", "document", "atom", "molecule")
"""Suggested types; any other word is valid, too."""
FIRST_TYPE = "insight"
"""Initial type of a form without an address, as for `remember`."""
ABOUT_COST = 0.5
MESSAGE_LIMIT = 4_000


@dataclass(frozen=True, slots=True)
class Written:
    """A submitted form: the version it started from, its texts, and a message."""

    uri: str
    version: int
    commit: str
    texts: dict[str, str]
    message: str = ""
    about: str = ""


@dataclass(frozen=True, slots=True)
class Beside:
    """A field that another user changed: compared with the base, and with the typed text."""

    field: str
    theirs: str
    since: list[Mark]
    against: list[Mark]


def edit(visit: Visit) -> Handled:
    """Show the form of a node."""
    visit.form_for("put")
    written = _read(visit, visit.required("uri"))
    if written is None:
        return Redirect(visit.to("node/new", uri=visit.required("uri")))
    return _form(visit, written)


def new(visit: Visit) -> Handled:
    """Show the form of a new node."""
    visit.form_for("put")
    texts = texts_of(None) | {name: visit.query[name] for name in FIELDS if name in visit.query}
    uri = visit.query.get("uri", "")
    if not uri and not texts["type"]:
        texts["type"] = FIRST_TYPE
    written = Written(uri, 0, "", texts, about="\n".join(visit.many("about")))
    return _form(visit, written)


def save(visit: Visit) -> Handled:
    """Save or preview a form; an error shows the form again with its texts."""
    written = _sent(visit.form)
    if visit.form.get("act") == "preview":
        return _form(visit, written, previewed=True)
    try:
        base = _base(visit, written)
        texts = written.texts if written.uri else _with_name(written.texts)
        made = changes(base, texts, {**_named(written), "expect_version": written.version})
        if not made:
            if written.version:
                return Redirect(visit.to("node", uri=written.uri), "Nothing was changed.")
            raise Invalid("the form is empty", next="Write a summary of one sentence.")
        if related := _about(written.about):
            made[0]["relations"] = related
        answer = visit.call("put", changes=made, message=written.message, conflicts="show")
    except Stale as error:
        return _late(visit, written, error)
    except KgdError as error:
        return _form(visit, written, refused=error)
    uri = answer["nodes"][0]["uri"] if answer["nodes"] else written.uri
    return Redirect(visit.to("node", uri=uri), said(answer))


def said(answer: Mapping[str, Any], done: str = "Saved") -> str:
    """Describe the result of a change in one or two sentences."""
    commit = answer.get("commit")
    told = f"{done} with commit {commit[:10]}." if commit else "Nothing was changed."
    like = [f"It may duplicate {', '.join(one['like'])}." for one in answer.get("similar", ())]
    return " ".join((told, *(f"{sentence(one)}." for one in answer.get("warnings", ())), *like))


def _read(visit: Visit, uri: str) -> Written | None:
    """Return the form of a node; None if the node does not exist. Content from the code tree is not part of it."""
    node = whole(visit, uri)
    if isinstance(node, Missing):
        return None
    commit = node["origin"].get("commit", "")
    stored = _stored(visit, node["uri"], commit) if node["version"] else None
    return Written(node["uri"], node["version"], commit if node["version"] else "", texts_of(stored))


def _stored(visit: Visit, uri: str, commit: str) -> dict[str, Any]:
    """Return a node as of a commit.

    Raises:
        NotFound: The node did not exist then.
    """
    node = whole(visit, uri, as_of=commit)
    if isinstance(node, Missing):
        raise NotFound("the base version of this form no longer exists", at=uri, next="Open the form again.")
    return node


def _sent(form: Mapping[str, str]) -> Written:
    """Parse a submitted form."""
    version = form.get("version", "0")
    if not version.isdecimal() or len(version) > 9:
        raise Invalid("this is not a version", at="version", next="Open the form again.")
    message = " ".join(form.get("message", "").split())[:MESSAGE_LIMIT]
    return Written(
        form.get("uri", "").strip(),
        int(version),
        form.get("commit", ""),
        typed_of(form),
        message,
        plain(form.get("about", "")),
    )


def _base(visit: Visit, written: Written) -> Texts:
    return texts_of(_stored(visit, written.uri, written.commit) if written.version else None)


def _with_name(texts: Texts) -> Texts:
    """Fill in name and type of a new node without an address: its summary, and insight.

    Raises:
        Invalid: The node has neither a name nor a summary.
    """
    name = texts.get("name") or texts.get("summary", "")
    if not name:
        raise Invalid("the node has no name", next="Write a summary of one sentence.")
    return {**texts, "type": texts.get("type") or FIRST_TYPE, "name": name}


def _named(written: Written) -> dict[str, str]:
    return {"uri": written.uri} if written.uri else {}


def _about(text: str) -> list[dict[str, Any]]:
    return [{"type": "about", "target": line, "weight": ABOUT_COST} for line in tags_of(text)]


def _late(visit: Visit, written: Written, error: Stale) -> Handled:
    """Show both versions after a concurrent change, with the form rebased on the newer version."""
    uri = written.uri or error.at
    theirs = _read(visit, uri)
    base = _base(visit, written)
    if theirs is None:
        gone = Written(uri, 0, "", written.texts, written.message, written.about)
        return _form(visit, gone, deleted=True, last=_last(visit, uri))
    met = meet(base, written.texts, theirs.texts)
    again = Written(uri, theirs.version, theirs.commit, met.texts, written.message, written.about)
    beside = [
        Beside(
            name,
            theirs.texts[name],
            marked(base.get(name, ""), theirs.texts[name]),
            marked(theirs.texts[name], written.texts[name]) if name in met.both else [],
        )
        for name in met.theirs
    ]
    return _form(visit, again, beside=beside, both=met.both, last=_last(visit, uri), was=written.version)


def _last(visit: Visit, uri: str) -> dict[str, Any] | None:
    """Return the newest commit of a node."""
    commits = visit.call("history", uri=uri, limit=1)["commits"]
    return commits[0] if commits else None


def _form(visit: Visit, written: Written, **told: Any) -> Page:
    refused = told.get("refused")
    late = told.get("deleted") or "beside" in told
    return Page(
        "node_edit.html",
        {"written": written, "texts": written.texts, "labels": LABELS, "types": TYPES, "refused": None, **told},
        409 if late else 422 if refused else 200,
    )


ENTRIES = (
    Entry("node", "node/edit", edit),
    Entry("node", "node/edit", save, ("POST",)),
    Entry("node", "node/new", new),
    Entry("node", "node/new", save, ("POST",)),
)
