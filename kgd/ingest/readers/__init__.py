"""This room is where bytes of one format become text: Markdown where the format has headings, else as they are."""
