"""Training methods, one package each."""
