"""A symbol is found by what defines it, and only its own text counts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgd.freshness.citations import Citation, parse
from kgd.freshness.code import id_of, text_of

PYTHON = '''"""Doc."""
import os

LIMIT = 3
size: int = 4


@decorated
def sign(token):
    """Signs."""
    return token


class Session:
    ttl = 5

    async def close(self):
        return LIMIT


if os.name == "nt":
    def only_here():
        pass
'''
GO = """package auth

// Sign signs.
func (s *Session) Sign(token string) string {
	if token == "" {
		return ""
	}
	return token
}

type Session struct {
	ttl int
}
"""
TYPESCRIPT = """export const limit = 3;

export async function sign(token: string) {
  return token;
}

class Session {
  close() {
    return limit;
  }
}

const later = (x: number) => {
  return x;
};
"""
SQL = "CREATE TABLE users (\n  id INT\n);\n\nCREATE TABLE keys (\n  id INT\n);\n"
MARKDOWN = "# Guide\n\nintro\n\n## Rotating keys\n\nDaily.\n\n### Why\n\nLaw.\n\n## Else\n\nrest\n"
C = "int sign(const char *token)\n{\n    return 1;\n}\n\nint other(void) { return 2; }\n"
RUST = "pub fn sign(t: &str) -> String {\n    t.into()\n}\n\nimpl Session {\n    fn close(&self) {}\n}\n"


@pytest.mark.parametrize(
    ("path", "source", "name", "first", "last"),
    [
        ("a.py", PYTHON, "sign", "@decorated", "    return token"),
        ("a.py", PYTHON, "Session.close", "async def close(self):", "    return LIMIT"),
        ("a.py", PYTHON, "Session", "class Session:", "        return LIMIT"),
        ("a.py", PYTHON, "LIMIT", "LIMIT = 3", "LIMIT = 3"),
        ("a.py", PYTHON, "size", "size: int = 4", "size: int = 4"),
        ("a.py", PYTHON, "only_here", "def only_here():", "    pass"),
        ("a.go", GO, "Sign", "func (s *Session) Sign(token string) string {", "}"),
        ("a.go", GO, "Session", "type Session struct {", "}"),
        ("a.ts", TYPESCRIPT, "sign", "export async function sign(token: string) {", "}"),
        ("a.ts", TYPESCRIPT, "Session.close", "close() {", "}"),
        ("a.ts", TYPESCRIPT, "later", "const later = (x: number) => {", "};"),
        ("a.ts", TYPESCRIPT, "limit", "export const limit = 3;", "export const limit = 3;"),
        ("a.sql", SQL, "keys", "CREATE TABLE keys (", ");"),
        ("a.md", MARKDOWN, "rotating-keys", "## Rotating keys", "Law."),
        ("a.c", C, "sign", "int sign(const char *token)", "}"),
        ("a.rs", RUST, "sign", "pub fn sign(t: &str) -> String {", "}"),
        ("a.rs", RUST, "Session", "impl Session {", "}"),
        ("broken.py", "def sign(:\n    oops\n\ndef other():\n    pass\n", "sign", "def sign(:", "    oops"),
    ],
)
def test_a_definition_is_found_from_its_first_line_to_its_last(
    path: str, source: str, name: str, first: str, last: str
) -> None:
    text = text_of(source, name, path)
    assert text is not None
    assert (text.splitlines()[0], text.splitlines()[-1]) == (first, last)
    moved = text_of("\n\n" + source.replace("\n", " \n"), name, path)
    assert moved == text


@pytest.mark.parametrize("name", ["nobody", "sign.inner", "Session.nobody", "", "..", "(", "[a-"])
def test_for_an_undefined_symbol_the_whole_file_counts(name: str) -> None:
    assert text_of(PYTHON, name, "a.py") is None
    assert id_of(PYTHON.encode(), "a.py", name or "x") == (id_of(PYTHON.encode(), "a.py")[0], False)


@given(st.text(max_size=400), st.text(max_size=30), st.sampled_from(["a.py", "a.go", "a.md", "a"]))
def test_no_text_and_no_name_is_an_error(source: str, name: str, path: str) -> None:
    found = text_of(source, name, path)
    assert found is None or len(found) <= len(source.expandtabs(8)) + len(source)


def test_line_ends_do_not_change_a_content() -> None:
    assert id_of(b"a\r\nb\r\n", "a")[0] == id_of(b"a\nb\n", "a")[0]
    assert id_of(b"a\0\r\n", "a")[0] != id_of(b"a\0\n", "a")[0]
    # As `git hash-object` says.
    assert id_of(b"hello\n", "a")[0] == "ce013625030b"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("src/a.py", ("src/a.py", "", "")),
        ("./src/a.py", ("src/a.py", "", "")),
        ("src\\a.py", ("src/a.py", "", "")),
        ("src/a.py@0123abcd", ("src/a.py", "", "0123abcd")),
        ("src/a.py#Session.close", ("src/a.py", "Session.close", "")),
        ("src/a.py@0123abcd#f", ("src/a.py", "f", "0123abcd")),
        ("src/a.py#f@0123abcd", ("src/a.py", "f", "0123abcd")),
        ("docs/My File.md#rotating-keys", ("docs/My File.md", "rotating-keys", "")),
        ("node_modules/@types/x.d.ts", ("node_modules/@types/x.d.ts", "", "")),
        ("file://shop/src/a%20b.py", ("src/a b.py", "", "")),
        ("src/auth/", ("src/auth", "", "")),
        ("file://shop/src/auth/", ("src/auth", "", "")),
        ("dir://shop/src/auth", ("src/auth", "", "")),
    ],
)
def test_a_citation_names_path_commit_and_symbol(text: str, expected: tuple[str, str, str]) -> None:
    path, symbol, at = expected
    assert parse(text, "shop") == Citation(text, path, symbol, at)


@pytest.mark.parametrize(
    "text",
    [
        "/etc/passwd",
        "../up.py",
        "a/../b",
        "C:\\a.py",
        "https://example.org/a.py",
        "file://other/a.py",
        "",
        " ",
        "a\nb",
        "file://shop",
        "dir://shop/_",
        "/",
    ],
)
def test_a_path_outside_the_tree_is_not_a_citation(text: str) -> None:
    assert parse(text, "shop") is None
