"""Untrusted Markdown becomes harmless HTML that hides nothing, in bounded time."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kgd.ui.markdown import LONGEST, laid_out, shown

TAGS = {
    "p",
    "a",
    "em",
    "strong",
    "s",
    "code",
    "pre",
    "ul",
    "ol",
    "li",
    "blockquote",
    "hr",
    "br",
    "table",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "h3",
    "h4",
    "h5",
    "h6",
    "span",
}
ATTRIBUTES = {
    ("a", "href"),
    ("a", "rel"),
    ("a", "class"),
    ("ol", "start"),
    ("ul", "class"),
    ("pre", "class"),
    ("span", "class"),
}
HOSTILE = (
    "[a](javascript:alert(1))",
    "[a](JaVaScRiPt:alert(1))",
    "[a](java\tscript:alert(1))",
    "[a](java\nscript:alert(1))",
    "[a](&#106;avascript:alert(1))",
    "[a](javascript&colon;alert(1))",
    "[a](javascript&#x3A;alert(1))",
    "[a](vbscript:x)",
    "[a](data:text/html,<script>alert(1)</script>)",
    "[a](data:image/svg+xml;base64,PHN2Zz4=)",
    "[a](//evil.example/x)",
    "[a](\\\\evil.example\\x)",
    "[a](/\\evil.example)",
    "[a](file:///etc/passwd)",
    "[a](blob:x)",
    "<javascript:alert(1)>",
    "<data:text/html,x>",
    "[a]: javascript:alert(1)\n\n[a]",
    "![a](javascript:alert(1))",
    "![a](data:image/svg+xml,<svg onload=alert(1)>)",
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg/onload=alert(1)>",
    "<a href='javascript:alert(1)'>x</a>",
    "<style>*{background:url(//e.example)}</style>",
    "<iframe src=//e.example></iframe>",
    '[a](https://x.example/"onmouseover=alert(1))',
    "[a](https://x.example 'x\" onmouseover=\"alert(1)')",
    '```"><script>alert(1)</script>\nx\n```',
    '[["><img src=x onerror=alert(1)>]]',
    "[[javascript:alert(1)]]",
    "|a|\n|:-:|\n|<b onclick=x>|",
    "{{7*7}} {% x %}",
    "[a](<javascript:alert(1)>)",
    "[a](%6Aavascript:alert(1))",
    "[\u202ea](https://x.example)",
    "&#x202e;abc",
    "a\x00b",
    "![a](//evil.example/x.png)",
    '[a](concept://x"onclick=alert(1)//)',
    "[a](mailto:x@y.example?body=<script>)",
)


class Seen(HTMLParser):
    """Parse the HTML as a browser does."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_data(self, data: str) -> None:
        self.text += data


def place(uri: str) -> str:
    return "/ui/w/shop/node?uri=" + re.sub(r"[^\w]", "_", uri)


def seen(text: str) -> Seen:
    return Seen(laid_out(text, place))


def is_harmless(html: Seen) -> bool:
    """Whether the HTML has only text, known tags and permitted links."""
    for tag, attributes in html.tags:
        if tag not in TAGS or any((tag, name) not in ATTRIBUTES for name in attributes):
            return False
        if tag == "a" and not re.match(r"(https?://|mailto:|/ui/w/shop/node\?uri=\w*$)", attributes["href"], re.I):
            return False
    return True


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_markup_stays_text(text: str) -> None:
    assert is_harmless(seen(text))


PIECES = st.sampled_from(
    (
        *HOSTILE,
        "*",
        "**",
        "_",
        "`",
        "```\n",
        "[",
        "]",
        "(",
        ")",
        "<",
        ">",
        "!",
        "\n",
        "\n\n",
        "    ",
        "> ",
        "- ",
        "1. ",
        "# ",
        "|",
        "\\",
        "&",
        "#",
        ";",
        "~~",
        "[[",
        "]]",
        "a",
        "b ",
        "https://x.example",
        "&#x202e;",
        "\u202e",
        '"',
        "'",
    )
)


@given(st.lists(PIECES, max_size=30).map("".join))
@example("[[a|b]]")
def test_no_mixture_of_markup_is_executed(text: str) -> None:
    assert is_harmless(seen(text))


@given(st.text(max_size=60))
def test_every_letter_is_visible(text: str) -> None:
    letters = {c for c in text if c.isalnum()}
    assert letters <= set(seen(text).text)


def test_links_lead_to_nodes_and_to_the_web() -> None:
    html = seen(
        "[[concept:auth|who you are]] [[auth#part]] <concept://shop/a> [x](https://y.example) [f](file://shop/a)"
    )
    assert [attributes["href"] for _, attributes in html.tags if "href" in attributes] == [
        place("concept:auth"),
        place("auth"),
        place("concept://shop/a"),
        "https://y.example",
        place("file://shop/a"),
    ]
    assert "who you are" in html.text
    assert "[[concept" not in html.text


def test_links_keep_names_of_any_script() -> None:
    links: list[str] = []
    laid_out("[a](<concept://shop/Grüße>)", lambda uri: links.append(uri) or "/")  # type: ignore[func-returns-value]
    assert links == ["concept://shop/Grüße"]


@pytest.mark.parametrize(
    "text",
    [
        "[//]: # (secret words)",
        "[a]: https://x.example 'secret words'",
        "```secret words\nx\n```",
        "[a](https://x.example 'secret words')",
        "![a](https://x.example 'secret words')",
        "<!-- secret words -->",
        ">" * 60 + " secret words",
        "[a]: https://y.example\n[a]: https://x.example 'secret words'",
        "- " * 50 + "secret words",
        "[a](concept://shop/x 'secret words')",
    ],
)
def test_no_text_is_hidden(text: str) -> None:
    assert "secret words" in seen(text).text


def test_invisible_characters_are_spelled_out() -> None:
    assert shown("a\u202eb\u200bc\x00\U000e0041\u3164") == "a⟨U+202E⟩b⟨U+200B⟩c⟨U+0000⟩⟨U+E0041⟩⟨U+3164⟩"
    assert shown("a\u00a0b\u3000c\n\t👩‍👩‍👧é") == "a\u00a0b\u3000c\n\t👩‍👩‍👧é"
    assert "⟨U+202E⟩abc" in seen("&#x202e;abc").text


PIECE = pytest.mark.parametrize("piece", ["[", "> ", "|a|b|\n"])
SLOW_PIECE = pytest.mark.parametrize(
    "piece", ["![", "*a", "[[", "a\n", "- a\n\n", "<![CDATA[", "[a](", "***a", "`a``", "[a]: b\n", "&", "<http://a>"]
)


def assert_shown(piece: str, kilobytes: int) -> None:
    html = seen(piece * (kilobytes * 1024 // len(piece)))
    assert is_harmless(html)
    assert piece.strip()[0] in html.text or html.tags


@pytest.mark.slow
@PIECE
def test_a_quarter_of_a_megabyte_is_rendered_or_shown_as_source(piece: str) -> None:
    assert_shown(piece, 256)


@pytest.mark.slow
@pytest.mark.parametrize("kilobytes", [96, pytest.param(256, marks=pytest.mark.large)])
@SLOW_PIECE
def test_a_long_text_of_any_kind_is_rendered_or_shown_as_source(piece: str, kilobytes: int) -> None:
    assert_shown(piece, kilobytes)


@pytest.mark.slow
def test_long_prose_is_rendered_and_longer_text_is_shown_as_source() -> None:
    prose = "The *quick* brown fox jumps over [the](https://x.example) lazy dog.\n\n" * 3_700
    assert ("em", {}) in seen(prose).tags
    assert seen("*a* " * LONGEST).tags[0][0] == "pre"
