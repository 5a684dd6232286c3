# syntax=docker/dockerfile:1@sha256:87999aa3d42bdc6bea60565083ee17e86d1f3339802f543c0d03998580f9cb89
# check=error=true

# One image per process, all of them from this file, with the repository as the context:
#
#   docker build --build-arg SERVICE=gateway -t paceline/gateway .
#
# SERVICE is gateway, onboarding, messaging, or paceline (the emulators and the tools of staging). The verb version prints VERSION and
# COMMIT: the context holds no repository to read them from.

FROM --platform=$BUILDPLATFORM golang:1.26-bookworm@sha256:a688600ca24f8a4d3ca77f95b0dd40704a9fc787c826660eb7ba0b641b8b175d AS build
ARG SERVICE
ARG VERSION
ARG COMMIT
ARG TARGETOS
ARG TARGETARCH
WORKDIR /src
COPY . .
# Modules come with the build, through a cache that stays: a `go mod download` of the whole workspace would also fetch what no
# binary links. Each module builds alone (GOWORK=off), as CI checks, so an image holds the versions of its own go.mod.
# The binary is static and has no build id of the machine it was made on.
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
	set -eu; \
	case "$SERVICE" in \
		gateway) module=gateway package=./cmd/gateway ;; \
		onboarding) module=services/onboarding package=./cmd/onboarding ;; \
		messaging) module=services/messaging package=./cmd/messaging ;; \
		paceline) module=deploy package=./paceline ;; \
		*) echo "SERVICE must be gateway, onboarding, messaging or paceline" >&2; exit 1 ;; \
	esac; \
	CGO_ENABLED=0 GOWORK=off GOOS="$TARGETOS" GOARCH="$TARGETARCH" \
		go -C "$module" build -trimpath -buildvcs=false -o /out/service \
		-ldflags="-s -w -X paceline.internal/platform/process.release=${VERSION:-} -X paceline.internal/platform/process.commit=${COMMIT:-}" "$package"

# No shell, no package manager: certificates of the internet, time zones, and a user who is not root. The number is what Kubernetes
# compares with runAsNonRoot. Nothing is ever written, so the root file system may be read-only.
FROM gcr.io/distroless/static-debian12:nonroot@sha256:afa5c872c891853ca7fcf1f12c3edb23f7eeef36189728842dd51042ff57f7ab
COPY --from=build /out/service /service
USER 65532:65532
ENTRYPOINT ["/service"]
