"""The console: pages in a browser over the log's and the tables' APIs (docs/console.md)."""
