"""Every operation is declared once and whole, and no surface knows one by name."""

from __future__ import annotations

import pytest

from kgd.cli import requests
from kgd.cli.verbs import GROUPS, TYPES, VERBS, Verb, function
from kgd.tools import EVERY
from kgd.tools.catalogue import TABLE
from kgd.tools.reference import declared, table


def test_the_generated_table_is_current() -> None:
    assert TABLE.read_text() == table(), "run: python -m kgd.tools.reference docs/mcp.md"


def test_every_declaration_is_in_the_table() -> None:
    assert {name: one for name, (_, _, one) in declared().items()} == dict(EVERY)


@pytest.mark.parametrize("verb", [one for one in VERBS if one.call], ids=lambda one: str(one.name))
def test_a_command_names_functions_that_exist(verb: Verb) -> None:
    assert verb.group in GROUPS
    assert verb.call in EVERY
    assert not verb.rehearsal or verb.rehearsal in EVERY
    assert callable(getattr(requests, verb.ask or "same"))
    assert callable(function(verb.own or verb.print))
    assert all(argument.options["help"] for argument in verb.arguments)
    assert all(one.options.get("type", str) in (str, *TYPES.values()) for one in verb.arguments)
