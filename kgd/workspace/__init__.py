"""A workspace: the nodes of one repository, with one writer, their history, publication and derived data."""
