"""Sync with git remotes, hub clients, and clones."""
