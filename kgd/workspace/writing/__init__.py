"""The write path: drafts, admission rules, transactions, and the writer that commits them."""
