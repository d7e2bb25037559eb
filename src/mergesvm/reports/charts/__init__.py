"""Charts as SVG, coloured by the style sheet of the page."""
