"""Compiled functions. Importing this module imports numba: only :mod:`mergesvm.knowledge.gram.jit_policy` does so.

All release the GIL and fill upper triangles only. Array indices are unsigned, which spares numba the test for negative
indices.
"""

from __future__ import annotations

import numpy as np
from numba import uint64

from mergesvm.jit import compiled
from mergesvm.knowledge.gram import triangles_jit as triangles

TILE_ROWS, TILE_COLUMNS = 2, 4
"""The Gram matrix is filled by tiles: 8 sums, 6 loads and 8 multiply-adds per step, all within registers."""

PADDING = 4
"""The staged width is a multiple of both sides of a tile."""


@compiled(fastmath={"reassoc", "contract", "nsz"})
def rank_update(staged, root, gram, total):  # type: ignore[no-untyped-def] # pragma: no cover
    """Add staged' staged to ``gram`` and staged' root to ``total``; ``staged`` is features x rows.

    Products of two features are dot products along the rows, which the compiler vectorizes if it may reorder sums. NaN
    and infinity must be preserved: they are detected in the sums.
    """
    width, depth = staged.shape
    for i in range(0, width, TILE_ROWS):
        for j in range(i - i % TILE_COLUMNS, width, TILE_COLUMNS):
            s00 = s01 = s02 = s03 = s10 = s11 = s12 = s13 = 0.0
            for row in range(depth):
                a0 = staged[i, row]
                a1 = staged[i + 1, row]
                b0 = staged[j, row]
                b1 = staged[j + 1, row]
                b2 = staged[j + 2, row]
                b3 = staged[j + 3, row]
                s00 += a0 * b0
                s01 += a0 * b1
                s02 += a0 * b2
                s03 += a0 * b3
                s10 += a1 * b0
                s11 += a1 * b1
                s12 += a1 * b2
                s13 += a1 * b3
            gram[i, j] += s00
            gram[i, j + 1] += s01
            gram[i, j + 2] += s02
            gram[i, j + 3] += s03
            gram[i + 1, j] += s10
            gram[i + 1, j + 1] += s11
            gram[i + 1, j + 2] += s12
            gram[i + 1, j + 3] += s13
        for r in range(TILE_ROWS):
            s = 0.0
            for row in range(depth):
                s += staged[i + r, row] * root[row]
            total[i + r] += s


@compiled
def add_rows(block, codes, roots, anchor, staged, root, fill, grams, totals):  # type: ignore[no-untyped-def] # pragma: no cover
    """Add dense rows to the sums of their classes, in their order.

    Each class has a small stage, filled row by row and multiplied when it is full, so that rows need no sorting or
    gathering. ``roots`` are the square roots of the weights, or empty if every row has weight 1.
    """
    rows, width = block.shape
    depth = staged.shape[2]
    weighted = roots.size > 0
    for i in range(rows):
        group = codes[i]
        if group < 0:
            continue
        at = fill[group]
        stage = staged[group]
        scale = roots[i] if weighted else 1.0
        for j in range(width):
            stage[j, at] = (block[i, j] - anchor[j]) * scale
        root[group, at] = scale
        at += 1
        if at == depth:
            rank_update(stage, root[group], grams[group], totals[group])
            at = 0
        fill[group] = at


@compiled
def finish(staged, root, fill, grams, totals):  # type: ignore[no-untyped-def] # pragma: no cover
    """Multiply the rows that are left on the stages."""
    for group in range(fill.size):
        at = fill[group]
        if at > 0:
            staged[group, :, at:] = 0.0
            root[group, at:] = 0.0
            rank_update(staged[group], root[group], grams[group], totals[group])
            fill[group] = 0


@compiled
def scatter_rows(starts, columns, values, codes, weights, grams, totals):  # type: ignore[no-untyped-def] # pragma: no cover
    """Add CSR rows, with sorted columns, to the sums of their classes. ``grams`` is classes x width^2."""
    width = totals.shape[1]
    weighted = weights.size > 0
    for i in range(codes.size):
        if codes[i] < 0:
            continue
        gram = grams[codes[i]]
        total = totals[codes[i]]
        stop = uint64(starts[i + 1])
        for p in range(uint64(starts[i]), stop):
            value = values[p] * weights[i] if weighted else values[p] * 1.0
            column = uint64(columns[p])
            total[column] += value
            line = column * uint64(width)
            for q in range(p, stop):
                gram[line + uint64(columns[q])] += value * values[q]


@compiled
def count_nonzero(block, members, anchor, never_zero, counts):  # type: ignore[no-untyped-def] # pragma: no cover
    """Count the rows in which each column differs from the anchor; columns that are ``never_zero`` always do.

    Rows are taken four at a time. The last one may be counted up to four times, which makes counts slightly too large.
    """
    last = members.size - 1
    for j in range(uint64(anchor.size)):
        counts[j] = members.size if never_zero[j] else 0
    for k in range(0, members.size, 4):
        a, b = block[members[k]], block[members[min(k + 1, last)]]
        c, d = block[members[min(k + 2, last)]], block[members[min(k + 3, last)]]
        for j in range(uint64(anchor.size)):
            counts[j] += (a[j] != anchor[j]) + (b[j] != anchor[j]) + (c[j] != anchor[j]) + (d[j] != anchor[j])


@compiled
def find_runs(counts, low, high, runs, n_runs, n_columns):  # type: ignore[no-untyped-def] # pragma: no cover
    """Append runs of columns that are nonzero in more than ``low`` and up to ``high`` rows.

    A run is (first column, length, position in the compact row). There are ``n_runs`` runs of ``n_columns`` columns in
    all already; returns the new numbers.
    """
    before = -2
    for j in range(counts.size):
        if low < counts[j] <= high:
            if j - 1 != before:
                runs[n_runs, 0], runs[n_runs, 1], runs[n_runs, 2] = j, 0, n_columns
                n_runs += 1
            runs[n_runs - 1, 1] += 1
            n_columns += 1
            before = j
    return n_runs, n_columns


@compiled
def gather(block, members, roots, anchor, runs, out, copy_only):  # type: ignore[no-untyped-def] # pragma: no cover
    """Copy the runs of rows to compact rows; unless ``copy_only``, minus the anchor and times the roots of weights."""
    for k in range(members.size):
        row, line, root = block[members[k]], out[k], roots[k]
        for run in range(len(runs)):
            first, place = uint64(runs[run, 0]), uint64(runs[run, 2])
            if copy_only:
                for j in range(uint64(runs[run, 1])):
                    line[place + j] = row[first + j]
            else:
                for j in range(uint64(runs[run, 1])):
                    line[place + j] = (row[first + j] - anchor[first + j]) * root


@compiled
def add_totals(rows, roots, runs, total):  # type: ignore[no-untyped-def] # pragma: no cover
    """Add compact rows, times the roots of weights again, to the totals of their columns."""
    sums = np.zeros(rows.shape[1])
    for k in range(roots.size):
        for j in range(sums.size):
            sums[j] += rows[k, j] * roots[k]
    for first, length, place in runs:
        total[first : first + length] += sums[place : place + length]


@compiled
def multiply_rare(rows, nonzero, product):  # type: ignore[no-untyped-def] # pragma: no cover
    """Multiply the first columns of compact rows, which are mostly zero, with themselves and those that follow.

    ``product`` has one line per rare column, ``nonzero`` is a buffer for the rows in which it is not zero. Four such
    rows are added at a time, so that a line is loaded and stored once for four products.
    """
    rare, width = product.shape
    filled = np.zeros(rare, dtype=np.intp)
    for k in range(len(rows)):
        for p in range(uint64(rare)):
            nonzero[p, filled[p]] = k
            filled[p] += rows[k, p] != 0
    for p in range(uint64(rare)):
        line, where, count = product[p], nonzero[p], filled[p]
        for q in range(uint64(width)):  # unused entries as well: they are added below the diagonal
            line[q] = 0
        for at in range(0, count - 3, 4):
            a, b, c, d = rows[where[at]], rows[where[at + 1]], rows[where[at + 2]], rows[where[at + 3]]
            va, vb, vc, vd = a[p], b[p], c[p], d[p]
            for q in range(p, uint64(width)):
                line[q] += (va * a[q] + vb * b[q]) + (vc * c[q] + vd * d[q])
        for at in range(count - count % 4, count):
            a = rows[where[at]]
            va = a[p]
            for q in range(p, uint64(width)):
                line[q] += va * a[q]


@compiled
def add_products(above, below, runs, n_rare, gram):  # type: ignore[no-untyped-def] # pragma: no cover
    """Add products of compact rows to the upper triangle of the Gram matrix of all columns, line by line.

    ``above`` has products of rare columns, which form the first ``n_rare`` runs, with all that follow in the compact
    row; ``below`` has products of the other columns with each other. Below the diagonal any number may be added.
    """
    rare = len(above)
    for a in range(len(runs)):
        column, top = runs[a, 0], runs[a, 2]
        for i in range(runs[a, 1]):
            line = gram[column + i]
            source, shift = (above[top + i], 0) if a < n_rare else (below[top + i - rare], rare)
            for b in range(a, len(runs)):
                if runs[b, 0] >= column:
                    first, place = uint64(runs[b, 0]), uint64(runs[b, 2] - shift)
                    for j in range(uint64(runs[b, 1])):
                        line[first + j] += source[place + j]
            if a >= n_rare:
                for b in range(n_rare):
                    if runs[b, 0] > column:
                        first, place = uint64(runs[b, 0]), uint64(runs[b, 2])
                        for j in range(uint64(runs[b, 1])):
                            line[first + j] += above[place + j, top + i]


@compiled
def add_tile(product, gram):  # type: ignore[no-untyped-def] # pragma: no cover
    """Add a product to a part of a Gram matrix."""
    for i in range(len(product)):
        source, line = product[i], gram[i]
        for j in range(uint64(source.size)):
            line[j] += source[j]


def stage_depth(width: int) -> int:
    """Return the number of rows per stage, so that a stage fits the first-level cache."""
    return int(np.clip(2**15 // (8 * width) // 32 * 32, 32, 128))


def compile_all() -> None:
    """Compile every function for the most common dtypes, by calling it once."""
    unweighted, codes = np.empty(0), np.zeros(1, dtype=np.intp)
    stage = np.zeros((1, PADDING, 32)), np.zeros((1, 32)), np.zeros(1, dtype=np.intp)
    sums = np.zeros((1, PADDING, PADDING)), np.zeros((1, PADDING))
    for dtype in ("f8", "f4"):
        strip = np.zeros((PADDING, 3), dtype=dtype).T
        read_only = strip.view()
        read_only.flags.writeable = False
        # Rows of arrays; columns of files, copied or in place, whole or in part.
        for rows in (strip.copy(order="C"), strip, read_only, read_only[:2]):
            add_rows(rows, np.zeros(len(rows), dtype=np.intp), unweighted, np.zeros(PADDING), *stage, *sums)
    finish(*stage, *sums)
    starts, columns = np.array([0, 1], dtype=np.int32), np.zeros(1, dtype=np.int32)
    scatter_rows(
        starts, columns, np.ones(1), np.zeros(1, dtype=np.int8), unweighted, np.zeros((1, 1)), np.zeros((1, 1))
    )
    runs, gram, counts = np.array([[0, 1, 0]]), np.zeros((1, 1)), np.zeros(1, dtype=np.uint32)
    find_runs(counts, 0, 1, runs.copy(), 0, 0)
    for dtype, kind in (("f8", "f8"), ("f4", "f8"), ("f4", "f4"), ("u1", "f4")):
        block, out = np.zeros((1, 1), dtype=dtype), np.zeros((1, 1), dtype=kind)
        count_nonzero(block, codes, block[0], np.zeros(1, dtype=np.bool_), counts)
        gather(block, codes, np.ones(1), np.zeros(1), runs, out, True)
        add_totals(out, np.ones(1), runs, np.zeros(1))
        multiply_rare(out, np.zeros((1, 2), dtype=np.int32), out.copy())
        add_products(out, out, runs, 1, gram)
        add_tile(out, np.zeros((2, 2))[:1, :1])
    triangles.compile_all()
