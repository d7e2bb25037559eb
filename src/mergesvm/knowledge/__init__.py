"""What is remembered: sums by class, their algebra, and the kernels that fill them."""

from mergesvm.knowledge.algebra import merge_stream
from mergesvm.knowledge.folding import Folding
from mergesvm.knowledge.folds import Folds
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.knowledge.learn import learn
from mergesvm.knowledge.loading import load_kernels
from mergesvm.knowledge.merging import merge
from mergesvm.knowledge.signature import Signature

__all__ = ["Folding", "Folds", "Knowledge", "Signature", "learn", "load_kernels", "merge", "merge_stream"]
