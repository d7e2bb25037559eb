"""The experiments of the papers: ``mergesvm reproduce NAME`` prints their tables beside ours and draws their figures.

A new reproduction is

1. a class derived from :class:`~mergesvm.reproduce.reproduction.Reproduction` in ``reproduce/NAME/``, which yields its
   tables, draws one picture and remarks on what differs from the paper. It takes its rows from
   ``self.source`` (:mod:`~mergesvm.reproduce.paper_data`), which for a quick run are few and come with scikit-learn.
   Where sizes differ, ``FULL`` and ``QUICK`` are two instances of one dataclass, and a quick run takes a few seconds;
2. a command in ``cli/commands/reproduce/NAME.py`` with the options of its own, and its line in the table of
   ``cli/commands/reproduce/__init__.py``. The options that all have (``--data``, ``--quick``, ``--seed``,
   ``--picture``) and the printing are in ``cli/commands/reproduce/shared.py``;
3. a test of the quick run in ``tests/reproduce/test_NAME.py`` that checks numbers, and its output in docs/papers.md.
"""
