"""Random tokens, operations and graphs: kgd allows exactly the operations that an independent checker allows.

The checker compares the files before and after and shares no code with kgd.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from kgd.codec import documents
from kgd.errors import Forbidden, KgdError
from kgd.git.staging import Staging, Unwritten
from kgd.model.access import Policy, Principal, Scope, Verb, plain_rules, read_rules
from kgd.model.change import Append, Delete, Edit, Move, Relate, Revert, Unrelate, Untag
from kgd.model.node import Node, Relation
from kgd.model.uri import Uri
from kgd.workspace.workspace import Workspace
from kgd.workspace.writing.touched_nodes import Touched, authorize_all
from kgd.workspace.writing.transaction import Transaction
from tests.builders import ANN, WS, change, new_layout, upsert, uri

TOP = ["infra", "db", "Infra", "infrared", "_"]
NAMES = [f"{top}{rest}" for top in TOP for rest in ("", "/a", "/a/b", "/a%20b", "/infra")]
OTHERS = [
    "file://ws/infra/x.py",
    "file://ws/db/x.py",
    "https://example.com/docs/a",
    "https://example.com/docs/../s",
    "https://example.com/docs/%2e%2e/s",
    "entity://ws/infra",
    "dir://ws/infra",
    "mailto:a@b.example",
]
GLOBS = [
    "/**",
    "/infra/**",
    "/infra",
    "/infra/*",
    "/*",
    "/**/infra",
    "/infra/a/**",
    "/db/**",
    "/_/**",
    "/inf*/**",
    "/https/example.com/docs/**",
    "/https/**",
    "/**/a",
    "/Infra/**",
    "/infra/a%20b",
    "/https/example.com/**",
]
SUBJECTS = [uri(name) for name in (*NAMES, *OTHERS)]


# ---- the independent checker: about thirty lines over texts of files, without kgd's code


def may_write(verbs: list[str], globs: list[str], rules: list[dict[str, object]], kind: str, touched: set[str]) -> bool:
    group = "people" if kind == "person" else "agents"
    for one in touched:
        if "write" not in verbs or not any(covers(glob, one) for glob in globs):
            return False
        said = [r[group] for r in rules if group in r and any(covers(g, one) for g in r["paths"])]  # type: ignore[attr-defined]
        if said and said[-1] != "write":
            return False
    return True


def covers(glob: str, node: str) -> bool:
    pattern = "".join(
        "(?:[^/]+/)*" if p == "**" else re.escape(p).replace(r"\*", "[^/]*") + "/" for p in glob[1:].split("/")
    )
    return re.fullmatch(pattern, path(node)) is not None


def path(node: str) -> str:
    scheme, rest = node.split(":", 1)
    if rest.startswith(f"//{WS}/"):
        return rest[len(WS) + 3 :] + "/" if (scheme, rest) != ("dir", f"//{WS}/_") else ""
    parts = [scheme, *[part for part in re.split("[?#]", rest)[0].split("/") if part]]
    hidden = [n for n, part in enumerate(parts) if re.fullmatch(r"(\.|%2e)+", part, re.I)]
    return "/".join([*parts[:2], "\n"] if hidden else parts) + "/"  # no pattern but ** has a name with a line end


def nodes_of(files: dict[str, str | None]) -> dict[str, set[str]]:
    """URI to the aliases of its node, read from these texts."""
    found = {}
    for text in files.values():
        if text and (named := re.search(r"^uri: \"?([^\"\n]+)", text, re.M)):
            block = re.search(r"^aliases:\n((?:- .*\n)+)", text, re.M)
            found[named[1]] = set(re.findall(r"- \"?([^\"\n]+)", block[1])) if block else set()
    return found


def touched_by(before: dict[str, str | None], after: dict[str, str | None]) -> set[str]:
    one, two = nodes_of(before), nodes_of(after)
    return set(one) | set(two) | {a for n in {*one, *two} for a in one.get(n, set()) ^ two.get(n, set())}


# ---- the cases


def random_token(chance: random.Random) -> tuple[Principal, list[str], list[str]]:
    verbs = chance.choice([["write"], ["write", "read"], ["propose"], ["read"], ["admin"], ["write", "propose"]])
    globs = chance.sample(GLOBS, chance.choice([1, 1, 2, 3]))
    kind = chance.choice(["person", "agent", "token"])
    scope = Scope.of(chance.choice([WS] * 9 + ["other"]), verbs, globs)
    return Principal("tok1", "t", kind, (scope,)), verbs if scope.workspace == WS else [], globs  # type: ignore[arg-type]


def random_policy(chance: random.Random) -> Policy:
    rules = [
        {
            "paths": chance.sample(GLOBS, chance.choice([1, 2])),
            **chance.choice(
                [{"agents": "propose"}, {"people": "none"}, {"agents": "write"}, {"agents": "none", "people": "write"}]
            ),
        }
        for _ in range(chance.choice([0, 0, 1, 3]))
    ]
    return Policy(WS, read_rules(rules))


def random_edit(chance: random.Random, commits: list[str]) -> Edit:
    one, two = chance.choice(SUBJECTS), chance.choice(SUBJECTS)
    relation = Relation(chance.choice(["uses", "about"]), two, 0.5)
    makers: list[Callable[[], Edit]] = [
        lambda: upsert(one, name=f"n{chance.random()}"),
        lambda: upsert(one, relation, summary="s"),
        lambda: upsert(one, aliases=(two,)),
        lambda: upsert(one, unset=("aliases",)),
        lambda: Append(one, "more"),
        lambda: Delete(one),
        lambda: Relate(one, relation),
        lambda: Unrelate(one, two, "uses"),
        lambda: Untag(one, ("t",)),
        lambda: Move(one, two),
        lambda: Move(one, two),
        lambda: Revert(chance.choice(commits)),
    ]
    return chance.choice(makers)()


def breaches(folder: Path, seed: int, graphs: int, cases: int) -> tuple[int, int]:
    """The numbers of allowed and refused cases, each compared with the checker."""
    chance, allowed, refused = random.Random(seed), 0, 0
    for number in range(graphs):
        ws = Workspace.open(new_layout(folder / f"g{number}"), publish=False)
        try:
            commits = []
            for subjects in (chance.sample(SUBJECTS, 12), chance.sample(SUBJECTS, 4)):
                distinct = {one.casefold(): one for one in subjects}.values()  # no two that differ by case alone
                edits = [upsert(one, tags=("t",), name=str(chance.random())) for one in distinct if here(ws, one)]
                commits.append(ws.submit(change(*edits)).commit or "")
            for _ in range(cases):
                decided = one_case(ws, chance, commits)
                allowed += decided is True
                refused += decided is False
        finally:
            ws.close()
    return allowed, refused


def here(ws: Workspace, one: Uri) -> bool:
    return ws.graph.twin(one) in (None, one)


def one_case(ws: Workspace, chance: random.Random, commits: list[str]) -> bool | None:
    """Whether it was allowed; None if the change is invalid for every caller."""
    principal, verbs, globs = random_token(chance)
    policy = random_policy(chance)
    edits = [random_edit(chance, commits) for _ in range(chance.choice([1, 1, 2, 3]))]
    tip = bytes.fromhex(ws.tip)

    asked: list[Touched] = []
    after = Staging(ws.store, ws.store.tree_of(tip))
    changes = change(*edits, author=ANN)
    try:
        Transaction(changes, ws.around, 1_700_000_000, permit=lambda touched, _: asked.append(touched)).stage(
            after, tip
        )
    except KgdError:
        return None
    view = Unwritten(ws.store, after.objects)
    changed = list(view.diff(ws.store.tree_of(tip), after.tree))
    old = {path: view.read(blob).decode() if blob else None for path, blob, _ in changed}
    new = {path: view.read(blob).decode() if blob else None for path, _, blob in changed}
    expected = may_write(verbs, globs, plain_rules(policy.rules), principal.kind, touched_by(old, new))
    try:
        authorize_all(principal, policy, Verb.WRITE, asked[0])
        decided = True
    except Forbidden:
        decided = False
    assert decided == expected, (principal, policy, edits, touched_by(old, new))
    return decided


@pytest.mark.slow
@pytest.mark.requirement("B5")
def test_no_operation_reaches_outside_its_token(tmp_path: Path) -> None:
    allowed, refused = breaches(tmp_path, seed=1, graphs=3, cases=300)
    assert allowed > 30
    assert refused > 300


@pytest.mark.slow
@pytest.mark.requirement("B5")
@pytest.mark.parametrize(
    ("seed", "graphs"), [(2026, 8), *(pytest.param(seed, 20, marks=pytest.mark.large) for seed in range(2026, 2031))]
)
def test_none_of_thousands_of_operations_reaches_outside_its_token(tmp_path: Path, seed: int, graphs: int) -> None:
    allowed, refused = breaches(tmp_path, seed=seed, graphs=graphs, cases=500)
    assert allowed > 20 * graphs
    assert refused > 150 * graphs


def test_the_checker_notices_a_token_that_reaches_too_far() -> None:
    assert not may_write(["write"], ["/infra/**"], [], "agent", {"concept://ws/infrared"})
    assert not may_write(["write"], ["/infra/**"], [], "agent", {"concept://ws/infra/a", "https://infra/x"})
    assert may_write(["write"], ["/infra/**"], [], "agent", {"concept://ws/infra", "file://ws/infra/a/b"})
    assert not may_write(["propose"], ["/**"], [], "person", {"concept://ws/a"})
    text = documents.encode(upserted("concept://ws/infra/a", "concept://ws/db/a")).decode()
    assert touched_by({"x": None}, {"x": text}) == {"concept://ws/infra/a", "concept://ws/db/a"}


def upserted(name: str, alias: str) -> Node:

    return Node(Uri(name), aliases=(Uri(alias),))
