"""Charts as SVG, pictures as PNG."""
