# Portcullis as one bundle, on a Node image without shell and package manager, as a non-root user.
#
# Builds are reproducible if both base images are pinned by digest and the time is fixed:
#
#   docker buildx build --platform=linux/amd64,linux/arm64 --provenance=mode=max --sbom=true \
#     --build-arg BUILD_IMAGE=docker.io/library/node:24.21.0-trixie-slim@sha256:… \
#     --build-arg RUNTIME_IMAGE=gcr.io/distroless/nodejs24-debian13:nonroot@sha256:… \
#     --build-arg REVISION=$(git rev-parse HEAD) \
#     --build-arg SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) \
#     --output=type=image,name=registry.example.com/portcullis:0.1.0,rewrite-timestamp=true,push=true .
#
# Current digests: docker buildx imagetools inspect IMAGE

# The build stage needs npm.
ARG BUILD_IMAGE=docker.io/library/node:24.21.0-trixie-slim
# The runtime image has no exact tags: pin it by digest for a release. Its user is 65532.
ARG RUNTIME_IMAGE=gcr.io/distroless/nodejs24-debian13:nonroot

# The bundle is the same for every platform: it is built once, without emulation.
FROM --platform=$BUILDPLATFORM ${BUILD_IMAGE} AS build
WORKDIR /src
COPY package.json package-lock.json ./
# The lock file pins the checksum of every package. Install scripts do not run.
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
# The initial objects of the development cluster.
COPY examples/cluster examples/cluster
# A numeric user, so that Kubernetes can verify runAsNonRoot. It owns no file and writes none.
USER 65532:65532
EXPOSE 8443 8081
# Frees large buffers at once, and lets all threads share the free memory. By default, glibc would keep up to 100 MiB.
ENV MALLOC_ARENA_MAX=1 MALLOC_MMAP_THRESHOLD_=131072
# The heap has 45 % of the memory limit: 230 MiB at the limit of 512Mi in the manifests. The rest is for connections, bodies and
# the worker of large texts. Space for new objects in MiB: at that limit, Node would choose 1 MiB, and reviews would take
# more CPU time.
ENTRYPOINT ["/nodejs/bin/node", "--max-old-space-size-percentage=45", "--max-semi-space-size=4", "/app/dist/main.js"]
# By default the development cluster. An installation sets its own arguments.
CMD ["serve", "--bind-address=0.0.0.0", "--health-probe-bind-address=0.0.0.0:8081", "--cert-dir=/tmp/certs"]
