"""What a person does with the graph: look around from a node, go on from another, narrow it down, save it."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.ui.conftest import Desk, at, axe

pytestmark = pytest.mark.needs("chromium")


@pytest.fixture(scope="module", autouse=True)
def known(desk: Desk) -> None:
    """auth leads to tokens, tokens to keys, and tokens to a concept that nobody has written."""
    changes = [
        {"op": "upsert", "uri": "auth", "name": "Auth service", "summary": "Lets people in",
         "relations": [{"type": "uses", "target": "tokens", "weight": 0.5}]},
        {"op": "upsert", "uri": "tokens", "name": "Tokens",
         "relations": [{"type": "signed_with", "target": "keys", "weight": 1},
                       {"type": "see", "target": "rotation", "weight": 0.25}]},
        {"op": "upsert", "uri": "keys", "name": "Signing keys"},
    ]  # fmt: skip
    desk.call("put", changes=changes)


def test_the_neighbourhood_of_a_node_is_drawn_and_told_in_words(page: Page) -> None:
    at(page, "graph?from=auth&direction=out")
    expect(page.locator("svg .dot")).to_have_count(3)  # auth, tokens, and what nobody has written
    expect(page.locator("main tbody tr td:first-child")).to_have_text(["Auth service", "Tokens", "rotation"])
    assert axe(page) == []
