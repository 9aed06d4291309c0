"""Judges of import edges: each follows the rules of a language without using kgd's readers.

A judge takes the top of a tree and its files of one language, and returns the imports between files of the tree as
pairs of paths: the importing file, and the file of the module that the statement names. A package of Go, and
`import a.*` of Java, is all of its files.
"""
