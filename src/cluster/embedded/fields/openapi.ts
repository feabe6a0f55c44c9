import type { ResourceInfo } from '../types.ts';
import type { Schemas } from './schema.ts';

interface GroupVersion {
  readonly group: string;
  readonly version: string;
}

/** The OpenAPI v3 document of a group version: its schemas and the paths of its resources. */
export declare function openApiV3(
  schemas: Schemas,
  groupVersion: GroupVersion,
  resources: readonly ResourceInfo[],
): object;

/** `/openapi/v3`: which documents there are. */
export declare function openApiV3Index(groupVersions: readonly GroupVersion[]): object;

/** The OpenAPI v2 document of everything. */
export declare function openApiV2(schemas: Schemas, resources: readonly ResourceInfo[]): object;
