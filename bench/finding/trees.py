"""The code trees of the evaluation: source packages from the registries, with fixed versions and checksums."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath


@dataclass(frozen=True, slots=True)
class Package:
    """A package of a registry."""

    archive: str
    sha256: str
    command: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Beside:
    """Documentation or tests: a folder or file of a package, by default of the tree's own package, placed at `at`."""

    inside: str
    at: str
    package: Package | None = None


@dataclass(frozen=True, slots=True)
class Tree:
    """One code tree: the files of a package below `inside`, placed at `at`; `docs` holds prose about it.

    `beside` is what a repository has besides its package code: documentation, changelogs and tests.
    """

    name: str
    archive: str
    sha256: str
    command: tuple[str, ...]
    inside: str
    at: str
    suffix: str
    docs: str
    beside: tuple[Beside, ...] = ()


_PINO = Package(
    "pino-8.21.0.tgz",
    "fb564251585c53919aff436bb499746f3a81d544180eee246ecc9ef218b97b06",
    ("npm", "pack", "--silent", "pino@8.21.0"),
)
_UNDICI = Package(
    "undici-5.28.4.tgz",
    "48b17531577f563827c5ee80b2c148f118c8f71110ab8213c6d47308339f555a",
    ("npm", "pack", "--silent", "undici@5.28.4"),
)
_BORROWED = (
    Beside("package/docs", "docs/logging", _PINO),
    Beside("package/test", "test/logging", _PINO),
    Beside("package/docs", "docs/requests", _UNDICI),
    Beside("package/README.md", "docs/requests.md", _UNDICI),
)
"""The npm packages of the trees have little documentation and no tests, unlike their repositories: these are from
comparable packages."""
_OWN_PROSE = (Beside("package/README.md", "README.md"), Beside("package/CHANGELOG.md", "CHANGELOG.md"))

TREES = {
    tree.name: tree
    for tree in (
        Tree(
            "django",
            "Django-5.2.tar.gz",
            "1a47f7a7a3d43ce64570d350e008d2949abe8c7e21737b351b6a1611277c6d89",
            (sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", "django", "django==5.2"),
            "django-5.2/django",
            "django",
            ".py",
            "django-5.2/docs",
            (
                *(Beside(f"django-5.2/docs/{name}", f"docs/{name}") for name in ("howto", "intro", "ref", "topics")),
                *(Beside(f"django-5.2/tests/{name}", f"tests/{name}") for name in ("cache", "queries", "view_tests")),
                Beside("django-5.2/README.rst", "README.rst"),
            ),
        ),
        Tree(
            "rxjs",
            "rxjs-7.8.1.tgz",
            "c532167725ab7d085123209156c93cef22f2479cb9c8527060f1cd903aa9d149",
            ("npm", "pack", "--silent", "rxjs@7.8.1"),
            "package/src",
            "src",
            ".ts",
            "package/CHANGELOG.md",
            (*_OWN_PROSE, *_BORROWED),
        ),
        Tree(
            "react-native",
            "react-native-0.70.15.tgz",
            "937d2850f71d42ed4341f0229dc132b95f20c52af290a8557a072e07c2c3d310",
            ("npm", "pack", "--silent", "react-native@0.70.15"),
            "package/ReactAndroid/src/main/java",
            "src/main/java",
            ".java",
            "package/README.md",
            (*_OWN_PROSE, *_BORROWED),
        ),
    )
}
UNSEEN = {
    "celery": Tree(
        "celery",
        "celery-5.4.0.tar.gz",
        "504a19140e8d3029d5acad88330c541d4c3f64c789d85f94756762d8bca7e706",
        (sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", "celery", "celery==5.4.0"),
        "celery-5.4.0/celery",
        "celery",
        ".py",
        "celery-5.4.0/docs",
        (
            Beside("celery-5.4.0/docs", "docs"),
            Beside("celery-5.4.0/t", "t"),
            Beside("celery-5.4.0/README.rst", "README.rst"),
        ),
    )
}
"""Trees of the unseen set."""


def _python(name: str, version: str, sha256: str, inside: str, docs: str = "docs") -> Tree:
    """The tree of a source package of Python, without its tests."""
    top, download = f"{name}-{version}", (sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary")
    code, at = f"{top}/{inside}", inside
    command = (*download, name, f"{name}=={version}")
    return Tree(name, f"{top}.tar.gz", sha256, command, code, at, ".py", f"{top}/{docs}")


AGENTS = {
    tree.name: tree
    for tree in (
        _python("flask", "3.0.3", "ceb27b0af3823ea2737928a4d99d125a06175b8512c445cbd9a9ce200ef76842", "src/flask"),
        _python("alembic", "1.13.2", "1ff0ae32975f4fd96028c39ed9bb3c867fe3af956bd7bb37343b54c9fe7445ef", "alembic"),
        _python("httpie", "3.2.2", "8bfb671f0b39505c197fdef3367f7f99af5d0e81a4e22289bb4c1f0e72251c90", "httpie"),
    )
}
"""Trees of the set `agents`."""


def fetched(package: Tree | Package, folder: Path) -> Path:
    """The archive in the folder, downloaded if absent; another checksum is an error."""
    archive = folder / package.archive
    if not archive.exists():
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(package.command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    found = hashlib.sha256(archive.read_bytes()).hexdigest()
    if found != package.sha256:
        raise SystemExit(f"{archive} has the checksum {found} instead of {package.sha256}: delete it and run again")
    return archive


def unpack(tree: Tree, archive: Path, code: Path) -> None:
    """Write the files of the code tree below `code`."""
    _write(_below(archive, tree.inside), code / tree.at)


def unpack_beside(tree: Tree, folder: Path, code: Path) -> None:
    """Add the documentation and tests of the tree; `folder` has the packages, or gets them."""
    for one in tree.beside:
        _write(_below(fetched(one.package or tree, folder), one.inside), code / one.at)


def _write(files: Sequence[tuple[str, bytes]], at: Path) -> None:
    for name, text in files:
        file = at / name if name else at
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text)


def prose(tree: Tree, archive: Path) -> dict[str, str]:
    """The documentation of the package, by path."""
    return {
        name: text.decode(errors="replace")
        for name, text in _below(archive, tree.docs)
        if not name or name.endswith((".txt", ".md"))
    }


def _below(archive: Path, top: str) -> list[tuple[str, bytes]]:
    """Files of the archive below a path, with names relative to it."""
    found = []
    with tarfile.open(archive) as packed:
        for member in packed:
            path = PurePosixPath(member.name)
            if not member.isfile() or not PurePosixPath(str(path).lower()).is_relative_to(top.lower()):
                continue
            file = packed.extractfile(member)
            assert file is not None
            found.append(("/".join(path.parts[len(PurePosixPath(top).parts) :]), file.read()))
    return found
