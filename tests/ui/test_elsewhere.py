"""A workspace that is on a hub has no pages here: it is told where they are, and nothing leads to an error."""

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
    """A program that was let in as a browser is, and reads."""

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
    """With a second workspace in the registry, which a hub has."""
    registry = Path(desk.home.registry)
    good = registry.read_text()
    registry.write_text(good.replace("workspaces:\n", f"workspaces:\n  infra: {{hub: {HUB}}}\n"))
    yield Reader(desk)
    registry.write_text(good)


def test_lists_say_where_the_pages_of_a_hubs_workspace_are_and_link_to_none_here(reader: Reader) -> None:
    for place in ("", "w/shop/workspaces"):
        status, text = reader.page(place)
        assert status == 200
        assert 'href="/ui/w/shop/overview"' in text
        assert "/ui/w/infra/" not in text
        assert HUB in text
        assert "its pages are" in text
    assert "<code>kgd ui -w infra</code>" in reader.page("")[1]


def test_who_types_its_address_reads_what_opens_its_pages(reader: Reader) -> None:
    status, text = reader.page("w/infra/overview")
    assert status == 503
    assert "kgd ui" in text
    assert "submit_subgraph" not in text
