"""Knowledge: sums over rows by class, their algebra, and how they are learned."""
