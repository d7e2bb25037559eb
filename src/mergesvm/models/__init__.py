"""Models: trained classifiers, and their files."""
