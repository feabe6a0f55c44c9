/**
 * OpenAPI documents: what kubectl validates, explains and patches by.
 * @see https://kubernetes.io/docs/concepts/overview/kubernetes-api/#openapi-interface-definition
 */
import type { ResourceInfo } from '../types.ts';
import { objectSchema, schemasOf, V2, V3, type Dialect } from './openapi/json-schema.ts';
import { pathsOf } from './openapi/paths.ts';
import type { Schemas } from './schema.ts';
import type { ObjectType } from './types.ts';

interface GroupVersion {
  readonly group: string;
  readonly version: string;
}

const INFO = { title: 'Kubernetes', version: 'unversioned' } as const;

/** The OpenAPI v3 document of a group version: its schemas and the paths of its resources. */
export function openApiV3(
  schemas: Schemas,
  { group, version }: GroupVersion,
  resources: readonly ResourceInfo[],
): object {
  const own = resources.filter((resource) => resource.group === group && resource.version === version);
  return {
    openapi: '3.0.0',
    info: INFO,
    paths: Object.fromEntries(own.flatMap(pathsOf)),
    components: { schemas: definitionsOf(schemas, own, V3) },
  };
}

/** `/openapi/v3`: where the documents of the group versions are. */
export function openApiV3Index(groupVersions: readonly GroupVersion[]): object {
  const paths = groupVersions.map(({ group, version }) =>
    group === '' ? `api/${version}` : `apis/${group}/${version}`,
  );
  return { paths: Object.fromEntries(paths.map((path) => [path, { serverRelativeURL: `/openapi/v3/${path}` }])) };
}

/** The OpenAPI v2 document of everything. */
export function openApiV2(schemas: Schemas, resources: readonly ResourceInfo[]): object {
  return {
    swagger: '2.0',
    info: INFO,
    paths: Object.fromEntries(resources.flatMap(pathsOf)),
    definitions: definitionsOf(schemas, resources, V2),
  };
}

/** The schemas of the kinds, each marked with its kind, and of all that they refer to. */
function definitionsOf(schemas: Schemas, resources: readonly ResourceInfo[], dialect: Dialect): object {
  const kinds = resources.flatMap((resource): [ResourceInfo, ObjectType][] => {
    const type = schemas.typeOf(resource);
    return type ? [[resource, type]] : [];
  });
  const definitions = schemasOf(
    kinds.map(([, type]) => type),
    dialect,
  );
  for (const [resource, type] of kinds) {
    const { group, version, kind } = resource;
    const marked = { ...objectSchema(type, dialect), 'x-kubernetes-group-version-kind': [{ group, version, kind }] };
    definitions.set(type.name ?? customName(resource), marked);
  }
  return Object.fromEntries(definitions);
}

/** `com.example.v1.Widget` for a Widget of example.com/v1. */
function customName({ group, version, kind }: ResourceInfo): string {
  return [...group.split('.').reverse(), version, kind].join('.');
}
