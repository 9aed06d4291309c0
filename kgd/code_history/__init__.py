"""History of the code: past commits, files that change together, and findings from them."""
