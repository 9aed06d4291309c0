"""`kgd.yaml` holds team-wide settings, and the first commit is the same everywhere."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kgd.codec import settings as settings_file
from kgd.codec.settings import Settings
from kgd.errors import Invalid, KgdError, Unavailable
from kgd.model.access import Scope, scopes_of
from kgd.workspace.merging.files import merge_file


def test_settings_read_back_and_keep_unknown_keys() -> None:
    text = b"workspace: infra\nformat: 1\nmerge_rules: 1\nsharded:\n- message\nshape:\n  /infra/**: ada\n"
    settings = settings_file.decode_settings(text)
    assert settings == Settings("infra", sharded=frozenset({"message"}), others={"shape": {"/infra/**": "ada"}})
    assert settings_file.decode_settings(settings_file.encode_settings(settings)) == settings


def test_a_rewrite_keeps_comments_and_unknown_keys() -> None:
    text = b"# ours\nworkspace: infra # fixed\nformat: 1\nshape: {a: b} # soon\n"
    settings = replace(settings_file.decode_settings(text), merge_rules=2)
    written = settings_file.rewrite_settings(text, settings)
    assert settings_file.decode_settings(written, newer=True) == settings
    assert written == b"# ours\nworkspace: infra # fixed\nformat: 1\nmerge_rules: 2\nshape: {a: b} # soon\n"


@pytest.mark.parametrize("newer", [b"format: 2", b"merge_rules: 2"])
def test_a_newer_format_and_newer_rules_are_reported_and_can_still_be_read(newer: bytes) -> None:
    text = b"workspace: infra\n" + newer + b"\nnew: {a: 1}\n"
    with pytest.raises(Unavailable) as caught:
        settings_file.decode_settings(text)
    assert caught.value.at == "kgd.yaml:2"
    assert "Upgrade" in caught.value.next
    assert settings_file.decode_settings(text, newer=True).workspace == "infra"


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"format: 1\n",
        b"workspace: Infra\n",
        b"workspace: 5\n",
        b"workspace: a\nformat: one\n",
        b"workspace: a\nformat: 0\n",
        b"workspace: a\nsharded: [https]\n",
        b"workspace: a\nsharded: message\n",
        b"workspace: a\nmerge_rules: true\n",
        b"workspace: a\nworkspace: b\n",
        b"<<<<<<< a\nworkspace: a\n",
        b"[" * 4000,
        b"workspace: &a a\n",
    ],
)
def test_bad_settings_are_refused_with_their_line(text: bytes) -> None:
    with pytest.raises(KgdError) as caught:
        settings_file.decode_settings(text)
    assert caught.value.at.startswith("kgd.yaml")


def test_the_first_files_are_a_pure_function() -> None:
    assert settings_file.first_files("infra") == {
        ".gitattributes": b"* -text\nnodes/** merge=kgd\nmemories/** merge=kgd\nlog/** merge=kgd\nbulk/** merge=kgd\n"
        b"conflicts/** merge=kgd\n",
        "kgd.yaml": b"workspace: infra\nformat: 1\nmerge_rules: 1\n",
    }
    one, two = (settings_file.first_files("infra", frozenset(s)) for s in (["task", "message"], ["message", "task"]))
    assert one == two
    assert one["kgd.yaml"].endswith(b"sharded:\n- message\n- task\n")
    with pytest.raises(Invalid):
        settings_file.first_files("Infra")


def test_settings_that_are_no_mapping_get_their_own_message() -> None:
    with pytest.raises(Invalid, match="must be a mapping") as refused:
        settings_file.decode_settings(b"- a\n- b\n")
    assert "uri" not in f"{refused.value.message} {refused.value.next}"


def test_settings_with_a_policy_survive_as_plain_values() -> None:
    """Merges and settlements work on the plain values."""
    text = b'workspace: infra\npolicy:\n- paths:\n  - "/**"\n  agents: propose\nowner: ann\n'
    settings = settings_file.decode_settings(text)
    assert settings_file.settings_from_plain(settings_file.plain_settings(settings)) == settings


GROUPS = """workspace: infra
groups:
- group: company:platform
  verbs: [read, write]
- group: company:*
  paths: [/services/**]
"""


@pytest.mark.requirement("N7")
def test_settings_map_groups_to_scopes_and_keep_the_bytes_of_other_versions() -> None:
    settings = settings_file.decode_settings(GROUPS.encode())
    platform, everyone = settings.grants
    assert (platform.group, platform.scope) == ("company:platform", Scope.of("infra", ["read", "write"], ["/**"]))
    assert (everyone.group, everyone.scope) == ("company:*", Scope.of("infra", ["read"], ["/services/**"]))
    assert scopes_of({"company:*"}, settings.grants) == (everyone.scope,)
    assert scopes_of({"other:*", "company"}, settings.grants) == ()
    assert settings_file.decode_settings(settings_file.encode_settings(settings)) == settings
    assert list(settings_file.misspelt_settings(settings)) == []


@pytest.mark.parametrize(
    ("grant", "line", "said"),
    [
        ("- verbs: [read]", 4, "needs a group"),
        ("- group: platform", 4, "needs a group"),
        ("- {group: 'a:b', verbs: [fly]}", 4, "'fly' is not a verb"),
        ("- {group: 'a:b', verbs: [admin], paths: [/x]}", 4, "all paths"),
        ("- {group: 'a:b', path: [/x]}", 4, "has no 'path'"),
        ("- {group: 'a:b', paths: /x}", 4, "list of strings"),
    ],
)
def test_a_malformed_grant_is_refused_with_its_line(grant: str, line: int, said: str) -> None:
    with pytest.raises(Invalid, match=said) as caught:
        settings_file.decode_settings(f"workspace: infra\ngroups:\n- group: a:b\n{grant}\n".encode())
    assert caught.value.at == f"kgd.yaml:{line}"


def test_both_sides_of_a_merge_may_change_settings_with_a_policy() -> None:
    policy = '\npolicy:\n- paths:\n  - "/**"\n  agents: propose\n'
    base, ours, theirs = (f"workspace: infra{policy}{more}".encode() for more in ("", "owner: ann\n", "team: web\n"))
    merged = merge_file("kgd.yaml", base, ours, theirs)
    assert merged.data is not None
    settings = settings_file.decode_settings(merged.data)
    assert (settings.others, len(settings.rules)) == ({"owner": "ann", "team": "web"}, 1)
