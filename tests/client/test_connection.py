"""Calls whose arguments have no form in JSON."""

from __future__ import annotations

from typing import Any

import pytest

from kgd.client.connection import Connection
from kgd.config import Home
from kgd.errors import Invalid

CIRCLE: list[Any] = []
CIRCLE.append(CIRCLE)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("half \ud800", "an argument is not valid UTF-8"),
        (float("inf"), "an argument is not a finite number"),
        (CIRCLE, "this cannot be written as JSON: Circular reference detected"),
        ({1, 2}, "this cannot be written as JSON: Object of type set is not JSON serializable"),
    ],
)
def test_an_argument_without_a_form_in_json_is_refused_with_a_next_step(
    home: Home, value: object, message: str
) -> None:
    with Connection(home, start=False) as connection, pytest.raises(Invalid) as refused:
        connection.call("put", {"changes": value})
    assert refused.value.message == message
    assert refused.value.next
