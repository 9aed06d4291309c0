"""The state of embedding in `status` and `doctor`, and its rebuild by `reindex`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kgd.tools.session import Session
from tests.surfaces.conftest import Ask, ask, code, daemon, session
from tests.vectors.models import Endpoint, failing, serving

__all__ = ["ask", "code", "daemon", "session"]

SOON = 60.0


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    yield from serving()


def choose(session: Session, embedder: str) -> None:
    with open(session.daemon.home.registry, "a") as registry:
        registry.write(f"\nsettings:\n  embedder: {embedder}\n")


def stage(ask: Ask) -> dict[str, object]:
    return next(one for one in ask.status()["stages"] if one["name"] == "embedding")


@pytest.mark.requirement("U6")
def test_status_tells_how_far_it_is_and_doctor_what_to_do(ask: Ask, session: Session, endpoint: Endpoint) -> None:
    meaning = session.daemon.workspace("shop").meaning
    ask.put(changes=[{"op": "upsert", "uri": "concept://shop/cat", "content": "The kitten sleeps."}])
    assert meaning.catch_up(SOON)
    assert stage(ask)["about"] == "builtin: 1 of 1 texts"
    endpoint.behave = failing(401)
    choose(session, f'{{kind: openai, url: "{endpoint.url}", model: m}}')
    assert not meaning.catch_up(SOON)
    told = stage(ask)
    assert told["state"] == "degraded"
    assert "`key` of `embedder` in workspaces.yaml" in str(told["blocker"])
    checks = ask.doctor()["checks"]
    assert [one["state"] for one in checks if one["name"] == "shop embedding"] == ["warning"]


def test_off_in_the_settings_is_no_trouble(ask: Ask, session: Session) -> None:
    meaning = session.daemon.workspace("shop").meaning
    choose(session, "off")
    ask.put(changes=[{"op": "upsert", "uri": "concept://shop/cat", "content": "The kitten sleeps."}])
    assert not meaning.catch_up(SOON)
    assert stage(ask)["state"] == "off"
    assert ask.doctor()["ok"]
    assert ask.search(query="kitten")["hits"]


def test_reindex_embeds_all_anew(ask: Ask, session: Session) -> None:
    meaning = session.daemon.workspace("shop").meaning
    ask.put(changes=[{"op": "upsert", "uri": "concept://shop/cat", "content": "The kitten sleeps."}])
    assert meaning.catch_up(SOON)
    ask.reindex()
    assert meaning.catch_up(SOON)
    assert meaning.embedded == 2
    assert meaning.nearest("cat", 1).hits
