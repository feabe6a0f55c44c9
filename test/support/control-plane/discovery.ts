/**
 * Checks which APIs an API server serves. Tests that require other APIs are skipped with a reason. The checks do not
 * depend on a list of versions.
 */
import type { Kind } from '../../../src/kube/kinds.ts';
import { RESOURCES } from '../../../src/kube/resources.ts';
import { isObject } from '../../../src/kube/types.ts';
import { responseObject } from '../answers.ts';
import type { ControlPlane } from './index.ts';

/** Returns the reason to skip tests of a kind, or false if the API server serves the kind. */
export async function findMissingKind({ admin }: ControlPlane, kind: Kind): Promise<string | false> {
  const { group, version, resource } = RESOURCES[kind];
  const answer = await admin.send('GET', group === '' ? `/api/${version}` : `/apis/${group}/${version}`);
  const { resources = [] } = responseObject(answer);
  const served = Array.isArray(resources) ? resources.filter(isObject).map(({ name }) => name) : [];
  return !served.includes(resource) && `the API server does not serve ${resource}.${group}/${version}`;
}

/**
 * Returns the reason to skip tests of a pod field that has a default or is dropped, or false if the API server stores
 * the field.
 */
export async function findMissingPodField(
  { admin }: ControlPlane,
  field: string,
  value: unknown,
): Promise<string | false> {
  const containers = [{ name: 'c', image: 'registry.example.com/c:1' }];
  const pod = {
    metadata: { name: 'discovery' },
    spec: { containers, automountServiceAccountToken: false, [field]: value },
  };
  const answer = await admin.send('POST', '/api/v1/namespaces/kube-system/pods?dryRun=All', pod);
  const { spec } = responseObject(answer);
  return !(isObject(spec) && spec[field] === value) && `the API server does not store spec.${field} of pods`;
}

/**
 * Returns the reason to skip tests of an API field, or false if the published schema of the group contains the field.
 */
export async function findMissingField(
  { admin }: ControlPlane,
  group: string,
  type: string,
  field: string,
): Promise<string | false> {
  const { components } = responseObject(await admin.send('GET', `/openapi/v3/apis/${group}`)) as {
    readonly components: { readonly schemas: Readonly<Record<string, { readonly properties?: object }>> };
  };
  const hasField = field in (components.schemas[type]?.properties ?? {});
  return !hasField && `the API server does not have ${field} in ${type}`;
}
