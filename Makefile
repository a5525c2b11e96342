# The commands of the project. `make demo` and `make test` work on a fresh Debian machine with a
# Swift toolchain; both first make sure of the two system libraries.

SWIFT ?= swift
FORMATTED = Package.swift Sources Tests Examples Fuzz/Package.swift Fuzz/Sources

# Seeds that `make simulate` runs, and where `make soak` begins: far from those of `make verify`.
SEEDS ?= 1000
FIRST ?= 1
SOAK_SEEDS ?= 50000
SOAK_FIRST ?= 1000001

# Real clusters that `make test` runs; `make verify` runs all of them.
SHORT_END_TO_END = Partition|Crash|Pin|Count|Relationship|Mistake|Inspect|Readme|Inspect

# One deliberate defect of each kind, for `make verify`; `make mutants` has all.
MUTANT_SAMPLE = dot-reused save-not-synced tie-by-arrival dangling-shown join-keeps-overwritten \
	tombstone-early hash-order queue-unbounded

# With Swift's own libraries in the program. All that builds for release says the same, or each would build
# everything again.
RELEASE = $(SWIFT) build -c release --static-swift-stdlib

# Where `make install` puts the program, its man pages and its completions. DESTDIR goes before it.
PREFIX ?= /usr/local

.PHONY: all dependencies build release install laboratory test slow simulate soak mutants misuse fuzz fuzz-soak \
	thread-sanitizer demo benchmark \
	benchmark-peers deploy-check inspector-check openapi-check lint format verify clean

all: build

dependencies:
	@sh deploy/dependencies.sh

build: dependencies
	@echo "Building (the first time takes some minutes: all packages are built)..."
	$(SWIFT) build

release: dependencies
	@echo "Building for release (the first time takes some minutes: all packages are built)..."
	$(RELEASE) --product tributary

# Of a release build that is there, or is made now; completions where the shells of most systems look for them.
install: release
	@set -e; built=$$($(RELEASE) --show-bin-path); made=$$(mktemp -d); trap 'rm -rf "$$made"' EXIT; \
	install -D -m 0755 "$$built/tributary" "$(DESTDIR)$(PREFIX)/bin/tributary"; \
	"$$built/tributary" manual "$$made"; \
	install -d "$(DESTDIR)$(PREFIX)/share/man/man1"; \
	install -m 0644 "$$made"/man1/* "$(DESTDIR)$(PREFIX)/share/man/man1"; \
	install -D -m 0644 "$$made/completions/tributary" \
		"$(DESTDIR)$(PREFIX)/share/bash-completion/completions/tributary"; \
	install -D -m 0644 "$$made/completions/_tributary" \
		"$(DESTDIR)$(PREFIX)/share/zsh/site-functions/_tributary"; \
	install -D -m 0644 "$$made/completions/tributary.fish" \
		"$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/tributary.fish"
	@echo "Installed below $(DESTDIR)$(PREFIX)."

# The laboratory: the simulator and the demo. Nothing of it is in the program.
laboratory: dependencies
	@echo "Building the laboratory for release (the first time takes some minutes)..."
	$(RELEASE) --product tributary-lab

# All but what takes long: see `slow`.
test: dependencies
	@sh deploy/dependencies.sh tests
	@echo "1 of 4: building the program and its tests (some minutes the first time)..."
	$(SWIFT) build --build-tests
	@# One after the other: the laws keep both cores busy, and what waits for a node would starve.
	@echo "2 of 4: rules, laws, the store and the program's commands (some minutes)..."
	@SWIFT="$(SWIFT)" Tests/run \
		'^(HouseRules|Merge|Replication|Coordinator|NodeCore|Fuzz|Inspector|Command)Tests\.'
	@echo "3 of 4: one node..."
	@SWIFT="$(SWIFT)" Tests/run '^NodeTests\.'
	@echo "4 of 4: real clusters, the short ones..."
	@SWIFT="$(SWIFT)" Tests/run '^EndToEndTests\.EndToEnd/($(SHORT_END_TO_END))Tests/'

# The judges of the simulator, all real clusters with their faults, and 1,000 seeds.
slow:
	@SWIFT="$(SWIFT)" Tests/run '^SimulationTests\.'
	@SWIFT="$(SWIFT)" Tests/run '^EndToEndTests\.'
	@# The store's tests use stores in memory, but for these.
	@TRIBUTARY_TEST_STORES=disk SWIFT="$(SWIFT)" Tests/run '^CoordinatorTests\..*Conformance'
	$(MAKE) simulate SEEDS=1000 FIRST=1

simulate: laboratory
	@"$$($(RELEASE) --show-bin-path)/tributary-lab" simulate \
		--seeds $(FIRST)...$$(($(FIRST) + $(SEEDS) - 1)) --check-replay 20 --require-beacons

soak: laboratory
	@"$$($(RELEASE) --show-bin-path)/tributary-lab" simulate \
		--seeds $(SOAK_FIRST)...$$(($(SOAK_FIRST) + $(SOAK_SEEDS) - 1)) --require-beacons
	$(SWIFT) build --build-tests
	@SWIFT="$(SWIFT)" TRIBUTARY_SOAK=1 TRIBUTARY_KILL_POINTS=300 Tests/run '^EndToEndTests\.'

# All of them, or those that MUTANTS names.
mutants: dependencies
	@$(SWIFT) build --product tributary-mutants
	@"$$($(SWIFT) build --show-bin-path)/tributary-mutants" . $(MUTANTS)

# That a programmer's error is told in a release build too.
misuse: dependencies
	@SWIFT="$(SWIFT)" Tests/Misuse/check

fuzz: dependencies
	@SWIFT="$(SWIFT)" sh Fuzz/run -t 120

fuzz-soak: dependencies
	@SWIFT="$(SWIFT)" sh Fuzz/run -t 1800

# Apart, for what waits for a node would starve beside the laws.
thread-sanitizer: dependencies
	$(SWIFT) build --build-tests --sanitize=thread --scratch-path .build-thread
	TSAN_OPTIONS="suppressions=$(CURDIR)/deploy/thread-sanitizer.suppressions" \
		$(SWIFT) test --skip-build --sanitize=thread --scratch-path .build-thread \
		--filter '^CoordinatorTests\.'
	TSAN_OPTIONS="suppressions=$(CURDIR)/deploy/thread-sanitizer.suppressions" \
		$(SWIFT) test --skip-build --sanitize=thread --scratch-path .build-thread \
		--filter '^NodeTests\.'

demo: dependencies
	@echo "Building tributary (the first time takes some minutes: all packages are built)..."
	@$(SWIFT) build --product tributary
	@$(SWIFT) build --product tributary-lab
	@"$$($(SWIFT) build --show-bin-path)/tributary-lab" demo

benchmark: dependencies
	@echo "Building for release..."
	$(RELEASE) --product tributary
	$(RELEASE) --product tributary-benchmark
	@"$$($(RELEASE) --show-bin-path)/tributary-benchmark" all

# Beside PostgreSQL with pglogical, which it installs where it may.
benchmark-peers: dependencies
	@sh deploy/benchmark/prepare install
	@echo "Building for release..."
	$(RELEASE) --product tributary
	$(RELEASE) --product tributary-benchmark
	@"$$($(RELEASE) --show-bin-path)/tributary-benchmark" peers

# With the program that is built already; what lacks a tool on this machine is skipped and said so.
deploy-check:
	@sh deploy/check

# The inspector's page in headless Chromium, on three nodes. Says why where a browser cannot be had.
inspector-check:
	@if command -v python3 >/dev/null; then \
		TRIBUTARY="$${TRIBUTARY:-$$($(SWIFT) build --show-bin-path)/tributary}" python3 Tests/InspectorPage/run.py; \
	else echo "skipped: the inspector's page was not tested, because python3 is missing"; fi

# docs/openapi.json against real nodes. Without schemathesis it says so, and ends well.
openapi-check:
	@if command -v python3 >/dev/null; then \
		TRIBUTARY="$${TRIBUTARY:-$$($(SWIFT) build --show-bin-path)/tributary}" python3 Tests/OpenAPI/check.py; \
	else echo "skipped: the description of the interface was not tested, because python3 is missing"; fi

lint:
	$(SWIFT) format lint --strict --recursive --parallel $(FORMATTED)

format:
	$(SWIFT) format --in-place --recursive --parallel $(FORMATTED)

# Before an issue is done.
verify: lint test slow misuse deploy-check inspector-check
	$(MAKE) mutants MUTANTS="$(MUTANT_SAMPLE)"

clean:
	rm -rf .build
