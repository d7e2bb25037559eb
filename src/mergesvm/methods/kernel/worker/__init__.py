"""What one unit does: it holds rows and the dual variables of those rows."""
