"""What is remembered: sums by class, their algebra, and the kernels that fill them."""

from mergesvm.knowledge.algebra import merge, merge_stream
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.knowledge.learn import learn
from mergesvm.knowledge.loading import load_kernels
from mergesvm.knowledge.signature import Signature

__all__ = ["Knowledge", "Signature", "learn", "load_kernels", "merge", "merge_stream"]
