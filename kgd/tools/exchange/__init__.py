"""The import and export tools: reconcile a source with the stored nodes, and write files."""
