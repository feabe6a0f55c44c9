import { quote, compareBytes } from '../../../kube/text.ts';
import { createStatus, type Status } from '../../../kube/status.ts';
import { printPath } from '../typed/field-set.ts';
import type { OwnershipConflict } from './changes.ts';
import { ownerKey, type Owner } from './owners.ts';

/**
 * 409: others own fields that an apply wants to set.
 * @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/staging/src/k8s.io/apimachinery/pkg/util/managedfields/internal/conflict.go
 */
export function conflictStatus(conflicts: readonly OwnershipConflict[]): Status {
  const sorted = conflicts.toSorted((a, b) => compareBytes(ownerKey(a.owner), ownerKey(b.owner)));
  return createStatus(409, 'Conflict', messageOf(sorted), {
    causes: sorted.map(({ owner, path }) => ({
      reason: 'FieldManagerConflict',
      message: `conflict with ${printOwner(owner)}`,
      field: printPath(path),
    })),
  });
}

function messageOf(conflicts: readonly OwnershipConflict[]): string {
  const [first] = conflicts;
  if (first && conflicts.length === 1) {
    return `Apply failed with 1 conflict: conflict with ${printOwner(first.owner)}: ${printPath(first.path)}`;
  }
  const byOwner = Map.groupBy(conflicts, ({ owner }) => owner);
  const lines = [...byOwner].flatMap(([owner, paths]) => [
    `conflicts with ${printOwner(owner)}:`,
    ...paths.map(({ path }) => `- ${printPath(path)}`),
  ]);
  return `Apply failed with ${conflicts.length} conflicts: ${lines.join('\n')}`;
}

function printOwner({ manager, operation, apiVersion, subresource }: Owner): string {
  const name = subresource === '' ? quote(manager) : `${quote(manager)} with subresource ${quote(subresource)}`;
  return operation === 'Update' ? `${name} using ${apiVersion}` : name;
}
