"""The cards of a knowledge report."""
