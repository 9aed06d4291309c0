"""Facts about a file in the code tree, read once and cached while its stamps stay the same; languages and MIME types.

A language depends only on this file and the standard library's built-in table, so two machines with different
``/etc/mime.types`` agree.
"""

from __future__ import annotations

import mimetypes
import os
import re
import stat
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

TEXT: Final = "text"
BINARY: Final = "binary"
LARGE: Final = "large"
"""A text file, judged by its beginning, that is too large to count its lines."""
UNREADABLE: Final = "unreadable"
SYMLINK: Final = "symlink"
UNREAD: Final = "unread"
"""A file that was not read yet, because the scan was interrupted."""

COUNTED_BYTES = 8 << 20
"""Maximum size in bytes of a file whose lines are counted."""
HEAD_BYTES = 8 << 10
"""A NUL byte among these makes a file binary, as in git."""
_CHUNK = 256 << 10

_FINE_TICK_NS = 50_000_000
_COARSE_TICK_NS = 2_000_000_000
_SECOND_NS = 1_000_000_000
_FIRST_MOMENT = datetime(1, 1, 1, tzinfo=UTC)
_LAST_MOMENT = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)


class File(NamedTuple):
    """The cached facts about one file. A hundred thousand are in memory, so everything else is computed on demand.

    `ctime_ns` is 0 if the stamps do not prove anything (`stamps_settled`); the next scan reads such a file again.
    """

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    content: str
    lines: int
    file_type: str

    def has_stamps_of(self, found: os.stat_result) -> bool:
        """Whether the file on disk is still the file that was read."""
        stamps = (self.ctime_ns, self.mtime_ns, self.size, self.inode)
        same = stamps == (found.st_ctime_ns, found.st_mtime_ns, found.st_size, found.st_ino)
        return same and self.content not in (UNREAD, UNREADABLE)

    def says_the_same_as(self, other: File) -> bool:
        """Whether both have the same visible facts, regardless of other stamps."""
        return self[:2] == other[:2] and self[4:] == other[4:]


def unread(found: os.stat_result) -> File:
    """A file known only from its directory entry. For a symlink, this is all, because its target is not read."""
    content, file_type = (SYMLINK, SYMLINK) if stat.S_ISLNK(found.st_mode) else (UNREAD, "")
    return File(found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino, content, 0, file_type)


def read(path: str, name: str, file: File, now_ns: int) -> File:
    """The file with the facts about its content. Reads at most `COUNTED_BYTES`; never raises for the content."""
    try:
        # A plain open would block on a FIFO that replaced the file since it was listed.
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return file._replace(content=UNREADABLE, file_type=language_of(name))
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return file._replace(content=UNREADABLE, file_type=language_of(name))
        content, lines, file_type = _look_into(fd, name, file.size)
    except OSError:
        return file._replace(content=UNREADABLE, file_type=language_of(name))
    finally:
        os.close(fd)
    settled = stamps_settled(file.ctime_ns, now_ns)
    return file._replace(content=content, lines=lines, file_type=file_type, ctime_ns=file.ctime_ns if settled else 0)


def stamps_settled(ctime_ns: int, now_ns: int) -> bool:
    """Whether any change after `now_ns` will have another stamp.

    File systems have time stamps of limited resolution (4 ms, or 1 to 2 s on FAT and some network mounts). A file that
    is read within that time of its last change can change again without a different stamp; git calls such entries
    "racily clean".
    """
    tick = _FINE_TICK_NS if ctime_ns % _SECOND_NS else _COARSE_TICK_NS
    return ctime_ns + tick < now_ns


def data_of(name: str, file: File) -> dict[str, Any]:
    """The facts about a file, in the form that is served and, with `--store`, stored."""
    binary = file.content == BINARY
    data: dict[str, Any] = {
        "file_type": file.file_type or language_of(name),
        "extension": readable(extension_of(name)),
        "size_bytes": file.size,
    }
    if file.content == TEXT:
        data["line_count"] = file.lines
    elif file.content == LARGE:
        data["line_count_skipped"] = f"larger than {COUNTED_BYTES >> 20} MiB"
    if file.content == SYMLINK:
        data["mime_type"] = "inode/symlink"
    else:
        data["mime_type"] = mime_type_of(name, data["file_type"], binary=binary)
    data["last_modified"] = utc(file.mtime_ns)
    if file.content in (BINARY, SYMLINK, UNREADABLE):
        data[file.content] = True
    return data


def summary_of(file: File) -> str:
    """One line about the file: ``python, 120 lines, 4.2 kB``."""
    if file.content == SYMLINK:
        return "symbolic link"
    words = [file.file_type] if file.file_type else []
    if file.content == TEXT:
        words.append("1 line" if file.lines == 1 else f"{file.lines} lines")
    words.append(readable_size(file.size))
    if file.content == UNREADABLE:
        words.append("cannot be read")
    return ", ".join(words)


def utc(time_ns: int) -> str:
    """ISO 8601 in UTC, to the second; times outside the calendar are clamped."""
    try:
        moment = datetime.fromtimestamp(time_ns // _SECOND_NS, UTC)
    except (OverflowError, ValueError, OSError):
        moment = _LAST_MOMENT if time_ns > 0 else _FIRST_MOMENT
    return moment.replace(tzinfo=None).isoformat(timespec="seconds") + "Z"


def readable_size(size: int) -> str:
    if size < 1000:
        return f"{size} B"
    power = 1
    while size >= 999.5 * 1000**power and power < 4:
        power += 1
    amount = size / 1000**power
    unit = ("kB", "MB", "GB", "TB")[power - 1]
    return f"{amount:.1f} {unit}" if amount < 9.95 else f"{amount:.0f} {unit}"


def readable(name: str) -> str:
    """A name of arbitrary bytes as text that JSON and YAML can represent."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _look_into(fd: int, name: str, size: int) -> tuple[str, int, str]:
    """Content kind, number of lines, file type."""
    head = os.read(fd, HEAD_BYTES if size > COUNTED_BYTES else _CHUNK)
    if b"\0" in head[:HEAD_BYTES]:
        return BINARY, 0, language_of(name, binary=True)
    file_type = language_of(name, head)
    if size > COUNTED_BYTES:
        return LARGE, 0, file_type
    lines, seen, part, last = 0, 0, head, b"\n"
    while part:
        lines += part.count(b"\n")
        last = part[-1:]
        seen += len(part)
        if seen >= size:
            # Appended data changes the stamps; following a growing file might never end.
            break
        part = os.read(fd, _CHUNK)
    return TEXT, lines + (last != b"\n"), file_type


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
