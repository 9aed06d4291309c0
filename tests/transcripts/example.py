"""The example: a shop's code in five commits, and its team's notes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

SESSION = '''\
"""Signed sessions: a cookie that the server can trust."""

from shop.auth.keys import current, previous
from shop.errors import Expired


class SessionStore:
    """Sessions by id, signed with the key of the week."""

    def load(self, cookie: str) -> dict[str, str]:
        """Read a session; a cookie signed with neither key has expired."""
        for key in (current(), previous()):
            if cookie.endswith(key):
                return {"cookie": cookie}
        raise Expired("the session is older than two weeks")

    def rotate(self, cookie: str) -> str:
        """Give a signed-in user a new id, against fixation."""
        return cookie[:-4] + current()
'''
KEYS = '''\
"""The signing keys: this week's and last week's."""


def current() -> str:
    return "k48."


def previous() -> str:
    return "k47."
'''
CSRF = '''\
"""Protection against forged forms."""

import hmac


def token_matches(sent: str, stored: str) -> bool:
    """Compare the token of a form with that of the cookie, in constant time."""
    return hmac.compare_digest(sent, stored)
'''
MONEY = '''\
"""Money in cents."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Money:
    cents: int
    currency: str = "EUR"

    def minus(self, other: "Money") -> "Money":
        """The difference; currencies must agree."""
        if self.currency != other.currency:
            raise ValueError("cannot subtract another currency")
        return Money(self.cents - other.cents, self.currency)
'''
REFUNDS = '''\
"""Refunds: money back to the customer."""

from shop.errors import RefundRefused
from shop.money import Money


def refund(payment: Money, wanted: Money, already: Money) -> Money:
    """The remaining payment after a refund."""
    if wanted.cents > payment.minus(already).cents:
        raise RefundRefused("the refund is larger than the remaining payment")
    return payment.minus(already).minus(wanted)
'''
RECEIPTS = '''\
"""Receipts by mail."""

from shop.money import Money


def send_receipt(address: str, total: Money) -> str:
    """The text of the mail to a customer who has paid."""
    return f"To {address}: thank you, {total.cents / 100:.2f} {total.currency}"
'''
ERRORS = '''\
"""Errors that a customer sees."""


class Expired(Exception):
    """A session that is too old."""


class RefundRefused(Exception):
    """A refund that is larger than its payment."""
'''
COMMITS: tuple[tuple[str, dict[str, str]], ...] = (
    (
        "Sign sessions with weekly keys",
        {"shop/auth/session.py": SESSION, "shop/auth/keys.py": KEYS, "shop/errors.py": ERRORS},
    ),
    ("Count money in cents\n\nFloats lost a cent in one order of two hundred.", {"shop/money.py": MONEY}),
    ("Mail a receipt after each payment", {"shop/mail/receipts.py": RECEIPTS}),
    (
        "Refuse refunds beyond the payment\n\nTwo partial refunds together paid back more than the customer had paid:"
        " the second one did not see the first.",
        {"shop/payments/refunds.py": REFUNDS},
    ),
    ("Compare CSRF tokens in constant time", {"shop/auth/csrf.py": CSRF}),
)
NODES: tuple[dict[str, Any], ...] = (
    {
        "uri": "molecule:security",
        "name": "Security",
        "content": "Trust no user input before shop/auth has checked it. Two people review each change.",
    },
    {
        "uri": "atom:sessions",
        "name": "Sessions",
        "content": "Keys rotate every Monday, and the one before stays valid for a week: sign people out by hand"
        " only after a leak. Call rotate() when a user signs in. A session holds ids and never personal data.",
        "data": {"paths": ["shop/auth/session.py", "shop/auth/keys.py"], "moleculeId": "molecule://shop/security"},
    },
    {
        "uri": "atom:csrf",
        "name": "CSRF protection",
        "content": "The cookie carries the secret, the form a copy. Behind the load balancer the Origin header"
        " is rewritten, so it is not checked.",
        "data": {"paths": ["shop/auth/csrf.py"], "moleculeId": "molecule://shop/security"},
    },
    {
        "uri": "atom:payments",
        "name": "Payments",
        "content": "Money is in cents, and every sum is written to the ledger first. Refunds need the sum of all"
        " earlier ones: read it in the same transaction.",
        "data": {"paths": ["shop/payments/**", "shop/money.py"]},
    },
    {
        "uri": "decision:no-floats",
        "name": "No floats for money",
        "content": "Use integer cents everywhere. Decimal was slower in the checkout, and floats lost a cent in one"
        " order of two hundred.",
        "data": {"cites": ["shop/money.py"]},
    },
    {
        "uri": "decision:vouchers-later",
        "name": "Vouchers are a means of payment",
        "content": "A voucher is a payment like a card, not a discount, because the tax office wants the full price on"
        " the receipt. Agreed with accounting in March.",
    },
    {
        "uri": "gotcha:partial-refunds",
        "name": "Partial refunds add up",
        "content": "The provider accepts two partial refunds that together are larger than the payment. Only our own"
        " check prevents that.",
        "data": {"cites": ["shop/payments/refunds.py"]},
    },
    {
        "uri": "gotcha:receipt-language",
        "name": "Receipts go out in the shop's language",
        "content": "The law requires the mail to be in the shop's language, not the customer's. Do not translate it by"
        " the browser's header.",
        "data": {"cites": ["shop/mail/receipts.py"]},
    },
    {
        "uri": "insight:support-hours",
        "name": "Answering complaints",
        "content": "Support answers within four hours on workdays. Maria decides about goodwill above 50 euros.",
    },
    {"uri": "insight:owners", "name": "Code owners", "content": "Ann owns payments, Bob signs off everything in auth."},
    {
        "uri": "task:vouchers",
        "name": "Pay with a voucher",
        "content": "Customers can pay with a voucher, alone or together with a card.",
    },
)


def make_code(root: Path) -> None:
    """The repository; authors and dates are fixed, so that the ids of commits are as well."""
    root.mkdir(parents=True)
    _git(root, 0, "init", "-q", "-b", "main")
    for number, (message, files) in enumerate(COMMITS):
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        _git(root, number, "add", "-A")
        _git(root, number, "commit", "-q", "-m", message)


def _git(root: Path, day: int, *arguments: str) -> None:
    date = f"2026-03-{day + 2:02}T09:00:00+00:00"
    who = ("Ann", "ann@example.org") if day % 2 == 0 else ("Bob", "bob@example.org")
    environment = {
        **os.environ,
        "GIT_AUTHOR_DATE": date,
        "GIT_COMMITTER_DATE": date,
        "GIT_AUTHOR_NAME": who[0],
        "GIT_AUTHOR_EMAIL": who[1],
        "GIT_COMMITTER_NAME": who[0],
        "GIT_COMMITTER_EMAIL": who[1],
    }
    subprocess.run(["git", "-C", str(root), *arguments], check=True, env=environment)
