"""The write path: drafts, rules of admission, transactions, and the one writer that commits them."""
