"""Import from and export to other programs' files: a small registry of formats.

A format reads files into a `Plan` and writes files from a `View`. Neither changes a workspace or a file; that is left
to `kgd.tools.exchange`.
"""
