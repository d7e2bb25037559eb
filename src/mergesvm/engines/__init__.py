"""Where work runs. An engine maps a function over tasks and knows nothing of support vector machines."""

from mergesvm.engines.threads import Threads

__all__ = ["Threads"]
