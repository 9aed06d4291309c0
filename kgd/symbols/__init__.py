"""Symbols of source code: what a file defines, imports, calls and inherits.

`kgd.symbols.extraction` reads one file; `kgd.symbols.resolution` follows names across files. Both are pure: equal bytes
give equal results on every machine with the same grammars.
"""
