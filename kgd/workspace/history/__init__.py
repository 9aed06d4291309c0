"""A workspace's commits: their authors, their changes, and the tokens that pushed them."""
