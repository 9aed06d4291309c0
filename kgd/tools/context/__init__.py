"""The tools that brief an agent: context before a change, knowledge at the start of a session, and stale nodes."""
