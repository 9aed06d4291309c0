"""This room is where knowledge comes from other programs' files, and goes into them: one small registry of formats.

A format reads files into a `Plan` and writes files from a `View`; neither changes a workspace or a file. What is done
with them is `kgd.tools.exchange`.
"""
