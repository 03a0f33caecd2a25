# The targets that people of the ip-masq-agent projects know; `make help` lists them.
SHELL := /bin/sh
.DEFAULT_GOAL := build

# Node is the one the lockfile pins, whatever the machine has.
export PATH := $(CURDIR)/node_modules/.bin:$(PATH):/usr/local/sbin:/usr/sbin:/sbin

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
VALIDATOR := lib/config/schema.generated.js
BIN := bin/ip-masq-agent
SOURCES := $(shell find cmd lib -name '*.ts') package.json

.PHONY: help setup setup-test build test lint demo bench clean version

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

setup: ## install what is missing: Debian packages, npm packages
	@build/setup.sh

setup-test:
	@build/setup.sh test

build: setup $(BIN) ## build bin/ip-masq-agent

test: setup-test lint $(BIN) ## lint, type check, then unit, property, kernel, end-to-end and packet tests
	node --test --test-timeout=120000 'test/unit/**/*.test.ts' 'test/kernel/**/*.test.ts' 'test/e2e/**/*.test.ts' 'test/packets/**/*.test.ts' 'test/prometheus/**/*.test.ts'

lint: setup $(VALIDATOR) ## check format, lint rules and types
	biome ci --colors=off --error-on-warnings .
	tsc

demo: build ## show the agent at work with real packets, in a private lab
	@node test/demo/demo.ts

bench: build ## measure: starts, reaction, idle resync, many entries, new connections
	@node test/bench/bench.ts

clean: ## remove what build made
	rm -rf bin lib/config/*.generated.js test/bench/out

version: ## print the version that a build gets
	@echo $(VERSION)

$(VALIDATOR): schemas/ip-masq-config.schema.json build/compile-schema.ts | setup
	node build/compile-schema.ts

$(BIN): $(SOURCES) $(VALIDATOR) build/bundle.ts package-lock.json bin/.version | setup
	node build/bundle.ts $(VERSION)

# Changes only with the version, so that the version in the binary is never an old one.
bin/.version: FORCE
	@mkdir -p bin
	@echo '$(VERSION)' | cmp -s - $@ || echo '$(VERSION)' > $@

FORCE:
