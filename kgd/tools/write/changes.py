"""The changes of `put`: one model per op, and its translation into an edit of the graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema, create_model

from kgd.errors import Invalid, KgdError, Limit, whole
from kgd.model import change as model
from kgd.model import uri as uris
from kgd.model.node import NODE_BYTES, PLAIN, NodeField, Relation, Shape, Source
from kgd.model.uri import Uri
from kgd.tools import addressing
from kgd.tools.origins import verified
from kgd.tools.parameters import JsonObject, Many, Params, prefixed, read_many
from kgd.tools.session import Session
from kgd.tools.write.code_moves import MovedCode, code_move
from kgd.tools.write.subjects import target
from kgd.workspace.workspace import Workspace
from kgd.workspace.writing.edits import NoSuchNode

Spell = Callable[[str, str], Uri]
"""Maps (text, at) to the canonical URI. A changed node's workspace must be known; a target's need not be."""


class SourceParams(Params):
    type: str
    id: str
    others: JsonObject = Field(default_factory=dict)

    def value(self) -> Source:
        return Source(self.type, self.id, self.others)


class RelationParams(Params):
    """A relation inside an `upsert`; its source is the node."""

    type: str
    target: str
    weight: float = 1.0
    data: JsonObject = Field(default_factory=dict)
    others: JsonObject = Field(default_factory=dict)

    def value(self, spell: Spell, at: str) -> Relation:
        return Relation(self.type, spell(self.target, f"{at}.target"), self.weight, self.data, self.others)


if TYPE_CHECKING:
    PlainParams = Params
else:
    PlainParams = create_model(
        "PlainParams",
        __base__=Params,
        **{
            row.name: (Many[str], Field(default_factory=list)) if row.shape is Shape.NAMES else (str | None, None)
            for row in PLAIN
        },
    )
    """The parameters for the fields in `PLAIN`."""


class Upsert(PlainParams):
    """Fields to set. `others` are keys unknown to this version of kgd, from another copy of the node's file."""

    op: Literal["upsert"]
    uri: str | None = None
    type: str | None = None
    name: str | None = None
    detail: str | None = None
    data: JsonObject = Field(default_factory=dict)
    source: Annotated[SourceParams | None, BeforeValidator(lambda v: v)] = None
    relations: Many[RelationParams] = Field(default_factory=list)
    aliases: Many[str] = Field(default_factory=list)
    unset: Many[str] = Field(default_factory=list)
    others: JsonObject = Field(default_factory=dict)
    expect_version: int | None = Field(default=None, ge=0)

    def edit(self, spell: Spell, own: Spell, workspace: str) -> model.Edit:
        given: dict[str, Any] = {row.name: getattr(self, row.name) for row in PLAIN}
        given |= {name: tuple(value) for name, value in given.items() if isinstance(value, list)}
        return model.Upsert(
            own(self.uri, "uri") if self.uri is not None else self._named(workspace),
            **given,
            data=self.data,
            source=self.source.value() if self.source else None,
            relations=tuple(_each(self.relations, lambda r: r.value(spell, ""), "relations")),
            aliases=tuple(own(alias, "aliases") for alias in self.aliases),
            unset=tuple(self.unset),
            expect_version=self.expect_version,
            detail=self.detail,
            others=self.others,
        )

    def _named(self, workspace: str) -> Uri:
        """The URI for a type and name; equal arguments give equal URIs. The whole name is one segment."""
        if not self.type or not self.name:
            raise Invalid("a node needs `uri`, or `type` and `name`", at="uri", next="Give them.")
        return uris.build(
            uris.scheme_of_type(self.type), workspace, [self.name.strip().encode("utf-8", "surrogatepass")]
        )


class Append(Params):
    op: Literal["append"]
    uri: str
    text: str

    def edit(self, spell: Spell, own: Spell, workspace: str) -> model.Edit:
        return model.Append(own(self.uri, "uri"), self.text, creates=False)


class Tag(Params):
    """Adds tags to an existing node."""

    op: Literal["tag"]
    uri: str
    tags: Many[str]

    def edit(self, spell: Spell, own: Spell, workspace: str) -> model.Edit:
        return model.Upsert(own(self.uri, "uri"), tags=tuple(self.tags), exists=True)


class Delete(Params):
    op: Literal["delete"]
    uri: str
    expect_version: int | None = Field(default=None, ge=0)

    def edit(self, spell: Spell, own: Spell, workspace: str) -> model.Edit:
        return model.Delete(own(self.uri, "uri"), self.expect_version)


class Relate(Params):
    op: Literal["relate"]
    source: str
    target: str
    type: str
    weight: float = 1.0
    data: JsonObject = Field(default_factory=dict)

    def edit(self, spell: Spell, own: Spell, workspace: str) -> model.Edit:
        relation = Relation(self.type, spell(self.target, "target"), self.weight, self.data)
        explicit = frozenset(self.model_fields_set & {"weight", "data"})
        return model.Relate(own(self.source, "source"), relation, explicit)


class Unrelate(Params):
    op: Literal["unrelate"]
    source: str
    target: str
    type: str

    def edit(self, spell: Spell, own: Spell, workspace: str) -> model.Edit:
        return model.Unrelate(own(self.source, "source"), spell(self.target, "target"), self.type)


class Untag(Params):
    op: Literal["untag"]
    uri: str
    tags: Many[str]

    def edit(self, spell: Spell, own: Spell, workspace: str) -> model.Edit:
        return model.Untag(own(self.uri, "uri"), tuple(self.tags))


class Move(Params):
    op: Literal["move"]
    uri: str
    to: str

    def edit(self, spell: Spell, own: Spell, workspace: str) -> model.Edit:
        return model.Move(own(self.uri, "uri"), own(self.to, "to"))


class Revert(Params):
    op: Literal["revert"]
    commit: str

    def edit(self, spell: Spell, own: Spell, workspace: str) -> model.Edit:
        return model.Revert(self.commit)


class Verify(Params):
    """Confirms that a node's statements about code hold for the current code."""

    op: Literal["verify"]
    uri: str


Change = Annotated[
    Upsert | Append | Delete | Relate | Unrelate | Tag | Untag | Move | Revert | Verify, Field(discriminator="op")
]

OPS = ["upsert", "append", "delete", "relate", "unrelate", "tag", "untag", "move", "revert", "verify"]

_TEXT = {"type": "string"}
_TEXTS = {"type": "array", "items": _TEXT}


def _described(row: NodeField) -> dict[str, Any]:
    form = _TEXTS if row.shape is Shape.NAMES else _TEXT
    return {**form, "description": row.help} if row.help else form


_SCHEMA: dict[str, Any] = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["op"],
        "properties": {
            "op": {"enum": OPS},
            "uri": _TEXT,
            **{row.name: _described(row) for row in PLAIN},
            "detail": {**_TEXT, "description": "long Markdown, kept as a file"},
            "data": {"type": "object", "description": "merged by key; null deletes"},
            "relations": {"type": "array", "items": {"type": "object"}, "description": "[{type, target, weight}]"},
            "aliases": _TEXTS,
            "unset": {**_TEXTS, "description": "fields, data.key or unknown keys to clear"},
            "expect_version": {"type": "integer", "description": "the version you read"},
            "text": _TEXT,
            "source": {"description": "relate: a URI; upsert: {type, id}"},
            "target": _TEXT,
            "weight": {"type": "number", "minimum": 0, "maximum": 1, "description": "cost, 0 to 1"},
            "to": _TEXT,
            "commit": _TEXT,
        },
    },
}
"""One flat object instead of an alternative per op: as clear to an agent, at a fifth of the characters."""

CHANGES_LIMIT = 1_000

Changes = Annotated[
    list[Change], BeforeValidator(read_many), Field(min_length=1, max_length=CHANGES_LIMIT), WithJsonSchema(_SCHEMA)
]

ChangesAsInPut = Annotated[
    list[Change],
    BeforeValidator(read_many),
    Field(min_length=1, max_length=CHANGES_LIMIT),
    WithJsonSchema({"type": "array", "items": {"type": "object"}, "description": "as in put"}),
]
"""`Changes` with a short schema, for tools that are offered together with `put`, which has the full schema."""


def edits(
    session: Session,
    workspace: Workspace,
    changes: Sequence[Any],
    moved: list[MovedCode] | None = None,
    told: list[str] | None = None,
    *,
    is_repeated: bool = False,
) -> tuple[model.Edit, ...]:
    """Translate changes into edits of this workspace, in their order. Writes nothing. Moves of code are added to
    `moved`; of a repeated request they are not looked up, since their facts have moved. Warnings about targets of
    relations are added to `told`.

    Raises:
        KgdError: The first wrong change, with its place, such as ``changes[2].weight``.
    """

    def own(text: str, at: str) -> Uri:
        return addressing.resolve(session, workspace, text, at=at)

    def spell(text: str, at: str, *, strict: bool = True) -> Uri:
        uri, warning = target(session, workspace, text, at=at, strict=strict)
        if warning and told is not None:
            told.append(warning)
        return uri

    def made(change: Any) -> tuple[model.Edit, ...]:
        if isinstance(change, Verify):
            return (verified(session, workspace, own(change.uri, "uri")),)
        is_move = isinstance(change, Move) and not is_repeated
        if is_move and (move := code_move(session, workspace, change.uri, change.to)):
            if moved is not None:
                moved.append(move.told)
            return move.edits
        named = partial(spell, strict=not isinstance(change, Unrelate))  # a removed symbol may still have relations
        return (_checked(change).edit(named, own, workspace.id),)

    return tuple(chain.from_iterable(_each(changes, made, "changes")))


@contextmanager
def naming_similar(session: Session, workspace: Workspace) -> Iterator[None]:
    """Add nodes of similar names to the refusal of a change of a missing node."""
    try:
        yield
    except NoSuchNode as refusal:
        sees = session.sight(workspace.id)
        refusal.next = addressing.did_you_mean(workspace, Uri(refusal.at), sees)
        raise


def addresses(changes: Sequence[Any]) -> list[str]:
    """All texts in the changes that address nodes."""
    found = [getattr(change, name, None) for change in changes for name in ("uri", "source", "target", "to")]
    found += [one.target for change in changes for one in getattr(change, "relations", ())]
    found += [alias for change in changes for alias in getattr(change, "aliases", ())]
    return [text for text in found if isinstance(text, str)]


def _checked(change: Any) -> Any:
    text = getattr(change, "content", None) or getattr(change, "text", None) or ""
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > NODE_BYTES:
        raise Limit(
            f"content may be at most {NODE_BYTES // 1024} KiB; this content is {whole(size, 1024)} KiB",
            at="content" if hasattr(change, "content") else "text",
            next="Split it into several nodes and relate them.",
        )
    return change


def _each(items: Sequence[Any], make: Callable[[Any], Any], where: str) -> list[Any]:
    made = []
    for index, item in enumerate(items):
        try:
            made.append(make(item))
        except KgdError as error:
            error.at = error.at.lstrip(".")
            raise prefixed(error, f"{where}[{index}]") from None
    return made
