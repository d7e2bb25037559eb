"""Pegasos: the hinge loss by stochastic subgradient steps."""
