# make demo    synthetic data planned, paid for, released, verified and ranked, with a picture
# make serve   the demo, and then the query tool over its release and its cube in a browser
# make test    every test, on a fresh machine too
# make check   ruff and mypy
# make bench   speed and memory at the papers' size, side by side; NATIONAL=1 adds 130 million jobs,
#              PAGE=1 writes the tables into the documentation, ONLY=tables, draws, releases, commands,
#              ledger, totals, cubes or web runs one part
# make torture long campaigns: full grids of certificates, draws by the ten million, ledgers and
#              releases under kills, changed inputs by the hundred thousand, every page in every
#              width and colours; PAGE=1 writes figures, times and pictures into the documentation,
#              ONLY=certificates, draws, ledger, releases, study, intervals, fuzz, web or web_pages runs
#              one part, ONLY=cases the tests that take some of their cases in make test, with all of them
# make docs    the documentation as a site in build/site
# make wheel   the package in build/dist, the same bytes whenever and wherever it is built
# make sbom    what comes with it, as a bill of materials: build/sbom.json
# make pythons the package installed and tried with Python 3.11, 3.12 and 3.13, as far as they are there

PYTHON ?= python3
BIN := .venv/bin
# Errors alone; what is installed is said before.  Built with what the constraints name, not with
# whatever is newest on the day.
PIP := $(BIN)/pip -qq --disable-pip-version-check install --constraint constraints.txt
APT := apt-get -qq update && apt-get -qq install -y --no-install-recommends >/dev/null
export PYTHONDONTWRITEBYTECODE := 1

.PHONY: demo serve test check bench torture docs wheel sbom pythons clean java postgres browser nginx wrk

demo: .venv/.user
	$(BIN)/eree demo --out build/demo
	@echo 'To open the query tool over both in a browser: make serve'

serve: .venv/.user
	$(BIN)/eree demo --out build/demo --serve

test: .venv/.developer java postgres browser nginx check docs
	$(BIN)/python -m compileall -q src  # hundreds of commands start; each would compile it anew
	$(BIN)/pytest -q -n 2 --dist loadgroup

check: .venv/.developer
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: .venv/.developer browser nginx wrk
	$(BIN)/python -m bench $(if $(NATIONAL),--national) $(if $(PAGE),--page) $(if $(ONLY),--only $(ONLY))

# Tests that take some of their cases and examples in `make test`, and all of them here.
WHOLE := mechanisms noise data engines legacy study survey
torture: .venv/.developer java postgres browser
ifneq ($(ONLY),cases)
	PAGE=$(PAGE) $(BIN)/pytest -q -n 2 torture$(if $(ONLY),/test_$(ONLY).py)
endif
ifeq ($(filter-out cases,$(ONLY)),)
	EREE_TORTURE=1 $(BIN)/pytest -q -n 2 --dist loadgroup $(addprefix tests/,$(WHOLE))
endif

docs: .venv/.developer
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs --quiet build --strict

# The time of the last commit, so that the same sources have the same bytes.
wheel sbom: export SOURCE_DATE_EPOCH := $(shell git log -1 --format=%ct)
wheel: .venv/.user
	rm -rf build/dist
	$(BIN)/python -m hatchling build --target wheel --directory build/dist

sbom: .venv/.developer
	@mkdir -p build
	$(BIN)/python -m supply sbom > build/sbom.json

# Every package as the index has it, in an environment of its own for each version.
PYTHONS := 3.11 3.12 3.13
pythons: wheel
	$(BIN)/python -m supply.pythons build/dist/*.whl $(PYTHONS)

clean:
	rm -rf .venv build .mypy_cache .ruff_cache .pytest_cache .hypothesis

# Spark needs Java 17 or later; Debian's is installed where there is none.
java:
	@java -version 2>&1 | grep -qE 'version "(1[7-9]|[2-9][0-9])' || \
	  (echo 'Installing openjdk-17-jre-headless' && $(APT) openjdk-17-jre-headless)

# Ledgers are tested on a real server; Debian's is installed where there is none.
postgres:
	@ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || \
	  (echo 'Installing postgresql' && $(APT) postgresql)

# Pages are tested in a real browser, and the kernel's tracer sees what the web process opens.
browser:
	@(command -v chromium && command -v strace) >/dev/null 2>&1 || \
	  (echo 'Installing chromium and strace' && $(APT) chromium strace)

# The query tool is tested behind a real proxy.
nginx:
	@command -v nginx >/dev/null 2>&1 || [ -x /usr/sbin/nginx ] || \
	  (echo 'Installing nginx-light' && $(APT) nginx-light)

# The query tool is asked by wrk, on another core than it has.
wrk:
	@(command -v wrk && command -v taskset) >/dev/null 2>&1 || \
	  (echo 'Installing wrk and util-linux' && $(APT) wrk util-linux)

.venv/.user: pyproject.toml constraints.txt
	@echo 'Installing eree and what it needs into .venv'
	@$(PYTHON) -m venv .venv
	@$(PIP) --upgrade pip setuptools hatchling editables
	@$(PIP) --no-build-isolation --editable '.[serve,study]'
	@touch $@

.venv/.developer: .venv/.user
	@echo 'Installing Spark, the drivers of PostgreSQL, and what tests, benchmarks and pages need'
	@$(PIP) --no-build-isolation --editable '.[spark,postgres,bench,docs,test]'
	@touch $@
