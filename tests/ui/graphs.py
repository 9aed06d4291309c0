"""A graph for pictures: a team's knowledge about a small shop."""

from __future__ import annotations

from tests.ui.conftest import Desk

NAMES = {
    "front": "Shop front",
    "login": "Login",
    "sessions": "Sessions",
    "cart": "Cart",
    "checkout": "Checkout",
    "prices": "Prices",
    "stock": "Stock",
    "payment": "Payment provider",
    "mail": "Mail",
    "orders": "Orders",
    "limits": "Rate limits",
    "audit": "Audit log",
}
RELATIONS = [
    ("front", "login", 0.25),
    ("front", "cart", 0.25),
    ("front", "prices", 0.5),
    ("login", "sessions", 0.25),
    ("login", "limits", 0.5),
    ("sessions", "audit", 0.5),
    ("cart", "checkout", 0.25),
    ("cart", "stock", 0.5),
    ("checkout", "payment", 0.25),
    ("checkout", "orders", 0.5),
    ("orders", "mail", 0.25),
    ("prices", "stock", 0.25),
    ("checkout", "vouchers", 0.25),
    ("payment", "audit", 0.25),
]
FACTS = {
    "login": "Sessions last 15 minutes",
    "payment": "The provider retries for an hour",
    "stock": "Stock is counted at night",
}


def furnish(desk: Desk) -> None:
    """Write the graph. ``vouchers`` is a missing node."""
    changes = [
        {
            "op": "upsert",
            "uri": uri,
            "name": name,
            "relations": [
                {"type": "uses", "target": to, "weight": weight} for by, to, weight in RELATIONS if by == uri
            ],
        }
        for uri, name in NAMES.items()
    ]
    facts = [
        {
            "op": "upsert",
            "uri": f"insight://shop/{about}",
            "name": said,
            "relations": [{"type": "about", "target": about, "weight": 0.25}],
        }
        for about, said in FACTS.items()
    ]
    code = {
        "op": "relate",
        "source": "sessions",
        "type": "implemented_in",
        "target": "./src/auth/session.py",
        "weight": 0.25,
    }
    desk.call("put", changes=[*changes, *facts, code])
