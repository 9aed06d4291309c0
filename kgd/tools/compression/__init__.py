"""Proposals that make a workspace smaller or more accurate; nothing here changes a node."""
