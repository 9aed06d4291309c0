"""Everything that touches a git repository: objects, refs, packs, history and where a repository lives."""
