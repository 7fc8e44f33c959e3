# Thin: each target makes the environment when it is missing and runs one plain command (see README, "Commands").
PYTHON ?= python3
BIN := .venv/bin
CODE := core flows policy auth mcp_provider web cli migrations bench app.py gunicorn.conf.py

.PHONY: serve test test-long coverage check bench docs

serve: .venv/installed
	@$(BIN)/countersign serve

test: .venv/installed
	$(BIN)/pytest $(PYTEST_ARGS)

test-long: .venv/installed
	COUNTERSIGN_TEST_FUZZ=40000 $(BIN)/pytest -m "long or fuzz" $(PYTEST_ARGS)

coverage: .venv/installed
	$(BIN)/coverage run -m pytest tests/auth tests/attacks/test_oauth_rules.py tests/attacks/test_oauth_cases_tokens.py $(PYTEST_ARGS)
	$(BIN)/coverage report

check: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy $(CODE)
	$(BIN)/lint-imports

bench: .venv/installed
	$(BIN)/python -m bench $(BENCH_ARGS)

docs: .venv/installed
	$(BIN)/countersign errors > docs/errors.md

# Everything by hash, nothing built in a place that downloads by itself.
.venv/installed: requirements-dev.lock requirements-build.lock pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock -r requirements-build.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps -e .
	@touch $@
