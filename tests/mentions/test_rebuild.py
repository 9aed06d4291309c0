"""The mentions are the same after step-by-step updates, a rebuild, or a restart."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kgd.mentions.mentions import Mentions, strength_of
from kgd.model.change import ChangeSet, Delete, Upsert
from kgd.workspace.workspace import Workspace
from tests.builders import ANN, new_layout, uri
from tests.mentions.conftest import Graph, short
from tests.waiting import until

WORDS = ["Auth", "auth", "service", "Service", "key", "Keys", "store", "the", "getUser", "src/a.py", "token"]
texts = st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join)
edits = st.tuples(
    st.sampled_from(["put", "put", "put", "delete"]),
    st.integers(0, 5),
    st.lists(st.sampled_from(WORDS), max_size=3),
    texts,
)


def edges(workspace: Workspace) -> set[tuple[str, str, float]]:
    derived = Mentions.of(workspace)
    assert derived.settle()
    uris = list(workspace.graph.uris())
    found = {(u, target, round(force, 6)) for u in uris for target, force in derived.mentioned(u).items()}
    assert found == {(source, u, round(force, 6)) for u in uris for source, force in derived.mentioning(u).items()}
    return {(short(a), short(b), force) for a, b, force in found}


@pytest.mark.slow
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(st.lists(edits, min_size=1, max_size=4), min_size=1, max_size=6), waits=st.lists(st.booleans()))
def test_step_by_step_is_as_anew(
    tmp_path_factory: pytest.TempPathFactory, steps: list[list[tuple[str, int, list[str], str]]], waits: list[bool]
) -> None:
    folder = tmp_path_factory.mktemp("step")
    workspace = Workspace.open(new_layout(folder), publish=False)
    try:
        there: set[int] = set()
        for number, step in enumerate(steps):
            if number >= len(waits) or waits[number]:
                edges(workspace)
            done = dict[int, Upsert | Delete]()
            for what, which, name, text in step:
                if what == "put":
                    node = uri(f"n{which}")
                    version = workspace.version(workspace.path(node)) if which in there else 0
                    done[which] = Upsert(node, name=" ".join(name), content=text, expect_version=version)
                elif which in there:
                    done[which] = Delete(uri(f"n{which}"))
            if done:
                workspace.submit(ChangeSet(tuple(done.values()), ANN))
            there |= {which for which, edit in done.items() if isinstance(edit, Upsert)}
            there -= {which for which, edit in done.items() if isinstance(edit, Delete)}
        grown = edges(workspace)
        workspace.close()
        (workspace.layout.derived_dir / "mentions.sqlite").unlink()
        workspace = Workspace.open(workspace.layout, publish=False)
        assert edges(workspace) == grown
    finally:
        workspace.close()


def test_a_restart_goes_on_and_a_damaged_file_and_a_new_index_say_the_same(graph: Graph, tmp_path: Path) -> None:
    graph.put(Upsert(uri("a"), name="Auth service", content="asks the key store, see src/app.py"))
    graph.put(Upsert(uri("b"), name="Key store", content="knows the auth service"))
    expected = edges(graph.ws)
    assert {(a, b) for a, b, _ in expected} == {("a", "b"), ("b", "a")}
    graph.ws.reindex()
    assert edges(graph.ws) == expected
    file = graph.ws.layout.derived_dir / "mentions.sqlite"
    graph.ws.close()
    for spoil in (lambda: None, lambda: file.write_bytes(b"nonsense" * 1000), file.unlink):
        spoil()
        workspace = Workspace.open(graph.ws.layout, publish=False)
        assert edges(workspace) == expected
        workspace.submit(ChangeSet((Upsert(uri("c"), content="a key store"),), ANN))
        assert ("c", "b") in {(a, b) for a, b, _ in edges(workspace)}
        workspace.submit(ChangeSet((Delete(uri("c")),), ANN))
        workspace.close()


def test_an_unusable_file_is_reported_and_rebuilt_while_all_else_continues(graph: Graph) -> None:
    graph.put(Upsert(uri("a"), name="Auth service"), Upsert(uri("b"), content="asks the auth service"))
    assert edges(graph.ws) == {("b", "a", force_of(2))}, "its own text has the name, too"
    assert graph.ws.health()["mentions"].state == "ok"
    lose(graph)
    until(lambda: edges(graph.ws) == {("b", "a", force_of(2))})
    lose(graph)
    graph.put(Upsert(uri("c"), content="asks the auth service"))
    until(lambda: edges(graph.ws) == {(*pair, force_of(3)) for pair in (("b", "a"), ("c", "a"))})
    assert graph.ws.health()["mentions"].state == "ok"


def lose(graph: Graph) -> None:
    for path in graph.ws.derived_dir.glob("mentions.sqlite*"):
        path.unlink()
    Mentions.of(graph.ws).mentioned(uri("nobody"))


def force_of(texts: int) -> float:
    return round(strength_of(texts), 6)


@pytest.mark.slow
def test_a_large_build_gives_the_same_result_as_small_steps_even_if_interrupted(graph: Graph) -> None:
    def node(number: int) -> Upsert:
        text = f"knows Thing number {(number * 7) % 700}, and Thing number {number + 1} extra"
        return Upsert(uri(f"n{number}"), name=f"Thing number {number}", content=text)

    graph.put(*(node(number) for number in range(40)))
    few = edges(graph.ws)
    graph.put(*(node(number) for number in range(40, 700)))
    Mentions.of(graph.ws)
    graph.ws.close()  # at any point of its work
    workspace = Workspace.open(graph.ws.layout, publish=False)
    many = edges(workspace)
    assert len(many) > 1_000
    assert ("n3", "n21") in {(a, b) for a, b, _ in many}
    assert {(a, b) for a, b, _ in few} <= {(a, b) for a, b, _ in many}
    workspace.submit(ChangeSet(tuple(Delete(uri(f"n{number}")) for number in range(40, 700)), ANN))
    assert edges(workspace) == few
    workspace.close()
