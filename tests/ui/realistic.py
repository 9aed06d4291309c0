"""A realistic workspace for pictures and trials of the pages: 150 nodes of a team about a web shop.

`Realistic` is a desk whose workspace has areas, decisions, traps, facts, tasks and people; three conflicts, two
proposals, five stale facts, missing nodes and one unreadable file. `bookshop` is an empty workspace over the same code.
All commits have fixed dates, and four people and two agents as authors. It takes about eight seconds.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from kgd import tools
from kgd.client.connection import Connection
from kgd.config import Home
from kgd.daemon.daemon import Daemon
from kgd.git.layout import locate
from kgd.model.access import Principal, Scope
from kgd.model.change import Author
from kgd.tools.session import Session
from kgd.workspace.workspace import Workspace
from tests.daemon.conftest import end_daemon
from tests.sync.people import bare
from tests.ui import realistic_code, realistic_facts
from tests.ui.conftest import Desk
from tests.ui.realistic_code import ANN, BOB, CARLA, DMITRI, PACKAGES
from tests.ui.realistic_facts import AREAS, MOLECULES, TASKS, UNWRITTEN, Fact, facts
from tests.waiting import at_rest, until

BEGIN = datetime(2026, 10, 5, 9, 10, tzinfo=UTC)
LATELY = datetime(2026, 11, 20, 13, 5, tzinfo=UTC)
HOUR = 3_600
STALE = len(realistic_code.LAST_EDITS)
AGENTS = {"claude": "claude-code", "cursor": "cursor"}
OWNERS = {one.name: one.owner for one in PACKAGES} | {"": ANN}
PROPOSERS = ("release-agent", "warehouse-agent")
"""Agents that may only read and propose."""
PAYMENTS = "atom://shop/payments"
RETRY = "decision://shop/one-retry-with-an-idempotency-key"
ROUNDING = "decision://shop/round-half-to-even"
_EXAMPLE = "The tax office's example does; half up differs by a cent in every tenth order."
REVISIONS = (
    (
        BOB,
        "Say where the rule applies",
        _EXAMPLE,
        "Only totals are rounded. Lines of an order keep four decimal places.",
    ),
    (
        CARLA,
        "Name the currencies without cents",
        _EXAMPLE,
        "Currencies without cents, such as the yen, are rounded to whole units.",
        "Only totals are rounded. Lines of an order keep four decimal places.",
    ),
)
"""Later contents of a fact: author, reason and lines."""
DISPUTED = (
    (
        RETRY,
        "Two attempts in all; a third charged cards twice",
        "One retry after a second, always with the order's key",
        "The invoices of April show two charges for 31 orders.",
        "The provider's support confirmed that the key makes a second charge impossible.",
    ),
    (
        "insight://shop/a-hold-lasts-ten-minutes",
        "Seven minutes during a sale, else ten",
        "A hold lasts twenty minutes",
        "Agreed with the warehouse for the sale in December.",
        "",
    ),
    (
        "gotcha://shop/labels-expire",
        "Labels expire after two days in December",
        "Labels expire after five days",
        "",
        "The post changed its terms.",
    ),
)
"""Nodes with a conflict: URI, our summary, and that of a colleague."""


class Clock:
    """The time of the workspace's commits, which the builder sets."""

    def __init__(self) -> None:
        self.at = BEGIN.timestamp()

    def __call__(self) -> float:
        return self.at


@dataclass(slots=True)
class As(Session):
    """A caller with the identity of one of the authors."""

    who: str = ANN

    def __post_init__(self) -> None:
        if self.who in PROPOSERS:
            self.principal = Principal("k1", self.who, "agent", (Scope.of("shop", ["read", "propose"], ["/**"]),))

    def author(self, workspace: Workspace) -> Author:
        return Author(self.who, realistic_code.PEOPLE.get(self.who, f"{self.who}@token.invalid"), self.client)


class Side:
    """A daemon in this process with one copy of the workspace."""

    def __init__(self, home: Path, directory: Path, clock: Clock, **up: Any) -> None:
        self.clock, self.directory = clock, directory
        made = Home.at(str(home))
        made.prepare()
        self.daemon = Daemon(made, since="", locate=locate, open_workspace=partial(Workspace.open, clock=clock))
        self.call(ANN, "up", **up)

    def call(self, who: str, name: str, /, client: str = "kgd ui", **arguments: Any) -> dict[str, Any]:
        session = As(self.daemon, cwd=self.directory, client=client, context_id=None, who=who)
        return dict(tools.call(session, name, arguments))

    def put(self, who: str, changes: Iterable[dict[str, Any]], message: str = "", client: str = "kgd ui") -> str:
        found = self.call(who, "put", client, changes=list(changes), message=message)
        return str(found["commit"])


class Realistic(Desk):
    """The desk of Ann, with the realistic workspace."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        realistic_code.create(root / "bookshop")
        (root / "bookshop/AGENTS.md").write_text("# Rules\n\nPrices are net.\n")
        with Connection(self.home) as connection:
            connection.call("up", {"directory": str(root / "bookshop")})

    def settled(self) -> dict[str, Any]:
        """Return the status once the code, hand edits and the texts are read."""
        until(lambda: at_rest(self.call("status")) and self.call("status")["counts"].get("unverified") == STALE)
        return self.call("status")

    def make(self, code: Path) -> Path:
        realistic_code.create(code)
        clock = Clock()
        ann = Side(code.parent / "home", code, clock)
        _write(ann)
        bob = _disagree(ann, code.parent)
        _propose(ann)
        _write_lately(ann)
        workspace = ann.daemon.workspace("shop")
        until(lambda: workspace.layout.work_tree.joinpath("nodes/insight/refunds-take-five-days.yaml").exists())
        bob.daemon.close()
        ann.daemon.close()
        realistic_code.finish(code)
        (code / ".kgd/nodes/insight/unreadable.yaml").write_text("uri: insight://shop/unreadable\nname: [by hand\n")
        return code


def _write(side: Side) -> None:
    """Areas first, then the facts of each package by its authors, then tasks and people."""
    groups = [_new("molecule", name, content=text) for name, text in MOLECULES.items()]
    side.put(ANN, groups, "The three subjects that all areas share")
    for name, (title, molecule, text) in AREAS.items():
        data = {
            "paths": [f"shop/{name}/**", f"tests/test_{name}.py"],
            "moleculeId": f"molecule://shop/{molecule.lower()}",
        }
        side.clock.at += HOUR
        side.put(
            OWNERS[name], [{"op": "upsert", "uri": f"atom://shop/{name}", "name": title, "content": text, "data": data}]
        )
    found = facts()
    for name in OWNERS:
        for author in dict.fromkeys(one.author for one in found if one.package == name):
            mine = [one for one in found if (one.package, one.author) == (name, author)]
            side.clock.at += 7 * HOUR
            side.put(
                OWNERS[name] if author in AGENTS else author,
                [_fact(one) for one in mine],
                f"What the work on {name or 'the shop'} showed" if author in AGENTS else "",
                AGENTS.get(author, "kgd ui"),
            )
    for title, area, why, path in TASKS:
        side.clock.at += HOUR
        side.call(OWNERS[area], "add_task", name=title, objective=why, accept=[why], files=[path])
    side.clock.at += HOUR
    side.put(ANN, [_new("person", name, summary=text) for name, text in realistic_facts.PEOPLE.items()])
    for who, reason, *lines in REVISIONS:
        side.clock.at += HOUR
        content = "\n".join(lines) + "\n"
        version = side.call(who, "get", uris=[ROUNDING])["nodes"][0]["version"]
        change = {"op": "upsert", "uri": ROUNDING, "content": content, "expect_version": version}
        side.put(who, [change], reason)
    relations = [
        {"op": "relate", "source": PAYMENTS, "type": "depends_on", "target": target, "weight": 0.5}
        for target in UNWRITTEN
    ]
    side.put(DMITRI, relations, "What payments need and no one has written yet")


def _new(type: str, name: str, **fields: Any) -> dict[str, Any]:
    return {"op": "upsert", "uri": f"{type}://shop/{slug(name)}", "name": name, **fields}


def _fact(one: Fact) -> dict[str, Any]:
    area = [{"type": "about", "target": f"atom://shop/{one.package}", "weight": 0.25}] if one.package else []
    code = one.cites.partition("#")[0]
    file = [{"type": "about", "target": f"file://shop/{code}", "weight": 0.25}] if code else []
    more = {"data": {"cites": [one.cites]}} if one.cites else {}
    seen = f"\n\nSeen while working on `{code}`." if code else ""
    content = one.text.replace("\\n", "\n") + "\n" if one.text else f"{one.summary}.{seen}\n"
    tags = [one.package] if one.package else ["everywhere"]
    return _new(
        one.type, one.name, summary=one.summary[:100], content=content, relations=area + file, tags=tags, **more
    )


def _disagree(ann: Side, folder: Path) -> Side:
    """Ann and Bob change the same summaries without a sync between them."""
    server = bare(folder / "server.git")
    ann.put(CARLA, [_new("gotcha", "Labels expire", summary="Labels expire after three days")])
    ann.call(ANN, "remote", action="add", name="origin", url=str(server), sync=0, ref="refs/heads/main")
    tree = folder / "bob" / "knowledge"
    tree.mkdir(parents=True)
    bob = Side(folder / "bob" / "home", tree, ann.clock, standalone=True, id="shop")
    bob.call(BOB, "remote", action="add", name="origin", url=str(server), sync=0)
    for side in (ann, bob):
        side.call(ANN, "sync")
    for side, who, ours in ((ann, ANN, 1), (bob, BOB, 2)):
        side.clock.at = LATELY.timestamp() - (30 - ours) * HOUR
        for row in DISPUTED:
            side.put(who, [{"op": "upsert", "uri": row[0], "summary": row[ours]}], row[ours + 2])
    for side in (ann, bob, ann):
        side.call(BOB, "sync")
    return bob


def _propose(side: Side) -> None:
    side.clock.at = LATELY.timestamp() - 5 * HOUR
    changes = [
        {"op": "upsert", "uri": "concept://shop/audit-log", "name": "Audit log", "summary": "Every movement of money"},
        {"op": "upsert", "uri": PAYMENTS, "summary": "Authorise, capture, refund; every message may come twice"},
        {
            "op": "upsert",
            "uri": "insight://shop/order-numbers-have-gaps",
            "summary": "Gaps are fine; duplicates are not",
        },
    ]
    message = (
        "Describe the audit log, and what payments rely on\n\nThe auditor asked in October where each movement of "
        "money is written down. Gaps in order numbers came up in the same meeting: they are allowed."
    )
    change = {"op": "upsert", "uri": "concept://shop/vouchers", "name": "Vouchers", "summary": "A code for one order"}
    side.call(PROPOSERS[1], "submit_subgraph", "cursor", changes=[change], message="Describe vouchers")
    (sent,) = side.call(ANN, "proposals")["proposals"]
    side.call(ANN, "reject", name=sent["id"], reason="A voucher is good for several orders.")
    side.call(PROPOSERS[0], "submit_subgraph", "claude-code", changes=changes, message=message)
    side.clock.at += HOUR
    change = {"op": "upsert", "uri": "decision://shop/two-carriers-chosen-by-weight", "summary": "The post up to 2 kg"}
    side.call(PROPOSERS[1], "submit_subgraph", "cursor", changes=[change], message="Name the carriers' limit")


def _write_lately(side: Side) -> None:
    """The newest commits: some of one hour and author, so that a feed can group them."""
    side.clock.at = LATELY.timestamp()
    for name, summary in (
        ("The sandbox forgets charges", "The provider's sandbox deletes charges after an hour; tests must not wait"),
        ("Refunds take five days", "Banks book them in batches; tell the customer five days"),
        ("Capture is idempotent", "A second capture of the same order returns the first one"),
    ):
        side.clock.at += 400
        relations = [{"type": "about", "target": PAYMENTS, "weight": 0.25}]
        side.put(DMITRI, [_new("insight", name, summary=summary, relations=relations)], client="claude-code")
    side.clock.at += HOUR
    change = {"op": "upsert", "uri": RETRY, "tags": ["reviewed"]}
    side.put(ANN, [change], "Read with Dmitri before the sale")
    side.clock.at += 900
    side.call(CARLA, "advance", id="Print labels in batches", version=1)


def slug(name: str) -> str:
    return "-".join("".join(c if c.isalnum() else " " for c in name.lower()).split())


def realistic_desk(folder: Path) -> Iterator[Realistic]:
    """Make the desk for a module of tests, with its code read and its hand edits found; end its daemon afterwards."""
    made = Realistic(folder)
    made.settled()  # a graph or a count would change while a test looks at it
    yield made
    end_daemon(made.home)
    shutil.rmtree(folder, ignore_errors=True)
