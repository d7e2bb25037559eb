"""Plots drawn with matplotlib, for the files that commands save."""
