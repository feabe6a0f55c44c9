import type { ApiObject, ResourceInfo } from '../types.ts';

/** The resources that a CustomResourceDefinition adds: one for each version that is served. */
export declare function resourcesOfDefinition(definition: ApiObject): readonly ResourceInfo[];
