# The few commands a person needs; everything behind them is CMake, tools/ and tests/. `make help` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := all
.DELETE_ON_ERROR:

PREFIX ?= /usr/local
DESTDIR ?=
JOBS ?= $(shell nproc)
TEST_FLAGS ?=
FUZZ_SECONDS ?= 600
TORTURE_SECONDS ?= 60

.PHONY: all demo test bench install uninstall asan fuzz torture kernels format tidy clean help targets setup setup-test setup-bench setup-torture setup-kernels

all: setup ## build the stripped static executable build/uscope
	@tools/build release uscope
	@tools/strip-to build/release/src/uscope build/uscope

demo: all ## show uscope at work on a small busy program (under a minute)
	@tools/demo

test: setup-test ## build and run every test; ends in one line of totals
	@$(MAKE) --no-print-directory all targets
	@tools/build release
	@if command -v clang++-16 >/dev/null; then tools/build fuzz fuzzers; fi
	@tests/run -j $(JOBS) $(TEST_FLAGS)

bench: setup-bench ## measure side by side with nm, perf, gdb and bpftrace
	@$(MAKE) --no-print-directory all
	@bench/run $(BENCH_FLAGS)

install: all ## copy the executable to $(DESTDIR)$(PREFIX)/bin
	install -D -m 755 build/uscope "$(DESTDIR)$(PREFIX)/bin/uscope"

uninstall: ## remove what install copied
	rm -f "$(DESTDIR)$(PREFIX)/bin/uscope"

asan: setup-test targets ## build with address and undefined-behaviour sanitizers, and run the unit and e2e tests
	@tools/build asan
	@tests/run -j $(JOBS) --preset asan --only unit,e2e $(TEST_FLAGS)

fuzz: setup-test ## fuzz every reader for FUZZ_SECONDS (600) each
	@tools/build fuzz fuzzers
	@tests/run -j $(JOBS) --only fuzz --fuzz-seconds $(FUZZ_SECONDS) $(TEST_FLAGS)

torture: setup-torture ## switch probes on and off in hard and in real programs, TORTURE_SECONDS (60) each
	@$(MAKE) --no-print-directory all
	@tools/build release
	@tests/run -j 1 --only torture --torture-seconds $(TORTURE_SECONDS) $(TEST_FLAGS)
	@tests/torture/real/run --seconds $(TORTURE_SECONDS)

kernels: setup-kernels ## boot Debian's kernel in an emulator, and test there what depends on the kernel
	@$(MAKE) --no-print-directory all targets
	@tools/build release
	@tests/kernels/run $(KERNELS_FLAGS)

targets: setup-test ## build the small programs that tests trace, into build/targets
	@tools/fetch-go || echo "the newest Go could not be fetched; what needs it is skipped"
	@$(MAKE) --no-print-directory -C tests/targets -j $(JOBS)

format: ## rewrite the sources as .clang-format says
	@git ls-files -co --exclude-standard 'src/*.cpp' 'src/*.h' 'tests/unit/*.cpp' 'tests/unit/*.h' 'tests/fuzz/*.cpp' | xargs clang-format -i

tidy: setup-test ## run clang-tidy over src/
	@tools/build release
	@git ls-files -co --exclude-standard 'src/*.cpp' | xargs -P $(JOBS) -n 4 clang-tidy --quiet -p build/release

clean: ## remove what was built, keeping fetched sources, toolchains and peers
	rm -rf build/uscope build/dev build/asan build/release build/fuzz build/targets build/test

help: ## list these commands
	@grep -hE '^[a-z-]+:.*## ' $(firstword $(MAKEFILE_LIST)) | sed -E 's/:.*## /\t/' | expand -t 12

setup: ; @tools/setup build
setup-test: ; @tools/setup test
setup-bench: ; @tools/setup bench
setup-torture: ; @tools/setup torture
setup-kernels: ; @tools/setup kernels
