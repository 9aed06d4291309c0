"""This file is where a node is written in a form, and where two who write it at once both keep what they wrote."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kgd.errors import Invalid, KgdError, NotFound, Stale
from kgd.ui.asked import Asked, Go, Handled, Page
from kgd.ui.differences import Mark, marked
from kgd.ui.entry import Entry
from kgd.ui.forms import FIELDS, LABELS, Texts, changes, meet, plain, tags_of, texts_of, typed_of
from kgd.ui.reading import Missing, whole
from kgd.ui.rendering import sentence

TYPES = ("concept", "insight", "decision", "gotcha", "pattern", "task", "entity", "document", "atom", "molecule")
"""What is offered; any other word is a type too."""
FIRST_TYPE = "insight"
"""What a form without an address begins with, as `remember` does."""
ABOUT_COST = 0.5
MESSAGE_LIMIT = 4_000


@dataclass(frozen=True, slots=True)
class Written:
    """What a form says: of which version it was made, what stands in it, and why."""

    uri: str
    version: int
    commit: str
    texts: dict[str, str]
    message: str = ""
    about: str = ""


@dataclass(frozen=True, slots=True)
class Beside:
    """What somebody else made of a field meanwhile: against what it was, and against what was typed."""

    field: str
    theirs: str
    since: list[Mark]
    against: list[Mark]


def edit(asked: Asked) -> Handled:
    """The form of a node as it is now."""
    asked.form_for("put")
    written = _read(asked, asked.required("uri"))
    if written is None:
        return Go(asked.to("node/new", uri=asked.required("uri")))
    return _form(asked, written)


def new(asked: Asked) -> Handled:
    """The form of a node that is to be."""
    asked.form_for("put")
    texts = texts_of(None) | {name: asked.query[name] for name in FIELDS if name in asked.query}
    uri = asked.query.get("uri", "")
    if not uri and not texts["type"]:
        texts["type"] = FIRST_TYPE
    written = Written(uri, 0, "", texts, about="\n".join(asked.many("about")))
    return _form(asked, written)


def save(asked: Asked) -> Handled:
    """Write what was typed, show how it would look, or say why not; what was typed is always kept."""
    written = _sent(asked.form)
    if asked.form.get("act") == "preview":
        return _form(asked, written, previewed=True)
    try:
        base = _base(asked, written)
        texts = written.texts if written.uri else _with_name(written.texts)
        made = changes(base, texts, {**_named(written), "expect_version": written.version})
        if not made:
            if written.version:
                return Go(asked.to("node", uri=written.uri), "Nothing was changed: it is as it was.")
            raise Invalid("there is nothing written yet", next="Write a summary: one sentence, by which it is found.")
        if related := _about(written.about):
            made[0]["relations"] = related
        answer = asked.call("put", changes=made, message=written.message, conflicts="show")
    except Stale as error:
        return _late(asked, written, error)
    except KgdError as error:
        return _form(asked, written, refused=error)
    uri = answer["nodes"][0]["uri"] if answer["nodes"] else written.uri
    return Go(asked.to("node", uri=uri), said(answer))


def said(answer: Mapping[str, Any], done: str = "Saved") -> str:
    """What came of a change, in a sentence or two."""
    commit = answer.get("commit")
    told = f"{done} with commit {commit[:10]}." if commit else "Nothing was changed: it is as it was."
    like = [f"It may be the same as {', '.join(one['like'])}." for one in answer.get("similar", ())]
    return " ".join((told, *(f"{sentence(one)}." for one in answer.get("warnings", ())), *like))


def _read(asked: Asked, uri: str) -> Written | None:
    """The form of a node as it is now; None where there is none. What only the code tree says is no part of it."""
    node = whole(asked, uri)
    if isinstance(node, Missing):
        return None
    commit = node["origin"].get("commit", "")
    stored = _stored(asked, node["uri"], commit) if node["version"] else None
    return Written(node["uri"], node["version"], commit if node["version"] else "", texts_of(stored))


def _stored(asked: Asked, uri: str, commit: str) -> dict[str, Any]:
    """The node as it was stored with a commit.

    Raises:
        NotFound: It was not there then.
    """
    node = whole(asked, uri, as_of=commit)
    if isinstance(node, Missing):
        raise NotFound("what this form was made of is not there any more", at=uri, next="Open the form again.")
    return node


def _sent(form: Mapping[str, str]) -> Written:
    """What a browser sent."""
    version = form.get("version", "0")
    if not version.isdecimal() or len(version) > 9:
        raise Invalid("this is not a version", at="version", next="Open the form again.")
    message = " ".join(form.get("message", "").split())[:MESSAGE_LIMIT]
    return Written(
        form.get("uri", "").strip(), int(version), form.get("commit", ""), typed_of(form), message,
        plain(form.get("about", "")),
    )  # fmt: skip


def _base(asked: Asked, written: Written) -> Texts:
    return texts_of(_stored(asked, written.uri, written.commit) if written.version else None)


def _with_name(texts: Texts) -> Texts:
    """What has no address is named by its summary where it has no name, and is an insight where it has no type.

    Raises:
        Invalid: It has neither a name nor a summary.
    """
    name = texts.get("name") or texts.get("summary", "")
    if not name:
        raise Invalid("it has no name yet", next="Write a summary: one sentence, by which it is found.")
    return {**texts, "type": texts.get("type") or FIRST_TYPE, "name": name}


def _named(written: Written) -> dict[str, str]:
    return {"uri": written.uri} if written.uri else {}


def _about(text: str) -> list[dict[str, Any]]:
    return [{"type": "about", "target": line, "weight": ABOUT_COST} for line in tags_of(text)]


def _late(asked: Asked, written: Written, error: Stale) -> Handled:
    """Somebody wrote since the form was made: both versions, and the form as it was typed, made of theirs now."""
    uri = written.uri or error.at
    theirs = _read(asked, uri)
    base = _base(asked, written)
    if theirs is None:
        gone = Written(uri, 0, "", written.texts, written.message, written.about)
        return _form(asked, gone, deleted=True, last=_last(asked, uri))
    met = meet(base, written.texts, theirs.texts)
    again = Written(uri, theirs.version, theirs.commit, met.texts, written.message, written.about)
    beside = [
        Beside(
            name, theirs.texts[name], marked(base.get(name, ""), theirs.texts[name]),
            marked(theirs.texts[name], written.texts[name]) if name in met.both else [],
        )
        for name in met.theirs
    ]  # fmt: skip
    return _form(asked, again, beside=beside, both=met.both, last=_last(asked, uri), was=written.version)


def _last(asked: Asked, uri: str) -> dict[str, Any] | None:
    """The newest commit of a node."""
    commits = asked.call("history", uri=uri, limit=1)["commits"]
    return commits[0] if commits else None


def _form(asked: Asked, written: Written, **told: Any) -> Page:
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
