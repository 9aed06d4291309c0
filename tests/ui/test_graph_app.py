"""The graph inside an agent's host: a small page of this test acts as the host of MCP Apps."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import pytest
from playwright.sync_api import FrameLocator, Page, expect

from kgd.drawing import MEANINGS
from tests.ui.conftest import Desk, Watched
from tests.ui.graphs import furnish
from tests.ui.pictures import picture

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.slow]

POLICY = (
    "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'none'; frame-src 'none'; object-src 'none'; base-uri 'self'"
)
"""The content policy that the specification prescribes for hosts."""
HOST = """<!doctype html><title>A host</title><style>iframe { width: 100%; height: 640px; border: 0 }</style>
<p>An agent answered with a picture:</p><iframe sandbox="allow-scripts" src="http://127.0.0.1:1/app"></iframe>
<script>
  const view = document.querySelector("iframe"), heard = window.heard = [];
  const post = (message) => view.contentWindow.postMessage({ jsonrpc: "2.0", ...message }, "*");
  window.addEventListener("message", async (event) => {
    const message = event.data;
    heard.push(message.method || "answer");
    if (message.method === "ui/initialize") {
      post({ id: message.id, result: { protocolVersion: "2026-01-26", hostInfo: { name: "test", version: "1" },
        hostCapabilities: { serverTools: {} }, hostContext: { theme: THEME } } });
    } else if (message.method === "ui/notifications/initialized") {
      post({ method: "ui/notifications/tool-input", params: { arguments: GIVEN } });
      post({ method: "ui/notifications/tool-result", params: await callTool("graph_view", GIVEN) });
    } else if (message.method === "tools/call") {
      post({ id: message.id, result: await callTool(message.params.name, message.params.arguments) });
    }
  });
</script>"""


@pytest.fixture(scope="module", autouse=True)
def known(desk: Desk) -> None:
    changes = [
        {
            "op": "upsert",
            "uri": "auth",
            "name": "Auth service",
            "summary": "<script>window.hit = 1</script>",
            "relations": [
                {"type": "uses", "target": "tokens", "weight": 0.5},
                {"type": "see", "target": "rotation", "weight": 0.25},
            ],
        },
        {
            "op": "upsert",
            "uri": "tokens",
            "name": 'Tokens "><img src=x onerror=top.hit()>',
            "relations": [{"type": "signed_with", "target": "keys", "weight": 1}],
        },
        {"op": "upsert", "uri": "keys", "name": "Signing keys"},
    ]
    desk.call("put", changes=changes)


def opened(desk: Desk, page: Page, given: dict[str, Any], theme: str = "light") -> FrameLocator:
    """The page inside a host that forwards calls to kgd."""

    def call_tool(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        answer = desk.call(name, **arguments)
        return {"content": [{"type": "text", "text": "in words"}], "structuredContent": answer, "isError": False}

    html = files("kgd.mcp").joinpath("graph.html").read_text()
    host = HOST.replace("THEME", json.dumps(theme)).replace("GIVEN", json.dumps(given))
    page.expose_function("callTool", call_tool)
    page.route("http://127.0.0.1:1/", lambda route: route.fulfill(body=host, content_type="text/html"))
    headers = {"content-security-policy": POLICY, "content-type": "text/html; charset=utf-8"}
    page.route("http://127.0.0.1:1/app", lambda route: route.fulfill(body=html, headers=headers))
    page.goto("http://127.0.0.1:1/")
    return page.frame_locator("iframe")


def test_a_host_shows_the_graph_and_a_click_expands_it(desk: Desk, page: Page, watched: Watched) -> None:
    view = opened(desk, page, {"start": ["auth"]})
    expect(view.locator("h1")).to_have_text("Around Auth service")
    expect(view.locator(".dot")).to_have_count(3)
    expect(view.locator(".dot", has_text="rotation").locator("title")).to_contain_text(MEANINGS["missing"])
    view.locator(".dot", has_text="Tokens").focus()
    page.keyboard.press("Enter")
    expect(view.locator(".dot", has_text="Signing keys")).to_be_visible()
    assert page.evaluate("heard").count("tools/call") == 1
    assert view.locator("script, img, a, foreignObject").count() == 1  # only its own script
    assert page.evaluate("window.hit") is None


def test_the_whole_workspace_links_to_a_type_and_follows_a_dark_host(desk: Desk, page: Page) -> None:
    view = opened(desk, page, {}, theme="dark")
    view.locator(".dot", has_text="concept 3").click()
    expect(view.locator(".dot", has_text="Signing keys")).to_be_visible()
    paper = view.locator("body").evaluate("body => getComputedStyle(body).backgroundColor")
    assert paper == "rgb(28, 34, 31)"


@pytest.mark.picture
def test_a_picture_of_a_small_shop_is_taken(desk: Desk, page: Page) -> None:
    furnish(desk)
    view = opened(desk, page, {"start": ["front"], "max_cost": 1.25, "direction": "both"})
    expect(view.locator(".dot", has_text="Orders")).to_be_visible()
    picture(page, "app", 900, 720)
