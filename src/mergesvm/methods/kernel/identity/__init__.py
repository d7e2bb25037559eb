"""Which rows are the same: rows that several units hold and that count once, and rows to forget."""
