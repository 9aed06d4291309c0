"""The `ingest` tool and its jobs: documents, conversations, and scans of the code tree."""
