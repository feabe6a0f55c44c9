import type { CapabilitiesFields } from './decode/capabilities.ts';
import type { SccFields } from './decode/scc.ts';

/** Each weighs more than all that come after it together. */
const PRIVILEGED = 1_600_000;
const HOST_PORTS = 800_000;
const HOST_NETWORK = 400_000;
const HOST_VOLUMES = 200_000;
const NON_TRIVIAL_VOLUMES = 100_000;

/** Counted once for `runAsUser` and once for `seLinuxContext`. */
const RUN_AS: Readonly<Record<string, number>> = {
  RunAsAny: 40_000,
  MustRunAsNonRoot: 30_000,
  MustRunAsRange: 20_000,
  MustRunAs: 10_000,
};
const RUN_AS_UNIT = 10_000;

const CAPABILITIES = { base: 5000, addOne: 300, allowAll: 4000, allowOne: 10, dropAll: -3000, dropOne: -50, max: 9999 };

const TRIVIAL_VOLUMES = new Set(['secret', 'configMap', 'emptyDir', 'downwardAPI', 'projected', 'none']);

/**
 * How lax an SCC is, in points.
 * @see https://github.com/openshift/apiserver-library-go/blob/master/pkg/securitycontextconstraints/util/sort/byrestrictions.go
 */
export function scoreOf(scc: SccFields): number {
  return (
    (scc.allowPrivilegedContainer ? PRIVILEGED : 0) +
    (scc.allowHostPorts ? HOST_PORTS : 0) +
    (scc.allowHostNetwork ? HOST_NETWORK : 0) +
    scoreOfVolumes(scc.volumes) +
    scoreOfType(scc.seLinuxContext.type) +
    scoreOfType(scc.runAsUser.type) +
    scoreOfCapabilities(scc.capabilities)
  );
}

const WEIGHTS: readonly (readonly [points: number, what: string])[] = [
  [PRIVILEGED, 'privileged'],
  [HOST_PORTS, 'host ports'],
  [HOST_NETWORK, 'host networking'],
  [HOST_VOLUMES, 'host volume mounts'],
  [NON_TRIVIAL_VOLUMES, 'non-trivial volume mounts'],
];

/** What makes the lower score the lower one; empty if it is not. */
export function explainScores(lower: number, higher: number): string {
  if (lower >= higher) return '';
  let restLower = lower;
  let restHigher = higher;
  for (const [points, what] of WEIGHTS) {
    if (restHigher < points) continue;
    if (restLower < points) return `forbids ${what}`;
    restLower -= points;
    restHigher -= points;
  }
  const isByRunAs = Math.trunc(restLower / RUN_AS_UNIT) < Math.trunc(restHigher / RUN_AS_UNIT);
  return isByRunAs ? 'permits less runAs strategies' : 'permits less capabilities';
}

function scoreOfType(type: string): number {
  return Object.hasOwn(RUN_AS, type) ? (RUN_AS[type] ?? 0) : 0;
}

function scoreOfVolumes(volumes: readonly string[]): number {
  if (volumes.some((type) => type === 'hostPath' || type === '*')) return HOST_VOLUMES;
  return volumes.every((type) => TRIVIAL_VOLUMES.has(type)) ? 0 : NON_TRIVIAL_VOLUMES;
}

function scoreOfCapabilities({ defaultAdd: added, allowed, requiredDrop: dropped }: CapabilitiesFields): number {
  const { base, addOne, allowAll, allowOne, dropAll, dropOne, max } = CAPABILITIES;
  const forAllowed = allowed.includes('*') || hasAll(allowed) ? allowAll : allowed.length * allowOne;
  const forDropped = hasAll(dropped) ? dropAll : dropped.length * dropOne;
  return Math.min(Math.max(base + added.length * addOne + forAllowed + forDropped, 0), max);
}

function hasAll(names: readonly string[]): boolean {
  return names.some((name) => name.toUpperCase() === 'ALL');
}
