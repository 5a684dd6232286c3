# The targets are a person's shorthand; .ci/run is the definition of done.

MODULES  := $(shell go list -m -f '{{.Dir}}')
FUZZTIME ?= 20s
export PATH := $(CURDIR)/.bin:$(PATH)

.DEFAULT_GOAL := help
.PHONY: environment copy help demo up test proof race check gen lint fmt tidy fuzz acceptance tools release-try

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## play one conversation, from activation to the interview
	go run ./deploy/paceline demo

up: ## keep the whole stack running, with its data
	go run ./deploy/paceline up

test: ## run the tests that prove each promise once
	go test -short -timeout 30m work

proof: ## run every test
	go test -timeout 60m work

race: ## run every test under the race detector
	CGO_ENABLED=1 go test -race -shuffle=on work

check: ## all that CI runs; installs nothing
	CI=false ./.ci/run

gen: tools ## generate code from the protos
	buf generate

lint: tools ## lint protos and code
	buf lint
	golangci-lint run $(addsuffix /...,$(MODULES))

fmt: tools ## format protos and code
	buf format --write
	golangci-lint fmt $(MODULES)

tidy: ## tidy every module
	for module in $(MODULES); do GOWORK=off go -C "$$module" mod tidy || exit; done

fuzz: ## run every fuzz target for FUZZTIME
	@for dir in $$(go list -f '{{.Dir}}' work); do \
		for target in $$(grep -hos '^func Fuzz[A-Za-z0-9_]*' "$$dir"/*_test.go | cut -d ' ' -f 2); do \
			echo "$$dir $$target"; go test "$$dir" -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) || exit; \
		done; \
	done

acceptance: ## run every test and write which test holds which criterion
	go test -timeout 60m -json work | go run ./test/docs/acceptance -update

environment: ## write docs/configuration.md from the config structs
	go test -count=1 ./test/docs -run TestEnvironmentContract -update

copy: ## write the tables of texts in docs/flows.md
	go test -count=1 ./test/docs -run TestCopyPage -update

tools: ## install what tools/go.mod pins into .bin
	GOBIN=$(CURDIR)/.bin GOWORK=off go -C tools install tool

# The release tools are no part of tools/go.mod: they are many modules, and only a release needs them.
release-try: ## make the release's files in dist/, without a tag and without publishing
	GOBIN=$(CURDIR)/.bin go install github.com/goreleaser/goreleaser/v2@v2.14.0
	GOBIN=$(CURDIR)/.bin go install github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0
	goreleaser check
	goreleaser release --snapshot --clean
