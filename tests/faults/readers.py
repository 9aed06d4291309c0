"""What children do that only look: open a workspace and say what they see, before a deadline. Forked by the nursery."""
