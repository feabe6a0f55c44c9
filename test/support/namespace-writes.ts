/** Simulates namespace writes with the field ownership of an API server, without validation. */
import { applyConfiguration } from '../../src/dev-cluster/fields/apply.ts';
import { type Ownership, trackUpdate } from '../../src/dev-cluster/fields/managed-fields.ts';
import { BUILT_IN } from '../../src/dev-cluster/fields/schema.ts';
import type { ApiObject } from '../../src/dev-cluster/index.ts';
import { applyJsonPatch } from '../../src/dev-cluster/json-patch.ts';
import type { JsonPatchOp } from '../../src/kube/json-patch.ts';
import type { FieldOwner } from '../../src/kube/managed-fields.ts';
import { finishSteps } from '../../src/kube/steps.ts';
import { draft, type Namespace } from '../../src/kube/types.ts';
import { LABEL_SYNC_MANAGER } from '../../src/kube/well-known.ts';
import { type LabelSyncInput, type LabelSyncPlan, planLabels } from '../../src/policy/rollout/index.ts';

const resource = {
  group: '',
  version: 'v1',
  kind: 'Namespace',
  resource: 'namespaces',
  schema: BUILT_IN,
  custom: false,
  subresources: [],
};

function ownership(manager: string): Ownership {
  return { resource, subresource: '', manager, now: new Date(0) };
}

/** Applies a document with force. */
export function applyAs(manager: string, namespace: Namespace, config: Namespace): Namespace {
  const live = draft(namespace) as ApiObject;
  const sent = { ...draft(config), apiVersion: 'v1', kind: 'Namespace' } as ApiObject;
  const applied = applyConfiguration({ ...ownership(manager), live, config: sent, force: true });
  return bumped(applied, namespace);
}

/** Replaces the namespace through an update, which changes the field owners. */
export function updateAs(manager: string, namespace: Namespace, changed: Namespace): Namespace {
  const live = draft(namespace) as ApiObject;
  const object = draft(changed) as ApiObject;
  trackUpdate({ ...ownership(manager), live, object });
  return bumped(object, namespace);
}

export function patchAs(manager: string, namespace: Namespace, ops: readonly JsonPatchOp[]): Namespace {
  return updateAs(manager, namespace, applyJsonPatch(namespace, ops) as Namespace);
}

/** Changes labels through an update. `undefined` removes a label. */
export function updateLabelsAs(
  manager: string,
  namespace: Namespace,
  labels: Readonly<Record<string, string | undefined>>,
): Namespace {
  const merged = Object.entries({ ...namespace.metadata?.labels, ...labels });
  const left = merged.flatMap(([key, value]) => (value === undefined ? [] : [[key, value] as const]));
  return updateAs(manager, namespace, {
    ...namespace,
    metadata: { ...namespace.metadata, labels: Object.fromEntries(left) },
  });
}

function bumped(namespace: Namespace, before: Namespace): Namespace {
  const resourceVersion = String(Number(before.metadata?.resourceVersion ?? 0) + 1);
  return { ...namespace, metadata: { ...namespace.metadata, resourceVersion } };
}

/** The result of repeated planning and writing until the plan is empty. */
export interface Synced {
  readonly namespace: Namespace;
  readonly plans: readonly LabelSyncPlan[];
  readonly writes: readonly Namespace[];
}

const MAX_PASSES = 10;

export function syncUntilDone(input: LabelSyncInput): Synced {
  let { namespace } = input;
  const plans: LabelSyncPlan[] = [];
  const writes: Namespace[] = [];
  for (let pass = 0; pass < MAX_PASSES; pass++) {
    const plan = finishSteps(planLabels({ ...input, namespace }));
    plans.push(plan);
    if (plan.apply) namespace = applyAs(LABEL_SYNC_MANAGER, namespace, plan.apply);
    else if (plan.patch) namespace = patchAs(LABEL_SYNC_MANAGER, namespace, plan.patch);
    else return { namespace, plans, writes };
    writes.push(namespace);
  }
  throw new Error('the plans do not converge');
}

/** Returns a `managedFields` entry that owns the given labels and annotations. */
export function managedFieldsEntry({
  manager,
  operation = 'Apply',
  labels = [],
  annotations = [],
}: {
  readonly manager: string;
  readonly operation?: string;
  readonly labels?: readonly string[];
  readonly annotations?: readonly string[];
}): NonNullable<NonNullable<Namespace['metadata']>['managedFields']>[number] {
  const tree = (keys: readonly string[]): object => Object.fromEntries(keys.map((key) => [`f:${key}`, {}]));
  return {
    apiVersion: 'v1',
    fieldsType: 'FieldsV1',
    fieldsV1: { 'f:metadata': { 'f:labels': tree(labels), 'f:annotations': tree(annotations) } },
    manager,
    operation,
  };
}

/** Returns the owners of a label as `manager/operation`. */
export function labelOwners(owners: readonly FieldOwner[], key: string): readonly string[] {
  return owners.filter(({ labels }) => labels.has(key)).map(({ manager, operation }) => `${manager}/${operation}`);
}
