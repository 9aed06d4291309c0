"""The user's choice of an embedder. Reading it loads no library and no model.

The choice is part of the user's own settings. A workspace cannot choose an embedder, because its author would then
decide where its users' texts are sent.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Literal

from kgd.errors import Invalid

Kind = Literal["builtin", "off", "onnx", "fastembed", "openai"]
Pooling = Literal["mean", "cls"]

NEEDED: Mapping[Kind, tuple[str, ...]] = {
    "builtin": (),
    "off": (),
    "onnx": ("dir",),
    "fastembed": ("model",),
    "openai": ("url", "model"),
}
_MORE: Mapping[Kind, tuple[str, ...]] = {
    "builtin": ("share",),
    "off": (),
    "onnx": ("query_prefix", "document_prefix", "pooling", "max_tokens", "batch", "share"),
    "fastembed": ("query_prefix", "document_prefix", "batch", "share"),
    "openai": ("key", "query_prefix", "document_prefix", "batch", "seconds", "share"),
}
_BOUNDS: Mapping[str, tuple[float, float]] = {
    "batch": (1, 2_048),
    "seconds": (1, 600),
    "max_tokens": (16, 8_192),
    "share": (0, 1),
}
_TEXT_LIMIT = 500
FORMS = "builtin; off; or a mapping with kind: onnx, fastembed or openai"


@dataclass(frozen=True, slots=True)
class Choice:
    """An embedder and its settings. Fields that its kind does not have keep their defaults.

    `dir` contains model.onnx and tokenizer.json; `url` is the base of an endpoint, `key` the reference to its
    credential. The prefixes are added to queries and documents, as some models expect. `share` is the weight of its
    similarity in a score, 0..1; None leaves the weight to the embedder.
    """

    kind: Kind = "builtin"
    dir: str = ""
    model: str = ""
    url: str = ""
    key: str = ""
    query_prefix: str = ""
    document_prefix: str = ""
    pooling: Pooling = "mean"
    max_tokens: int = 256
    batch: int = 0
    seconds: float = 30.0
    share: float | None = None

    def __str__(self) -> str:
        name = self.model or os.path.basename(self.dir.rstrip("/"))
        return f"{self.kind} {name}".strip() + (f" at {self.url}" if self.url else "")

    def written(self) -> str:
        """The choice as text for `read`. It contains no credential."""
        return json.dumps({name: value for name, value in asdict(self).items() if value != getattr(_DEFAULT, name)})

    @classmethod
    def read(cls, text: str) -> Choice:
        """The choice that `written` returned.

        Raises:
            Invalid: The text is not a choice.
        """
        try:
            return parse({"kind": "builtin"} | json.loads(text))
        except (ValueError, TypeError):
            raise Invalid("the text is not a choice of an embedder") from None


_DEFAULT = Choice()


def parse(value: object) -> Choice:
    """The choice in a setting: ``builtin``, ``off``, or a mapping.

    Raises:
        Invalid: The value is not a choice; the message names the field.
    """
    if isinstance(value, Choice):
        return value
    if value is False:  # YAML 1.1 reads `off` as false, and editors still write that
        value = "off"
    if isinstance(value, str):
        value = {"kind": value}
    if not isinstance(value, Mapping) or value.get("kind") not in tuple(NEEDED):
        raise Invalid("'embedder' must be one of: " + FORMS)
    kind: Kind = value["kind"]
    known = ("kind", *NEEDED[kind], *_MORE[kind])
    for name in value:
        if name not in known:
            raise Invalid(
                f"'{str(name)[:70]}' is not a field of an embedder of kind {kind}",
                next=f"Its fields: {', '.join(known)}.",
            )
    for name in NEEDED[kind]:
        if not value.get(name):
            raise Invalid(f"an embedder of kind {kind} needs '{name}'")
    return _checked(Choice(**{field.name: value[field.name] for field in fields(Choice) if field.name in value}))


def _checked(choice: Choice) -> Choice:
    for field in fields(Choice):
        value = getattr(choice, field.name)
        if field.name in _BOUNDS:
            least, most = _BOUNDS[field.name]
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if value != field.default and not (number and least <= value <= most):
                raise Invalid(f"'{field.name}' of an embedder must be a number, {least:g} to {most:g}")
        elif not isinstance(value, str) or len(value) > _TEXT_LIMIT or not value.isprintable():
            raise Invalid(f"'{field.name}' of an embedder must be one line of at most {_TEXT_LIMIT} characters")
    if choice.pooling not in ("mean", "cls"):
        raise Invalid("'pooling' of an embedder must be mean or cls")
    if choice.dir and not os.path.isabs(os.path.expanduser(choice.dir)):
        raise Invalid("'dir' of an embedder must be an absolute path, or begin with ~/")
    if choice.url:
        from kgd.http_client import Address  # takes 20 ms, which most commands can save

        Address.parse(choice.url, of="model")
    if choice.key and re.match(r"(env|keyring|file):", choice.key) is None:
        raise Invalid(
            "'key' of an embedder must be a reference to a credential",
            next="Write env:NAME, keyring:NAME or file:PATH.",
        )
    return choice


def may_serve(old: Choice, new: Choice) -> bool:
    """Whether the replaced embedder may be used for queries until the new one has embedded all texts.

    A local embedder may be used. An endpoint may be used only if the new choice has the same endpoint, because the user
    may have replaced it for privacy.
    """
    return old.kind in ("builtin", "onnx", "fastembed") or (old.url == new.url and old.key == new.key)
