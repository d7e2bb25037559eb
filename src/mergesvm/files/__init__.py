"""Files of this library: atomic replacement, the container, its header and arrays."""
