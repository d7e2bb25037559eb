"""The MPI engine."""
