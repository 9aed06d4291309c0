"""A workspace's commits: who made them, what each changed, and who pushed them."""
