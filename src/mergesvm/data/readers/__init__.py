"""One file reader per format."""
