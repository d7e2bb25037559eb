"""The engine Dask."""

from __future__ import annotations
