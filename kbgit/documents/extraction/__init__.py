"""From a document's bytes to Markdown. Runs in a worker process, never in the server's own."""
