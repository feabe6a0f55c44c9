# Portcullis, as small as it gets: one bundle, no shell, no package manager, not root.
ARG NODE_VERSION=24

FROM --platform=$BUILDPLATFORM docker.io/library/node:${NODE_VERSION}-bookworm-slim AS build
WORKDIR /src
COPY package.json package-lock.json ./
RUN npm ci
COPY tsconfig.json ./
COPY scripts scripts
COPY src src
RUN npm run build

FROM gcr.io/distroless/nodejs${NODE_VERSION}-debian12:nonroot
WORKDIR /app
COPY --from=build /src/package.json package.json
COPY --from=build /src/dist dist
COPY examples/cluster examples/cluster
COPY webhook-config webhook-config
USER 65532:65532
EXPOSE 8443 8081
ENTRYPOINT ["/nodejs/bin/node", "/app/dist/main.js"]
CMD ["serve", "--bind-address=0.0.0.0", "--health-probe-bind-address=0.0.0.0:8081", "--cert-dir=/tmp/certs"]
