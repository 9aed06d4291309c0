"""This package is where the code tree is served as nodes: what its files and directories say about themselves.

Nothing of it is ever stored, except by ``kgd bootstrap --store`` (`kgd.overlay.storing`).
"""
