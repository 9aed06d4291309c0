"""What the team of the realistic workspace wrote: areas, rules, decisions, traps, facts, tasks and people.

A line of realistic_facts.txt is: type, package, author, name, summary, and cited code (a path, with ``#`` before a
definition), separated by ``|``. The author ``claude`` or ``cursor`` is an agent that works for the package's owner.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

DATA = Path(__file__).with_suffix(".txt")
MOLECULES = {
    "Money": "Amounts are integers in cents. Round once, at the end, with `pricing.rounding`.\n\n"
    "Every step that moves money is idempotent and writes to the audit log first.",
    "Customers": "A customer's data leaves the shop only through `accounts`. Nothing that a browser sent is trusted "
    "before `sessions.check` has seen it.",
    "Warehouse": "Stock changes only inside a transaction that locks the row. "
    "The warehouse counts at night; its count wins.",
}
AREAS = {
    "catalog": ("Catalog", "Warehouse", "A product is never deleted: orders refer to it. Withdraw it instead."),
    "cart": ("Cart", "Customers", "A cart holds stock for a while. Prices in a cart are quotes, not promises."),
    "checkout": ("Checkout", "Money", "One page, no steps. The order of calls is: hold, authorise, place, capture."),
    "payments": (
        "Payments",
        "Money",
        "The provider repeats its messages. Every handler must accept the same message twice.",
    ),
    "orders": ("Orders", "Money", "An order is a copy of the cart at one moment; later prices do not change it."),
    "shipping": (
        "Shipping",
        "Warehouse",
        "Labels cost money as soon as they are printed. Print one only after capture.",
    ),
    "accounts": ("Accounts", "Customers", "Sessions are signed, not stored. A password never reaches a log."),
    "pricing": ("Pricing", "Money", "Prices are net; tax depends on the address. Vouchers apply before tax."),
    "search": ("Search", "Warehouse", "The index follows the catalog by a minute. It is rebuilt at night."),
    "mail": ("Mail", "Customers", "Mail is queued with the change that causes it, in the same transaction."),
    "inventory": ("Inventory", "Warehouse", "`hold` locks the row of the item. Always lock items by ascending SKU."),
    "admin": ("Reports", "Money", "Reports read a replica that may be a minute behind."),
}
TASKS = [
    (
        "Refuse withdrawn products in carts",
        "catalog",
        "A customer learns it before the payment.",
        "shop/catalog/service.py",
    ),
    (
        "Show who holds the last item",
        "inventory",
        "Support can answer the question without the database.",
        "shop/inventory/reservations.py",
    ),
    (
        "Rotate the session key without signing out",
        "accounts",
        "Two keys are valid at a time.",
        "shop/accounts/sessions.py",
    ),
    ("Refund a single line", "payments", "Support stops computing amounts by hand.", "shop/payments/service.py"),
    (
        "Print labels in batches",
        "shipping",
        "The warehouse starts at six with a printed pile.",
        "shop/shipping/service.py",
    ),
    ("One constant for decimal places", "pricing", "Rounding and orders cannot differ.", "shop/pricing/rounding.py"),
    ("Warn before a voucher is used up", "pricing", "Marketing prints in time.", "shop/pricing/vouchers.py"),
    ("Move reports to the shop's time zone", "admin", "Finance and sales see the same day.", "shop/admin/service.py"),
]
PEOPLE = {
    "Ann Person": "Founder; checkout, orders and pricing; decides about money",
    "Bob Builder": "Catalog, cart and search; on duty in the first week of a month",
    "Carla Moreno": "Warehouse and mail; ask before you touch stock",
    "Dmitri Volkov": "Payments, accounts and operations; holds the provider's contract",
}
UNWRITTEN = ("concept://shop/audit-log", "concept://shop/tax-rates", "concept://shop/returns")
"""Missing nodes: targets of relations that are not written yet."""


class Fact(NamedTuple):
    type: str
    package: str
    author: str
    name: str
    summary: str
    cites: str
    text: str = ""


def facts() -> list[Fact]:
    return [Fact(*line.split("|")) for line in DATA.read_text().splitlines()]
