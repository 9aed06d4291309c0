"""MCP over the official SDK: tools, resources, prompts and notifications."""
