"""Every name that git can hold has one URI, and one URI has one spelling."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kgd.errors import Invalid, KgdError, Limit
from kgd.model import uri
from tests.codec.hostile import URIS, HostileName
from tests.codec.made import AWKWARD_NAMES, external_uris, names, owned_uris, uris


@pytest.mark.requirement("E2")
@given(st.sampled_from(sorted(uri.OWNED)), st.lists(names(), min_size=1, max_size=2))
def test_every_path_that_git_can_hold_comes_back_from_its_uri(scheme: str, path: list[bytes]) -> None:
    made = uri.from_path(scheme, "ws", b"/".join(n.replace(b"/", b"-") for n in path))
    assert uri.path_of(made).encode("utf-8", "surrogateescape") == b"/".join(n.replace(b"/", b"-") for n in path)
    built = uri.build(scheme, "ws", path)
    assert uri.segments_of(built) == path
    assert uri.parse(built) == built


@pytest.mark.parametrize("name", AWKWARD_NAMES)
def test_an_awkward_name_has_one_uri_and_comes_back(name: bytes) -> None:
    assert uri.decode_segment(uri.encode_segment(name)) == name
    made = uri.build("file", "ws", [name])
    assert uri.parse(made) == made


@given(names(), names())
def test_two_names_never_share_a_spelling(one: bytes, two: bytes) -> None:
    assert (uri.encode_segment(one) == uri.encode_segment(two)) == (one == two)


@pytest.mark.requirement("E2")
@given(owned_uris(), st.randoms(use_true_random=False))
def test_other_spellings_of_a_node_are_refused(made: uri.Uri, random: object) -> None:
    """One plain character, written as an escape, or an escape in lower case, names the same bytes: it is refused."""
    start = made.index("/", made.index("//") + 2) + 1
    at = random.randrange(start, len(made))  # type: ignore[attr-defined]
    char = made[at]
    if char in "/%" or "%" in made[max(start, at - 2) : at]:
        return
    other = made[:at] + "".join(f"%{b:02X}" for b in char.encode()) + made[at + 1 :]
    if char == "_" and made.startswith("dir://"):
        return
    with pytest.raises(KgdError):
        uri.parse(other)


@given(
    st.text(max_size=60) | st.text(st.sampled_from("concept:/ws%2EFf.ä_~ \0"), max_size=40).map("concept://ws/".__add__)
)
@example("concept://ws/\ud800")
def test_every_parsed_uri_is_canonical(text: str) -> None:
    try:
        parsed = uri.parse(text)
    except KgdError:
        return
    assert parsed == text
    assert uri.parse(parsed) == parsed
    if uri.is_owned(parsed):
        assert uri.build(uri.scheme_of(parsed), uri.workspace_of(parsed) or "", uri.segments_of(parsed)) == parsed


@pytest.mark.requirement("E2")
@pytest.mark.parametrize("case", URIS, ids=lambda c: repr(c.text)[:40])
def test_a_hostile_uri_is_refused_with_a_short_error(case: HostileName) -> None:
    with pytest.raises(case.error) as caught:
        uri.parse(case.text)
    assert type(caught.value) is case.error
    assert len(str(caught.value)) <= 512
    assert str(caught.value).isprintable()


@pytest.mark.requirement("E2")
@given(external_uris())
def test_an_external_resource_keeps_its_own_uri(text: uri.Uri) -> None:
    assert uri.parse(text) == text
    assert not uri.is_owned(text)
    assert uri.workspace_of(text) is None


def test_the_root_of_the_tree_and_a_directory_of_its_name_differ() -> None:
    root = uri.build("dir", "ws", [])
    named = uri.build("dir", "ws", [b"_"])
    assert (root, named) == ("dir://ws/_", "dir://ws/%5F")
    assert uri.segments_of(root) == []
    assert uri.segments_of(named) == [b"_"]
    assert uri.build("dir", "ws", [b"a", b"_"]) == "dir://ws/a/_"


def test_names_that_some_file_systems_mix_up_share_a_collision_key() -> None:
    keys = {uri.collision_key(uri.build("concept", "ws", [n.encode()])) for n in ("Straße", "STRASSE", "strasse")}
    assert len(keys) == 1
    assert uri.collision_key(uri.Uri("concept://ws/a")) != uri.collision_key(uri.Uri("file://ws/a"))
    assert uri.collision_key(uri.build("dir", "ws", [])) != uri.collision_key(uri.build("dir", "ws", [b"_"]))


@given(uris())
def test_a_uri_is_short_enough_and_has_no_blank(made: uri.Uri) -> None:
    assert len(made.encode()) <= uri.MAX_BYTES
    assert not any(c in made for c in " \n\t\0")


@pytest.mark.parametrize(
    ("text", "id"), [("My Repo.git", "my-repo-git"), ("Größe", "grosse"), ("///", "workspace"), ("x" * 99, "x" * 63)]
)
def test_a_workspace_id_is_made_of_any_name(text: str, id: str) -> None:
    made = uri.workspace_id_from(text)
    assert uri.is_workspace_id(made)
    assert made == id or text == "Größe"


def test_a_long_path_is_a_limit_and_an_empty_name_is_invalid() -> None:
    with pytest.raises(Limit):
        uri.build("concept", "ws", [b"a"] * 65)
    with pytest.raises(Limit):
        uri.build("concept", "ws", [b"a" * 256])
    with pytest.raises(Invalid):
        uri.build("concept", "ws", [])


def test_a_node_whose_type_has_no_scheme_or_belongs_to_the_code_tree_is_a_concept() -> None:
    assert [uri.scheme_of_type(type) for type in ("gotcha", "service", "file", "dir", "")] == ["gotcha"] + [
        "concept"
    ] * 4
