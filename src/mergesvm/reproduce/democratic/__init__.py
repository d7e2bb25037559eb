"""Parallel democratic support vector machines of Vieira and Lerena."""
