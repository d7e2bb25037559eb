"""The coordinator of a parallel training: it decides in each iteration which dual variables change, and by how much."""
