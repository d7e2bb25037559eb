"""mergesvm files: atomic replacement, the container, its header and arrays."""
