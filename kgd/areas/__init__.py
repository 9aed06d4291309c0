"""Areas of a codebase: path patterns, the files they match, coverage, and changelogs."""
