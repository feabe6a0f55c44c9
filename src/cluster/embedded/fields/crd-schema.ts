import type { JsonObject } from '../../../kube/types.ts';
import type { ObjectType } from './types.ts';

/** The type of a custom resource by the `openAPIV3Schema` of its version; `undefined` keeps every field. */
export declare function typeOfCrdSchema(schema: JsonObject | undefined): ObjectType;
