"""This file is where the room of memories begins: keywords, files with the detail, and what records them."""
