/**
 * Decodes SCCs, and computes the properties that decisions use, such as the score, the required namespace ranges and
 * defects.
 */
import { formatFieldError } from '../../kube/field-error.ts';
import { compareBytes } from '../../kube/text.ts';
import { decodeScc, type SccFields } from './scc-fields.ts';
import { GROUPS } from './strategies/groups.ts';
import { RUN_AS_USER } from './strategies/run-as-user.ts';
import { SE_LINUX_CONTEXT } from './strategies/se-linux-context.ts';

/** The ranges that an SCC requires from the pod's namespace. */
export interface Needs {
  readonly uidRange: boolean;
  readonly seLinuxLevel: boolean;
  readonly fsGroup: boolean;
  readonly supplementalGroups: boolean;
  /**
   * The reason why the SCC cannot be used in any namespace. For example, a strategy may be unknown or lack its options.
   */
  readonly defect: string | undefined;
}

export interface PreparedScc {
  readonly name: string;
  readonly users: readonly string[];
  readonly groups: readonly string[];
  readonly fields: SccFields;
  /** A measure of how permissive the SCC is. SCCs that have a lower score are tried first. */
  readonly score: number;
  readonly needs: Needs;
}

/** Decodes an SCC and computes the properties that decisions use. Accepts values of any type. */
export function prepareScc(scc: unknown): PreparedScc {
  const { fields, error } = decodeScc(scc);
  const { name, users, groups } = fields;
  const needs = findNeeds(fields);
  const defect = error ? formatFieldError(error) : findDefect(fields, needs);
  return { name, users, groups, fields, score: computeScore(fields), needs: { ...needs, defect } };
}

function findNeeds({ runAsUser, seLinuxContext, fsGroup, supplementalGroups }: SccFields): Omit<Needs, 'defect'> {
  const { type, uidRangeMin, uidRangeMax } = runAsUser;
  return {
    uidRange: type === 'MustRunAsRange' && uidRangeMin === undefined && uidRangeMax === undefined,
    seLinuxLevel: seLinuxContext.type === 'MustRunAs' && (seLinuxContext.seLinuxOptions?.level ?? '') === '',
    fsGroup: fsGroup.type === 'MustRunAs' && fsGroup.ranges.length === 0,
    supplementalGroups: supplementalGroups.type === 'MustRunAs' && supplementalGroups.ranges.length === 0,
  };
}

function findDefect(scc: SccFields, needs: Omit<Needs, 'defect'>): string | undefined {
  return (
    (needs.uidRange ? undefined : findStrategyDefect(RUN_AS_USER, scc.runAsUser, 'RunAsUser')) ??
    (needs.seLinuxLevel ? undefined : findStrategyDefect(SE_LINUX_CONTEXT, scc.seLinuxContext, 'SELinuxContext')) ??
    (needs.fsGroup ? undefined : findStrategyDefect(GROUPS, scc.fsGroup, 'FSGroup')) ??
    (needs.supplementalGroups ? undefined : findStrategyDefect(GROUPS, scc.supplementalGroups, 'SupplementalGroups'))
  );
}

function findStrategyDefect<Options extends { readonly type: string }>(
  strategies: ReadonlyMap<string, { findDefect(options: Options): string | undefined }>,
  options: Options,
  name: string,
): string | undefined {
  const strategy = strategies.get(options.type);
  return strategy ? strategy.findDefect(options) : `Unrecognized ${name} strategy type ${options.type}`;
}

/** Score contributions of permissions. Each weight exceeds the sum of all following weights. */
const WEIGHTS = {
  privileged: 1_600_000,
  'host ports': 800_000,
  'host networking': 400_000,
  'host volume mounts': 200_000,
  'non-trivial volume mounts': 100_000,
} as const;

/** Score contributions of `runAsUser.type` and `seLinuxContext.type`. */
const STRATEGY_POINTS: ReadonlyMap<string, number> = new Map([
  ['RunAsAny', 40_000],
  ['MustRunAsNonRoot', 30_000],
  ['MustRunAsRange', 20_000],
  ['MustRunAs', 10_000],
]);
const STRATEGY_UNIT = 10_000;

const CAPABILITY_POINTS = {
  base: 5000,
  defaultAdd: 300,
  allowAll: 4000,
  allow: 10,
  dropAll: -3000,
  drop: -50,
  max: 9999,
};

const TRIVIAL_VOLUMES = new Set(['secret', 'configMap', 'emptyDir', 'downwardAPI', 'projected', 'none']);

/** @see https://github.com/openshift/apiserver-library-go/blob/master/pkg/securitycontextconstraints/util/sort/byrestrictions.go */
function computeScore(scc: SccFields): number {
  return (
    (scc.allowPrivilegedContainer ? WEIGHTS.privileged : 0) +
    (scc.allowHostPorts ? WEIGHTS['host ports'] : 0) +
    (scc.allowHostNetwork ? WEIGHTS['host networking'] : 0) +
    computeVolumePoints(scc.volumes) +
    (STRATEGY_POINTS.get(scc.seLinuxContext.type) ?? 0) +
    (STRATEGY_POINTS.get(scc.runAsUser.type) ?? 0) +
    computeCapabilityPoints(scc)
  );
}

function computeVolumePoints(volumes: readonly string[]): number {
  if (volumes.some((type) => type === 'hostPath' || type === '*')) return WEIGHTS['host volume mounts'];
  return volumes.every((type) => TRIVIAL_VOLUMES.has(type)) ? 0 : WEIGHTS['non-trivial volume mounts'];
}

function computeCapabilityPoints(scc: SccFields): number {
  const { defaultAddCapabilities: added, allowedCapabilities: allowed, requiredDropCapabilities: dropped } = scc;
  const points = CAPABILITY_POINTS;
  const sum =
    points.base +
    added.length * points.defaultAdd +
    (allowed.includes('*') || includesAll(allowed) ? points.allowAll : allowed.length * points.allow) +
    (includesAll(dropped) ? points.dropAll : dropped.length * points.drop);
  return Math.min(Math.max(sum, 0), points.max);
}

function includesAll(names: readonly string[]): boolean {
  return names.some((name) => name.toUpperCase() === 'ALL');
}

/** Explains why the first of two SCCs is ordered before the second, in the wording of OpenShift's audit annotation. */
export function explainOrder(first: PreparedScc, second: PreparedScc): string {
  if (first.fields.priority !== second.fields.priority) {
    return first.fields.priority > second.fields.priority ? 'has higher priority' : 'has lower priority';
  }
  if (first.score === second.score) return 'ordered by name';
  return explainScores(Math.min(first.score, second.score), Math.max(first.score, second.score));
}

/** Explains why the first of two scores is lower. Returns an empty string if the scores are equal. */
export function explainScores(lower: number, higher: number): string {
  if (lower >= higher) return '';
  let restLower = lower;
  let restHigher = higher;
  for (const [permission, points] of Object.entries(WEIGHTS)) {
    if (restHigher < points) continue;
    if (restLower < points) return `forbids ${permission}`;
    restLower -= points;
    restHigher -= points;
  }
  const isByStrategy = Math.trunc(restLower / STRATEGY_UNIT) < Math.trunc(restHigher / STRATEGY_UNIT);
  return isByStrategy ? 'permits less runAs strategies' : 'permits less capabilities';
}

/** Compares SCCs by descending priority, ascending score, and name. */
export function compareSccs(a: PreparedScc, b: PreparedScc): number {
  return compareRanks(a, b) || compareBytes(a.name, b.name);
}

/** Like `compareSccs`, but ignores the name. */
export function compareRanks(a: PreparedScc, b: PreparedScc): number {
  return b.fields.priority - a.fields.priority || a.score - b.score;
}
