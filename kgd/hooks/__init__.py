"""kgd inside git's own commands: merge driver, merge strategy and hooks."""
