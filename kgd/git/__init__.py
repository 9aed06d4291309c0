"""Git repositories: objects, refs, packs, history, remotes, and the place of a workspace's repository."""
