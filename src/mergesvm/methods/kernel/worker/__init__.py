"""A unit of a parallel training: it holds rows and their dual variables, and proposes rows for the working set."""
