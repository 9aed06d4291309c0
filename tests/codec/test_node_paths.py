"""A URI has one file, a file has one URI, and neither leaves the node folders."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgd.codec import paths
from kgd.errors import Invalid
from kgd.model.uri import Uri, build, parse
from tests.codec.hostile import PATHS, HostileName
from tests.codec.made import AWKWARD_NAMES, external_uris, names, owned_uris, uris
from tests.conftest import ROOT

VECTORS = json.loads((ROOT / "docs/format/paths.json").read_text())

WINDOWS_DEVICES = re.compile(r"(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])(\..*)?", re.I)

shardings = st.sampled_from([frozenset[str](), frozenset({"concept"}), frozenset({"file", "message"})])


@pytest.mark.requirement("E2")
@pytest.mark.parametrize("vector", VECTORS["paths"], ids=lambda v: v["uri"][:50])
def test_the_path_of_a_uri_follows_the_format_document(vector: dict[str, str]) -> None:
    sharded = frozenset(vector.get("sharded", ()))
    assert paths.path_of(parse(vector["uri"]), sharded) == vector["path"]
    expected = None if vector.get("hashed") else vector["uri"]
    assert paths.uri_of(vector["path"], "ws", sharded) == expected


@pytest.mark.parametrize("vector", VECTORS["shards"], ids=lambda v: v["segment"])
def test_the_shard_of_a_segment_follows_the_format_document(vector: dict[str, str]) -> None:
    assert paths.shard(vector["segment"].encode()) == vector["shard"]


@pytest.mark.requirement("E2")
@given(owned_uris(), shardings)
def test_a_path_gives_back_its_uri_or_says_that_it_cannot(uri: Uri, sharded: frozenset[str]) -> None:
    path = paths.path_of(uri, sharded)
    assert paths.uri_of(path, "ws", sharded) == (None if re.search("~[0-9a-f]{16}(/|.yaml)", path) else uri)
    assert paths.is_node_path(path)


@given(external_uris())
def test_the_path_of_an_external_resource_gives_it_back_exactly_or_not_at_all(uri: Uri) -> None:
    path = paths.path_of(uri)
    assert paths.uri_of(path, "ws") in (uri, None)
    assert paths.is_node_path(path)


@pytest.mark.requirement("E2")
@given(st.lists(uris(), min_size=2, max_size=8, unique=True), shardings)
def test_two_nodes_never_share_a_file(several: list[Uri], sharded: frozenset[str]) -> None:
    assert len({paths.path_of(uri, sharded) for uri in several}) == len(several)


@given(st.lists(names(), min_size=1, max_size=3), st.lists(names(), min_size=1, max_size=3))
def test_no_file_stands_where_another_node_needs_a_folder(one: list[bytes], two: list[bytes]) -> None:
    file = paths.path_of(build("concept", "ws", one[:2]))
    other = paths.path_of(build("concept", "ws", two[:2]))
    assert not other.startswith(file + "/")
    assert not paths.conflict_path(build("concept", "ws", one[:2]), "0" * 16).startswith(file + "/")


@pytest.mark.requirement("E2")
@given(uris(), shardings)
def test_no_path_leaves_the_node_folders_or_upsets_a_file_system(uri: Uri, sharded: frozenset[str]) -> None:
    for path, top in (
        (paths.path_of(uri, sharded), "nodes"),
        (paths.conflict_path(uri, "0123456789abcdef", sharded), "conflicts"),
        (paths.log_path(uri, "01ARZ3NDEKTSV4RRFFQ69G5FAV", sharded), "log"),
    ):
        assert not re.search("[\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]", path), "invisible characters"
        head, *rest = path.split("/")
        assert head == top
        assert len(path.encode()) <= paths.PATH_BYTES + 250
        for name in rest:
            assert name
            assert 0 < len(name.encode()) <= 205 + 5
            assert not name.startswith((".", " ")), "hidden, or lost by some tools"
            assert not name.endswith((".", " ")), "Windows drops them"
            assert not re.search(r'[\x00-\x1f\x7f\\:*?"<>|]', name)
            assert not WINDOWS_DEVICES.fullmatch(name)
            assert not name.lower().startswith(("git~", ".git"))
        assert not any(name.lower().endswith(".yaml") for name in rest[:-1])


@pytest.mark.requirement("E2")
@pytest.mark.parametrize("case", PATHS, ids=lambda c: repr(c.text)[:50])
def test_a_path_that_kgd_never_writes_is_no_nodes(case: HostileName) -> None:
    with pytest.raises(case.error) as caught:
        paths.uri_of(case.text, "ws")
    assert len(str(caught.value)) <= 512
    assert str(caught.value).isprintable()


@given(st.text(max_size=60) | st.text(st.sampled_from("ab/.%2Eyml~_ä\0"), max_size=40).map("nodes/concept/".__add__))
def test_any_path_is_a_nodes_or_refused(path: str) -> None:
    try:
        uri = paths.uri_of(path, "ws")
    except Invalid:
        return
    assert uri is None or paths.path_of(uri) == path


@given(owned_uris())
def test_the_fast_path_agrees_with_the_rules(uri: Uri) -> None:
    for sharded in (frozenset[str](), frozenset({"concept"})):
        assert paths.path_of(uri, sharded) == "/".join(["nodes", *paths._names(uri, sharded)]) + ".yaml"


def test_git_takes_every_path_in_its_strictest_setting(tmp_path: Path) -> None:
    """`git update-index` verifies names like checkout does, for Windows and macOS too."""
    several = [paths.path_of(build("concept", "ws", [n, m])) for n in AWKWARD_NAMES for m in (n, b"x")]
    git = ["git", "-c", "core.protectNTFS=true", "-c", "core.protectHFS=true", "-C", str(tmp_path)]
    subprocess.run([*git, "init", "-q"], check=True)
    blob = subprocess.run([*git, "hash-object", "-w", "--stdin"], input=b"", capture_output=True, check=True)
    rows = b"".join(b"100644 %s\t%s\0" % (blob.stdout.strip(), path.encode()) for path in several)
    done = subprocess.run([*git, "update-index", "-z", "--add", "--index-info"], input=rows, capture_output=True)
    assert done.returncode == 0, done.stderr
    listed = subprocess.run([*git, "ls-files", "-z"], capture_output=True, check=True).stdout
    assert sorted(listed.decode().split("\0")[:-1]) == sorted(set(several))


def test_siblings_below_a_cut_folder_stay_together() -> None:
    one, two = (paths.path_of(build("concept", "ws", [b"*" * 100, n])) for n in (b"a", b"b"))
    assert one.rpartition("/")[0] == two.rpartition("/")[0]


def test_logs_and_conflicts_lie_in_a_folder_named_like_the_node() -> None:
    atom = Uri("atom://ws/checkout-page")
    assert paths.log_path(atom, "01X") == f"log/atom/{paths.shard(b'checkout-page')}/checkout-page/01X.yaml"
    assert paths.conflict_path(Uri("concept://ws/a/b"), "0" * 16) == "conflicts/concept/a/b/0000000000000000.yaml"
