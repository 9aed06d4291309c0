"""Setup of the hosts that agents run in: minimal edits of their configuration files."""
