"""The code of the realistic workspace: a web shop of sixty files, and eight months of commits by four people."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

PEOPLE = {
    "Ann Person": "ann@shop.example",
    "Bob Builder": "bob@shop.example",
    "Carla Moreno": "carla@shop.example",
    "Dmitri Volkov": "dmitri@shop.example",
}
ANN, BOB, CARLA, DMITRI = PEOPLE
DATA = Path(__file__).with_suffix(".txt")
FIRST_COMMIT = datetime(2026, 3, 2, 9, 5, tzinfo=UTC)


class Package(NamedTuple):
    """A package of the shop: its class, that class's fields, its operations, and its owner."""

    name: str
    thing: str
    fields: str
    verbs: str
    owner: str


PACKAGES = [
    Package("catalog", "Product", "sku title price_cents is_listed", "publish withdraw rename", BOB),
    Package("cart", "Cart", "customer lines expires_at", "add_line remove_line empty", BOB),
    Package("checkout", "Checkout", "cart address payment", "begin confirm cancel", ANN),
    Package("payments", "Payment", "order amount_cents state", "authorise capture refund", DMITRI),
    Package("orders", "Order", "customer lines total_cents placed_at", "place ship close", ANN),
    Package("shipping", "Parcel", "order carrier label tracked_at", "book_carrier print_label track", CARLA),
    Package("accounts", "Account", "email name verified_at", "register verify close_account", DMITRI),
    Package("pricing", "Price", "sku net_cents tax_rate", "quote discount total", ANN),
    Package("search", "Document", "sku words rank", "index_product forget query", BOB),
    Package("mail", "Message", "to template sent_at", "enqueue deliver bounce", CARLA),
    Package("inventory", "Stock", "sku on_hand reserved", "receive reserve release", CARLA),
    Package("admin", "Report", "name period rows", "daily_sales low_stock refunds_due", DMITRI),
]
MODEL = '''"""{thing} and its row in the database."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

{constants}
@dataclass(frozen=True)
class {thing}:
    id: str
{fields}

    @classmethod
    def from_row(cls, row: dict[str, Any]) -> {thing}:
        return cls(**row)
'''
SERVICE = '''"""Operations of {name}; only this module writes its tables."""

from __future__ import annotations

from shop import clock, database
from shop.{name}.models import {thing}
{more}
{constants}
def load(id: str) -> {thing}:
    return {thing}.from_row(database.one("select * from {name} where id = ?", id))

{verbs}'''
VERB = '''
def {verb}(id: str, **changes: object) -> {thing}:
    """Return the {thing} after `{verb}`."""
    with database.transaction() as run:
        before = load(id)
        run("update {name} set changed_at = ? where id = ?", clock.now(), before.id)
        for column, value in changes.items():
            run(f"update {name} set {{column}} = ? where id = ?", value, before.id)
    return load(id)
'''
API = '''"""HTTP handlers of {name}."""

from shop.app import Request, Response, route
from shop.{name} import service

{constants}
{verbs}'''
HANDLER = """
@route("POST", "/{name}/{{id}}/{verb}")
def {verb}(request: Request) -> Response:
    return Response.json(service.{verb}(request.path["id"], **request.json()))
"""
TEST = """from shop.{name} import service


{verbs}"""
CASE = """def test_{verb}_changes_the_{lower}(database):
    made = database.insert("{name}")
    assert service.{verb}(made).id == made


"""
IMPORTS = {
    "checkout": "from shop.cart import service as cart\nfrom shop.payments import service as payments\n",
    "orders": "from shop.pricing import rounding\nfrom shop.inventory import reservations\n",
    "payments": "from shop.payments import provider\n",
    "shipping": "from shop.orders import service as orders\n",
    "cart": "from shop.inventory import reservations\nfrom shop.pricing import vouchers\n",
    "mail": "from shop.accounts import service as accounts\n",
}
SINGLE = {
    path: text
    for path, _, text in (one.partition("\n") for one in DATA.read_text().removeprefix("=== ").split("\n=== "))
}
"""Templates of the other files, by path."""
CONSTANTS: dict[str, dict[str, str]] = {
    "shop/app.py": {"MAX_BODY_BYTES": "1_000_000"},
    "shop/config.py": {"WORKERS": "4"},
    "shop/database.py": {"POOL_SIZE": "10"},
    "shop/payments/provider.py": {"TIMEOUT_SECONDS": "5", "RETRIES": "1"},
    "shop/payments/webhook.py": {"KEEP_DAYS": "7"},
    "shop/pricing/rounding.py": {"PLACES": "2"},
    "shop/pricing/vouchers.py": {"MAX_USES": "100"},
    "shop/accounts/sessions.py": {"LEEWAY_SECONDS": "0", "LIFETIME_SECONDS": "3600"},
    "shop/accounts/passwords.py": {"COST": "2**13"},
    "shop/inventory/reservations.py": {"HOLD_SECONDS": "1800", "BATCH": "500"},
    "shop/orders/models.py": {"TOTAL_PLACES": "2"},
    "shop/mail/service.py": {"BATCH": "50"},
    "shop/search/service.py": {"MAX_RESULTS": "100"},
    "shop/cart/service.py": {"LIFETIME_HOURS": "24"},
    "shop/shipping/service.py": {"CUT_OFF_HOUR": "15"},
}


@dataclass
class Tree:
    """The files of the shop at one commit: the operations of each package, and the constants of each file."""

    verbs: dict[str, int] = field(default_factory=dict)
    constants: dict[str, dict[str, str]] = field(
        default_factory=lambda: {path: dict(values) for path, values in CONSTANTS.items()}
    )

    def files(self) -> dict[str, str]:
        made = {path: text.format(constants=self._constants(path)) for path, text in SINGLE.items()}
        for one in PACKAGES:
            verbs = one.verbs.split()[: self.verbs.get(one.name, 1)]
            names = {"name": one.name, "thing": one.thing, "lower": one.thing.lower()}
            said = {"more": IMPORTS.get(one.name, ""), "fields": _fields(one), **names}
            for part, text, each in (
                ("models", MODEL, ""),
                ("service", SERVICE, VERB),
                ("api", API, HANDLER),
                ("tests", TEST, CASE),
            ):
                path = f"tests/test_{one.name}.py" if part == "tests" else f"shop/{one.name}/{part}.py"
                written = "\n".join(each.format(verb=verb, **names) for verb in verbs)
                made[path] = text.format(verbs=written, constants=self._constants(path), **said).rstrip("\n") + "\n"
        return made

    def _constants(self, path: str) -> str:
        values = self.constants.get(path, {})
        return "".join(f"{name} = {value}\n" for name, value in values.items()) + ("\n" if values else "")


class Commit(NamedTuple):
    """`values` are new constants by file."""

    author: str
    message: str
    values: dict[str, dict[str, str]] = {}  # noqa: RUF012 - read only
    package: str = ""


HOLDS, PROVIDER, ROUND = "shop/inventory/reservations.py", "shop/payments/provider.py", "shop/pricing/rounding.py"
TOTALS = "shop/orders/models.py"
EDITS = [
    Commit(DMITRI, "payments: wait longer for the provider", {PROVIDER: {"TIMEOUT_SECONDS": "30"}}),
    Commit(CARLA, "Fix holds that outlive their cart", {HOLDS: {"HOLD_SECONDS": "900"}}),
    Commit(ANN, "pricing: three places while summing", {ROUND: {"PLACES": "3"}, TOTALS: {"TOTAL_PLACES": "3"}}),
    Commit(
        DMITRI,
        'Revert "payments: wait longer for the provider"\n\nWorkers were all waiting; checkout stood still.',
        {PROVIDER: {"TIMEOUT_SECONDS": "5"}},
    ),
    Commit(BOB, "cart: keep carts for two days", {"shop/cart/service.py": {"LIFETIME_HOURS": "48"}}),
    Commit(CARLA, "Fix lost stock after a crash between hold and order", {HOLDS: {"BATCH": "200"}}),
    Commit(
        ANN, "pricing: four places, as the tax office asks", {ROUND: {"PLACES": "4"}, TOTALS: {"TOTAL_PLACES": "4"}}
    ),
    Commit(DMITRI, "accounts: sessions last eight hours", {"shop/accounts/sessions.py": {"LIFETIME_SECONDS": "28800"}}),
    Commit(DMITRI, "payments: three attempts", {PROVIDER: {"RETRIES": "3"}}),
    Commit(CARLA, "Fix a deadlock when many holds expire at once", {HOLDS: {"BATCH": "100"}}),
    Commit(
        ANN,
        'Revert "payments: three attempts"\n\nSome cards were charged twice.',
        {PROVIDER: {"RETRIES": "1"}},
    ),
    Commit(ANN, "pricing: round once", {ROUND: {"PLACES": "2"}, TOTALS: {"TOTAL_PLACES": "2"}}),
    Commit(BOB, "search: fewer results on a phone", {"shop/search/service.py": {"MAX_RESULTS": "40"}}),
    Commit(CARLA, "mail: larger batches at night", {"shop/mail/service.py": {"BATCH": "200"}}),
    Commit(CARLA, "Fix oversold items on a sale's first minute", {HOLDS: {"HOLD_SECONDS": "600"}}),
    Commit(DMITRI, "database: a larger pool for the sale", {"shop/database.py": {"POOL_SIZE": "20"}}),
    Commit(DMITRI, "payments: keep connections open", {PROVIDER: {"KEEP_OPEN": "True"}}),
    Commit(
        DMITRI,
        'Revert "payments: keep connections open"\n\nThe provider closes them without a word.',
        {PROVIDER: {"KEEP_OPEN": "False"}},
    ),
    Commit(ANN, "pricing: places for reports", {ROUND: {"PLACES": "3"}, TOTALS: {"TOTAL_PLACES": "3"}}),
    Commit(CARLA, "shipping: the carrier comes an hour later", {"shop/shipping/service.py": {"CUT_OFF_HOUR": "16"}}),
    Commit(DMITRI, "payments: two attempts, with a key", {PROVIDER: {"RETRIES": "2"}}),
    Commit(CARLA, "Fix expiry that scans every hold", {HOLDS: {"BATCH": "400"}}),
    Commit(ANN, "pricing: two places again", {ROUND: {"PLACES": "2"}, TOTALS: {"TOTAL_PLACES": "2"}}),
    Commit(BOB, "payments: compress requests", {PROVIDER: {"COMPRESS": "True"}}),
    Commit(DMITRI, 'Revert "payments: compress requests"\n\nSignatures failed.', {PROVIDER: {"COMPRESS": "False"}}),
    Commit(BOB, "app: smaller bodies", {"shop/app.py": {"MAX_BODY_BYTES": "500_000"}}),
    Commit(DMITRI, "passwords: cost for the new machines", {"shop/accounts/passwords.py": {"COST": "2**14"}}),
    Commit(ANN, "pricing: places from one setting", {ROUND: {"PLACES": "4"}, TOTALS: {"TOTAL_PLACES": "4"}}),
]
LAST_EDITS = [
    Commit(CARLA, "inventory: shorter holds during the sale", {HOLDS: {"HOLD_SECONDS": "420"}}),
    Commit(
        DMITRI, "sessions: clocks may differ by five seconds", {"shop/accounts/sessions.py": {"LEEWAY_SECONDS": "5"}}
    ),
    Commit(BOB, "vouchers: more uses for the anniversary", {"shop/pricing/vouchers.py": {"MAX_USES": "250"}}),
    Commit(DMITRI, "webhook: keep messages for a month", {"shop/payments/webhook.py": {"KEEP_DAYS": "30"}}),
    Commit(CARLA, "mail: smaller batches for the new server", {"shop/mail/service.py": {"BATCH": "80"}}),
]
"""Commits after the facts were written, which make facts about these files stale."""


def create(root: Path) -> None:
    """Make the repository with all commits except the last ones."""
    root.mkdir(parents=True)
    subprocess.run(["git", "init", "-q", "-b", "main", str(root)], check=True)
    tree = Tree()
    commits = [Commit(ANN, "The shop, moved from the old repository"), *_growth()]
    _import(root, tree, commits, FIRST_COMMIT, 56)


def finish(root: Path) -> None:
    """Add the last commits, which change code that facts cite."""
    tree = Tree(verbs={one.name: 3 for one in PACKAGES})
    for one in EDITS:
        _apply(tree, one)
    _import(root, tree, LAST_EDITS, datetime(2026, 11, 16, 8, 20, tzinfo=UTC), 22)


def _growth() -> Iterator[Commit]:
    """Interleave new operations with edits and small documents."""
    edits = iter(EDITS)
    for number in (2, 3):
        for one in PACKAGES:
            verb = one.verbs.split()[number - 1]
            yield Commit(one.owner, f"{one.name}: {verb.replace('_', ' ')}", package=one.name)
            if (edit := next(edits, None)) is not None:
                yield edit
            yield Commit(
                BOB if one.owner == ANN else ANN, f"docs: {verb.replace('_', ' ')}", {"docs": {one.name: verb}}
            )
    yield from edits


def _apply(tree: Tree, commit: Commit) -> None:
    if commit.package:
        tree.verbs[commit.package] = tree.verbs.get(commit.package, 1) + 1
    for path, values in commit.values.items():
        tree.constants.setdefault(path, {}).update(values)


def _import(root: Path, tree: Tree, commits: list[Commit], first: datetime, hours: int) -> None:
    """Write the commits by ``git fast-import``, on working days so far apart, and check out the last one."""
    head = subprocess.run(["git", "-C", str(root), "rev-parse", "-q", "--verify", "main"], capture_output=True)
    parent, stream, moment = head.stdout.decode().strip(), [], first
    for commit in commits:
        _apply(tree, commit)
        stamp = f"{int(moment.timestamp())} +0000"
        who = f"{commit.author} <{PEOPLE[commit.author]}> {stamp}"
        stream.append(f"commit refs/heads/main\nauthor {who}\ncommitter {who}\n{_data(commit.message)}")
        if parent:
            stream.append(f"from {parent}\n")
            parent = ""
        notes = "".join(f"- {name}: {verb}\n" for name, verb in sorted(tree.constants.get("docs", {}).items()))
        files = tree.files() | ({"docs/operations.md": f"# Operations\n\n{notes}"} if notes else {})
        stream += [f"M 100644 inline {path}\n{_data(text)}" for path, text in files.items()]
        moment += timedelta(hours=hours)
        moment = moment.replace(hour=9 + moment.hour % 8)
        moment += timedelta(days=7 - moment.weekday() if moment.weekday() > 4 else 0)
    subprocess.run(["git", "-C", str(root), "fast-import", "--quiet"], input="".join(stream), text=True, check=True)
    subprocess.run(["git", "-C", str(root), "reset", "-q", "--hard", "main"], check=True)


def _data(text: str) -> str:
    return f"data {len(text.encode())}\n{text}\n"


def _fields(one: Package) -> str:
    kinds = {"cents": "int", "at": "float", "listed": "bool", "lines": "list[str]", "hand": "int", "reserved": "int"}
    return "\n".join(f"    {name}: {kinds.get(name.rpartition('_')[2], 'str')}" for name in one.fields.split())
