"""Every example of the specification of knowledge areas, request and answer, through a real MCP client."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.areas.conftest import Graph

pytestmark = pytest.mark.anyio

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3})?Z\Z")


def stripped(value: Any) -> Any:
    """What the specification's example shows: every time as T, once it is seen to be one."""
    if isinstance(value, list):
        return [stripped(one) for one in value]
    if isinstance(value, dict):
        assert all(TIME.match(one) for key, one in value.items() if key.endswith("At"))
        return {key: "T" if key.endswith("At") else stripped(one) for key, one in value.items()}
    return value


@pytest.mark.requirement("A1")
@pytest.mark.requirement("A2")
@pytest.mark.requirement("A6")
async def test_the_context_of_paths_is_the_answer_in_the_specification(tasks: list[str], graph: Graph) -> None:
    molecule = (
        await graph.manage(
            "create",
            "molecule",
            name="Payment Domain",
            createdByTaskId="t-1",
            knowledge="Communicates with Stripe, idempotent webhooks, event sourcing",
        )
    )["molecule"]["id"]
    stripe = (
        await graph.manage(
            "create",
            "atom",
            name="Stripe Integration",
            createdByTaskId="t-1",
            moleculeId=molecule,
            paths='["src/stripe/**"]',
        )
    )["atom"]["id"]
    handlers = (
        await graph.manage(
            "create",
            "atom",
            name="Webhook Handlers",
            createdByTaskId="t-1",
            moleculeId=molecule,
            paths='["src/payments/webhook-*.ts", "src/payments/stripe-*.ts"]',
            knowledge="8 handlers, all extend BaseWebhookHandler, locales from registry",
            relatedAtoms=json.dumps([{"atomId": stripe, "reason": "webhooks call gateway for processing"}]),
        )
    )["atom"]["id"]
    retry = (
        await graph.manage(
            "create",
            "atom",
            name="Retry Utilities",
            createdByTaskId="t-1",
            paths='["src/shared/retry-utils.ts"]',
            knowledge="Generic exponential backoff",
        )
    )["atom"]["id"]
    await graph.changelog("append", parentType="atom", parentId=handlers, taskId="t-2", summary="Locales moved")

    found = await graph.query(
        "context",
        paths="src/payments/webhook-handler.ts,src/payments/stripe-gateway.ts, src/shared/retry-utils.ts,"
        "src/payments/new-handler.ts",
    )

    assert stripped(found) == {
        "molecules": [
            {
                "id": molecule,
                "name": "Payment Domain",
                "knowledge": "Communicates with Stripe, idempotent webhooks, event sourcing",
                "atoms": [
                    {
                        "id": handlers,
                        "name": "Webhook Handlers",
                        "knowledge": "8 handlers, all extend BaseWebhookHandler, locales from registry",
                        "matchedPaths": ["src/payments/webhook-handler.ts", "src/payments/stripe-gateway.ts"],
                        "relatedAtoms": [
                            {
                                "atomId": stripe,
                                "name": "Stripe Integration",
                                "reason": "webhooks call gateway for processing",
                            }
                        ],
                        "changelog": [{"taskId": "task://shop/t-2", "summary": "Locales moved", "createdAt": "T"}],
                    }
                ],
                "changelog": [],
            }
        ],
        "orphanAtoms": [
            {
                "id": retry,
                "name": "Retry Utilities",
                "knowledge": "Generic exponential backoff",
                "matchedPaths": ["src/shared/retry-utils.ts"],
                "relatedAtoms": [],
                "changelog": [],
            }
        ],
        "unmatchedPaths": ["src/payments/new-handler.ts"],
    }


PATTERNS = [
    (
        ["src/pages/checkout/**"],
        ["src/pages/checkout/a.tsx", "src/pages/checkout/deep/er/b.tsx"],
        ["src/pages/profile.tsx", "src/pages/checkout.tsx"],
    ),
    (
        ["src/payments/gateway/**", "src/payments/stripe-*.ts"],
        ["src/payments/gateway/x/y.ts", "src/payments/stripe-client.ts"],
        ["src/payments/paypal.ts", "src/payments/stripe-x/index.ts"],
    ),
    (["src/shared/email-client.ts"], ["src/shared/email-client.ts"], ["src/shared/email-client.tsx"]),
    (
        ["src/pages/checkout/**", "src/components/checkout-*.tsx"],
        ["src/components/checkout-form.tsx"],
        ["src/components/form.tsx"],
    ),
]


@pytest.mark.requirement("A12")
async def test_the_patterns_in_the_specification_match_what_it_says(tasks: list[str], graph: Graph) -> None:
    for number, (patterns, _, _) in enumerate(PATTERNS):
        atom = (
            await graph.manage(
                "create", "atom", name=f"Area {number}", createdByTaskId="t-1", paths=json.dumps(patterns)
            )
        )["atom"]
        assert atom["paths"] == patterns
    for number, (_, inside, outside) in enumerate(PATTERNS):
        found = await graph.query("context", paths=",".join([*inside, *outside]))
        matched = {atom["name"]: atom["matchedPaths"] for atom in found["orphanAtoms"]}
        assert [path for path in matched[f"Area {number}"] if path in inside] == inside
        assert not set(matched[f"Area {number}"]) & set(outside)
    # A shared utility surfaces both areas, in any order of creation.
    both = await graph.query("context", paths="src/pages/checkout/form.tsx")
    assert [atom["name"] for atom in both["orphanAtoms"]] == ["Area 0", "Area 3"]


@pytest.mark.requirement("A8")
async def test_appended_knowledge_is_behind_the_separator_in_the_specification(tasks: list[str], graph: Graph) -> None:
    made = (await graph.manage("create", "molecule", name="Pages", createdByTaskId="t-1", knowledge=" Layout. "))[
        "molecule"
    ]
    assert made["knowledge"] == "Layout."
    grown = (
        await graph.manage(
            "update",
            "molecule",
            id=made["id"],
            version=1,
            lastTaskId="t-2",
            knowledge="Guards in middleware.\n",
            knowledgeMode="append",
        )
    )["molecule"]
    head, stamp, tail = re.fullmatch(
        r"(.*?)\n\n---\[(\S+) task:task://shop/t-2\]---\n(.*)", grown["knowledge"], re.S
    ).groups()  # type: ignore[union-attr]
    assert (head, tail) == ("Layout.", "Guards in middleware.")
    assert TIME.match(stamp)
    replaced = (
        await graph.manage("update", "molecule", id="Pages", version=2, lastTaskId="t-3", knowledge="All new.")
    )["molecule"]
    assert (replaced["knowledge"], replaced["version"], replaced["lastTaskId"]) == ("All new.", 3, "task://shop/t-3")
    begun = (await graph.manage("create", "molecule", name="Empty", createdByTaskId="t-1"))["molecule"]
    first = (
        await graph.manage(
            "update",
            "molecule",
            id=begun["id"],
            version=1,
            lastTaskId="t-1",
            knowledge="First.",
            knowledgeMode="append",
        )
    )["molecule"]
    assert re.fullmatch(r"---\[\S+ task:task://shop/t-1\]---\nFirst\.", first["knowledge"])


@pytest.mark.slow
@pytest.mark.requirement("A4")
@pytest.mark.requirement("A5")
async def test_areas_are_got_and_found_with_what_belongs_to_them(tasks: list[str], graph: Graph) -> None:
    pages = (await graph.manage("create", "molecule", name="Pages", createdByTaskId="t-1", knowledge="Layouts"))[
        "molecule"
    ]
    assert stripped(pages) == {
        "id": "molecule://shop/Pages",
        "projectId": "shop",
        "name": "Pages",
        "knowledge": "Layouts",
        "relatedMolecules": [],
        "createdByTaskId": "task://shop/t-1",
        "lastTaskId": "task://shop/t-1",
        "version": 1,
        "createdAt": "T",
        "updatedAt": "T",
    }
    for name in ("Profile Page", "Checkout Page", "Checkout Page"):
        await graph.manage(
            "create", "atom", name=name, createdByTaskId="t-1", paths=["src/pages/**"], moleculeId=pages["id"]
        )
    await graph.manage(
        "create",
        "atom",
        name="Event Bus",
        createdByTaskId="t-1",
        paths='["src/bus.ts"]',
        knowledge="Carries the checkout events",
    )
    for number in range(7):
        await graph.changelog("append", parentType="molecule", parentId="Pages", taskId="t-1", summary=f"step {number}")

    got = await graph.query("get", entityType="molecule", id=pages["id"])
    assert [entry["summary"] for entry in got["molecule"]["changelog"]] == [f"step {n}" for n in (6, 5, 4, 3, 2)]
    assert [(one["name"], one["id"]) for one in got["atoms"]] == [
        ("Checkout Page", "atom://shop/Checkout%20Page"),
        ("Checkout Page", "atom://shop/Checkout%20Page-2"),
        ("Profile Page", "atom://shop/Profile%20Page"),
    ]
    assert {one["moleculeId"] for one in got["atoms"]} == {pages["id"]}
    two = await graph.query("get", entityType="molecule", id="Pages", changelogLimit=2)
    assert [entry["summary"] for entry in two["molecule"]["changelog"]] == ["step 6", "step 5"]
    none = await graph.query("get", entityType="molecule", id="Pages", includeChangelog=False)
    assert "changelog" not in none["molecule"]

    async def names(**arguments: Any) -> tuple[list[str], int]:
        found = await graph.query("search", **arguments)
        (kind,) = set(found) - {"total"}
        return [one["name"] for one in found[kind]], found["total"]

    assert await names(entityType="molecule") == (["Pages"], 1)
    assert await names(entityType="molecule", query="layouts") == (["Pages"], 1)
    assert await names(entityType="atom") == (["Checkout Page", "Checkout Page", "Event Bus", "Profile Page"], 4)
    assert await names(entityType="atom", limit=2, offset=1) == (["Checkout Page", "Event Bus"], 4)
    assert await names(entityType="atom", moleculeId="Pages") == (["Checkout Page", "Checkout Page", "Profile Page"], 3)
    assert await names(entityType="atom", orphansOnly=True) == (["Event Bus"], 1)
    assert set((await names(entityType="atom", query="checkout"))[0]) == {"Checkout Page", "Event Bus"}
    assert await names(entityType="atom", query="checkout", orphansOnly=True) == (["Event Bus"], 1)


@pytest.mark.requirement("A3")
@pytest.mark.requirement("A11")
async def test_a_changelog_is_written_once_and_read_newest_first(tasks: list[str], graph: Graph) -> None:
    await graph.manage("create", "atom", name="Bus", createdByTaskId="t-1", paths='["bus/**"]')
    made = [
        (await graph.changelog("append", parentType="atom", parentId="Bus", taskId=task, summary=f" {task} did it\n"))[
            "entry"
        ]
        for task in ("t-1", "https://tracker.example/PAY-7", "task://shop/t-3")
    ]
    assert stripped(made[1]) == {
        "id": made[1]["id"],
        "parentType": "atom",
        "parentId": "atom://shop/Bus",
        "taskId": "https://tracker.example/PAY-7",
        "summary": "https://tracker.example/PAY-7 did it",
        "createdAt": "T",
    }
    found = await graph.changelog("search", parentType="atom", parentId="Bus")
    assert found == {"entries": made[::-1], "total": 3}
    page = await graph.changelog("search", parentType="atom", parentId="Bus", limit=1, offset=1)
    assert page == {"entries": [made[1]], "total": 3}
    unchanged = await graph.query("get", entityType="atom", id="Bus")
    assert unchanged["atom"]["version"] == 1
    await graph.manage("update", "atom", id="Bus", version=1, lastTaskId="t-2", name="Event Bus")
    assert (await graph.changelog("search", parentType="atom", parentId="Bus"))["total"] == 3  # never automatic


@pytest.mark.requirement("A14")
async def test_a_refusal_has_the_envelope_too(tasks: list[str], graph: Graph) -> None:
    await graph.manage("create", "atom", name="Bus", createdByTaskId="t-1", paths='["bus/**"]')
    update = {"operation": "update", "entityType": "atom", "id": "Bus", "lastTaskId": "t-1", "knowledge": "x"}
    stale = await graph.refused("manage_graph", **update, version=7)
    assert (stale["code"], stale["currentVersion"]) == ("CONFLICT", 1)
    assert (await graph.refused("manage_graph", **update))["code"] == "VALIDATION_ERROR"
    assert (await graph.refused("query_graph", operation="get", entityType="atom", id="x"))["code"] == "NOT_FOUND"
    assert (await graph.refused("query_graph", operation="get", nonsense=1))["code"] == "VALIDATION_ERROR"
    assert (await graph.refused("query_graph", operation="dance"))["code"] == "VALIDATION_ERROR"
    empty = {"operation": "create", "entityType": "atom", "name": "A", "createdByTaskId": "t-1", "paths": "[]"}
    assert (await graph.refused("manage_graph", **empty))["code"] == "INVARIANT_VIOLATION"


async def test_a_refusal_has_place_and_next_step_beside_its_sentence(tasks: list[str], graph: Graph) -> None:
    error = await graph.refused("query_graph", operation="get", entityType="atom", id="x")
    assert error == {
        "code": "NOT_FOUND",
        "message": "there is no such atom",
        "at": "id",
        "next": "Find it with search with types=atom.",
    }


WRONG: list[tuple[str, dict[str, Any], str, list[str]]] = [
    ("manage_graph", {"operation": "create", "entityType": "atom"}, "name", ["name", "paths", "createdByTaskId"]),
    ("manage_graph", {"operation": "create", "entityType": "molecule"}, "name", ["name", "createdByTaskId"]),
    ("manage_graph", {"operation": "update", "entityType": "atom"}, "id", ["id", "version", "lastTaskId"]),
    ("manage_graph", {}, "operation", ["operation", "entityType"]),
    ("manage_graph", {"operation": "delete"}, "entityType", ["entityType", "id", "version"]),
    ("manage_graph", {"operation": "delete", "entityType": "atom", "version": "x"}, "id", ["id", "version"]),
    (
        "manage_graph",
        {"operation": "create", "entityType": "atom", "name": " ", "paths": ["/a"], "id": "x"},
        "createdByTaskId",
        ["createdByTaskId", "id", "name", "paths[0]"],
    ),
    (
        "manage_graph",
        {
            "operation": "update",
            "entityType": "atom",
            "id": "x",
            "version": 1,
            "lastTaskId": "t-1",
            "relatedAtoms": "no",
            "knowledgeMode": "append",
        },
        "relatedAtoms",
        ["relatedAtoms", "knowledge"],
    ),
    ("query_graph", {"operation": "get", "limit": 0, "colour": 1}, "colour", ["colour", "id", "entityType", "limit"]),
    ("manage_changelog", {"operation": "append"}, "parentType", ["parentType", "parentId", "taskId", "summary"]),
    (
        "manage_changelog",
        {"operation": "append", "parentType": "atom", "parentId": "x", "taskId": "t-1", "summary": " ", "limit": 3},
        "limit",
        ["limit", "summary"],
    ),
]


@pytest.mark.parametrize(("tool", "given", "at", "named"), WRONG)
async def test_one_refusal_names_every_missing_and_wrong_argument(
    graph: Graph, tool: str, given: dict[str, Any], at: str, named: list[str]
) -> None:
    error = await graph.refused(tool, **given)
    assert (error["code"], error["at"]) == ("VALIDATION_ERROR", at)
    assert [name for name in named if name not in error["message"]] == []


async def test_a_list_may_be_an_array_or_its_json_text(tasks: list[str], graph: Graph) -> None:
    lists: dict[str, Any] = {"paths": ["bus/**"], "relatedAtoms": [{"atomId": "Mail", "reason": "calls"}]}
    await graph.manage("create", "atom", name="Mail", createdByTaskId="t-1", paths=["mail/**"])
    texts = {name: json.dumps(value) for name, value in lists.items()}
    made = [
        (await graph.manage("create", "atom", name="Bus", createdByTaskId="t-1", **given))["atom"]
        for given in (lists, texts)
    ]
    assert made[0]["paths"] == made[1]["paths"] == ["bus/**"]
    assert made[0]["relatedAtoms"] == made[1]["relatedAtoms"] == [{"atomId": "atom://shop/Mail", "reason": "calls"}]
    asked = [["bus/a.py", "mail/b.py"], '["bus/a.py", "mail/b.py"]', "bus/a.py, mail/b.py"]
    first, *others = [await graph.query("context", paths=paths) for paths in asked]
    assert [first] * 2 == others
