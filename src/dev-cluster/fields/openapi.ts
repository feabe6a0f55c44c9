/**
 * OpenAPI documents without schemas. kubectl reads from them which requests the server accepts, and so sends server-side
 * dry runs and leaves the validation of fields to the server.
 * @see https://kubernetes.io/docs/concepts/overview/kubernetes-api/#openapi-interface-definition
 */
import type { ResourceInfo } from '../types.ts';

interface GroupVersion {
  readonly group: string;
  readonly version: string;
}

const INFO = { title: 'Kubernetes', version: 'unversioned' } as const;

/** The OpenAPI v3 document of a group version: the patch operation of each of its resources. */
export function openApiV3({ group, version }: GroupVersion, resources: readonly ResourceInfo[]): object {
  const own = resources.filter((resource) => resource.group === group && resource.version === version);
  return { openapi: '3.0.0', info: INFO, paths: Object.fromEntries(own.map(patchPath)), components: { schemas: {} } };
}

/** `/openapi/v3`: the paths of the documents of the group versions. */
export function openApiV3Index(groupVersions: readonly GroupVersion[]): object {
  const paths = groupVersions.map(({ group, version }) =>
    group === '' ? `api/${version}` : `apis/${group}/${version}`,
  );
  return { paths: Object.fromEntries(paths.map((path) => [path, { serverRelativeURL: `/openapi/v3/${path}` }])) };
}

/** The OpenAPI v2 document. */
export function openApiV2(): object {
  return { swagger: '2.0', info: INFO, paths: {}, definitions: {} };
}

/** Without a request body, kubectl computes strategic merge patches from its own types instead of the document. */
function patchPath({ group, version, resource, kind, namespaced }: ResourceInfo): [string, object] {
  const root = group === '' ? `/api/${version}` : `/apis/${group}/${version}`;
  const parameters = ['dryRun', 'fieldManager', 'fieldValidation', 'force'].map((name) => ({ name, in: 'query' }));
  const operation = { 'x-kubernetes-group-version-kind': { group, version, kind }, parameters };
  return [`${root}${namespaced ? '/namespaces/{namespace}' : ''}/${resource}/{name}`, { patch: operation }];
}
