"""The manual in the browser, as a folder of HTML and from a wheel: order of pages, and links without dead ends."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from markupsafe import Markup

from kgd.errors import NotFound
from kgd.ui import manual, site
from kgd.ui.pages import manual as pages
from kgd.ui.pages.manual import PLACES
from tests.test_docs import PAGES, ROOT


class Seen(HTMLParser):
    """The links of a page, and its link targets."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: list[str] = []
        self.attributes: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.attributes |= given.keys()
        self.links += [str(given[name]) for name in ("href", "src") if given.get(name)]
        self.ids += [str(given["id"])] if "id" in given else []


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Seen]:
    """Every page of the manual as a folder of HTML."""
    folder = tmp_path_factory.mktemp("site")
    assert site.main([str(folder)]) == 0
    return {place: Seen(place.read_text()) for place in folder.rglob("*.html")}


def test_every_document_has_its_place_in_the_order() -> None:
    names = [chapter.name for chapter in manual.chapters()]
    assert sorted(names) == sorted(page[5:-3] for page in PAGES if page.startswith("docs/"))
    order = [
        "README",
        "why",
        "guides/first-workspace",
        "guides/agents",
        "guides/two-teams",
        "hub",
        "areas",
        "search",
        "recovery",
        "format",
        "cli",
    ]
    assert [name for name in names if name in order] == order


@pytest.mark.slow
def test_reading_on_leads_through_all_of_it_and_back() -> None:
    read = manual.read(manual.INDEX, PLACES)
    seen = [read.chapter]
    while read.after:
        before, read = read.chapter, manual.read(read.after.name, PLACES)
        assert read.before == before
        seen.append(read.chapter)
    assert seen == list(manual.chapters())


@pytest.mark.slow
def test_links_of_the_written_manual_lead_to_files_and_headings(written: dict[Path, Seen]) -> None:
    assert len(written) == len(manual.chapters()) + 1  # the page of the search
    broken = []
    for place, seen in written.items():
        assert len(seen.ids) == len(set(seen.ids)), place
        for link in seen.links:
            parts = urlsplit(link)
            if parts.scheme:
                continue
            target = (place.parent / unquote(parts.path)).resolve() if parts.path else place
            if not target.is_file() or (parts.fragment and unquote(parts.fragment) not in written[target].ids):
                broken.append(f"{place.name}: {link}")
    assert broken == []


def test_pages_carry_neither_remarks_nor_what_the_policy_of_the_pages_refuses(written: dict[Path, Seen]) -> None:
    for place, seen in written.items():
        assert not {name for name in seen.attributes if name == "style" or name.startswith("on")}, place
        assert ("<script" in place.read_text()) == (place.name == site.SEARCH)
    assert "not run" not in manual.read("git", PLACES).body


def test_every_page_is_in_a_group_of_the_contents_under_its_title() -> None:
    listed = [page for _, pages in manual.groups() for page in pages]
    assert [manual.chapters()[0], *listed] == list(manual.chapters())
    index = (ROOT / "docs/README.md").read_text()
    wrong = [page.name for page in listed if f"[{page.title}]({page.name}.md)" not in index]
    assert [name for name in wrong if not name.startswith("decisions/0")] == []


def test_no_link_shows_a_file_name_as_its_text() -> None:
    named = {
        f"{page}: {text}"
        for page in PAGES
        if page.startswith("docs/")
        for text, target in re.findall(r"\[([^\]]+\.md)\]\(([^)#]+)", (ROOT / page).read_text())
        if not target.startswith("../../") and not re.fullmatch(r"\.\./[A-Z]+\.md", target)
    }
    assert named == set()


@pytest.mark.parametrize(
    ("query", "page", "heading"),
    [
        ("stale fact", "staleness", "Stale facts"),
        ("how do I share a workspace with my team?", "guides/two-teams", "Two teams, one workspace"),
        ("restore backup", "guides/operate", "Restore on another machine"),
        ("POSTGRESQL quotas", "several-hubs", "Guarantees"),
        ("kgd why", "cli", "kgd why FILE[:LINE]..."),
        ("What is an atom?", "concepts", "atom"),
        ("CI", "guides/sign-in", "Single sign-on"),
        ("sso", "guides/sign-in", "Single sign-on"),
        ("install", "guides/first-workspace", "Install kgd"),
        ("windows", "guides/first-workspace", "Install kgd"),
        ("offline", "sync", "Automatic sync"),
    ],
)
def test_the_search_finds_sections_by_their_words(query: str, page: str, heading: str) -> None:
    found = [(hit.section.chapter.name, hit.section.heading.title) for hit in pages.find(query)[:5]]
    assert (page, heading) in found


def test_a_hit_shows_the_words_of_the_question_marked_and_nothing_else_as_html() -> None:
    hits = pages.find("mint <infra>")
    assert any("<mark>mint</mark> <mark>infra</mark>" in hit.snippet for hit in hits)
    assert any("&lt;" in hit.snippet for hit in pages.find("workspace digest"))
    for hit in hits:
        assert len(hit.snippet.striptags()) <= pages.SNIPPET + 4
        assert set(re.findall(r"</?(\w+)", hit.snippet)) <= {"mark"}


@pytest.mark.parametrize("query", ["", "  ", "?!", "xyzzy plugh", "()[*", "\x00", "ſ" * 500])
def test_a_question_without_results_is_no_error(query: str) -> None:
    assert pages.find(query) == []


@pytest.mark.slow
def test_links_in_the_browser_lead_to_pages_of_the_manual() -> None:
    for chapter in manual.chapters():
        for link in Seen(manual.read(chapter.name, PLACES).body).links:
            assert link.startswith(("/ui/manual", "#", "http")), f"{chapter.name}: {link}"


@pytest.mark.parametrize("name", ["none", "../README", "", "/etc/passwd", "README.md", "guides"])
def test_a_file_that_is_not_a_page_is_not_read(name: str) -> None:
    with pytest.raises(NotFound, match="no such page"):
        manual.read(name, PLACES)


@pytest.mark.parametrize("name", ["none.png", "../README.md", "", ".png", "a/b.png", "profile-get.svg"])
def test_a_file_that_is_not_a_picture_is_not_served(name: str) -> None:
    with pytest.raises(NotFound, match="no such picture"):
        manual.picture(name)


def test_the_glossary_has_the_words_that_pages_use() -> None:
    words = {word.word: str(word.meaning) for word in manual.glossary(PLACES)}
    assert {"workspace", "area", "conflict", "proposal", "cost", "stale", "foreign", "citation"} <= words.keys()
    assert '<a href="/ui/manual/areas">' in words["atom"]
    assert [word for word, meaning in words.items() if "|" in meaning or not meaning] == []


def test_the_site_is_asked_for_with_one_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert site.main([]) == 2
    assert site.main(["--help"]) == 2
    assert "usage: python -m kgd.ui.site FOLDER" in capsys.readouterr().err


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert site.main([str(tmp_path / "file")]) == 1
    assert capsys.readouterr().err.startswith(f"{tmp_path}/file cannot be written: File exists")


@pytest.mark.slow
def test_a_wheel_carries_the_manual_and_what_the_pages_are_made_of(tmp_path: Path) -> None:
    build = f"import hatchling.build; print(hatchling.build.build_wheel({str(tmp_path)!r}))"
    made = subprocess.run([sys.executable, "-c", build], cwd=ROOT, capture_output=True, text=True, check=True)
    with zipfile.ZipFile(tmp_path / made.stdout.strip().splitlines()[-1]) as wheel:
        names = set(wheel.namelist())
    static = {f"kgd/ui/static/{place.name}" for place in (ROOT / "kgd/ui/static").iterdir()}
    templates = {f"kgd/ui/templates/{place.name}" for place in (ROOT / "kgd/ui/templates").iterdir()}
    pages = {f"kgd/ui/docs/{chapter.name}.md" for chapter in manual.chapters()}
    assert names >= static | templates | pages
    assert {name.partition("/")[0] for name in names if ".dist-info" not in name and ".data/" not in name} == {"kgd"}
    assert any(name.endswith(".data/data/share/man/man1/kgd.1") for name in names)


def test_code_on_the_pages_is_highlighted_and_stays_the_same_text() -> None:
    page = str(manual.read("guides/agent-user", PLACES).body)
    assert '<span class="s">&#34;Sessions last 15 minutes; the app renews them at 12.&#34; </span>' in page
    shown = [Markup(code).striptags() for code in re.findall(r"<pre[^>]*><code>(.*?)</code></pre>", page, re.S)]
    written = re.findall(r"```\w+[^\n]*\n(.*?)```", (ROOT / "docs/guides/agent-user.md").read_text(), re.S)
    assert [text.split() for text in shown] == [text.split() for text in written]
