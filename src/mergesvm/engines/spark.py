"""The engine Spark."""

from __future__ import annotations
