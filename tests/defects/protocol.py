"""Defects of MCP as a protocol: what hosts may ask for beside tools."""

from tests.planting import Bug

BUGS = {
    "33-no-progress": Bug(
        "clients that send a progress token hear nothing", "kgd/mcp/server.py",
        "progress=progress or session.progress", "progress=session.progress",
        ("tests/mcp/test_reporting.py::test_a_folder_that_is_ingested_says_how_far_it_is",),
    ),
    "33-progress-restarts": Bug(
        "progress goes back where the next phase of a tool begins", "kgd/mcp/reporting.py",
        "            base += last\n", "            base, sent = 0, -1\n",
        ("tests/mcp/test_reporting.py::test_progress_only_grows_over_all_phases_and_is_not_sent_for_every_step",),
    ),
    "33-progress-floods": Bug(
        "each step of a tool is a notification", "kgd/mcp/reporting.py", " or clock() < due:", ":",
        ("tests/mcp/test_reporting.py::test_progress_only_grows_over_all_phases_and_is_not_sent_for_every_step",),
    ),
    "33-no-logging": Bug(
        "logging is not offered", "kgd/mcp/server.py",
        '"logging/setLevel", SetLevelRequestParams', '"logging/none", SetLevelRequestParams',
        ("tests/mcp/test_reporting.py::test_a_connection_of_the_handshake_era_gets_every_record_from_its_level",),
    ),
}  # fmt: skip
