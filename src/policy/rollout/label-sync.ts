/**
 * Keeping the Pod Security labels of namespaces at what the SCCs that their service accounts may use ask for.
 * @see https://github.com/openshift/cluster-policy-controller/tree/master/pkg/psalabelsyncer
 */
import type { JsonPatchOp } from '../../kube/json-patch.ts';
import { metadataOwnersOf } from '../../kube/managed-fields.ts';
import { NAMESPACE_RANGE_ANNOTATIONS } from '../../kube/scc.ts';
import type { Namespace } from '../../kube/types.ts';
import type { CanUse } from '../scc/types.ts';
import type { SyncerMode } from './enforcement/types.ts';
import { documentFor } from './label-sync/apply.ts';
import { forgetFormer } from './label-sync/forget-former.ts';
import { intendedFields, type FieldsInput } from './label-sync/intended.ts';
import { isManaged, type ManagementSettings } from './label-sync/managed.ts';
import { neededLevelOf, type NeededLevel } from './label-sync/needed-level.ts';
import { remarksOn, type Remark } from './label-sync/remarks.ts';
import type { SccLevels } from './label-sync/scc-levels.ts';
import { isTerminating } from './label-sync/terminating.ts';

export { DEFAULT_UNMANAGED_NAMESPACES, type ManagementSettings } from './label-sync/managed.ts';
export type { NeededLevel } from './label-sync/needed-level.ts';
export { reachOf, type Reach, type SyncChange } from './label-sync/reach.ts';
export type { Remark } from './label-sync/remarks.ts';
export { planRunLevelZero, RUN_LEVEL_ZERO_NAMESPACES } from './label-sync/run-level-zero.ts';
export { createSccLevels, type SccLevels } from './label-sync/scc-levels.ts';
export { standingOf, type Standing } from './label-sync/standing.ts';
export { isAwaitingLabel, type LabelState } from './label-sync/unlabelled.ts';

/** All that the plan for one namespace needs. */
export interface LabelSyncInput {
  readonly namespace: Namespace;
  /** The names of all service accounts in it. */
  readonly serviceAccounts: readonly string[];
  readonly sccLevels: SccLevels;
  readonly canUse: CanUse;
  readonly mode: SyncerMode;
  readonly settings: ManagementSettings;
}

/** What to do about a namespace: one write at most; the next plan sees what became of it. */
export interface LabelSyncPlan {
  readonly isManaged: boolean;
  /** What the namespace needs; absent where there is no telling. */
  readonly need?: NeededLevel | undefined;
  /** To apply by force, as `LABEL_SYNC_MANAGER`. */
  readonly apply?: Namespace | undefined;
  /** To send as a JSON patch, where there is nothing to apply. */
  readonly patch?: readonly JsonPatchOp[] | undefined;
  /** Each to be told once, for as long as it holds. */
  readonly remarks: readonly Remark[];
}

/** Plans the labels of a namespace. */
export function planLabels(input: LabelSyncInput): LabelSyncPlan {
  const { namespace, settings, mode } = input;
  const owners = metadataOwnersOf(namespace.metadata);
  const managed = isManaged(namespace, owners, settings);
  if (owners === undefined || isTerminating(namespace)) return { isManaged: managed, remarks: [] };
  const need = managed ? needOf(input) : undefined;
  const given: FieldsInput = { namespace, owners, mode, isManaged: managed, level: need?.level };
  const fields = intendedFields(given);
  const apply = documentFor(given, fields);
  return {
    isManaged: managed,
    need,
    apply,
    patch: managed && apply === undefined ? forgetFormer(namespace) : undefined,
    remarks: need ? remarksOn(given, need, fields) : [],
  };
}

/** Nothing runs without a range or without a service account: the level is known once there are both. */
export function needOf(input: Omit<LabelSyncInput, 'mode' | 'settings'>): NeededLevel | undefined {
  const { namespace, serviceAccounts } = input;
  const range = namespace.metadata?.annotations?.[NAMESPACE_RANGE_ANNOTATIONS.uidRange] ?? '';
  return range === '' || serviceAccounts.length === 0 ? undefined : neededLevelOf(input);
}
