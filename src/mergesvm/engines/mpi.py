"""The engine MPI."""

from __future__ import annotations
