# Portcullis, as small as it gets: one bundle on a Node without shell or package manager, not root.
#
# The same sources give the same image, to the digest, when both base images are named by their digests and time is fixed:
#
#   docker buildx build --platform=linux/amd64,linux/arm64 --provenance=mode=max --sbom=true \
#     --build-arg BUILD_IMAGE=docker.io/library/node:24.21.0-trixie-slim@sha256:… \
#     --build-arg RUNTIME_IMAGE=gcr.io/distroless/nodejs24-debian13:nonroot@sha256:… \
#     --build-arg REVISION=$(git rev-parse HEAD) \
#     --build-arg SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) \
#     --output=type=image,name=registry.example.com/portcullis:0.1.0,rewrite-timestamp=true,push=true .
#
# The digests of the day: docker buildx imagetools inspect IMAGE

# Used while building only: it has to be able to run npm.
ARG BUILD_IMAGE=docker.io/library/node:24.21.0-trixie-slim
# What runs: it has no exact tags, so name it by its digest for a release. Its user is 65532.
ARG RUNTIME_IMAGE=gcr.io/distroless/nodejs24-debian13:nonroot

# What is built is JavaScript and the same for every platform: it is built once, without emulation.
FROM --platform=$BUILDPLATFORM ${BUILD_IMAGE} AS build
WORKDIR /src
COPY package.json package-lock.json ./
# The lock file holds the checksum of every package; none gets to run code of its own.
RUN npm ci --ignore-scripts --no-audit --no-fund
COPY tsconfig.json ./
COPY scripts scripts
COPY src src
RUN npm run build

FROM ${RUNTIME_IMAGE}
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="portcullis" \
      org.opencontainers.image.description="Pod security admission for any Kubernetes cluster" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
WORKDIR /app
COPY LICENSE LICENSE
COPY --from=build /src/package.json package.json
COPY --from=build /src/dist/main.js /src/dist/LICENSES.txt dist/
COPY --from=build /src/dist/chunks dist/chunks
# What the embedded cluster starts with.
COPY examples/cluster examples/cluster
# A number, so that Kubernetes can tell that it is not root. Nothing here belongs to it, and it needs to write nothing.
USER 65532:65532
EXPOSE 8443 8081
ENTRYPOINT ["/nodejs/bin/node", "/app/dist/main.js"]
# Without a cluster: the embedded one. An installation has arguments of its own.
CMD ["serve", "--bind-address=0.0.0.0", "--health-probe-bind-address=0.0.0.0:8081", "--cert-dir=/tmp/certs"]
