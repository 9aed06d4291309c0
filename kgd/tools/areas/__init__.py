"""The tools of specs/knowledge-areas.md: areas of a codebase, the knowledge about them, and their history."""
