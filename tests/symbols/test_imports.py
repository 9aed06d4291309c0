"""Imports lead to the files that the language would load; other imports lead nowhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from kgd.overlay.facts import language_of
from kgd.symbols import IMPORTS, Symbols
from kgd.symbols.extraction import extract, language_for
from kgd.symbols.resolution import keys_of, resolve


class Written:
    """A tree, given as texts by path, in the form that the resolver expects."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self.read: dict[str, Symbols] = {}
        self.keys: dict[str, list[str]] = {}
        for path, text in sorted(texts.items()):
            language = language_for(path, language_of(path.rpartition("/")[2]))
            symbols = extract(path, text.encode(), language)
            assert symbols is not None, path
            self.read[path] = symbols
            for key in keys_of(path, symbols):
                self.keys.setdefault(key, []).append(path)

    def symbols(self, path: str) -> Symbols | None:
        return self.read.get(path)

    def files(self, key: str) -> Sequence[str]:
        return self.keys.get(key, [])


def imports(texts: Mapping[str, str]) -> list[str]:
    """The import edges of a tree, as ``source > target``."""
    tree = Written(texts)
    links = [link for path in tree.read for link in resolve(path, tree) if link.type == IMPORTS]
    return sorted(f"{link.source.path} > {link.target.path}" for link in links)


Case = tuple[dict[str, str], list[str]]

PYTHON: dict[str, Case] = {
    "a name of the standard library does not lead to a file deep in the tree": (
        {
            "shop/__init__.py": "",
            "shop/datetime.py": "",
            "shop/orders.py": "import datetime\nfrom datetime import date\n",
        },
        [],
    ),
    "nor to a module beside a script": ({"tools/a.py": "import json\n", "tools/json.py": ""}, []),
    "a folder that is certainly on the path comes before the standard library": (
        {"pyproject.toml": "", "src/queue.py": "", "shop/__init__.py": "import token\n", "token.py": ""},
        ["shop/__init__.py > token.py"],
    ),
    "a package of the standard library's own tree imports its neighbours": (
        {"Lib/json/__init__.py": "import re\n", "Lib/re/__init__.py": ""},
        ["Lib/json/__init__.py > Lib/re/__init__.py"],
    ),
    "a module in a package is not imported by its last name": (
        {"shop/__init__.py": "", "shop/redis.py": "", "shop/orders.py": "import redis\n"},
        [],
    ),
    "a script imports its neighbour, and a package imports from the folder above it": (
        {"tools/a.py": "import b\n", "tools/b.py": "", "app/shop/__init__.py": "import shop.c\n", "app/shop/c.py": ""},
        ["app/shop/__init__.py > app/shop/c.py", "tools/a.py > tools/b.py"],
    ),
    "tests import a package of the source layout": (
        {
            "pyproject.toml": "",
            "src/shop/__init__.py": "",
            "src/shop/a.py": "",
            "tests/test_a.py": "from shop import a\n",
        },
        ["tests/test_a.py > src/shop/a.py"],
    ),
    "a folder that setuptools or pytest names is a root": (
        {
            "setup.cfg": "[options]\npackage_dir =\n    = code\n",
            "pyproject.toml": "[tool.pytest.ini_options]\npythonpath = ['helpers']\n",
            "code/shop/__init__.py": "",
            "helpers/fakes.py": "",
            "tests/test_a.py": "import fakes\nimport shop\n",
        },
        ["tests/test_a.py > code/shop/__init__.py", "tests/test_a.py > helpers/fakes.py"],
    ),
    "a folder with a conftest.py is a root for the tests below it": (
        {"tests/conftest.py": "", "tests/fakes.py": "", "tests/unit/test_a.py": "import fakes\n"},
        ["tests/unit/test_a.py > tests/fakes.py"],
    ),
    "a project imports the package of another project, and no loose module of it": (
        {
            "one/pyproject.toml": "",
            "one/src/first/__init__.py": "",
            "one/loose.py": "",
            "two/pyproject.toml": "",
            "two/second/__init__.py": "import first\nimport loose\n",
        },
        ["two/second/__init__.py > one/src/first/__init__.py"],
    ),
    "a package comes before a module of its name": (
        {"a.py": "", "a/__init__.py": "", "b.py": "import a\n"},
        ["b.py > a/__init__.py"],
    ),
    "only the named module is imported, without the packages around it": (
        {"a/__init__.py": "", "a/b/__init__.py": "", "a/b/c.py": "", "d.py": "import a.b.c\n"},
        ["d.py > a/b/c.py"],
    ),
    "a name that a package re-exports leads to the package, a submodule to its file": (
        {
            "a/__init__.py": "from .b import B\n",
            "a/b.py": "class B: ...\n",
            "c.py": "from a import B\n",
            "d.py": "from a import b\n",
        },
        ["a/__init__.py > a/b.py", "c.py > a/__init__.py", "d.py > a/b.py"],
    ),
    "a package's own name hides its submodule": (
        {"a/__init__.py": "from .run import run\n", "a/run.py": "def run(): ...\n", "b.py": "from a import run\n"},
        ["a/__init__.py > a/run.py", "b.py > a/__init__.py"],
    ),
    "relative imports and namespace packages": (
        {
            "ns/a/b.py": "from . import c\nfrom ..d import e\n",
            "ns/a/c.py": "",
            "ns/d/e.py": "",
            "f.py": "from ns.a import b\n",
        },
        ["f.py > ns/a/b.py", "ns/a/b.py > ns/a/c.py", "ns/a/b.py > ns/d/e.py"],
    ),
}

SCRIPTS: dict[str, Case] = {
    "the compiler's order of extensions": (
        {
            "a.ts": "import './b'\nimport './c.js'\nimport './d'\n",
            "b.ts": "",
            "b.d.ts": "",
            "b.js": "",
            "c.ts": "",
            "d.js": "",
            "d/index.ts": "",
        },
        ["a.ts > b.ts", "a.ts > c.ts", "a.ts > d.js"],
    ),
    "a script imports scripts, TypeScript also declarations": (
        {"a.js": "require('./c')\n", "b.ts": "import './c'\n", "c.d.ts": "", "c.js": ""},
        ["a.js > c.js", "b.ts > c.d.ts"],
    ),
    "folders by their package.json or index": (
        {
            "a.js": "require('./b')\nrequire('./c/')\nrequire('..')\n",
            "b/package.json": '{"main": "./main.js"}',
            "b/main.js": "",
            "c.js": "",
            "c/index.js": "",
        },
        ["a.js > b/main.js", "a.js > c/index.js"],
    ),
    "paths and baseUrl of the nearest tsconfig.json, through extends, with comments": (
        {
            "tsconfig.base.json": '{"compilerOptions": {"paths": {"@app/*": ["./src/app/*"],}}} // end',
            "tsconfig.json": '{/* a */ "extends": "./tsconfig.base.json"}',
            "src/a.ts": "import '@app/b'\nimport '@app/none'\n",
            "src/app/b.ts": "",
            "web/tsconfig.json": '{"compilerOptions": {"baseUrl": "js"}}',
            "web/js/c.ts": "import 'deep/d'\nimport '@app/b'\n",
            "web/js/deep/d.tsx": "",
        },
        ["src/a.ts > src/app/b.ts", "web/js/c.ts > web/js/deep/d.tsx"],
    ),
    "paths of a referenced configuration": (
        {
            "tsconfig.json": '{"files": [], "references": [{"path": "./tsconfig.app.json"}]}',
            "tsconfig.app.json": '{"compilerOptions": {"paths": {"app/*": ["./src/*"]}}}',
            "src/a.ts": "import 'app/b'\n",
            "src/b.ts": "",
        },
        ["src/a.ts > src/b.ts"],
    ),
    "a package of the workspace, where its compiled output is not in the tree": (
        {
            "package.json": '{"workspaces": ["packages/*"]}',
            "packages/a/package.json": '{"name": "@x/a", "exports": '
            '{".": {"types": "./dist/index.d.ts"}, "./*": "./dist/*.js"}}',
            "packages/a/src/index.ts": "",
            "packages/a/src/more.ts": "",
            "packages/b/src/b.ts": "import '@x/a'\nimport '@x/a/more'\nimport '@x/a/none'\nimport 'react'\n",
            "fixtures/react/package.json": '{"name": "react", "main": "index.js"}',
            "fixtures/react/index.js": "",
        },
        ["packages/b/src/b.ts > packages/a/src/index.ts", "packages/b/src/b.ts > packages/a/src/more.ts"],
    ),
    "a workspace of pnpm, and the folder that tsconfig.json compiles": (
        {
            "pnpm-workspace.yaml": "packages:\n  - 'libs/**'\nonlyBuilt: []\n",
            "libs/deep/a/package.json": '{"name": "a", "main": "made/index.js"}',
            "libs/deep/a/tsconfig.json": '{"compilerOptions": {"outDir": "made", "rootDir": "code"}}',
            "libs/deep/a/code/index.ts": "",
            "libs/b/b.ts": "import 'a'\n",
        },
        ["libs/b/b.ts > libs/deep/a/code/index.ts"],
    ),
    "a package by a path, the own package by its name and its private imports": (
        {
            "a/package.json": '{"name": "a", "dependencies": {"b": "file:../b"}, "imports": {"#in/*": "./lib/*.js"}}',
            "a/a.js": "require('b')\nrequire('a')\nrequire('#in/c')\n",
            "a/index.js": "",
            "a/lib/c.js": "",
            "b/package.json": '{"name": "b", "exports": "./b.js"}',
            "b/b.js": "require('b')\n",
            "b/d.js": "require('b')\n",
        },
        ["a/a.js > a/lib/c.js", "a/a.js > b/b.js", "b/d.js > b/b.js"],
    ),
    "Node's own modules are not of the tree": (
        {
            "package.json": '{"workspaces": ["*"]}',
            "events/package.json": '{"name": "events"}',
            "events/index.js": "",
            "a/a.js": "require('events')\nrequire('node:events')\n",
        },
        [],
    ),
    "imports of every form": (
        {
            "a.ts": "import b = require('./b')\nexport * from './c'\nconst d = await import('./d')\n"
            "type E = import('./e').E\n",
            "b.ts": "",
            "c.ts": "",
            "d.ts": "",
            "e.ts": "",
        },
        ["a.ts > b.ts", "a.ts > c.ts", "a.ts > d.ts", "a.ts > e.ts"],
    ),
}

GO: dict[str, Case] = {
    "a package of the module is its files, without tests and ignored files": (
        {
            "go.mod": "module example.com/shop\n",
            "main.go": 'package main\nimport "example.com/shop/money"\n',
            "money/a.go": "package money\n",
            "money/a_test.go": "package money\n",
            "money/gen.go": "//go:build ignore\n\npackage main\n",
        },
        ["main.go > money/a.go"],
    ),
    "a vendored package, and none of another module without a replacement": (
        {
            "go.mod": "module example.com/shop\n",
            "vendor/github.com/x/y/y.go": "package y\n",
            "a.go": 'package shop\nimport (\n"github.com/x/y"\n"example.com/other/z"\n)\n',
            "other/go.mod": "module example.com/other\n",
            "other/z/z.go": "package z\n",
        },
        ["a.go > vendor/github.com/x/y/y.go"],
    ),
    "a replaced module, and the modules of go.work": (
        {
            "one/go.mod": "module example.com/one\n\nreplace example.com/two v1.0.0 => ../two\n",
            "one/a.go": 'package one\nimport "example.com/two/b"\n',
            "two/go.mod": "module example.com/two\n",
            "two/b/b.go": 'package b\nimport "example.com/three"\n',
            "go.work": "go 1.22\nuse (\n\t./two\n\t./three\n)\n",
            "three/go.mod": "module example.com/three\n",
            "three/c.go": "package three\n",
        },
        ["one/a.go > two/b/b.go", "two/b/b.go > three/c.go"],
    ),
    "of two modules of one name, the module around the file": (
        {
            "testdata/x/go.mod": "module m\n",
            "testdata/x/p/p.go": "package p\n",
            "testdata/y/go.mod": "module m\n",
            "testdata/y/p/p.go": "package p\n",
            "testdata/y/a.go": 'package m\nimport "m/p"\n',
        },
        ["testdata/y/a.go > testdata/y/p/p.go"],
    ),
}

RUST: dict[str, Case] = {
    "a path ends at its last module, and at the module that re-exports an item": (
        {
            "Cargo.toml": '[package]\nname = "shop"\n',
            "src/lib.rs": "mod a;\npub use a::Made;\n",
            "src/a.rs": "mod b;\npub struct Made;\n",
            "src/a/b.rs": "use crate::Made;\nuse super::super::a::Made as M;\n",
        },
        ["src/a.rs > src/a/b.rs", "src/a/b.rs > src/a.rs", "src/a/b.rs > src/lib.rs", "src/lib.rs > src/a.rs"],
    ),
    "a module by the path of its attribute, and below an inline module": (
        {
            "Cargo.toml": '[package]\nname = "shop"\n',
            "src/lib.rs": '#[path = "other.rs"]\nmod a;\nmod b { mod c; }\n',
            "src/other.rs": "",
            "src/b/c.rs": "",
        },
        ["src/lib.rs > src/b/c.rs", "src/lib.rs > src/other.rs"],
    ),
    "a module of the binary beside a library": (
        {
            "Cargo.toml": '[package]\nname = "shop"\n',
            "src/lib.rs": "",
            "src/main.rs": "mod cli;\nuse shop::run;\n",
            "src/cli.rs": "use crate::X;\nuse super::Y;\n",
        },
        ["src/cli.rs > src/main.rs", "src/main.rs > src/cli.rs", "src/main.rs > src/lib.rs"],
    ),
    "crates that Cargo.toml gives a path, also through the workspace, and no others": (
        {
            "Cargo.toml": '[workspace.dependencies]\nold-name = { path = "crates/b" }\n',
            "crates/a/Cargo.toml": '[package]\nname = "a"\n[dependencies]\nold-name.workspace = true\nserde = "1"\n'
            'c = { path = "../c" }\n',
            "crates/a/src/lib.rs": "use old_name::x::Y;\nuse serde::Z;\nuse ::c::W;\n",
            "crates/b/Cargo.toml": '[package]\nname = "old-name"\n',
            "crates/b/src/lib.rs": "pub mod x;\n",
            "crates/b/src/x.rs": "",
            "crates/c/Cargo.toml": '[package]\nname = "c"\n[lib]\npath = "c.rs"\n',
            "crates/c/c.rs": "",
            "vendor/serde/Cargo.toml": '[package]\nname = "serde"\n',
            "vendor/serde/src/lib.rs": "",
        },
        [
            "crates/a/src/lib.rs > crates/b/src/x.rs",
            "crates/a/src/lib.rs > crates/c/c.rs",
            "crates/b/src/lib.rs > crates/b/src/x.rs",
        ],
    ),
    "a test and an example are crates of their own": (
        {
            "Cargo.toml": '[package]\nname = "shop"\n',
            "src/lib.rs": "",
            "tests/all.rs": "mod common;\nuse shop::a;\n",
            "tests/common/mod.rs": "use crate::X;\n",
            "examples/e.rs": "extern crate shop;\n",
        },
        ["examples/e.rs > src/lib.rs", "tests/all.rs > src/lib.rs", "tests/all.rs > tests/common/mod.rs"],
    ),
    "a dependency comes before the own library of the same name": (
        {
            "a/Cargo.toml": '[package]\nname = "a"\n[lib]\nname = "b"\n[dependencies]\nb = { path = "../b" }\n',
            "a/src/lib.rs": "mod c;\n",
            "a/src/c.rs": "use b::d::E;\n",
            "b/Cargo.toml": '[package]\nname = "b"\n',
            "b/src/lib.rs": "pub mod d;\n",
            "b/src/d.rs": "",
        },
        ["a/src/c.rs > b/src/d.rs", "a/src/lib.rs > a/src/c.rs", "b/src/lib.rs > b/src/d.rs"],
    ),
    "modules that re-export each other end": (
        {
            "Cargo.toml": '[package]\nname = "a"\n',
            "src/lib.rs": "mod b;\nmod c;\npub use b::*;\npub use c::*;\nuse self::nothing::Here;\n",
            "src/b.rs": "use super::*;\npub use crate::c::deep::*;\n",
            "src/c.rs": "use super::*;\npub use crate::b::deep::*;\n",
        },
        [
            "src/b.rs > src/c.rs",
            "src/b.rs > src/lib.rs",
            "src/c.rs > src/b.rs",
            "src/c.rs > src/lib.rs",
            "src/lib.rs > src/b.rs",
            "src/lib.rs > src/c.rs",
        ],
    ),
}

JAVA: dict[str, Case] = {
    "a class by its declared package, a static import by its class, and nothing of the platform": (
        {
            "src/main/java/org/shop/A.java": "package org.shop;\nimport org.shop.util.B;\nimport java.util.List;\n"
            "import static org.shop.util.C.of;\nclass A {}\n",
            "src/main/java/org/shop/util/B.java": "package org.shop.util;\npublic class B {}\n",
            "src/main/java/org/shop/util/C.java": "package org.shop.util;\npublic class C { static void of() {} }\n",
            "other/List.java": "package other;\nclass List {}\n",
        },
        [
            "src/main/java/org/shop/A.java > src/main/java/org/shop/util/B.java",
            "src/main/java/org/shop/A.java > src/main/java/org/shop/util/C.java",
        ],
    ),
    "of two classes of one name, the class of the same project": (
        {
            "a/A.java": "package p;\nimport q.B;\nclass A {}\n",
            "a/q/B.java": "package q;\nclass B {}\n",
            "0/q/B.java": "package q;\nclass B {}\n",
        },
        ["a/A.java > a/q/B.java"],
    ),
}

CASES = {rule: case for language in (PYTHON, SCRIPTS, GO, RUST, JAVA) for rule, case in language.items()}


@pytest.mark.requirement("U11")
@pytest.mark.parametrize("rule", CASES)
def test_an_import_leads_to_the_file_that_the_language_loads(rule: str) -> None:
    texts, expected = CASES[rule]
    assert imports(texts) == sorted(expected)


@pytest.mark.parametrize(
    "name",
    [
        "pyproject.toml",
        "setup.cfg",
        "package.json",
        "tsconfig.json",
        "go.mod",
        "go.work",
        "Cargo.toml",
        "lerna.json",
        "pnpm-workspace.yaml",
    ],
)
def test_a_manifest_of_any_content_is_read_without_an_error(name: str) -> None:
    texts = (
        b"",
        b"\xff\0",
        b"[",
        b'{"a"',
        b"[]",
        b"1",
        b'{"workspaces": 3, "exports": [[]], "name": {}}',
        b"[package]\nname = 3\n",
        b"[tool]\nsetuptools = 3\n",
        b"packages:",
        b"module \n",
        b"[" * 5_000,
    )
    for text in texts:
        found = extract(f"a/{name}", text, "manifest")
        assert found is not None
        assert all(isinstance(part, str) for one in found.imports for part in one)
