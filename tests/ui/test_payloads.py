"""Attempts to inject scripts, markup or addresses are shown as text on every page."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
from urllib.parse import quote

import pytest
from playwright.sync_api import Page

from kgd.model.node import LABEL_LIMIT, NAME_LIMIT, SUMMARY_LIMIT
from kgd.model.uri import build
from tests.ui.conftest import Desk, Watched, at

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.slow]

HIT = "window.__hit=1"
AWAY = "https://evil.example/x"
MARKUP = (
    f"<script>{HIT}</script>",
    f"<SCRIPT>{HIT}</SCRIPT>",
    f"<script src={AWAY}></script>",
    f"</script><script>{HIT}",
    f"<img src=x onerror={HIT}>",
    f"<img src={AWAY}>",
    f"<img/src=x/onerror={HIT}>",
    f"<image href=x onerror={HIT}>",
    f'"><img src=x onerror={HIT}>',
    f"'><img src=x onerror={HIT}>",
    f"`><img src=x onerror={HIT}>",
    f"</textarea><img src=x onerror={HIT}>",
    f"</title><img src=x onerror={HIT}>",
    f"--><img src=x onerror={HIT}>",
    f"]]><img src=x onerror={HIT}>",
    f"</pre><img src=x onerror={HIT}>",
    f"</option></datalist><svg onload={HIT}>",
    f"<svg onload={HIT}>",
    f"<svg/onload={HIT}>",
    f"<svg><script>{HIT}</script></svg>",
    f"<svg><a href='javascript:{HIT}'>x</a></svg>",
    f"<svg><animate onbegin={HIT} attributeName=x dur=1s>",
    f"<svg><set onbegin={HIT} attributename=x>",
    f"<svg><image href={AWAY}></svg>",
    f"<svg><use href={AWAY}#a></svg>",
    f"<svg><foreignObject><body onload={HIT}></foreignObject></svg>",
    f"<svg><style>*{{background:url({AWAY})}}</style>",
    f"<math><mtext><img src=x onerror={HIT}>",
    f"<math href='javascript:{HIT}'>x</math>",
    f"<body onload={HIT}>",
    f"<iframe src=javascript:{HIT}>",
    "<iframe srcdoc='<script>parent.__hit=1</script>'>",
    f"<iframe src={AWAY}>",
    f"<object data={AWAY}>",
    f"<embed src={AWAY}>",
    f"<link rel=stylesheet href={AWAY}>",
    f"<base href={AWAY}>",
    f"<meta http-equiv=refresh content='0;url={AWAY}'>",
    f"<style>@import '{AWAY}';</style>",
    f'<div style="background:url({AWAY})">',
    f"<video><source onerror={HIT}></video>",
    f"<audio src=x onerror={HIT}>",
    f"<details open ontoggle={HIT}>",
    f"<input autofocus onfocus={HIT}>",
    f"<select autofocus onfocus={HIT}>",
    f"<textarea autofocus onfocus={HIT}>",
    f"<marquee onstart={HIT}>",
    f"<a href=javascript:{HIT}>x</a>",
    f"<form action=javascript:{HIT}><button>x</button></form>",
    f"<button formaction=javascript:{HIT}>x</button>",
    f"<form action={AWAY} method=post><button name=act>Save</button></form>",
    f"<template><script>{HIT}</script>",
    f'<noscript><p title="</noscript><img src=x onerror={HIT}>">',
    f"<xmp><script>{HIT}</script>",
    f"<b hx-get={AWAY} hx-trigger=load>x</b>",
    f"<b hx-on:load={HIT}>x</b>",
    f'<b hx-on::load="{HIT}">x</b>',
    f"<b hx-vals='js:{{a:{HIT}}}' hx-get=/ hx-trigger=load>",
    f"<b data-hx-get={AWAY} data-hx-trigger=load>x</b>",
    f"<b sse-connect={AWAY} hx-ext=sse>x</b>",
    "<b id=look-again hx-get=/ui/out>x</b>",
    "<plaintext>",
    "<!--",
    "<![CDATA[",
    f"<dialog open><form method=dialog><button autofocus onfocus={HIT}>",
    f"<p onpointerover={HIT} onmouseover={HIT}>x",
)
ATTRIBUTES = (
    f'" onmouseover="{HIT}',
    f"' onmouseover='{HIT}",
    f'" autofocus onfocus="{HIT}',
    f"x onfocus={HIT} autofocus",
    f'" style="background:url({AWAY})',
    f'" hx-get="{AWAY}" hx-trigger="load',
    '"',
    "'",
    "`",
    '" x="',
    "&quot;><b>",
    f"&lt;script&gt;{HIT}&lt;/script&gt;",
    f"&#60;script&#62;{HIT}&#60;/script&#62;",
    f"\\u003cscript\\u003e{HIT}",
    f"%3Cscript%3E{HIT}%3C/script%3E",
    f"+ADw-script+AD4-{HIT}",
    f"\\x3cscript>{HIT}",
)
MARKDOWN = (
    f"[a](javascript:{HIT})",
    f"[a](JAVASCRIPT:{HIT})",
    f"[a](javascript&colon;{HIT})",
    f"[a](&#106;avascript:{HIT})",
    f"[a](data:text/html,<script>{HIT}</script>)",
    f"[a](vbscript:{HIT})",
    f"<javascript:{HIT}>",
    f"![a]({AWAY})",
    f"![a](javascript:{HIT})",
    f"![a](data:image/svg+xml,<svg onload={HIT}>)",
    f'[a]({AWAY} "\\" onload={HIT}")',
    "[a](//evil.example)",
    f"[[javascript:{HIT}]]",
    f'[["><img src=x onerror={HIT}>|<b>]]',
    f'```"><script>{HIT}</script>',
    f"| a |\n|:-:|\n| <img src=x onerror={HIT}> |",
    f"[x]: javascript:{HIT}\n\n[x]",
    f"# <img src=x onerror={HIT}>",
)
URLS = (
    f"javascript:{HIT}",
    f"JaVaScRiPt:{HIT}",
    f"javascript://%0a{HIT}",
    f"data:text/html,<script>{HIT}</script>",
    "//evil.example/x",
    "\\\\evil.example",
    "/\\evil.example",
    "file:///etc/passwd",
    "../../../etc/passwd",
    "?q=<b>",
    "#<b>",
)
TEMPLATES = (
    "{{7*7}}",
    "{{ asked.daemon }}",
    "{% include 'base.html' %}",
    "{{ ''.__class__.__mro__ }}",
    "${7*7}",
    "#{7*7}",
    "<%= 7*7 %>",
    "{# x #}",
    "%(x)s",
    "{0}",
    "$(id)",
    "`id`",
    "%s%n",
)
LINES = (
    "a\r\nSet-Cookie: x=1",
    f"a\r\n\r\n<script>{HIT}</script>",
    "a%0d%0aLocation: https://evil.example",
    "a\u2028b",
    "a\nb",
)
UNSEEN = (
    "\u202eevil\u202c",
    "\u2066a\u2069",
    "a\u200bb",
    "\ufeffa",
    "a\u00adb",
    "\U000e0041\U000e0042",
    "a\u3164b",
    "e\u0301\u0301",
    "\u0430dmin",
    "a\u0000b",
    "a\x1b[31mb",
    "a\x07b",
    "\ud83d\ude00",
    "ﷺ" * 20,
)
PAYLOADS = (*MARKUP, *ATTRIBUTES, *MARKDOWN, *URLS, *TEMPLATES, *LINES, *UNSEEN)

ALL = "concept://shop/payloads"
FORBIDDEN = (
    "img, iframe, object, embed, video, audio, base, svg script, template, math, marquee, "
    "script:not([src^='/ui/static/']), link:not([href^='/ui/static/']), meta[http-equiv], style, main [style], "
    "main form[action^='http'], [href^='javascript:' i], [formaction^='javascript:' i], main [hx-get^='http'], "
    "[onload], [onerror], [onfocus], [onmouseover], [ontoggle], [onbegin], [onpointerover], [hx-on\\:load], [srcdoc]"
)
"""Marks of injected text that has become part of a page."""


def sayable(text: str) -> str:
    """Remove the characters that tools refuse in a name: line ends, control and direction characters."""
    return re.sub("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]", "", text)


def label(text: str) -> str:
    return "".join(c for c in text if c.isprintable())[:LABEL_LIMIT].strip()


def node(number: int) -> str:
    return f"concept://shop/p/{number}"


def fill(desk: Desk) -> str:
    """A workspace with all payloads in every field; returns a commit whose revert causes a conflict."""
    labels = list(dict.fromkeys(filter(None, map(label, PAYLOADS))))
    texts = [text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\0", "") for text in PAYLOADS]
    content = "\n\n".join(texts)
    small = []
    for number, text in enumerate(texts):
        name = sayable(text)
        alias = build(
            "concept", "shop", [b"was", name.encode()[:200].decode(errors="ignore").replace("/", " ").encode()]
        )
        small.append(
            {
                "op": "upsert",
                "uri": node(number),
                "name": name[:NAME_LIMIT].strip(),
                "summary": name[:SUMMARY_LIMIT].strip(),
                "type": label(text) if number % 3 == 0 else "insight",
                "aliases": [alias],
            }
        )
    fat = {
        "op": "upsert",
        "uri": ALL,
        "name": MARKUP[0],
        "summary": MARKUP[4],
        "content": content,
        "tags": labels[:250],
        "data": {
            "texts": texts,
            **{sayable(text)[:200]: text for text in texts if sayable(text).strip()},
            "cites": ["src/checkout.py", *(text for text in texts if "\n" not in text)],
        },
        "source": {"type": MARKUP[0], "id": MARKUP[4]},
        "relations": [
            {"type": one, "target": node(number) if number % 2 else f"javascript:{number};{HIT}", "weight": 0.1}
            for number, one in enumerate(labels)
        ],
    }
    desk.call("put", changes=[*small, fat], message=MARKUP[4])
    for name in (MARKUP[0], MARKUP[4], ATTRIBUTES[0]):
        written = desk.call("put", changes=[{"op": "upsert", "uri": node(0), "name": name, "summary": name[:99]}])
    desk.call("put", changes=[{"op": "upsert", "uri": node(0), "name": TEMPLATES[0], "summary": MARKUP[17]}])
    commit = str(written["commit"])
    desk.call("revert", commit=commit, message=MARKDOWN[0])
    for text in (ATTRIBUTES[0], ATTRIBUTES[2], TEMPLATES[0], TEMPLATES[4]):
        desk.call("token_mint", name=text, verbs=["read"])
    folder = desk.code.parent / MARKUP[4]
    subprocess.run(["git", "init", "-q", "--bare", str(folder)], check=True)
    desk.call("remote", action="add", name="backup", url=str(folder))
    return commit


def name_files_and_people(desk: Desk) -> None:
    """Write files of the code tree and hand-edited node files that are named like payloads."""
    folder = desk.code / "src"
    for text in (*MARKUP[:12], *ATTRIBUTES[:6], *TEMPLATES[:6], *UNSEEN[:5]):
        with contextlib.suppress(OSError, ValueError):
            (folder / text.replace("/", "")[:80]).write_text("x = 1\n")
    desk.git("config", "user.name", MARKUP[4].replace("<", "\u2039<").replace("<", ""))
    desk.git("config", "user.email", 'x"onload=1@example.invalid')
    subprocess.run(["git", "-C", str(desk.code), "add", "-A"], check=True)
    subprocess.run(["git", "-C", str(desk.code), "commit", "-q", "-m", MARKUP[0]], check=True)


@pytest.fixture(scope="module")
def commit(desk: Desk) -> str:
    name_files_and_people(desk)
    return fill(desk)


def troubles(page: Page) -> list[str]:
    """Return the injected parts of a page."""
    found = [
        str(one)
        for one in page.evaluate(
            "selector => [...document.querySelectorAll(selector)].map(one => one.outerHTML.slice(0, 200))", FORBIDDEN
        )
    ]
    if page.evaluate("window.__hit"):
        found.append("a script ran")
    if re.search(r"\b49\b", page.title()):  # not the digits of a commit
        found.append("a template was filled in")
    return found


def looked(page: Page, place: str) -> list[str]:
    at(page, place)
    summaries = page.locator("main summary")
    for number in [number for number in range(summaries.count()) if summaries.nth(number).is_visible()][:3]:
        if summaries.nth(number).is_visible():  # an earlier click may have folded the part with it
            summaries.nth(number).click()
    page.keyboard.press("Tab")
    return [f"{place}: {one}" for one in troubles(page)]


FEW = (f"node?uri={ALL}", f"node/edit?uri={ALL}", f"node/history?uri={ALL}", "overview", f"search?q={quote(MARKUP[4])}")
MANY = (
    f"node/lines?uri={ALL}",
    f"node?uri={quote(MARKUP[4])}",
    f"node/delete?uri={node(1)}",
    f"node/new?uri={quote(ATTRIBUTES[0])}&name={quote(MARKUP[0])}",
    f"node?uri={ALL}&do=relation&type={quote(ATTRIBUTES[0])}&target={quote(MARKUP[4])}",
    f"node/history?uri={node(0)}",
    f"graph?from={ALL}",
    f"graph?from={quote(MARKUP[0])}",
    f"graph?from={node(1)}",
    "graph",
    "conflicts",
    f"conflicts?uri={node(0)}",
    f"conflicts?uri={quote(MARKUP[4])}",
    "review",
    "review?since=yesterday",
    f"review?by={quote(MARKUP[4])}",
    "areas",
    "areas?kind=molecule",
    "areas?path=src",
    f"areas?path={quote(MARKUP[4])}",
    "proposals",
    "stale",
    "broken",
    "unreadable",
    "workspaces",
    "node?uri=dir://shop/src",
    f"search?q={quote(ATTRIBUTES[0])}&cursor=x",
    f"node?uri={ALL}&as_of={quote(MARKUP[4])}",
    f"change?commit={quote(MARKUP[0])}",
    f"nowhere/{quote(MARKUP[4])}",
)


SHOWN = (
    ("workspaces", ATTRIBUTES[0]),
    ("workspaces", MARKUP[4]),
    (f"node/history?uri={node(0)}", MARKUP[0]),
    (f"node/history?uri={ALL}", MARKUP[4]),
    ("node?uri=dir://shop/src", TEMPLATES[0]),
    (f"node?uri={ALL}", MARKUP[4]),
)
"""Pages that show payloads: names of tokens, values, commit messages, file names."""


def test_the_corpus_is_not_small() -> None:
    assert len(set(PAYLOADS)) >= 100


def test_payloads_are_text_on_the_pages_of_a_node(desk: Desk, page: Page, commit: str) -> None:
    page.on("dialog", lambda dialog: pytest.fail(dialog.message))
    assert [one for place in FEW for one in looked(page, place)] == []
    at(page, f"node?uri={ALL}")
    content = page.locator("main .content").first.inner_text()
    for text in ("<script>window.__hit=1</script>", "{{7*7}}", "{% include 'base.html' %}", "⟨U+202E⟩evil", "⟨U+3164⟩"):
        assert text in content


def test_payloads_are_text_on_every_page(desk: Desk, page: Page, commit: str, watched: Watched) -> None:
    page.on("dialog", lambda dialog: pytest.fail(dialog.message))
    found = [one for place in (*MANY, f"change?commit={commit}&uri={node(0)}") for one in looked(page, place)]
    conflict = desk.call("conflicts")["conflicts"][0]
    found += looked(page, f"conflict?id={quote(conflict['id'])}")
    assert "onerror" in page.locator("main").inner_text()
    assert found == []
    for place, text in SHOWN:
        at(page, place)
        assert text in page.locator("body").inner_text(), place
    # Addresses that lead nowhere are answered as such, which a browser notes.
    watched.troubles[:] = [one for one in watched.troubles if "Failed to load resource" not in one]


def test_submitted_text_returns_unchanged(desk: Desk, page: Page, commit: str) -> None:
    before = desk.node(ALL)
    at(page, f"node/edit?uri={ALL}")
    page.get_by_text("More fields").click()
    page.get_by_label("Name").fill("Changed")
    page.get_by_role("button", name="Save").click()
    page.wait_for_selector(".said")
    after = desk.node(ALL)
    assert after["name"] == "Changed"
    kept = ("summary", "tags", "data", "source")
    assert {name: json.dumps(after[name]) for name in kept} == {name: json.dumps(before[name]) for name in kept}
