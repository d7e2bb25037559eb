"""Questions answered from knowledge and models."""
