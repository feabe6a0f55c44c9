import { COMPONENT_LABEL, INSTALLATION } from '../../../api/names.ts';
import { isCurrentLease } from '../../../controllers/replica-leases.ts';
import type { Lease } from '../../../kube/types.ts';
import {
  type DoctorCheck,
  type CheckResult,
  evaluateFact,
  type Facts,
  factValue,
  type Fix,
  ok,
  problem,
  warning,
} from '../facts.ts';
import { instruction, replicaLogs, commandFix, runsProcesses } from '../fix.ts';

/** Checks that a leader exists and that the replicas renew their Leases, according to the local clock. */
export const leases: DoctorCheck = {
  name: 'leases',
  evaluate: (facts) =>
    evaluateFact(facts.leases, 'Leases', (all) => {
      const leaderLease = all.find(({ metadata }) => metadata?.name === INSTALLATION.name);
      const replicaLeases = all.filter(({ metadata }) => metadata?.labels?.[COMPONENT_LABEL] === 'replica');
      return [evaluateLeader(leaderLease, facts), ...evaluateReplicas(replicaLeases, facts)];
    }),
};

/** Tolerance for clock skew and for the duration of a renewal. */
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
      : Date.parse(lease.spec?.renewTime ?? '') > facts.now.getTime()
        ? `${holder} renewed it at ${lease.spec?.renewTime}, which is in the future`
        : `expired, ${holder} last renewed it at ${lease.spec?.renewTime ?? 'an unknown time'}`;
  return problem(object, message, {
    impact: `certificates are not renewed${facts.settings.features.scc ? ', and UID ranges are allocated only by standby replicas' : ''}. Admission requires no leader`,
    fix: replicaLogs(facts),
  });
}

function evaluateReplicas(all: readonly Lease[], facts: Facts): readonly CheckResult[] {
  if (all.length === 0) return [];
  const [current = [], stopped = []] = [true, false].map((isCurrent) =>
    all.filter((lease) => isCurrentLease(lease, facts.now, TOLERANCE_MS) === isCurrent),
  );
  const object = 'Leases of replicas';
  if (current.length === 0) {
    const impact = 'no replica is running, or the replicas lack permission to write Leases';
    return [problem(object, 'no replica renews its Lease', { impact, fix: replicaLogs(facts) })];
  }
  return [
    ok(object, `${current.length} of ${all.length} are current`),
    ...stopped.flatMap((lease) => evaluateStopped(lease, facts)),
  ];
}

/** Reports a replica that stopped without deleting its Lease. The Deployment replaces deleted pods. */
function evaluateStopped({ metadata, spec }: Lease, facts: Facts): readonly CheckResult[] {
  const name = metadata?.name ?? '';
  const isReplaced = factValue(facts.pods)?.every((pod) => pod.metadata?.name !== name) === true;
  if (!runsProcesses(facts) && isReplaced) return [];
  const fix: Fix = runsProcesses(facts)
    ? instruction('start the replica again. If you removed it, another replica deletes the Lease after ten minutes')
    : commandFix('kubectl', '-n', facts.namespace, 'logs', '--tail=50', name);
  const impact = 'availability is reduced if another replica stops';
  const message = `the replica does not renew it, and last renewed it at ${spec?.renewTime ?? 'an unknown time'}`;
  return [warning(`Lease ${name}`, message, { impact, fix })];
}
