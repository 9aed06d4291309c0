"""The form of a node: editing, creation, preview, and merging with a concurrent change.

Texts are compared with normalised line ends, because browsers rewrite them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from kgd.errors import Invalid, KgdError, NotFound, Stale
from kgd.model.fields import split
from kgd.model.node import NODE_FIELDS, PLAIN, SCALARS, Shape
from kgd.model.uri import CODE_TREE, build, from_path, scheme_of
from kgd.tools import addressing
from kgd.tools.write.put import uri_of_fact
from kgd.ui.changes import Mark, is_cut, mapping_of, mapping_text, marked
from kgd.ui.node_reading import (
    AREAS,
    Missing,
    below,
    cited,
    links,
    open_conflicts,
    others_about_code,
    way_to,
    whole,
)
from kgd.ui.pages.attention import contradicted
from kgd.ui.pages.conflicts import listed
from kgd.ui.visit import NOTHING, Entry, Handled, Page, Redirect, Visit, reported

NAMES = tuple(row.name for row in PLAIN if row.shape is Shape.NAMES)
FIELDS = (*SCALARS, "detail", *NAMES, "data")
LINES = tuple(row.name for row in PLAIN if row.shape in (Shape.LABEL, Shape.LINE))
"""Single-line fields."""
LABELS = {row.name: row.label.capitalize() for row in NODE_FIELDS} | {"detail": "In detail"}
FURTHER = tuple(row for row in PLAIN if row.name not in ("type", "name", "summary", "content", "tags"))
"""Fields that do not have a place of their own on pages."""
Texts = Mapping[str, str]
"""The text of each field of a form."""


@dataclass(frozen=True, slots=True)
class Met:
    """A form merged with a concurrent change to its node.

    `texts` has the other user's text for fields that only they changed, and the typed text for all other fields.
    `theirs` names the fields that the other user changed; `both` names the fields that both users changed, to different
    texts.
    """

    texts: dict[str, str]
    theirs: tuple[str, ...]
    both: tuple[str, ...]


def texts_of(node: Mapping[str, Any] | None) -> dict[str, str]:
    """Return a node as the texts of its form, without fields that the answer shortened. The content does not repeat the
    summary, as on the page of the node."""
    if node is None:
        return dict.fromkeys(FIELDS, "")
    texts = {name: plain(node.get(name, "")) for name in SCALARS}
    texts["content"] = below(texts["summary"] or texts["name"], texts["content"])
    texts["detail"] = plain(node["detail"]["text"]) if "detail" in node else ""
    texts |= {name: "\n".join(node.get(name, ())) for name in NAMES}
    data = node.get("data", {})
    if not is_cut(data):
        texts["data"] = mapping_text(data)
    return texts


def typed_of(form: Mapping[str, str]) -> dict[str, str]:
    """Return the fields of a submitted form. Its type may be in a field of its own, for other types."""
    if not form.get("type") and "other_type" in form:
        form = {**form, "type": form["other_type"]}
    sent = {name: plain(form[name]) for name in FIELDS if name in form}
    return {name: " ".join(text.split()) if name in LINES else text for name, text in sent.items()}


def plain(text: str) -> str:
    """Normalise line ends."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def same(field: str, one: str, two: str) -> bool:
    """Whether two texts of a field have the same value."""
    if one == two:
        return True
    if field in NAMES:
        return set(tags_of(one)) == set(tags_of(two))
    if field == "data":
        try:
            first, second = mapping_of(one), mapping_of(two)
            return all(_line(first, key) == _line(second, key) for key in {**first, **second})
        except KgdError:
            return False
    return False


def tags_of(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def changes(base: Texts, typed: Texts, put: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the changes of `put` that turn the texts `base` into the typed texts; empty if both are the same.

    Args:
        put: More keys for the first change: the node's URI and the version that was read.

    Raises:
        Invalid: The data is not valid YAML.
    """
    altered = [name for name in FIELDS if name in typed and not same(name, base.get(name, ""), typed[name])]
    upsert: dict[str, Any] = {"op": "upsert", **put}
    unset: list[str] = []
    gone: list[str] = []
    for name in altered:
        text = typed[name]
        if name == "tags":
            before, after = tags_of(base.get(name, "")), tags_of(text)
            upsert["tags"] = [tag for tag in after if tag not in before]
            gone = [tag for tag in before if tag not in after]
        elif name in NAMES:  # only tags can be removed one by one
            unset.append(name)
            upsert[name] = tags_of(text)
        elif name == "data":
            old, new = mapping_of(base.get(name, "")), mapping_of(text)
            differ = [key for key in {**old, **new} if _line(old, key) != _line(new, key)]
            # `put` merges maps, so removed keys must be unset first.
            unset += [f"data.{key}" for key in differ if key in old]
            upsert["data"] = {key: new[key] for key in differ if new.get(key) is not None}
        elif not text.strip():
            unset.append(name)
        else:
            upsert[name] = text
    if unset:
        upsert["unset"] = unset
    if not altered:
        return []
    untag = [{"op": "untag", "uri": put["uri"], "tags": gone}] if gone else []
    return [upsert, *untag]


def meet(base: Texts, typed: Texts, theirs: Texts) -> Met:
    """Merge a form with a concurrent change to its node, keeping all typed text."""
    changed = [name for name in FIELDS if name in theirs and not same(name, base.get(name, ""), theirs[name])]
    mine = [name for name in FIELDS if name in typed and not same(name, base.get(name, ""), typed[name])]
    both = [name for name in changed if name in mine and not same(name, typed[name], theirs[name])]
    texts = {name: typed[name] if name in mine else theirs.get(name, typed[name]) for name in typed}
    return Met(texts, tuple(changed), tuple(both))


def _line(data: Mapping[str, Any], key: str) -> str:
    """Return an entry as YAML: 1 and true are equal in Python but not the same data."""
    return mapping_text({key: data[key]}) if data.get(key) is not None else ""


TYPES = {
    "insight": "a fact worth knowing",
    "decision": "a choice, and why",
    "gotcha": "surprises the next person",
    "pattern": "how the team does things",
    "concept": "explains a term or a part",
    "task": "work to do",
}
"""The types that the form offers first, each with its meaning; any other word is also valid."""
OTHER_TYPES = ("entity", "document", "atom", "molecule")
FIRST_TYPE = "insight"
"""Initial type of a form without an address, as for `remember`."""
ABOUT_COST = 0.5
LIKE_A_FILE = re.compile(r"[^:./][^:]*\.[A-Za-z]\w{0,7}\Z").match
"""Matches a path from the top of the code to a file with an extension."""
MESSAGE_LIMIT = 4_000
CITED, FEW = 2, 5
"""Largest numbers of citations, and of other nodes, beside the form."""


@dataclass(frozen=True, slots=True)
class Written:
    """A submitted form: the version that it started from, a commit of the workspace with this version, its texts, and a
    message."""

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
    if not texts["type"]:
        texts["type"] = _scheme(uri) if uri else FIRST_TYPE
    written = Written(uri, 0, "", texts, about="\n".join(visit.many("about")))
    return _form(visit, written)


def _scheme(uri: str) -> str:
    """Return the type that an address names; empty if the form does not offer it."""
    scheme, colon, _ = uri.partition("://")
    return scheme if colon and scheme in TYPES else ""


def save(visit: Visit) -> Handled:
    """Save or preview a form; an error shows the form again with its texts."""
    written = _sent(visit.form)
    if visit.form.get("act") == "preview":
        return _form(visit, written, previewed=True)
    try:
        stored = _stored(visit, written.uri, written.commit) if written.version else None
        texts = written.texts if written.uri else _with_name(written.texts)
        base = texts_of(stored)
        if stored and texts.get("summary", base["summary"]) != base["summary"]:
            base["content"] = plain(stored["content"])  # it may begin with the old summary
        made = changes(base, texts, {"uri": written.uri or _address(visit, texts), "expect_version": written.version})
        if re.search(r"\bbecause\W*$", texts.get("summary", "")):  # as "Write why" begins it
            raise Invalid("the summary ends before the reason", at="summary", next="Finish the sentence.")
        if not made:
            if written.version:
                return Redirect(visit.to("node", uri=written.uri), NOTHING)
            raise Invalid("the form is empty", next="Write a summary of one sentence.")
        if related := _about(visit, written.about):
            made[0]["relations"] = related
        answer = visit.call("put", changes=made, message=written.message, conflicts="show")
    except Stale as error:
        return _late(visit, written, error)
    except KgdError as error:
        return _form(visit, written, refused=error)
    uris = [one["uri"] for one in answer["nodes"]]
    own = (uri for uri in uris if scheme_of(uri) not in CODE_TREE)  # a relation to a missing file writes the file too
    uri = next(own, uris[0] if uris else written.uri)
    return reported(visit.to("node", uri=uri), answer)


def _read(visit: Visit, uri: str) -> Written | None:
    """Return the form of a node; None if the node does not exist. Content from the code tree is not part of it.

    The base is the tip that reads see. The newest commit of a node in conflict has only one of its versions.
    """
    tip = addressing.choose(visit.session(), visit.workspace).read_tip.hex()
    node = whole(visit, uri)
    if isinstance(node, Missing):
        return None
    if not node["version"]:
        return Written(node["uri"], 0, "", texts_of(None))
    stored = _stored(visit, node["uri"], tip)
    return Written(node["uri"], stored["version"], tip, texts_of(stored))


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


def _address(visit: Visit, texts: Texts) -> str:
    """Return the address of a new node, as `remember` makes it; areas have their names in theirs."""
    workspace = addressing.choose(visit.session(), visit.workspace, writing=True)
    if texts["type"] in AREAS:
        return build(texts["type"], workspace.id, [texts["name"].encode()])
    return uri_of_fact(workspace, texts["type"], texts["name"])[0]


def _about(visit: Visit, text: str) -> list[dict[str, Any]]:
    """Return the relations to nodes and paths; a missing path with a file extension is a file."""
    lines = tags_of(text)
    paths = list(filter(LIKE_A_FILE, lines))
    missing = {one["uri"] for one in visit.call("get", uris=paths, include=[])["missing"]} if paths else set()
    is_missing = {line: from_path("concept", visit.workspace, line) in missing for line in paths}
    targets = [f"./{line}" if is_missing.get(line) else line for line in lines]
    return [{"type": "about", "target": target, "weight": ABOUT_COST} for target in targets]


def _about_now(visit: Visit, uri: str) -> list[tuple[str, str]]:
    """Return the names and URIs of the nodes that a node is about."""
    with suppress(KgdError):  # the form works without them
        rows = links(visit, uri, "relations", None, None).rows
        return [(row["name"], row["other"]) for row in rows if row["type"] == "about"]
    return []


def _beside(visit: Visit, written: Written) -> dict[str, Any]:
    """Return the content beside a form: the code that a stored node cites and the nodes that lead to it, or what is
    known about the files that a new node is about."""
    with suppress(KgdError):  # the form works without it
        if written.version:
            found = [one for one in cited(visit, written.uri) if one["lines"]]
            changed = [one for one in found if one.get("state") == "changed"]
            gone = contradicted(" ".join(written.texts.get(name, "") for name in SCALARS), changed)
            beside = {"cites": found[:CITED], "has_changed": bool(changed), "gone": gone.split()}
            return {**beside, "incoming": links(visit, written.uri, "incoming")}
        files = [_file(visit, line) for line in tags_of(written.about)]
        return {"others": others_about_code(visit, {"uri": ""}, [{"file": uri} for uri in files if uri])}
    return {}


def _disputed(visit: Visit, uri: str) -> dict[str, list[Mapping[str, Any]]]:
    """Return the disputed fields of a node, as in the list of conflicts, by the field of the form that has them."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for one in open_conflicts(visit, uri):
        for field in listed(one)["fields"]:
            found.setdefault(split(field["name"])[0], []).append(field)
    return found


def _file(visit: Visit, line: str) -> str:
    """Return the URI of the file that a line names; empty if it names none."""
    path = line.removeprefix("./")
    return line if line.startswith("file://") else from_path("file", visit.workspace, path) * bool(LIKE_A_FILE(path))


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
        {
            "written": written,
            "way": way_to(visit, written.uri) if written.version else [(visit.workspace, visit.to("overview"))],
            "texts": written.texts,
            "labels": LABELS,
            "types": TYPES,
            "other_types": OTHER_TYPES,
            "about_now": _about_now(visit, written.uri) if written.version else [],
            "disputed": _disputed(visit, written.uri) if written.version else {},
            **_beside(visit, written),
            "others_shown": FEW,
            "further": FURTHER,
            "one_line": LINES,
            "refused": None,
            **told,
        },
        409 if late else 422 if refused else 200,
    )


ENTRIES = (
    Entry("node", "node/edit", edit),
    Entry("node", "node/edit", save, ("POST",)),
    Entry("node", "node/new", new),
    Entry("node", "node/new", save, ("POST",)),
)
