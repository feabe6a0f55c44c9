import { isObject } from './types.ts';

/** A part of an object that may be changed, nothing known about its members. */
export type Part = Record<string, unknown>;

/** Sets a field that is absent, null or empty. */
export function fill(part: Part, field: string, value: unknown): void {
  if (part[field] == null || part[field] === '') part[field] = value;
}

/** The object in a field; `undefined` if there is none. */
export function partAt(part: Part, field: string): Part | undefined {
  const value = part[field];
  return isObject(value) ? value : undefined;
}

/** The object in a field, made if there is none. */
export function partIn(part: Part, field: string): Part {
  fill(part, field, {});
  return partAt(part, field) ?? {};
}

/** The objects in a list. */
export function partsAt(part: Part | undefined, field: string): Part[] {
  const value = part?.[field];
  return Array.isArray(value) ? value.filter((item): item is Part => isObject(item)) : [];
}

/**
 * Fills in what the API server fills in of a pod.
 * @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/apis/core/v1/defaults.go
 */
export function defaultPod(pod: Part): void {
  const spec = partIn(pod, 'spec');
  defaultPodSpec(spec);
  fill(spec, 'enableServiceLinks', true);
  for (const container of [...partsAt(spec, 'initContainers'), ...partsAt(spec, 'containers')]) {
    defaultRequests(container);
    if (spec['hostNetwork'] === true) defaultHostPorts(container);
  }
}

/** Fills in what both pods and pod templates get. */
export function defaultPodSpec(spec: Part): void {
  fill(spec, 'dnsPolicy', 'ClusterFirst');
  fill(spec, 'restartPolicy', 'Always');
  fill(spec, 'securityContext', {});
  fill(spec, 'terminationGracePeriodSeconds', 30);
  fill(spec, 'schedulerName', 'default-scheduler');
  defaultServiceAccount(spec);
  for (const volume of partsAt(spec, 'volumes')) defaultVolume(volume);
  for (const list of ['initContainers', 'containers', 'ephemeralContainers']) {
    for (const container of partsAt(spec, list)) defaultContainer(container);
  }
}

/** The name under which older clients know the service account is kept beside the current one. */
function defaultServiceAccount(spec: Part): void {
  if (spec['serviceAccount'] != null) fill(spec, 'serviceAccountName', spec['serviceAccount']);
  const name = spec['serviceAccountName'];
  if (name != null && name !== '') spec['serviceAccount'] = name;
}

function defaultContainer(container: Part): void {
  fill(container, 'resources', {});
  fill(container, 'terminationMessagePath', '/dev/termination-log');
  fill(container, 'terminationMessagePolicy', 'File');
  fill(container, 'imagePullPolicy', pullPolicy(container['image']));
  for (const port of partsAt(container, 'ports')) fill(port, 'protocol', 'TCP');
  for (const variable of partsAt(container, 'env')) defaultFieldRef(partAt(variable, 'valueFrom'));
  for (const probe of ['livenessProbe', 'readinessProbe', 'startupProbe']) defaultProbe(partAt(container, probe));
  const lifecycle = partAt(container, 'lifecycle');
  if (!lifecycle) return;
  for (const hook of ['postStart', 'preStop']) defaultHttpGet(partAt(lifecycle, hook));
}

function pullPolicy(image: unknown): string {
  return typeof image === 'string' && tagOf(image) === 'latest' ? 'Always' : 'IfNotPresent';
}

const IMAGE_PATH = /^[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(\/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*$/;

/** The tag of an image, `latest` if it names neither tag nor digest; empty for what is no image name. */
function tagOf(image: string): string {
  const [reference = '', digest] = image.split('@', 2);
  const colon = reference.indexOf(':', reference.lastIndexOf('/') + 1);
  const name = colon < 0 ? reference : reference.slice(0, colon);
  const slash = name.indexOf('/');
  const first = name.slice(0, Math.max(slash, 0));
  const hasHost = /[.:]/.test(first) || first === 'localhost' || first !== first.toLowerCase();
  if (!IMAGE_PATH.test(hasHost ? name.slice(slash + 1) : name)) return '';
  if (colon >= 0) return reference.slice(colon + 1);
  return digest === undefined ? 'latest' : '';
}

function defaultProbe(probe: Part | undefined): void {
  if (!probe) return;
  for (const [field, value] of [
    ['timeoutSeconds', 1],
    ['periodSeconds', 10],
    ['successThreshold', 1],
    ['failureThreshold', 3],
  ] as const) {
    if (probe[field] === 0) probe[field] = value;
    fill(probe, field, value);
  }
  const grpc = partAt(probe, 'grpc');
  if (grpc) grpc['service'] ??= '';
  defaultHttpGet(probe);
}

function defaultHttpGet(handler: Part | undefined): void {
  const httpGet = handler && partAt(handler, 'httpGet');
  if (!httpGet) return;
  fill(httpGet, 'path', '/');
  fill(httpGet, 'scheme', 'HTTP');
}

function defaultFieldRef(source: Part | undefined): void {
  const fieldRef = source && partAt(source, 'fieldRef');
  if (fieldRef) fill(fieldRef, 'apiVersion', 'v1');
}

const NO_SOURCE = new Set(['name']);
/** 0644, as JSON has no octal numbers. */
const FILE_MODE = 420;

function defaultVolume(volume: Part): void {
  if (!Object.keys(volume).some((key) => !NO_SOURCE.has(key) && volume[key] != null)) volume['emptyDir'] = {};
  for (const source of ['secret', 'configMap', 'downwardAPI', 'projected']) {
    const files = partAt(volume, source);
    if (files) files['defaultMode'] ??= FILE_MODE;
  }
  const hostPath = partAt(volume, 'hostPath');
  if (hostPath) hostPath['type'] ??= '';
  const image = partAt(volume, 'image');
  if (image) fill(image, 'pullPolicy', pullPolicy(image['reference']));
  const claim = partAt(partAt(volume, 'ephemeral') ?? {}, 'volumeClaimTemplate');
  if (claim) fill(partIn(claim, 'spec'), 'volumeMode', 'Filesystem');
  for (const item of partsAt(partAt(volume, 'downwardAPI'), 'items')) defaultFieldRef(item);
  for (const source of partsAt(partAt(volume, 'projected'), 'sources')) defaultProjection(source);
  for (const [source, fields] of Object.entries(DRIVERS)) {
    const driver = partAt(volume, source);
    if (driver) for (const [field, value] of Object.entries(fields)) fill(driver, field, value);
  }
}

const DRIVERS: Readonly<Record<string, Part>> = {
  azureDisk: { cachingMode: 'ReadWrite', fsType: 'ext4', readOnly: false, kind: 'Shared' },
  iscsi: { iscsiInterface: 'default' },
  rbd: { pool: 'rbd', user: 'admin', keyring: '/etc/ceph/keyring' },
  scaleIO: { storageMode: 'ThinProvisioned', fsType: 'xfs' },
};

function defaultProjection(source: Part): void {
  for (const item of partsAt(partAt(source, 'downwardAPI'), 'items')) defaultFieldRef(item);
  const token = partAt(source, 'serviceAccountToken');
  if (token) token['expirationSeconds'] ??= 3600;
}

function defaultRequests(container: Part): void {
  const resources = partAt(container, 'resources');
  const limits = resources && partAt(resources, 'limits');
  if (!limits) return;
  const requests = partIn(resources, 'requests');
  for (const [name, limit] of Object.entries(limits)) {
    if (!Object.hasOwn(requests, name)) Object.defineProperty(requests, name, { value: limit, ...ORDINARY });
  }
}

/** A resource may have any name, `__proto__` too. */
const ORDINARY = { enumerable: true, configurable: true, writable: true };

function defaultHostPorts(container: Part): void {
  for (const port of partsAt(container, 'ports')) {
    if (port['hostPort'] === 0) delete port['hostPort'];
    fill(port, 'hostPort', port['containerPort']);
  }
}
