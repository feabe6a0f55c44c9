import {
  duplicateValue,
  forbiddenField,
  invalidValue,
  notSupported,
  requiredField,
  type FieldError,
} from '../../../kube/field-error.ts';
import type { JsonObject } from '../../../kube/types.ts';
import { descendingPath, noBacksteps, requiredLabel, subdomain } from '../errors.ts';
import { hasField, numberAt, objectAt, objectsAt, textAt } from '../read.ts';

/** What validation found, and the names of the volumes that are sound. */
export interface Volumes {
  readonly errors: readonly FieldError[];
  readonly names: ReadonlySet<string>;
}

/** Checks the volumes of a pod: each with a name of its own and one source. */
export function validateVolumes(spec: JsonObject, path: string): Volumes {
  const names = new Set<string>();
  const errors: FieldError[] = [];
  for (const [index, volume] of objectsAt(spec, 'volumes').entries()) {
    const at = `${path}.volumes[${index}]`;
    const name = textAt(volume, 'name');
    const found = [
      ...sourceErrors(volume, at),
      ...requiredLabel(`${at}.name`, name),
      ...(names.has(name) ? [duplicateValue(`${at}.name`, name)] : []),
    ];
    if (found.length === 0) names.add(name);
    errors.push(...found);
  }
  return { errors, names };
}

function sourceErrors(volume: JsonObject, path: string): FieldError[] {
  const sources = Object.keys(volume).filter((field) => field !== 'name' && hasField(volume, field));
  const [first] = sources;
  if (first === undefined) return [requiredField(path, 'must specify a volume type')];
  return sources.flatMap((source) => {
    const at = `${path}.${source}`;
    if (source !== first) return [forbiddenField(at, 'may not specify more than 1 volume type')];
    return Object.hasOwn(SOURCES, source) ? (SOURCES[source]?.(objectAt(volume, source), at) ?? []) : [];
  });
}

const HOST_PATH_TYPES = [
  '',
  'BlockDevice',
  'CharDevice',
  'Directory',
  'DirectoryOrCreate',
  'File',
  'FileOrCreate',
  'Socket',
];

/** The sources that people write by hand; of the others only their number is checked. */
const SOURCES: Readonly<Record<string, (source: JsonObject, path: string) => FieldError[]>> = {
  hostPath(source, path) {
    const value = textAt(source, 'path');
    if (value === '') return [requiredField(`${path}.path`, '')];
    const type = textAt(source, 'type');
    return [
      ...noBacksteps(`${path}.path`, value),
      ...(HOST_PATH_TYPES.includes(type) ? [] : [notSupported(`${path}.type`, type, HOST_PATH_TYPES)]),
    ];
  },
  secret: (source, path) => [...needs(source, 'secretName', path), ...files(source, path)],
  configMap: (source, path) => [...needs(source, 'name', path), ...files(source, path)],
  downwardAPI: (source, path) => [
    ...mode(source, 'defaultMode', path),
    ...objectsAt(source, 'items').flatMap((item, index) => needs(item, 'path', `${path}.items[${index}]`)),
  ],
  persistentVolumeClaim: (source, path) => needs(source, 'claimName', path),
  projected: validateProjected,
  nfs(source, path) {
    const value = textAt(source, 'path');
    const isRelative = value !== '' && !value.startsWith('/');
    return [
      ...needs(source, 'server', path),
      ...needs(source, 'path', path),
      ...(isRelative ? [invalidValue(`${path}.path`, value, 'must be an absolute path')] : []),
    ];
  },
  csi(source, path) {
    const driver = textAt(source, 'driver');
    return driver === '' ? [requiredField(`${path}.driver`, '')] : subdomain(`${path}.driver`, driver.toLowerCase());
  },
  ephemeral: (source, path) =>
    hasField(source, 'volumeClaimTemplate') ? [] : [requiredField(`${path}.volumeClaimTemplate`, '')],
  gitRepo: (source, path) => [
    ...needs(source, 'repository', path),
    ...descendingPath(`${path}.directory`, textAt(source, 'directory')),
  ],
};

const PROJECTIONS = [
  'secret',
  'configMap',
  'downwardAPI',
  'serviceAccountToken',
  'clusterTrustBundle',
  'podCertificate',
];

function validateProjected(source: JsonObject, path: string): FieldError[] {
  return [
    ...objectsAt(source, 'sources').flatMap((projection, index) => {
      const at = `${path}.sources[${index}]`;
      const given = PROJECTIONS.filter((field) => hasField(projection, field));
      const [first] = given;
      if (first === undefined) return [requiredField(at, 'must specify at least 1 source')];
      const more = given
        .slice(1)
        .map((field) => forbiddenField(`${at}.${field}`, 'may not specify more than 1 source'));
      return [...projectionErrors(first, objectAt(projection, first), `${at}.${first}`), ...more];
    }),
    ...mode(source, 'defaultMode', path),
  ];
}

const MIN_TOKEN_SECONDS = 600;
const MAX_TOKEN_SECONDS = 2 ** 32;

function projectionErrors(kind: string, projection: JsonObject, path: string): FieldError[] {
  if (kind === 'secret' || kind === 'configMap')
    return [...needs(projection, 'name', path), ...items(projection, path)];
  if (kind !== 'serviceAccountToken') return [];
  const seconds = numberAt(projection, 'expirationSeconds') ?? MIN_TOKEN_SECONDS;
  const at = `${path}.expirationSeconds`;
  return [
    ...(seconds < MIN_TOKEN_SECONDS
      ? [invalidValue(at, seconds, 'may not specify a duration less than 10 minutes')]
      : []),
    ...(seconds > MAX_TOKEN_SECONDS
      ? [invalidValue(at, seconds, 'may not specify a duration larger than 2^32 seconds')]
      : []),
    ...needs(projection, 'path', path),
  ];
}

function files(source: JsonObject, path: string): FieldError[] {
  return [...mode(source, 'defaultMode', path), ...items(source, path)];
}

function items(source: JsonObject, path: string): FieldError[] {
  return objectsAt(source, 'items').flatMap((item, index) => {
    const at = `${path}.items[${index}]`;
    return [
      ...needs(item, 'key', at),
      ...needs(item, 'path', at),
      ...descendingPath(`${at}.path`, textAt(item, 'path')),
      ...mode(item, 'mode', at),
    ];
  });
}

function mode(source: JsonObject, field: string, path: string): FieldError[] {
  const value = numberAt(source, field);
  if (value === undefined || (value >= 0 && value <= 0o777)) return [];
  return [invalidValue(`${path}.${field}`, value, 'must be a number between 0 and 0777 (octal), both inclusive')];
}

function needs(source: JsonObject, field: string, path: string): FieldError[] {
  return textAt(source, field) === '' ? [requiredField(`${path}.${field}`, '')] : [];
}
