"""Values of a node as editable text, and back."""

from __future__ import annotations

from collections.abc import Mapping

from kgd.codec import canonical
from kgd.codec.documents import read_mapping
from kgd.errors import Invalid, KgdError
from kgd.model.node import Json

AT = "data"


def as_text(value: Json) -> str:
    """Return a value as text: a list by lines, nested values as YAML."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value and all(isinstance(one, str) for one in value):
        return "\n".join(value)
    if isinstance(value, Mapping) and value:
        return mapping_text(value)
    return canonical.dump({"x": value}, depth=canonical.DEPTH + 4).removeprefix("x:").strip()


def mapping_text(values: Mapping[str, Json]) -> str:
    """Return the data of a node as YAML; empty without data."""
    return canonical.dump(values, depth=canonical.DEPTH + 4) if values else ""


def mapping_of(text: str) -> dict[str, Json]:
    """Parse the data of a node from YAML.

    Raises:
        Invalid: The text is not valid data; names the line.
    """
    if not text.strip():
        return {}
    try:
        return dict(read_mapping(text.encode(), AT))
    except KgdError as error:
        place = error.at.removeprefix(f"{AT}:")
        where = f"line {place} of data" if place.isdigit() else AT
        raise Invalid(error.message, at=where, next=error.next or "Write one 'key: value' per line.") from error
    except UnicodeEncodeError:
        raise Invalid("the data contains half of a character", at=AT, next="Delete that character.") from None
