"""This room is where the tools of specs/knowledge-areas.md are: areas of a codebase, what to know there, and why."""
