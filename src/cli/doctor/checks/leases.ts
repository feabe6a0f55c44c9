import { isCurrentLease } from '../../../controllers/replica-leases.ts';
import type { Lease } from '../../../kube/types.ts';
import { COMPONENT_LABEL, INSTALLATION } from '../../../kube/well-known.ts';
import { type Check, type CheckResult, evaluateFact, type Facts, ok, problem } from '../facts.ts';
import { replicaLogs } from '../fix.ts';

/** Checks that a leader exists and that the replicas renew their Leases, according to the local clock. */
export const leases: Check = {
  name: 'leases',
  evaluate: (facts) =>
    evaluateFact(facts.leases, 'Leases', (all) => {
      const leaderLease = all.find(({ metadata }) => metadata?.name === INSTALLATION.name);
      const replicaLeases = all.filter(({ metadata }) => metadata?.labels?.[COMPONENT_LABEL] === 'replica');
      return [evaluateLeader(leaderLease, facts), ...evaluateReplicas(replicaLeases, facts)];
    }),
};

/** Tolerates clock skew and the duration of a renewal. */
const TOLERANCE_MS = 30_000;

function evaluateLeader(lease: Lease | undefined, facts: Facts): CheckResult {
  const object = `Lease ${INSTALLATION.name}`;
  const holder = lease?.spec?.holderIdentity ?? '';
  if (lease && holder !== '' && isCurrentLease(lease, facts.now, TOLERANCE_MS)) {
    return ok(object, `${holder} is the leader`);
  }
  const message = !lease
    ? 'does not exist. There is no leader, or each replica runs with --leader-elect=false'
    : holder === ''
      ? 'has no holder'
      : `expired, ${holder} last renewed it at ${lease.spec?.renewTime ?? 'an unknown time'}`;
  return problem(object, message, {
    impact: 'certificates are not renewed, and namespaces get no ranges. Admission continues',
    fix: replicaLogs(facts),
  });
}

function evaluateReplicas(all: readonly Lease[], facts: Facts): readonly CheckResult[] {
  if (all.length === 0) return [];
  const current = all.filter((lease) => isCurrentLease(lease, facts.now, TOLERANCE_MS));
  const object = 'Leases of replicas';
  if (current.length > 0) return [ok(object, `${current.length} of ${all.length} are current`)];
  const impact = 'no replica is running, or the replicas lack permission to write Leases';
  return [problem(object, 'no replica renews its Lease', { impact, fix: replicaLogs(facts) })];
}
