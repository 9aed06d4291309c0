"""Advertised tools: short, correct and complete descriptions and schemas."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from kgd.mcp.prompts import INSTRUCTIONS
from kgd.tools import LOCAL, TOOLS
from kgd.tools.parameters import brief_schema, input_schema, output_schema
from kgd.tools.reference import updated

DOCS = Path(__file__).parents[2] / "docs" / "mcp.md"


def test_the_instructions_are_not_cut_by_hosts() -> None:
    assert len(INSTRUCTIONS) < 4_000


def test_every_tool_is_described_in_fewer_than_600_characters() -> None:
    for tool in [*TOOLS.values(), *LOCAL.values()]:
        assert 0 < len(tool.description) < 600, tool.name


def test_tools_have_the_parameters_of_the_contract() -> None:
    expected = {
        "search": "query types tags namespace author area stale edge_types max_depth include lanes min_score since"
        " until limit budget cursor",
        "get": "uris include as_of conflicts budget cursor context_id",
        "traverse": "start to max_cost max_depth edge_types types direction max_nodes budget as_of conflicts include"
        " cursor context_id",
        "context": "paths task question include since until budget context_id",
        "query_graph": "operation entityType id projectId paths query moleculeId orphansOnly includeChangelog"
        " changelogLimit limit offset",
        "manage_graph": "operation entityType id version projectId name paths knowledge knowledgeMode moleculeId"
        " relatedAtoms relatedMolecules createdByTaskId lastTaskId cascade",
        "manage_changelog": "operation parentType parentId taskId summary limit offset since until projectId",
        "put": "changes message request_id dry_run conflicts",
        "history": "uri commit since until author path diff limit cursor",
        "status": "",
        "ingest": "source text kind uri dry_run",
        "sync": "remote direction confirm",
        "resolve_conflicts": "ids resolutions via",
        "submit_subgraph": "remote changes roots max_cost base message request_id",
    }
    found = {name: set(input_schema(tool.Params)["properties"]) - {"workspace"} for name, tool in TOOLS.items()}
    assert found == {name: set(names.split()) for name, names in expected.items()}


@pytest.mark.parametrize("name", [*TOOLS, *LOCAL])
def test_schemas_are_plain_objects_without_references(name: str) -> None:
    tool = TOOLS.get(name) or LOCAL[name]
    for schema in (brief_schema(tool.Params), input_schema(tool.Params), output_schema(tool.Result)):
        assert schema["type"] == "object"
        assert b"$ref" not in orjson.dumps(schema)


@pytest.mark.parametrize("name", [*TOOLS, *LOCAL])
def test_the_brief_schema_has_every_parameter_and_forbids_others(name: str) -> None:
    tool = TOOLS.get(name) or LOCAL[name]
    brief, full = brief_schema(tool.Params), input_schema(tool.Params)
    assert list(brief["properties"]) == list(full["properties"])
    assert brief["additionalProperties"] is False
    assert brief.get("required") == full.get("required")


@pytest.mark.slow
def test_the_reference_in_the_docs_is_what_the_models_say() -> None:
    text = DOCS.read_text()
    assert text == updated(text), "run `python -m kgd.tools.reference docs/mcp.md`"
