"""Cost of ParallelKernelSVC by rows and by units, and convergence of the gradient method; draws pictures."""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

import mergesvm as ms
from kernel_problem import PICTURES, PIXEL_GAMMA, THREADS, Problem, console, pixels, seconds, three_or_eight
from tables import table

UNITS = (1, 2, 4, 8, 16)


def plain_ticks(axis: Any) -> None:
    """Plain numbers instead of powers on a logarithmic axis."""
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.15g}"))
    axis.set_minor_locator(NullLocator())


def cost(where: Path | None, options: argparse.Namespace) -> None:
    by_rows(where, options)
    by_units(where, options)


def by_rows(where: Path | None, options: argparse.Namespace) -> None:
    """Even against odd digits: cost by the number of rows."""
    X, y, test, truth = pixels(where)
    sizes = (1000, 2000, 4000) if options.quick else (5000, 10_000, 20_000, 40_000, 60_000)
    tests = 1000 if options.quick else 10_000
    whole = Problem("MNIST, even against odd", X, y % 2, test, truth % 2, PIXEL_GAMMA, 10.0)
    columns = ("rows", "s", "growth", "iterations", "total MB", "support vectors", "accuracy %")
    shown = table(f"{whole.name}, gamma {whole.gamma:g}, C {whole.C:g}: cost by rows", *columns)
    times, points = [], []
    for size in sizes:
        problem = whole.first(size, tests)
        runs = [
            seconds(lambda problem=problem: problem.ours().fit(problem.X, problem.y)) for _ in range(options.repeats)
        ]
        times.append(min(taken for taken, _ in runs))
        machine = runs[-1][1]
        # Exponent p of time ~ rows^p since the previous line.
        done = len(times)
        grown = f"^{np.log(times[-1] / times[-2]) / np.log(size / sizes[done - 2]):.2f}" if done > 1 else ""
        score = 100 * float(np.mean(machine.predict(problem.test) == problem.truth))
        shown.add_row(
            f"{size:,}",
            f"{times[-1]:.2f}",
            grown,
            str(machine.n_iter_),
            f"{machine.traffic_.total / 1e6:.2f}",
            f"{int(machine.n_support_.sum()):,}",
            f"{score:.2f}",
        )
        points.append((times[-1], machine.n_iter_, machine.traffic_.total / 1e6, score))
    console.print(shown)
    everything = {"all rows": [X[0].nbytes * size / 1e6 for size in sizes]}
    draw("kernel-rows.png", f"{whole.name}, one unit, {THREADS} threads", "rows", sizes, {"1 unit": points}, everything)


def draw(
    name: str,
    title: str,
    unit: str,
    steps: Sequence[int],
    curves: dict[str, list[tuple[float, ...]]],
    everything: dict[str, list[float]],
) -> None:
    """Plot seconds, iterations, traffic and accuracy by rows or units, with the traffic of sending all rows."""
    figure = Figure(figsize=(11, 7.2), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(2, 2, sharex=True).ravel()
    for number, (label, points) in enumerate(curves.items()):
        for panel, values in zip(panels, zip(*points, strict=True), strict=True):
            panel.plot(steps, values, "o-", color=f"C{number}", label=label)
    for number, (label, values) in enumerate(everything.items()):
        panels[2].plot(steps, values, "--", color=f"C{number}", alpha=0.6, label=label)
    panels[2].set_yscale("log")
    plain_ticks(panels[2].yaxis)
    names = ("seconds", "iterations", "MB to and from all units", "accuracy, %")
    for panel, measure in zip(panels, names, strict=True):
        panel.set(title=measure, xscale="log", xlabel=unit if panel in panels[2:] else "")
        panel.set_xticks(steps, [f"{step:,}" for step in steps])
        panel.xaxis.set_minor_locator(NullLocator())
    for panel in panels[:2]:
        panel.set_ylim(0, None)
    panels[3].set_ylim(min(min(values[3] for values in points) for points in curves.values()) - 0.5, 100)
    panels[2].legend(frameon=False)
    figure.suptitle(title)
    figure.savefig(PICTURES / name, dpi=90)


def by_units(where: Path | None, options: argparse.Namespace) -> None:
    """Cost and traffic by the number of units; traffic is relative to sending all rows to all units once."""
    problem = three_or_eight(where, 10.0)
    if options.quick:
        problem = problem.first(2000, 500)
    as_bytes = Problem(
        problem.name,
        np.rint(255 * problem.X).astype(np.uint8),
        problem.y,
        np.rint(255 * problem.test).astype(np.uint8),
        problem.truth,
        problem.gamma / 255**2,
        problem.C,
    )
    kinds = {"float32": problem, "uint8": as_bytes}
    columns = ("method", "units", "pixels", "s", "iterations", "total MB", "MB sent", "/ all rows", "vectors", "acc. %")
    shown = table(f"{problem.title}: cost by units", *columns)
    curves: dict[str, list[tuple[float, ...]]] = {f"{kind} pixels": [] for kind in kinds}

    def run(name: str, kind: str, units: int, **parameters: Any) -> tuple[float, ...]:
        given, runs = kinds[kind], []
        for _ in range(options.repeats):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ms.errors.SolverWarning)
                runs.append(seconds(lambda: given.ours(units=units, **parameters).fit(given.X, given.y)))
        machine, taken = runs[-1][1], min(taken for taken, _ in runs)
        traffic, everything = machine.traffic_, given.X.nbytes * units
        score = 100 * float(np.mean(machine.predict(given.test) == given.truth))
        shown.add_row(
            name,
            str(units),
            kind,
            f"{taken:.2f}",
            f"{machine.n_iter_:,}",
            f"{traffic.total / 1e6:.2f}",
            f"{traffic.sent.sum() / 1e6:.2f}",
            f"{traffic.total / everything:.3f}",
            f"{int(machine.n_support_.sum()):,}",
            f"{score:.2f}",
        )
        return taken, machine.n_iter_, traffic.total / 1e6, score

    for kind in kinds:
        for units in UNITS:
            curves[f"{kind} pixels"].append(run("working-set", kind, units))
        for limit in (100, 300):
            run(f"active-set, at most {limit}", kind, 4, method="active-set", max_support_vectors=limit)
    console.print(shown)
    everything = {
        f"{kind}, all rows to all units": [given.X.nbytes * units / 1e6 for units in UNITS]
        for kind, given in kinds.items()
    }
    draw("kernel-units.png", f"{problem.title}; {THREADS} threads in all", "units", UNITS, curves, everything)


def gradient(where: Path | None, options: argparse.Namespace) -> None:
    """Convergence of the gradient method of the paper: the factor of F* - F per iteration."""
    problem = three_or_eight(where).first(300 if options.quick else 1000, 500)
    n_iter = 2000 if options.quick else 20_000
    parameters = {"beta": 1.0, "units": 4, "precision": "float64"}
    optimum = problem.ours(tol=1e-8, **parameters).fit(problem.X, problem.y).objective_
    columns = ("", "iterations", "final (F* - F) / F*", "factor per iteration", "iterations per digit", "s")
    shown = table(f"{problem.title}, beta 1, 4 units: F* = {optimum:.6f}", *columns)
    figure = Figure(figsize=(9, 4.6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for name, accelerated in (("plain", False), ("accelerated", True)):
        machine = problem.ours(method="gradient", accelerated=accelerated, max_iter=n_iter, tol=1e-9, **parameters)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ms.errors.SolverWarning)
            taken, machine = seconds(lambda machine=machine: machine.fit(problem.X, problem.y))
        left = 1 - machine.history_.objective / optimum
        # F* itself is known only to this accuracy.
        known = np.flatnonzero(left < 1e-12)
        left = left[: known[0]] if len(known) else left
        half = np.arange(len(left) // 2, len(left))
        factor = float(np.exp(np.polyfit(half, np.log(left[half]), 1)[0]))
        axes.semilogy(np.arange(1, len(left) + 1), left, label=f"{name}: x {factor:.4f} per iteration")
        digit = f"{-1 / np.log10(factor):,.0f}" if factor < 1 else ""
        shown.add_row(name, f"{len(left):,}", f"{left[-1]:.1e}", f"{factor:.5f}", digit, f"{taken:.2f}")
    console.print(shown)
    axes.set(
        title=f"Projected gradient on {problem.X.shape[0]:,} rows of {problem.name}, 4 units, beta 1",
        xlabel="iteration",
        ylabel="(F* - F) / F*",
    )
    axes.legend(frameon=False)
    figure.savefig(PICTURES / "kernel-gradient.png", dpi=90)
