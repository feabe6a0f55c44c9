import { setTimeout } from 'node:timers/promises';
import { quote } from '../../kube/text.ts';
import type { Status } from '../../kube/status.ts';
import { mountsToken, mountToken } from '../../kube/controller-pod.ts';
import type { JsonObject } from '../../kube/types.ts';
import { hasField, objectAt, objectsAt, textAt } from '../objects/read.ts';
import type { ApiObject, Attributes, Reader } from '../types.ts';
import { isOn, isOnPods, refuse, type Plugin } from './plugin.ts';

const SERVICE_ACCOUNTS = { group: '', resource: 'serviceaccounts' };
const MIRROR = 'kubernetes.io/config.mirror';

/**
 * Gives pods a service account, its token and its pull secrets; refuses pods whose service account does not exist.
 * @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/plugin/pkg/admission/serviceaccount/admission.go
 */
export function createServiceAccountPlugin(reader: Reader, suffix: () => string): Plugin {
  const accountOf = (attributes: Attributes, spec: JsonObject): ApiObject | undefined =>
    reader.get(SERVICE_ACCOUNTS, attributes.namespace, textAt(spec, 'serviceAccountName'));

  return {
    async admit(attributes) {
      const pod = newPod(attributes);
      if (!pod) return undefined;
      const spec = objectAt(pod, 'spec') as Record<string, unknown>;
      // The kubelet made it of a file and would not know it again, were it changed.
      if (isMirror(pod)) return refuseMirror(attributes, spec);
      setAccount(spec);
      const account = await patiently(() => accountOf(attributes, spec), isDefault(spec));
      if (!account) return missing(attributes, spec);
      if (mountsToken(spec, account)) mountToken(spec, suffix);
      if (objectsAt(spec, 'imagePullSecrets').length === 0 && objectsAt(account, 'imagePullSecrets').length > 0) {
        spec['imagePullSecrets'] = objectsAt(account, 'imagePullSecrets').map(({ name }) => ({ name }));
      }
      return undefined;
    },
    validate(attributes) {
      const pod = newPod(attributes) ?? podWithEphemeral(attributes);
      if (!pod) return undefined;
      const spec = objectAt(pod, 'spec');
      if (isMirror(pod)) return refuseMirror(attributes, spec);
      if (textAt(spec, 'serviceAccountName') === '') {
        const name = textAt(pod.metadata, 'name');
        return refuse(attributes, `no service account specified for pod ${attributes.namespace}/${name}`);
      }
      return accountOf(attributes, spec) ? undefined : missing(attributes, spec);
    },
  };
}

const DEFAULT = 'default';
const ATTEMPTS = 10;
const PAUSE_MS = 20;

function isDefault(spec: JsonObject): boolean {
  return textAt(spec, 'serviceAccountName') === DEFAULT;
}

/** The default account of a new namespace may be under way still. */
async function patiently<T>(read: () => T | undefined, mayCome: boolean): Promise<T | undefined> {
  let found = read();
  for (let attempt = 1; found === undefined && mayCome && attempt < ATTEMPTS; attempt++) {
    await setTimeout(PAUSE_MS);
    found = read();
  }
  return found;
}

function newPod(attributes: Attributes): ApiObject | undefined {
  return attributes.operation === 'CREATE' && isOnPods(attributes) ? attributes.object : undefined;
}

function podWithEphemeral(attributes: Attributes): ApiObject | undefined {
  const { operation, subresource, object } = attributes;
  const matches = isOn(attributes, '', 'pods') && operation === 'UPDATE' && subresource === 'ephemeralcontainers';
  return matches ? object : undefined;
}

function isMirror(pod: ApiObject): boolean {
  return hasField(objectAt(pod.metadata, 'annotations'), MIRROR);
}

function setAccount(spec: Record<string, unknown>): void {
  const name = textAt(spec, 'serviceAccountName') || DEFAULT;
  spec['serviceAccountName'] = name;
  spec['serviceAccount'] = name;
}

function missing(attributes: Attributes, spec: JsonObject): Status {
  const name = textAt(spec, 'serviceAccountName');
  const path = `${attributes.namespace}/${name}`;
  return refuse(attributes, `error looking up service account ${path}: serviceaccount ${quote(name)} not found`);
}

function refuseMirror(attributes: Attributes, spec: JsonObject): Status | undefined {
  if (textAt(spec, 'serviceAccountName') !== '') {
    return refuse(attributes, 'a mirror pod may not reference service accounts');
  }
  if (namesSecret(spec)) return refuse(attributes, 'a mirror pod may not reference secrets');
  const sources = objectsAt(spec, 'volumes').flatMap((volume) => objectsAt(objectAt(volume, 'projected'), 'sources'));
  return sources.some((source) => hasField(source, 'serviceAccountToken'))
    ? refuse(attributes, 'a mirror pod may not use ServiceAccountToken volume projections')
    : undefined;
}

/** Every reference to a secret of a pod is a field of one of these names, wherever it stands. */
const SECRET_FIELDS = new Set([
  'imagePullSecrets',
  'secret',
  'secretKeyRef',
  'secretRef',
  'nodePublishSecretRef',
  'secretName',
]);

function namesSecret(value: unknown): boolean {
  if (Array.isArray(value)) return value.some(namesSecret);
  if (typeof value !== 'object' || value === null) return false;
  return Object.entries(value).some(([key, part]) => (SECRET_FIELDS.has(key) && isGiven(part)) || namesSecret(part));
}

function isGiven(value: unknown): boolean {
  return Array.isArray(value) ? value.length > 0 : value != null;
}
