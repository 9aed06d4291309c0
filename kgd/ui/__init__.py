"""Pages in the browser, over the same tools that agents and the command line call.

The server renders the pages. They work without scripts; a script adds live updates. No rule of kgd lives here.
"""
