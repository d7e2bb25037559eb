# Each target sets up .venv by itself, and again only when pyproject.toml has changed.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: help demo test hunt check bench bench-files bench-maps bench-streams bench-democratic bench-kernel bench-reduced bench-answers bench-engines bench-scaling bench-tagging clean
.DEFAULT_GOAL := test

help:                       ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## */\1\t/' | expand -t 20

demo: .venv/ready           ## the main job on real data, with a table and a picture
	$(BIN)/mergesvm demo

# Tests of Spark are left out where there is no Java 17 or newer, those of the page where there is no Chromium; .ci/run
# installs both and lets nothing be left out.
test: .venv/ready           ## all tests and doctests
	$(BIN)/pytest -n 2 --dist loadgroup

MINUTES ?= 60
hunt: .venv/ready          ## stress the command line, search for counterexamples with new seeds: make hunt MINUTES=60
	$(BIN)/python tests/hunt.py --minutes $(MINUTES)

check: .venv/ready          ## lint, format, types, the direction of the imports, and known vulnerabilities
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python .ci/audit.py

bench: .venv/ready-bench    ## MergeSVC beside other linear classifiers and the limit of the machine
	$(BIN)/python benchmarks/run.py

bench-files: .venv/ready-bench  ## learning from files; generates up to 15 GB in a temporary folder
	$(BIN)/python benchmarks/files.py

bench-maps: .venv/ready-bench   ## feature maps on real data, beside those of scikit-learn
	$(BIN)/python benchmarks/maps.py

bench-streams: .venv/ready-bench  ## RecursiveSVC: accuracy of the coefficients, effect of C, speed; draws docs/pictures
	$(BIN)/python benchmarks/streams.py

bench-engines: .venv/ready-bench  ## efficiency of MPI and Dask, and Spark beside MLlib
	$(BIN)/python benchmarks/engines.py

bench-democratic: .venv/ready-bench  ## Pegasos beside scikit-learn, one-vs-one
	$(BIN)/python benchmarks/democratic.py

bench-kernel: .venv/ready-bench  ## kernel SVM beside LIBSVM and ThunderSVM, and its cost by units; draws docs/pictures
	$(BIN)/python benchmarks/kernel.py

bench-reduced: .venv/ready-bench  ## kernel machines of few support vectors beside random rows and Nystroem
	$(BIN)/python benchmarks/reduced.py

bench-answers: .venv/ready-bench  ## questions answered from the sums, beside grid search, and errors of estimates
	$(BIN)/python benchmarks/answers.py

bench-scaling: .venv/ready-bench  ## cost model of many workers, compared with MPI ranks; draws docs/pictures/scaling.png
	$(BIN)/python benchmarks/scaling.py

bench-tagging: .venv/ready-bench  ## pictures tagged by strokes: times, growth, and quality beside a random forest on pixels
	$(BIN)/python benchmarks/tagging.py

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/ready: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet --upgrade "pip>=26.1"
	$(BIN)/python -m pip install --quiet --editable . --group dev
	touch $@

.venv/ready-bench: .venv/ready
	$(BIN)/python -m pip install --quiet --group bench
	touch $@

clean:
	rm -rf .venv .hypothesis .mypy_cache .ruff_cache .pytest_cache .import_linter_cache mergesvm-demo.png mergesvm-cascade.png
	find src tests benchmarks -name __pycache__ -prune -exec rm -rf {} +
