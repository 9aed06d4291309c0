"""The files in `deploy/` are valid by the schemas of the programs that read them. Kubernetes and Compose do not run."""

from __future__ import annotations

import importlib.resources
import json
import os
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from kgd.config import Home
from kgd.config.registry import RegistryFile
from tests.conftest import ROOT
from tests.hubs.balancer import PROGRAM

DEPLOY = ROOT / "deploy"
PLACES = {"BIND": "127.0.0.1:7600", **{f"HUB{number}": f"127.0.0.1:{number}" for number in (1, 2, 3)}}


def manifests() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()))


@pytest.mark.parametrize("version", ["1.29", kubernetes_validate.latest_version()])
def test_the_manifests_are_valid(version: str) -> None:
    for manifest in manifests():
        kubernetes_validate.validate(manifest, version, strict=True)


def test_the_manifests_belong_together() -> None:
    by_kind: dict[str, list[dict[str, Any]]] = {}
    for one in manifests():
        by_kind.setdefault(one["kind"], []).append(one)
    labels = [one["spec"]["template"]["metadata"]["labels"] for one in by_kind["Deployment"]]
    for one in by_kind["Deployment"]:
        assert one["spec"]["selector"]["matchLabels"] == one["spec"]["template"]["metadata"]["labels"]
    assert all(one["spec"]["selector"] in labels for one in by_kind["Service"])
    assert [one["spec"]["selector"]["matchLabels"] for one in by_kind["PodDisruptionBudget"]] == labels
    hub = by_kind["Deployment"][0]["spec"]["template"]["spec"]
    assert int(hub["containers"][0]["args"][-1]) + 25 < hub["terminationGracePeriodSeconds"]


def test_the_compose_file_is_valid() -> None:
    found = importlib.resources.files("check_jsonschema.builtin_schemas.vendor").joinpath("compose-spec.json")
    jsonschema.validate(yaml.safe_load((DEPLOY / "compose.yaml").read_text()), json.loads(found.read_text()))


def test_only_what_the_image_needs_is_sent_to_its_build() -> None:
    lines = [one for one in (ROOT / ".dockerignore").read_text().splitlines() if not one.startswith("#")]
    sent = {one[1:] for one in lines if one.startswith("!")}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    used = set(re.findall(r"/src/(\S+)", (DEPLOY / "Containerfile").read_text()))
    packaged = {*project["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"], project["project"]["readme"]}
    assert lines[0] == "*"
    assert sent == {*used, *packaged, "pyproject.toml", "LICENSE", ".gitignore"}


@pytest.mark.needs("haproxy")
@pytest.mark.parametrize("where", ["haproxy.cfg", "kubernetes.yaml"])
def test_the_load_balancer_takes_its_configuration(where: str, tmp_path: Path) -> None:
    text = (DEPLOY / where).read_text()
    if where == "kubernetes.yaml":
        text = next(one for one in manifests() if one["kind"] == "ConfigMap")["data"]["haproxy.cfg"]
    (tmp_path / "haproxy.cfg").write_text(text)
    command = [str(PROGRAM), "-c", "-f", str(tmp_path / "haproxy.cfg")]
    done = subprocess.run(command, env={**os.environ, **PLACES}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr


def test_the_workspaces_of_the_example_are_a_registry(tmp_path: Path) -> None:
    home = Home.at(str(tmp_path))
    home.prepare()
    Path(home.registry).write_text((DEPLOY / "workspaces.yaml").read_text())
    file = RegistryFile(home)
    assert list(file.current().entries) == ["infra"]
    assert not file.problem


def test_each_option_of_the_hubs_exists() -> None:
    known = (ROOT / "docs/cli.md").read_text()
    for name in ("compose.yaml", "kubernetes.yaml", "start-hub", "Containerfile", "kgd-hub.service"):
        lines = (line for line in (DEPLOY / name).read_text().splitlines() if not line.lstrip().startswith("#"))
        used = re.findall(r"(?<![\w-])--(listen|state|drain|behind-proxy|workspace|tls-\w+)", "\n".join(lines))
        assert [one for one in used if f"`--{one}" not in known] == []


def test_programs_that_the_guide_runs_in_a_container_are_in_the_image() -> None:
    guide = (ROOT / "docs/guides/operate.md").read_text()
    assert set(re.findall(r"compose\.yaml exec \S+ (\S+)", guide)) == {"kgd", "python"}
