"""The root command: it starts fast because it imports commands only when they run."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import typer

from mergesvm.cli.commands.reproduce import REPRODUCTIONS
from mergesvm.cli.lazy_group import COMMANDS, load_command

HEAVY = ("numpy", "scipy", "sklearn", "pyarrow", "pandas", "numba", "joblib", "matplotlib", "jinja2")


@pytest.mark.parametrize("name", COMMANDS)
def test_the_listed_help_is_the_first_line_of_the_docstring_of_the_command(name):
    command = getattr(import_module(f"mergesvm.cli.commands.{name}"), f"{name}_command")
    text = command.info.help if isinstance(command, typer.Typer) else inspect.getdoc(command)
    assert text.splitlines()[0] == COMMANDS[name]


@pytest.mark.parametrize("name", REPRODUCTIONS)
def test_reproductions_have_the_listed_help_and_an_example(name):
    package, module = "mergesvm.cli.commands.reproduce", name.replace("-", "_")
    command = getattr(import_module(f"{package}.{module}"), f"{module}_command")
    assert inspect.getdoc(command).splitlines()[0] == REPRODUCTIONS[name]
    assert f"mergesvm reproduce {name} " in load_command(name, package).epilog


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example(name):
    loaded = load_command(name)
    assert loaded.name == name
    if name != "reproduce":
        assert f"mergesvm {name} " in loaded.epilog


def test_every_module_of_commands_is_listed():
    from mergesvm.cli import commands
    from mergesvm.cli.commands import reproduce

    modules = Path(next(iter(commands.__path__))).glob("[!_]*")
    assert {module.stem for module in modules} == set(COMMANDS)
    modules = Path(next(iter(reproduce.__path__))).glob("[!_]*")
    assert {module.stem.replace("_", "-") for module in modules} - {"shared"} == set(REPRODUCTIONS)


def imported(arguments, environment=None):
    """The heavy packages that a command imports, and its output."""
    script = (
        "import atexit, sys; from mergesvm.cli.main import main;"
        f"atexit.register(lambda: print([name for name in {HEAVY} if name in sys.modules], file=sys.stderr)); main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stderr.strip(), done.stdout


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], []])
def test_help_and_version_import_no_heavy_package(arguments):
    assert imported(arguments)[0].endswith("[]")


def completed(words):
    """What the shell is offered for the last word, and the heavy packages imported for it."""
    completion = {"_MERGESVM_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    script = "import sys; sys.argv[0] = 'mergesvm'; from mergesvm.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", script],
        env={**os.environ, **completion},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.split(), [name for name in HEAVY if f" {name}\n" in done.stderr]


def test_shell_completion_lists_commands_without_importing_them():
    offered, heavy = completed("mergesvm ")
    assert set(offered) >= set(COMMANDS)
    assert not heavy


def test_shell_completion_of_options_imports_no_heavy_package():
    offered, heavy = completed("mergesvm solve --for")
    assert "--force" in offered
    assert not heavy


def test_neither_help_nor_completion_of_any_command_imports_a_heavy_package():
    script = f"""
import sys
from mergesvm.cli.commands.reproduce import REPRODUCTIONS
from mergesvm.cli.lazy_group import COMMANDS, load_command
commands = [("mergesvm.cli.commands", name) for name in COMMANDS]
for package, name in commands + [("mergesvm.cli.commands.reproduce", name) for name in REPRODUCTIONS]:
    try:
        load_command(name, package).main(["--help"], prog_name=name)
    except SystemExit:
        print(name, [heavy for heavy in {HEAVY} if heavy in sys.modules], file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines() == [f"{name} []" for name in (*COMMANDS, *REPRODUCTIONS)]


def test_a_mistyped_command_is_answered_with_a_suggestion():
    done = subprocess.run(
        [sys.executable, "-c", "from mergesvm.cli.main import main; main()", "lern"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "'learn'" in done.stderr
