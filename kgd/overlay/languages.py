"""Languages and MIME types of files, by name, first line and bytes.

The result depends only on this file and the standard library's built-in table, so two machines with
different ``/etc/mime.types`` agree.
"""

from __future__ import annotations

import mimetypes
import re

_EXTENSIONS = {
    "ada": "adb ads",
    "asciidoc": "adoc asciidoc",
    "assembly": "asm s",
    "astro": "astro",
    "awk": "awk",
    "batch": "bat cmd",
    "bibtex": "bib",
    "c": "c h",
    "clojure": "clj cljc cljs edn",
    "cmake": "cmake",
    "cobol": "cob cbl",
    "coffeescript": "coffee",
    "cpp": "cc cpp cxx c++ hh hpp hxx ipp",
    "crystal": "cr",
    "csharp": "cs csx",
    "css": "css",
    "csv": "csv",
    "cuda": "cu cuh",
    "cython": "pyx pxd pxi",
    "d": "d",
    "dart": "dart",
    "diff": "diff patch",
    "elixir": "ex exs",
    "elm": "elm",
    "erlang": "erl hrl",
    "fish": "fish",
    "fortran": "f f77 f90 f95 f03 f08 for",
    "fsharp": "fs fsi fsx",
    "gettext": "po pot",
    "glsl": "glsl vert frag",
    "go": "go",
    "graphql": "graphql gql",
    "groovy": "groovy gradle",
    "haskell": "hs lhs",
    "hcl": "hcl tf tfvars",
    "html": "html htm xhtml",
    "ini": "ini cfg conf properties editorconfig",
    "java": "java",
    "javascript": "js mjs cjs jsx",
    "jinja": "j2 jinja jinja2",
    "json": "json json5 jsonc jsonl ndjson geojson webmanifest",
    "julia": "jl",
    "jupyter": "ipynb",
    "kotlin": "kt kts",
    "latex": "tex sty cls",
    "less": "less",
    "lisp": "lisp lsp cl el",
    "lua": "lua",
    "makefile": "mk mak",
    "markdown": "md markdown mdx",
    "matlab": "matlab",
    "meson": "meson",
    "nim": "nim",
    "nix": "nix",
    "objective-c": "m mm",
    "ocaml": "ml mli",
    "pascal": "pas pp",
    "perl": "pl pm",
    "php": "php phtml",
    "powershell": "ps1 psm1 psd1",
    "prolog": "prolog",
    "protobuf": "proto",
    "puppet": "epp",
    "python": "py pyi pyw",
    "r": "r rmd",
    "racket": "rkt",
    "restructuredtext": "rst",
    "ruby": "rb rake gemspec erb",
    "rust": "rs",
    "sass": "sass scss",
    "scala": "scala sbt sc",
    "scheme": "scm ss",
    "shell": "sh bash zsh ksh",
    "solidity": "sol",
    "sql": "sql",
    "starlark": "bzl star bazel",
    "svelte": "svelte",
    "svg": "svg",
    "swift": "swift",
    "tcl": "tcl",
    "text": "txt text log",
    "thrift": "thrift",
    "toml": "toml",
    "tsv": "tsv",
    "typescript": "ts mts cts tsx",
    "v": "v",
    "vbnet": "vb",
    "verilog": "sv svh",
    "vhdl": "vhd vhdl",
    "vim": "vim",
    "vue": "vue",
    "webassembly": "wat",
    "xml": "xml xsd xsl xslt plist",
    "yaml": "yaml yml",
    "zig": "zig",
}
_NAMES = {
    "dockerfile": "dockerfile",
    "containerfile": "dockerfile",
    "makefile": "makefile",
    "gnumakefile": "makefile",
    "cmakelists.txt": "cmake",
    "meson.build": "meson",
    "build": "starlark",
    "workspace": "starlark",
    "gemfile": "ruby",
    "rakefile": "ruby",
    "vagrantfile": "ruby",
    "jenkinsfile": "groovy",
    "procfile": "yaml",
    "cargo.lock": "toml",
    "poetry.lock": "toml",
    "uv.lock": "toml",
    "pipfile": "toml",
    "go.mod": "go-module",
    "go.sum": "go-module",
    "license": "text",
    "copying": "text",
    "authors": "text",
    "notice": "text",
    "readme": "text",
    "changelog": "text",
    ".gitignore": "gitignore",
    ".dockerignore": "gitignore",
    ".gitattributes": "gitattributes",
    ".gitmodules": "ini",
    ".gitconfig": "ini",
    ".editorconfig": "ini",
    ".bashrc": "shell",
    ".zshrc": "shell",
    ".profile": "shell",
    ".env": "shell",
}
_INTERPRETERS = {
    "awk": "awk",
    "bash": "shell",
    "dash": "shell",
    "fish": "fish",
    "ksh": "shell",
    "lua": "lua",
    "make": "makefile",
    "node": "javascript",
    "perl": "perl",
    "php": "php",
    "python": "python",
    "ruby": "ruby",
    "sh": "shell",
    "tclsh": "tcl",
    "zsh": "shell",
}
_LANGUAGE = {extension: language for language, all_of_it in _EXTENSIONS.items() for extension in all_of_it.split()}

_MIME = {
    "css": "text/css",
    "csv": "text/csv",
    "html": "text/html",
    "javascript": "text/javascript",
    "json": "application/json",
    "jupyter": "application/x-ipynb+json",
    "markdown": "text/markdown",
    "restructuredtext": "text/x-rst",
    "shell": "application/x-sh",
    "sql": "application/sql",
    "svg": "image/svg+xml",
    "text": "text/plain",
    "toml": "application/toml",
    "tsv": "text/tab-separated-values",
    "xml": "application/xml",
    "yaml": "application/yaml",
}
_BUILT_IN = mimetypes.MimeTypes(filenames=())
for _extension, _type in {
    ".7z": "application/x-7z-compressed",
    ".avif": "image/avif",
    ".eot": "application/vnd.ms-fontobject",
    ".flac": "audio/flac",
    ".heic": "image/heic",
    ".jar": "application/java-archive",
    ".mkv": "video/x-matroska",
    ".ogg": "audio/ogg",
    ".otf": "font/otf",
    ".parquet": "application/vnd.apache.parquet",
    ".rar": "application/vnd.rar",
    ".sqlite3": "application/vnd.sqlite3",
    ".ttf": "font/ttf",
    ".wasm": "application/wasm",
    ".webp": "image/webp",
    ".whl": "application/zip",
    ".woff": "font/woff",
    ".woff2": "font/woff2",
}.items():
    # Newer Python versions know some of these, but 3.11 does not.
    _BUILT_IN.add_type(_type, _extension)
_ARCHIVES = frozenset(["7z", "bz2", "gz", "jar", "rar", "tar", "tgz", "war", "whl", "xz", "zip", "zst"])
_SHEBANG = re.compile(rb"#![ \t]*(?:\S*/)?(?:env[ \t]+(?:-S[ \t]+)?)?([A-Za-z]+)").match


def language_of(name: str, head: bytes = b"", *, binary: bool = False) -> str:
    """The language or kind of a file: `python`, `markdown`, `image`, `text`, `binary`. A small set of strings."""
    extension = extension_of(name)[1:].lower()
    if not binary:
        known = _NAMES.get(name.lower()) or _LANGUAGE.get(extension) or _by_prefix(name.lower()) or _interpreter(head)
        if known:
            return known
    if extension in _ARCHIVES:
        return "archive"
    major = (_BUILT_IN.guess_type(f"x.{extension}")[0] or "").partition("/")[0]
    if major in ("image", "audio", "video", "font"):
        return major
    if extension == "pdf":
        return "pdf"
    return "binary" if binary else "text"


def mime_type_of(name: str, language: str, *, binary: bool = False) -> str:
    """The MIME type; ``text/x-<language>`` for a language without a registered type."""
    if language in _MIME:
        return _MIME[language]
    extension = extension_of(name).lower()
    if binary or language in ("image", "audio", "video", "font", "archive", "pdf"):
        kind, encoding = _BUILT_IN.guess_type(f"x{extension}")
        if encoding:
            return {"gzip": "application/gzip"}.get(encoding, f"application/x-{encoding}")
        return kind if kind and not kind.startswith("text/") else "application/octet-stream"
    return f"text/x-{language}"


def extension_of(name: str) -> str:
    """The extension with its dot, as spelled; empty for names like ``.gitignore`` and ``Makefile``."""
    dot = name.rfind(".")
    return name[dot:] if dot > 0 and name[:dot].strip(".") and dot < len(name) - 1 else ""


def _by_prefix(name: str) -> str | None:
    """The language of ``Dockerfile.test``, ``Makefile.am``, ``LICENSE-MIT``: a well-known name with a suffix."""
    stem = re.split(r"[.-]", name, maxsplit=1)[0]
    if not stem or stem == name or stem in ("build", "workspace"):
        return None
    return _NAMES.get(stem)


def _interpreter(head: bytes) -> str | None:
    found = _SHEBANG(head)
    return _INTERPRETERS.get(found[1].decode().lower()) if found else None
