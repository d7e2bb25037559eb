"""Where work runs. An engine maps a function over tasks, joins the results, and knows nothing of support vectors."""

from mergesvm.engines.threads import Threads

__all__ = ["Threads"]
