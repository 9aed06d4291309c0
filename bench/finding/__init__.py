"""Do people and agents find the knowledge, the identifiers and the files of a code tree: `python -m bench.finding`."""
