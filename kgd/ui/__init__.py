"""This room is what a person sees: pages in a browser over the same tools that agents and the command line call.

Pages are made on the server and work without scripts; a script only makes them lively. No rule of kgd is kept here.
"""
