"""The pages of a workspace on a hub are on the hub: pages here show their address and link to no error."""

from __future__ import annotations

import http.cookiejar
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import pytest

from tests.ui.conftest import Desk

HUB = "https://kgd.example.org"


class Reader:
    """A program with a browser's session, which reads pages."""

    def __init__(self, desk: Desk) -> None:
        link = urlsplit(desk.link())
        self._root = f"{link.scheme}://{link.netloc}"
        self._opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()))
        code = {"code": link.path.rpartition("/")[2]}
        self._opener.open(f"{self._root}/ui/in", urlencode(code).encode()).close()

    def page(self, place: str) -> tuple[int, str]:
        try:
            with self._opener.open(f"{self._root}/ui/{place}") as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as answer:
            return answer.code, answer.read().decode()


@pytest.fixture
def reader(desk: Desk) -> Iterator[Reader]:
    """A home with a second workspace in its registry, which is on a hub."""
    registry = Path(desk.home.registry)
    good = registry.read_text()
    registry.write_text(good.replace("workspaces:\n", f"workspaces:\n  infra: {{hub: {HUB}}}\n"))
    yield Reader(desk)
    registry.write_text(good)


@pytest.mark.slow
def test_lists_show_the_hub_of_a_workspace_without_a_local_link(reader: Reader) -> None:
    for place in ("", "w/shop/workspaces"):
        status, text = reader.page(place)
        assert status == 200
        assert 'href="/ui/w/shop/overview"' in text
        assert "/ui/w/infra/" not in text
        assert HUB in text
    assert "<code>kgd ui -w infra</code>" in reader.page("")[1]


def test_the_address_of_a_hubs_workspace_names_the_command_that_opens_it(reader: Reader) -> None:
    status, text = reader.page("w/infra/overview")
    assert status == 503
    assert "kgd ui" in text
    assert "submit_subgraph" not in text
