"""What was to be reached, and what was."""

from __future__ import annotations


class Targets:
    """What was to be reached, and what was."""

    def __init__(self) -> None:
        self.lines: dict[bool, list[str]] = {True: [], False: []}

    def add(self, what: str, shown: str, reached: bool, wanted: str) -> None:
        self.lines[bool(reached)].append(f"{what} {shown} (target {wanted})")

    def at_least(self, what: str, value: float, wanted: float, form: str = "{:.2f}x") -> None:
        self.add(what, form.format(value), value >= wanted, ">= " + form.format(wanted))

    def at_most(self, what: str, value: float, wanted: float, form: str = "{:.2f}x") -> None:
        self.add(what, form.format(value), value <= wanted, "<= " + form.format(wanted))

    def show(self, console) -> None:
        for reached, title in ((True, "Targets reached"), (False, "Targets NOT reached")):
            console.print(f"{title}: {'; '.join(self.lines[reached]) or 'none'}", highlight=False)
