"""The code tree as nodes: facts about its files and directories, and the symbols and chunks in them.

None of these nodes is stored, except by ``kgd bootstrap --store`` (`store_changes`).
"""
