"""Pages in the browser, over the same tools that agents and the command line call.

The server renders the pages. The pages work without scripts; a script adds live updates. They contain none of kgd's
rules.
"""
