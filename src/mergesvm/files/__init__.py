"""Files that can be trusted: replaced as a whole or not at all, and checked before anything in them is used."""

from mergesvm.files.atomic import replacing, write_atomically
from mergesvm.files.container import FORMAT, read_container, read_format, read_kind, write_container
from mergesvm.files.content import Content, check_sizes
from mergesvm.files.header import Header

__all__ = [
    "FORMAT",
    "Content",
    "Header",
    "check_sizes",
    "read_container",
    "read_format",
    "read_kind",
    "replacing",
    "write_atomically",
    "write_container",
]
