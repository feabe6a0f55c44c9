import { compareBytes } from '../../../kube/text.ts';
import { union } from '../typed/field-set.ts';
import { compareTimes, ownerKey, type Owner, type Owners } from './owners.ts';

/** How many entries of updates an object keeps. */
const MAX_UPDATE_OWNERS = 10;
const BUCKET = 'ancient-changes';

/**
 * Joins the oldest updates of one version into one entry until no more than ten entries of updates are left.
 * @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/staging/src/k8s.io/apimachinery/pkg/util/managedfields/internal/capmanagers.go
 */
export function capOwners(owners: Owners): Owners {
  const updates = [...owners]
    .filter(([, owner]) => owner.operation === 'Update')
    .sort(([a, left], [b, right]) => compareTimes(left, right) || compareBytes(a, b));
  const result = new Map(owners);
  const oldest = new Map<string, string>();
  let left = updates.length;
  for (const [key, owner] of updates) {
    if (left <= MAX_UPDATE_OWNERS) break;
    const first = oldest.get(owner.apiVersion);
    if (first === undefined) {
      oldest.set(owner.apiVersion, key);
      continue;
    }
    const bucket: Owner = { ...owner, manager: BUCKET, subresource: '' };
    const bucketKey = ownerKey(bucket);
    const former = result.get(bucketKey) ?? result.get(first);
    if (!result.has(bucketKey)) result.delete(first);
    result.delete(key);
    result.set(bucketKey, { ...bucket, fields: former ? union(owner.fields, former.fields) : owner.fields });
    left--;
  }
  return result;
}
