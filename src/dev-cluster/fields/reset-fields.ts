import type { ResourceInfo } from '../types.ts';
import { createFieldSet, differenceBelow, fieldPath, type FieldSet } from './typed/field-set.ts';

/** Takes out of a set the fields that a request cannot change and hence never owns. */
export type FieldFilter = (fields: FieldSet) => FieldSet;

/** What matters of a resource to the ownership of its fields. */
export type OwnedResource = Pick<ResourceInfo, 'group' | 'version' | 'resource' | 'custom' | 'subresources'>;

/** By resource and subresource: the only fields that can be changed; `*` is any list item. */
const CHANGEABLE: Readonly<Record<string, readonly (readonly string[])[]>> = {
  'pods/ephemeralcontainers': [['spec', 'ephemeralContainers']],
  'pods/resize': ['containers', 'initContainers'].flatMap((list) => [
    ['spec', list, '*', 'resources'],
    ['spec', list, '*', 'resizePolicy'],
  ]),
};

/** What a status update resets besides `spec`. */
const RESET_BY_STATUS: Readonly<Record<string, readonly (readonly string[])[]>> = {
  pods: [
    ['metadata', 'deletionTimestamp'],
    ['metadata', 'ownerReferences'],
  ],
  deployments: [['metadata', 'labels']],
  validatingadmissionpolicies: [['metadata']],
};

/**
 * The filter of a resource for requests to it or one of its subresources (`''`: the object itself).
 * @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/registry/core/pod/strategy.go (GetResetFields)
 */
export function resetFieldsOf(resource: OwnedResource, subresource: string): FieldFilter {
  const changeable = CHANGEABLE[`${resource.resource}/${subresource}`];
  if (resource.group === '' && changeable) return (fields) => matching(fields, changeable);
  const reset = createFieldSet(resetPaths(resource, subresource).map(fieldPath));
  return (fields) => differenceBelow(fields, reset);
}

function resetPaths(
  { resource, custom, subresources }: OwnedResource,
  subresource: string,
): readonly (readonly string[])[] {
  if (subresource !== 'status') return custom && !subresources.includes('status') ? [] : [['status']];
  if (custom) return [['metadata'], ['spec']];
  return [['spec'], ...(Object.hasOwn(RESET_BY_STATUS, resource) ? (RESET_BY_STATUS[resource] ?? []) : [])];
}

/** The part of a set that lies at or below one of the patterns, or on the way to one. */
function matching(fields: FieldSet, patterns: readonly (readonly string[])[]): FieldSet {
  if (patterns.some((pattern) => pattern.length === 0)) return fields;
  const below = (element: string): (readonly string[])[] =>
    patterns.filter(([first]) => first === '*' || element === `f:${first ?? ''}`).map((pattern) => pattern.slice(1));
  return {
    members: new Set([...fields.members].filter((element) => below(element).length > 0)),
    children: new Map(
      [...fields.children]
        .map(([element, child]) => [element, below(element), child] as const)
        .filter(([, rest]) => rest.length > 0)
        .map(([element, rest, child]) => [element, matching(child, rest)]),
    ),
  };
}
