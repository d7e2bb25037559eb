"""Reports as HTML pages and JSON."""
