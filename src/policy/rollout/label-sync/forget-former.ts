import type { JsonPatchOp } from '../../../kube/json-patch.ts';
import { metadataOwnersOf, type FieldOwner } from '../../../kube/managed-fields.ts';
import { isObject, type JsonObject, type Namespace } from '../../../kube/types.ts';
import { SYNCED_FIELDS } from './apply.ts';
import { isFormerOwner } from './ownership.ts';

/**
 * The patch that strikes what early releases wrote from the records of the namespace, once the syncer owns it by applying
 * it; `undefined` if nothing is left to strike. No label changes, and other fields keep their owner. The version in the
 * patch makes it fail if anybody was faster.
 */
export function forgetFormer(namespace: Namespace): readonly JsonPatchOp[] | undefined {
  const { resourceVersion, managedFields } = namespace.metadata ?? {};
  const owners = metadataOwnersOf(namespace.metadata) ?? [];
  const isLeft = owners.map((owner) => isFormerOwner(owner) && ownsSynced(owner));
  if (!isLeft.includes(true)) return undefined;
  const value = (managedFields ?? []).flatMap((entry, index) => {
    if (isLeft[index] !== true) return [entry];
    const fieldsV1 = change(entry.fieldsV1, 'f:metadata', withoutSynced);
    return fieldsV1 === undefined ? [] : [{ ...entry, fieldsV1 }];
  });
  return [
    { op: 'replace', path: '/metadata/managedFields', value },
    ...(resourceVersion === undefined
      ? []
      : [{ op: 'replace', path: '/metadata/resourceVersion', value: resourceVersion } as const]),
  ];
}

const MAPS = ['labels', 'annotations'] as const;

function ownsSynced(owner: FieldOwner): boolean {
  return MAPS.some((map) => SYNCED_FIELDS[map].some((key) => owner[map].has(key)));
}

function withoutSynced(metadata: unknown): JsonObject | undefined {
  return MAPS.reduce<JsonObject | undefined>(
    (left, map) =>
      left &&
      change(left, `f:${map}`, (members) =>
        SYNCED_FIELDS[map].reduce<JsonObject | undefined>(
          (rest, key) => rest && change(rest, `f:${key}`, () => undefined),
          isObject(members) ? members : undefined,
        ),
      ),
    isObject(metadata) ? metadata : undefined,
  );
}

/** The object with one member changed, or without it; `undefined` if none is left. */
function change(object: unknown, name: string, by: (member: unknown) => unknown): JsonObject | undefined {
  const members = Object.entries(isObject(object) ? object : {}).flatMap(([key, member]) => {
    const changed = key === name ? by(member) : member;
    return changed === undefined ? [] : [[key, changed] as const];
  });
  return members.length === 0 ? undefined : Object.fromEntries(members);
}
