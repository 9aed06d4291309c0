#!/bin/sh
# Installs the MCP clients and servers written in JavaScript that some tests use, with the Node version they need, below
# the repository: nothing outside of it is touched. Run by `make test-deps`.
set -eu
cd "$(dirname "$0")/.."
npm install --prefix . --no-save --no-package-lock --no-audit --no-fund --loglevel=error \
    node@22 \
    @modelcontextprotocol/inspector@2 \
    @modelcontextprotocol/conformance@0.2.0-alpha.12 \
    @modelcontextprotocol/server-memory@2026.8.31 \
    oidc-provider@9.13.3 \
    axe-core@4.14.1
node_modules/.bin/node --version
