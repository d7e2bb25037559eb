"""The cards of a knowledge report, one file per subject."""
