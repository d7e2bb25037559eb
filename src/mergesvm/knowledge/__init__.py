"""Class-wise sums, their algebra, and how they are learned."""
