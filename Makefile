# Has the same targets as the other ip-masq-agent projects. `make help` lists them and the variables.
SHELL := /bin/sh
.DEFAULT_GOAL := build

# Uses the Node.js that the lockfile pins, instead of the machine's.
export PATH := $(CURDIR)/node_modules/.bin:$(PATH):/usr/local/sbin:/usr/sbin:/sbin

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
# The registry to push images to, such as registry.example/team.
REGISTRY ?=
OWN_ARCH := $(if $(filter aarch64 arm64,$(shell uname -m)),arm64,amd64)
ARCH ?= $(OWN_ARCH)
ALL_ARCH := amd64 arm64
# What builds and pushes images: docker, or buildah, which needs no daemon. More flags for its commands, such as --no-cache, and
# --tls-verify=false for a registry without TLS, which buildah needs.
BUILDER ?= docker
BUILD_FLAGS ?=
PUSH_FLAGS ?=
# Images in the place of those that Dockerfile.in names, such as those of `make stand-ins`.
BASE_IMAGE ?=
DEBIAN_IMAGE ?=
NODE_IMAGE ?=
# If everything is installed, `make SETUP=true` skips the set-up.
SETUP := build/setup.sh
# For owner: a user or an organisation on GitHub.
OWNER ?=
# The build time in the image's metadata, and the time of the agent's files in it; see reproducible-builds.org.
export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 0)
# The address of the repository: that of package.json, so that all clones give the same image.
SOURCE ?= https://github.com/$(shell sed -n 's/.*"repository": "github:\(.*\)",/\1/p' package.json)
REVISION := $(shell git rev-parse HEAD 2>/dev/null)

# By default Node.js leaves one core idle. Tests of a kernel often wait for it: three files per core keep all cores busy.
# Most files and their helpers load the same modules: the cache keeps these compiled.
RUN_TESTS := NODE_COMPILE_CACHE=$(CURDIR)/bin/compile-cache build/run-tests.sh --test-timeout=120000 \
	--test-concurrency=$(shell expr 3 '*' $$(nproc)) $(if $(SEED),--import=./test/lab/runs.ts)

FIND_UNUSED := knip --no-progress --no-config-hints

VALIDATOR := lib/config/schema.generated.js
BIN := bin/ip-masq-agent
SOURCES := $(shell find cmd lib -name '*.ts') package.json
NAME := $(if $(REGISTRY),$(REGISTRY:/=)/)ip-masq-agent
IMAGES := $(ALL_ARCH:%=$(NAME)-%:$(VERSION))
IMAGE := $(NAME)-$(ARCH):$(VERSION)
export DOCKER_BUILDKIT := 1
# buildah keeps no layers of its own accord.
export BUILDAH_LAYERS := true
BUILD := $(BUILDER) build $(BUILD_FLAGS) --file=bin/image/Dockerfile
FILL_IN := -e 's|{ARG_VERSION}|$(VERSION)|' -e 's|{ARG_COMMIT}|$(REVISION)|' -e 's|{ARG_SOURCE}|$(SOURCE)|' \
	-e 's|{ARG_SECONDS}|$(SOURCE_DATE_EPOCH)|' -e "s|{ARG_CREATED}|$$(date --utc --date=@$(SOURCE_DATE_EPOCH) +%Y-%m-%dT%H:%M:%SZ)|" \
	$(if $(BASE_IMAGE),-e 's|[^ ]*/cc-debian[^ ]*|$(BASE_IMAGE)|') $(if $(DEBIAN_IMAGE),-e 's| debian:[^ ]*@[^ ]*| $(DEBIAN_IMAGE)|') \
	$(if $(NODE_IMAGE),-e 's| node:[^ ]*@[^ ]*| $(NODE_IMAGE)|')

# Of the clusters of test-cluster and cluster-up: iptables or nftables; ipv4, dual or ipv6.
# Scenarios 1, 2, 3 and 9 know a cluster of IPv6 alone.
export PROXY_MODE ?= iptables
export FAMILIES ?= ipv4
# The version of Kubernetes, such as 1.36.3, instead of that in test/cluster/local/go.mod.
export KUBERNETES ?=
# Numbers of scenarios for test-cluster, such as 1,2,9, instead of all; `all` for every PROXY_MODE, with FAMILIES ipv4 and dual.
export SCENARIOS ?=
export MATRIX ?=
# Set to yes to end test-cluster after the first scenario that fails.
export BAIL ?=
# Set to yes to write what test-cluster or test-kernels has seen to their results.md.
export RECORD ?=
# Names of virtual machines for test-kernels, such as 6.1,6.1-ipv4, instead of all; SHORT=yes for fewer tests, as in .ci/run.
export KERNELS ?=
export SHORT ?=

.PHONY: help setup setup-all setup-cluster setup-kernels setup-skew build all-build container all-container push all-push manifest release \
	check unit unit-waiting unit-others coverage test test-more test-all test-skew test-kernels test-cluster cluster-programs helm cluster-up cluster-down image-digests stand-ins lint demo bench mutants faults clean version owner need-registry need-version

help: ## list targets and variables
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' Makefile
	@echo
	@echo '  Variables, as in `make push REGISTRY=registry.example/team`, and their values:'
	@$(foreach name,REGISTRY VERSION ARCH SOURCE_DATE_EPOCH BUILDER BUILD_FLAGS PUSH_FLAGS BASE_IMAGE DEBIAN_IMAGE NODE_IMAGE \
	    PROXY_MODE FAMILIES KUBERNETES SCENARIOS MATRIX BAIL KERNELS SHORT RECORD,\
	    printf '  %-21s %s\n' '$(name)' '$($(name))';)

setup: ## install what is missing: Debian packages, npm packages
	@$(SETUP)

setup-all:
	@$(SETUP) all

setup-cluster:
	@$(SETUP) cluster

setup-kernels:
	@$(SETUP) kernels

setup-skew:
	@$(SETUP) skew

build: setup $(BIN) ## build bin/ip-masq-agent, which runs on this machine

all-build: build $(ALL_ARCH:%=build-%) ## also build the content of the images for all ARCHs, in bin/image

container: container-$(ARCH) ## build the image for one ARCH, $(REGISTRY)/ip-masq-agent-$(ARCH):$(VERSION); needs git, make and the BUILDER

all-container: $(ALL_ARCH:%=container-%) ## build the images for all ARCHs; one that is not this machine's needs QEMU (binfmt_misc)

push: need-registry container ## build and push the image for one ARCH
	$(BUILDER) push $(PUSH_FLAGS) $(IMAGE)

all-push: need-registry all-container ## build the images for all ARCHs, then push them
	$(foreach image,$(IMAGES),$(BUILDER) push $(PUSH_FLAGS) $(image) &&) true

# Debian 12 has a docker without buildx.
manifest: all-push ## push all images, and $(REGISTRY)/ip-masq-agent:$(VERSION), under which each machine gets the image for its ARCH
ifeq ($(notdir $(BUILDER)),buildah)
	! buildah manifest exists $(NAME):$(VERSION) || buildah manifest rm $(NAME):$(VERSION)
	buildah manifest create $(NAME):$(VERSION) $(IMAGES)
	buildah manifest push --all --digestfile=bin/image/pushed $(PUSH_FLAGS) $(NAME):$(VERSION) docker://$(NAME):$(VERSION)
else
	$(BUILDER) buildx imagetools create --tag=$(NAME):$(VERSION) $(IMAGES)
	$(BUILDER) buildx imagetools inspect --format='{{.Manifest.Digest}}' $(NAME):$(VERSION) >bin/image/pushed
endif
	@cat bin/image/pushed && echo

image-digests: ## take the newest images of the same tags for Dockerfile.in; needs docker with buildx
	for image in $$(grep -o '[^ ]*:[^ ]*@sha256' Dockerfile.in | sed 's/@.*//' | sort -u); do \
	    digest=$$(docker buildx imagetools inspect --format='{{.Manifest.Digest}}' $$image) && sed -i "s|$$image@[^ ]*|$$image@$$digest|" Dockerfile.in || exit; \
	done

stand-ins: ## build stand-ins for the images that Dockerfile.in names, where no registry can be reached; needs Debian and root
	@$(SETUP) image
	build/stand-ins.sh $(BUILDER) $(ARCH)

release: need-version manifest all-build ## push all images, and write what people install to bin/release/$(VERSION)
	node build/release.ts '$(VERSION)' $(NAME) "$$(tail -n 1 bin/image/pushed)" $(SOURCE_DATE_EPOCH) $(ALL_ARCH)

check: setup $(VALIDATOR) ## run lint and unit tests, side by side: some 45 seconds on 2 cores
	@$(MAKE) --no-print-directory --jobs=3 --output-sync=target SETUP=true unit-waiting unit-others lint
	@node build/count-lines.ts cmd lib test

# All files of one line run in one process: to start Node.js more than a hundred times would take as long as all the tests.
# Those of the first line often wait: the others use the time.
WAITING := agent|dataplane|flows|log|netlink|status

unit: unit-waiting unit-others

unit-waiting: setup $(VALIDATOR)
	$(RUN_TESTS) --test-isolation=none 'test/unit/@($(WAITING))/**/*.test.ts'

unit-others: setup $(VALIDATOR)
	$(RUN_TESTS) --test-isolation=none 'test/unit/{*.test.ts,!($(WAITING))/**/*.test.ts}'

coverage: setup $(VALIDATOR) ## count which lines and branches of cmd and lib the unit tests run: at least 91 % of each
	node --test --test-isolation=none --experimental-test-coverage --test-coverage-include='cmd/**' \
	    --test-coverage-include='lib/**' --test-coverage-lines=91 --test-coverage-branches=91 'test/unit/**/*.test.ts'

test: check $(BIN) ## run check, then tests with a real kernel, real packets and the whole agent: 4 to 7 minutes on 2 idle cores
	$(RUN_TESTS) 'test/{kernel,packets,e2e}/**/*.test.ts'
	@echo 'test: skipped the tests that need Docker, Prometheus or kustomize, and long random runs; `make test-more` runs them'

test-more: setup-all $(BIN) ## run the tests that test skips; they need many packages
	$(RUN_TESTS) 'test/{manifests,programs,prometheus,image}/**/*.test.ts'
	RUNS=10 $(RUN_TESTS) --test-timeout=600000 'test/kernel/random-*.test.ts' 'test/packets/{atomic,state,verdicts}.test.ts'
	@$(MAKE) --no-print-directory test-skew

test-all: test ## run test, then test-more, as CI does
	@$(MAKE) --no-print-directory test-more

test-skew: setup-skew $(BIN) ## test the agent beside nft and iptables of other releases of Debian
	$(RUN_TESTS) 'test/skew/**/*.test.ts'

test-kernels: setup-kernels $(BIN) ## test the agent on other kernels, in virtual machines: an hour on 2 cores without KVM
	@node test/kernels/run.ts

test-cluster: setup-cluster $(BIN) $(VALIDATOR) ## test the agent in a real Kubernetes: that of KUBECONFIG, else one on this machine, which needs root and Go
	node test/cluster/run.ts

cluster-programs: setup-cluster ## build Kubernetes for test-cluster and cluster-up: 11 minutes of a core if Go's cache is empty
	@node test/cluster/local/build.ts

helm: ## build helm for the tests of its chart in test-more: 2 minutes of a core; needs Go
	@node test/cluster/local/build.ts helm

cluster-up: setup-cluster $(VALIDATOR) ## start a Kubernetes of two nodes on this machine, with the agent in it; needs root and Go
	@node test/cluster/playground.ts

cluster-down: ## remove what cluster-up started, also after a crash
	@node test/cluster/local/down.ts

lint: setup $(VALIDATOR) ## check only format, lint rules and types, and that nothing is unused
	biome ci --colors=off --error-on-warnings .
	tsc
	$(FIND_UNUSED)
	@# What only tests use counts as unused, unless its own file uses it too.
	$(FIND_UNUSED) --production --config=knip.production.json

demo: build ## show the agent at work with real packets, in a private lab
	@node test/demo/demo.ts

bench: build ## measure starts, reaction, idle resync and memory
	@node test/bench/bench.ts

# Files of lib/cidr, config, inputs, policy, report or status, such as lib/config/yaml.ts or lib/report/*.ts; or lines of one,
# such as lib/cidr/prefix.ts:20-40.
export MUTATE ?=
# Of its 100 packages nothing else needs any: they are in no lockfile, and in npm's cache.
STRYKER := npm exec --yes --package=@stryker-mutator/core@10.0.0 --package=@stryker-mutator/tap-runner@10.0.0 -- stryker

mutants: setup $(VALIDATOR) ## change each expression of lib/cidr and lib/policy, or of MUTATE, and list what no unit test notices: half an hour on 2 idle cores
	SEED=1 $(STRYKER) run test/mutants/stryker.config.ts

# A part of names in test/faults, such as agent/, instead of all; and for how many seconds to begin more, in an order that SEED draws.
FAULT ?=
FAULT_SECONDS ?=

faults: setup $(VALIDATOR) ## break the code as it once was, in each way of test/faults, and check that the tests notice; as root, a quarter of an hour on 2 idle cores
	@SECONDS=$(FAULT_SECONDS) node test/faults/faults.ts $(FAULT)

clean: ## remove what builds created
	rm -rf bin lib/config/*.generated.js

version: ## print the version of a build
	@echo $(VERSION)

owner: ## write the owner of the repository on GitHub to all files, once: make owner OWNER=name
	@node build/owner.ts '$(OWNER)'

$(VALIDATOR): schemas/ip-masq-config.schema.json build/compile-schema.ts | setup
	node build/compile-schema.ts

$(BIN): $(SOURCES) $(VALIDATOR) build/bundle.ts build/code-cache.ts build/launch.ts build/native-module.ts build/sources.ts package-lock.json bin/.version | setup
	node build/bundle.ts $(VERSION)

$(ALL_ARCH:%=build-%): build-%: bin/image/Dockerfile
	rm -rf bin/image/$*
	$(BUILD) --platform=linux/$* --target=files --output=type=local,dest=bin/image/$* .

$(ALL_ARCH:%=container-%): container-%: bin/image/Dockerfile
	$(BUILD) --platform=linux/$* --tag=$(NAME)-$*:$(VERSION) .

bin/image/Dockerfile: FORCE
	@mkdir -p $(@D)
	@sed $(FILL_IN) Dockerfile.in >$@

# The fallback of VERSION, a commit, is no version to install.
need-version:
	@test '$(origin VERSION)' != file && echo '$(VERSION)' | grep -Eqx 'v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?' || \
	    { echo 'release: set VERSION, for example VERSION=v1.2.3' >&2; exit 1; }

need-registry:
	@test -n '$(REGISTRY)' || { echo 'push: set REGISTRY, for example REGISTRY=registry.example/team' >&2; exit 1; }

# Changes only if the version changes, so that the binary never has an old version.
bin/.version: FORCE
	@mkdir -p bin
	@echo '$(VERSION)' | cmp -s - $@ || echo '$(VERSION)' > $@

FORCE:
