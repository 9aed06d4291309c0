"""A token's push is held to the same rules as its `put`."""

from __future__ import annotations

from collections.abc import Callable

from tests.hub.conftest import Hub
from tests.hub.test_git import Clone, clone

__all__ = ["clone"]

SECRET_CHOICE = "decision://infra/sec/choice"


def test_a_push_that_names_the_memory_of_another_is_refused_and_its_owner_edits_on(
    hub: Hub, clone: Callable[..., Clone]
) -> None:
    hub.put(SECRET_CHOICE, summary="Chosen", detail="Because.\n")
    node = hub.call("get", workspace="infra", uris=[SECRET_CHOICE])["nodes"][0]
    mine = clone(hub.mint("read,write", "/pub/**"))
    path = mine.at / "nodes/decision/pub/thief.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(f"uri: decision://infra/pub/thief\ndata:\n  file: {node['detail']['file']}\n")
    mine.commit()
    said = mine.git("push", ok=False)
    assert "nodes/decision/pub/thief.yaml:2" in said
    assert "data.file names the memory of another node" in said
    owner = hub.mint("read,write", "/sec/**")
    change = {"op": "upsert", "uri": SECRET_CHOICE, "detail": "Because of it.\n", "expect_version": node["version"]}
    assert hub.post(owner, "infra/put", {"changes": [change]}).status == 200


def test_a_push_of_a_name_that_differs_by_case_alone_is_refused_with_the_other_name(
    hub: Hub, clone: Callable[..., Clone]
) -> None:
    mine = clone(hub.mint("read,write"))
    mine.edit("nodes/concept/services/AUTH.yaml", "Shouted")
    said = mine.git("push", ok=False)
    assert "nodes/concept/services/AUTH.yaml:1" in said
    assert "Use concept://infra/services/auth" in said
