"""This room is kgd in git's own commands: the merge driver and strategy, and what hooks check and tell."""
