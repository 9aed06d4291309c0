"""The first picture of docs/ui.md: a team's knowledge about one part of its code."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from kgd.drawing import MEANINGS
from tests.ui.conftest import Desk, at
from tests.ui.pictures import picture

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.slow]

Leads = tuple[str, str, float]
KNOWN: list[tuple[str, str, list[Leads]]] = [
    (
        "concept://shop/checkout",
        "Checkout",
        [
            ("depends_on", "concept://shop/auth", 0.25),
            ("depends_on", "concept://shop/payments", 0.25),
            ("implemented_in", "file://shop/src/checkout.py", 0.25),
            ("decided_in", "decision://shop/one-page", 0.25),
            ("depends_on", "concept://shop/prices", 0.5),
        ],
    ),
    (
        "concept://shop/auth",
        "Auth service",
        [
            ("implemented_in", "file://shop/src/auth/session.py", 0.25),
            ("depends_on", "concept://shop/keys", 0.5),
            ("learned", "gotcha://shop/clock-skew", 0.25),
        ],
    ),
    (
        "concept://shop/payments",
        "Payments",
        [
            ("learned", "gotcha://shop/rate-limit", 0.25),
            ("decided_in", "decision://shop/retries", 0.25),
            ("depends_on", "concept://shop/ledger", 0.5),
        ],
    ),
    ("concept://shop/keys", "Signing keys", [("implemented_in", "file://shop/src/auth/keys.py", 0.25)]),
    ("concept://shop/prices", "Prices are net", [("decided_in", "decision://shop/rounding", 0.25)]),
    ("decision://shop/one-page", "One page, no steps", []),
    ("decision://shop/retries", "Retry twice, then ask", []),
    ("decision://shop/rounding", "Round half to even", []),
    ("gotcha://shop/clock-skew", "Clocks differ by 5 s", []),
    ("gotcha://shop/rate-limit", "The limit is 100/min", []),
]


@pytest.mark.picture
def test_a_graph_shows_the_knowledge_about_a_part_of_the_code(desk: Desk, page: Page) -> None:
    """`ledger` does not exist: the graph shows it as missing."""
    for uri, name, leads in KNOWN:
        relations = [{"type": type, "target": target, "weight": weight} for type, target, weight in leads]
        desk.put(uri, name=name, relations=relations)
    at(page, "graph?from=checkout&direction=out")
    for _, name, _ in KNOWN:
        expect(page.locator("#drawing")).to_contain_text(name[:10])
    expect(page.locator("main")).to_contain_text(MEANINGS["missing"])
    picture(page, "first-screen", 1200, 760)
