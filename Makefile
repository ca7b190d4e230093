# vkc. `make demo` and `make test` install what they need first (scripts/setup).

# Where scripts/setup and Go's own archives put their programs; see scripts/lib/env.sh.
export PATH := $(CURDIR)/.tools/go/bin:$(CURDIR)/.tools/glsl/bin:$(PATH):/usr/local/go/bin
export GOTOOLCHAIN ?= auto

PKG ?= ./...
BENCH ?= .
FUZZTIME ?= 10s
AGAINST ?= h100
DEVICE ?= cpu

.DEFAULT_GOAL := help
.PHONY: help setup build install demo model js js-test models drivers drivers-test cross windows windows-test arm64 arm64-test test test-full mutants missing client-test beam-test site site-test archives archives-test browser-test gomlx-test bench gobench fmt golden fuzz clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

setup: ## install the toolchain; nothing is done twice
	@scripts/setup

build: ## build bin/vkc
	go build -o bin/vkc ./cmd/vkc

install: ## put vkc where go install puts programs: $(go env GOPATH)/bin, or $GOBIN
	go install ./cmd/vkc

demo: setup ## run a language model's forward pass from generated shaders, checked
	go build -o bin/vkc ./cmd/vkc
	scripts/with-vulkan go run ./examples/gollama -device vulkan

model: setup ## train the chat model of examples/gochat again, on the best device; its checkpoint is bin/gochat.safetensors
	@mkdir -p bin
	scripts/with-vulkan go run ./examples/gochat -checkpoint bin/gochat.safetensors -o examples/gochat/gochat-q8_0.gguf

drivers: ## install drivers of GPUs that are not here (AMD, Qualcomm, Apple, NVIDIA), which report and compile, into .tools/drivers
	@scripts/setup --drivers

drivers-test: setup drivers ## compile every kernel of the benchmark and of vkc verify --ops on each of them; most of an hour
	go test ./internal/drivers -all -timeout 3h -v

cross: ## vet and build, without cgo, for Windows, macOS, FreeBSD and arm64; minutes of compiling for each
	@scripts/platform-test cross

windows: ## build bin/vkc.exe with mingw-w64, which scripts/setup --windows installs
	GOOS=windows GOARCH=amd64 CGO_ENABLED=1 CC=x86_64-w64-mingw32-gcc go build -o bin/vkc.exe ./cmd/vkc

windows-test: ## build for Windows, and run on Wine what docs/PLATFORMS.md lists; Wine is installed into .tools/wine
	@scripts/setup --windows
	@$(MAKE) windows
	@scripts/platform-test wine

arm64: ## build bin/vkc-arm64 for Linux, with the cross compiler that scripts/setup --arm64 installs
	GOOS=linux GOARCH=arm64 CGO_ENABLED=1 CC=aarch64-linux-gnu-gcc go build -o bin/vkc-arm64 ./cmd/vkc

arm64-test: ## build for arm64 Linux, and run under qemu-user what docs/PLATFORMS.md lists; lavapipe goes to .tools/arm64
	@scripts/setup --arm64
	@$(MAKE) arm64
	@scripts/platform-test arm64

js: setup ## build vkc for JavaScript into bin/js: WebAssembly, for browsers and Node
	@scripts/js

js-test: setup ## build vkc for JavaScript, and test it under Node; the page in a browser is a part of browser-test
	@scripts/js --test

models: ## fetch the models of examples/ocr and examples/vad with npm, into .tools/models
	@scripts/models

test: setup ## format, vet, staticcheck, internal/lint, every test, and a part of them under race detector and validation layers
	@scripts/test $(PKG)

test-full: setup ## make test with every test under race detector and validation layers; an hour and more
	@scripts/test --full $(PKG)

missing: ## print the parts that new rows of the tables lack, and the files to edit
	@scripts/missing

mutants: setup ## plant faults, one at a time, and list those that tests miss: make mutants ONLY='passes|quant'; hours
	go run ./internal/mutants -only '$(ONLY)'

client-test: ## have OpenAI's and Anthropic's own clients, which are downloaded, talk with vkc serve; minutes of compiling
	cd serve/clienttest && go test .

gomlx-test: ## test the backend for GoMLX, which is downloaded: make gomlx-test DEVICE=vulkan; minutes
	@scripts/gomlx $(DEVICE)

browser-test: setup ## have a browser (Debian's chromium) use the page of vkc serve and of bin/js; what drives it is downloaded
	cd serve/clienttest && go test ./browser

site: ## make a site of docs/ by Hugo, which is downloaded and built, into bin/site; minutes the first time
	cd site && go run ./api ../bin/api && go tool hugo --destination ../bin/site --noBuildLock

site-test: ## make the site, and follow all its links
	cd site && go test .

archives: ## build archives, packages and a container image of this checkout into bin/release
	cd release && go run . -version $(or $(VERSION),v0.0.0-dev) -out ../bin/release

archives-test: ## build them for this machine, install the deb in a chroot, and run the demo there (as root)
	cd release && go test -v .

beam-test: ## run the transforms of module beam/ on Apache Beam's SDK, which is downloaded; minutes of compiling
	cd beam && go test ./...

bench: setup build ## measure all kernels on the best device, into bin/bench.json and bin/bench.svg; PAGE=FILE.md fills in its tables
	scripts/with-vulkan bin/vkc bench --against $(AGAINST) --output bin/bench.json --plot bin/bench.svg $(if $(PAGE),--page $(PAGE))

gobench: ## run Go's benchmarks: make gobench PKG=./runtime/vk BENCH=Replay
	scripts/with-vulkan go test -run '^$$' -bench '$(BENCH)' -benchmem $(PKG)

fmt: ## format all Go files
	find . -path './.*' -prune -o -name '*.go' -exec gofmt -w {} +

golden: ## write the golden files anew from what the code does now; read the diff
	@scripts/golden $(PKG)

fuzz: ## run every fuzz target for FUZZTIME (10s)
	@scripts/fuzz $(FUZZTIME) $(PKG)

clean: ## remove what was built; .tools/ stays (rm -r .tools undoes scripts/setup's private part)
	rm -rf bin
	go clean -testcache
