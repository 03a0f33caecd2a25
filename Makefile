# The targets that people of the ip-masq-agent projects know; `make help` lists them, and the variables.
SHELL := /bin/sh
.DEFAULT_GOAL := build

# Node is the one the lockfile pins, whatever the machine has.
export PATH := $(CURDIR)/node_modules/.bin:$(PATH):/usr/local/sbin:/usr/sbin:/sbin

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
# Where images are pushed to, such as registry.example/team.
REGISTRY ?=
ARCH ?= $(if $(filter aarch64 arm64,$(shell uname -m)),arm64,amd64)
ALL_ARCH := amd64 arm64
# Any Debian 12 or newer: it lays out the image with packages of its archive. The digest is that of the index of all
# architectures.
BASE_IMAGE ?= debian:bookworm-slim@sha256:7c7b2c966bc9ee8cedfeef67e0e279108992c77681fa595db4a9d65c06ccc587
DOCKER ?= docker
# `true` where all is installed already, and nothing is to be looked for.
SETUP := build/setup.sh
# More flags for docker build and docker manifest, such as --network=host and --insecure.
DOCKER_BUILD_FLAGS ?=
DOCKER_MANIFEST_FLAGS ?=
# The time that the image says it was built, and that of the agent's files in it; see reproducible-builds.org.
SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 0)
CREATED = $(shell date -u -d @$(SOURCE_DATE_EPOCH) +%Y-%m-%dT%H:%M:%SZ)
# The repository, without a name or password that the address may hold.
SOURCE ?= $(shell git config --get remote.origin.url 2>/dev/null | sed 's|//[^/@]*@|//|')
REVISION := $(shell git rev-parse HEAD 2>/dev/null)

# Node alone would leave one core idle.
RUN_TESTS := node --test --test-timeout=120000 --test-concurrency=$(shell nproc)

VALIDATOR := lib/config/schema.generated.js
BIN := bin/ip-masq-agent
SOURCES := $(shell find cmd lib -name '*.ts') package.json
NAME := $(if $(REGISTRY),$(REGISTRY:/=)/)ip-masq-agent
IMAGE := $(NAME)-$(ARCH):$(VERSION)
CONTEXT := bin/image/$(ARCH)

.PHONY: help setup setup-all build all-build container all-container push all-push manifest check test test-more test-all \
	lint demo bench soak faults clean version context need-registry

help: ## list the targets and variables
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' Makefile
	@echo
	@echo '  Variables, as in `make push REGISTRY=registry.example/team`, and what they are now:'
	@$(foreach name,REGISTRY VERSION ARCH BASE_IMAGE SOURCE_DATE_EPOCH DOCKER DOCKER_BUILD_FLAGS DOCKER_MANIFEST_FLAGS,\
	    printf '  %-21s %s\n' '$(name)' '$($(name))';)

setup: ## install what is missing: Debian packages, npm packages
	@$(SETUP)

setup-all:
	@$(SETUP) all

build: setup $(BIN) ## build bin/ip-masq-agent, which runs on this machine

all-build: build $(ALL_ARCH:%=build-%) ## build also what goes into the images of all ARCHs, in bin/image

container: context ## build the image of one ARCH with docker: $(REGISTRY)/ip-masq-agent-$(ARCH):$(VERSION)
	$(DOCKER) build $(DOCKER_BUILD_FLAGS) --tag $(IMAGE) --file Dockerfile.in \
	    --build-arg BASE_IMAGE='$(BASE_IMAGE)' --build-arg ARCH=$(ARCH) --build-arg SOURCE_DATE_EPOCH=$(SOURCE_DATE_EPOCH) \
	    $(addprefix --label org.opencontainers.image.,version='$(VERSION)' created=$(CREATED) \
	        $(REVISION:%=revision=%) $(SOURCE:%=source='%')) $(CONTEXT)
	node build/image/normalise.ts $(DOCKER) $(IMAGE) $(ARCH) $(SOURCE_DATE_EPOCH)
	@# For a release: the bill of materials and the licences, as they are in the image.
	@id=$$($(DOCKER) create $(IMAGE) 2>/dev/null) && trap "$(DOCKER) rm $$id >/dev/null" EXIT && \
	    $(DOCKER) cp $$id:/usr/share/sbom/ip-masq-agent.cdx.json $(CONTEXT) && \
	    $(DOCKER) cp $$id:/usr/share/doc/ip-masq-agent/THIRD-PARTY-LICENCES $(CONTEXT)
	@echo $(IMAGE)

all-container: $(ALL_ARCH:%=container-%) ## build the images of all ARCHs

push: need-registry container ## build and push the image of one ARCH
	$(DOCKER) push $(IMAGE)

all-push: $(ALL_ARCH:%=push-%) ## build and push the images of all ARCHs

manifest: all-push ## push all, and $(REGISTRY)/ip-masq-agent:$(VERSION), which is the image of each machine's own ARCH
	$(DOCKER) manifest rm $(NAME):$(VERSION) 2>/dev/null || true
	$(DOCKER) manifest create $(DOCKER_MANIFEST_FLAGS) $(NAME):$(VERSION) $(ALL_ARCH:%=$(NAME)-%:$(VERSION))
	$(DOCKER) manifest push --purge $(DOCKER_MANIFEST_FLAGS) $(NAME):$(VERSION)

check: lint ## at most 45 seconds on 2 cores: format, lint rules, types, unit tests
	$(RUN_TESTS) 'test/unit/**/*.test.ts'

test: check $(BIN) ## at most 5 minutes: check, then tests with a real kernel, real packets and the whole agent
	$(RUN_TESTS) 'test/{kernel,packets,e2e}/**/*.test.ts'
	@echo 'test: left out what needs Docker, Prometheus, Chromium, zsh or kustomize, and long random runs; `make test-more` runs them'

test-more: setup-all $(BIN) ## the tests that test leaves out; they need many packages
	$(RUN_TESTS) 'test/{manifests,programs,prometheus,image}/**/*.test.ts'
	RUNS=10 $(RUN_TESTS) 'test/kernel/random-*.test.ts' test/packets/verdicts.test.ts

test-all: test ## test, then test-more: what CI runs
	@$(MAKE) --no-print-directory test-more

lint: setup $(VALIDATOR) ## format, lint rules and types alone
	biome ci --colors=off --error-on-warnings .
	tsc

demo: build ## show the agent at work with real packets, in a private lab
	@node test/demo/demo.ts

bench: build ## measure, beside what the older agents do: starts, reaction, idle resync, memory, many entries, scrapes
	@node test/bench/bench.ts

soak: build ## 10,000 changes, scrapes and repairs at full speed: memory, handles and reaction over time
	@node test/bench/soak.ts

faults: setup ## break the code in 30 places that matter: the tests must notice each; 5 minutes, as root
	@node test/faults/faults.ts

clean: ## remove what build made
	rm -rf bin lib/config/*.generated.js test/bench/out

version: ## print the version that a build gets
	@echo $(VERSION)

$(VALIDATOR): schemas/ip-masq-config.schema.json build/compile-schema.ts | setup
	node build/compile-schema.ts

$(BIN): $(SOURCES) $(VALIDATOR) build/bundle.ts build/launch.ts package-lock.json bin/.version | setup
	node build/bundle.ts $(VERSION)

$(ALL_ARCH:%=build-%): build-%: FORCE
	@$(MAKE) --no-print-directory context ARCH=$*

$(ALL_ARCH:%=container-%): container-%: FORCE
	@$(MAKE) --no-print-directory container ARCH=$*

$(ALL_ARCH:%=push-%): push-%: FORCE
	@$(MAKE) --no-print-directory push ARCH=$*

context: setup $(VALIDATOR)
	node build/image/stage.ts $(ARCH) '$(VERSION)' $(SOURCE_DATE_EPOCH) '$(BASE_IMAGE)'

need-registry:
	@test -n '$(REGISTRY)' || { echo 'push: set REGISTRY, for example REGISTRY=registry.example/team' >&2; exit 1; }

# Changes only with the version, so that the version in the binary is never an old one.
bin/.version: FORCE
	@mkdir -p bin
	@echo '$(VERSION)' | cmp -s - $@ || echo '$(VERSION)' > $@

FORCE:
