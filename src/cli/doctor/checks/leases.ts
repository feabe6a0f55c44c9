import { COMPONENT_LABEL, INSTALLATION, SERVING_CERTIFICATE_ANNOTATION } from '../../../kube/well-known.ts';
import type { Lease } from '../../../kube/types.ts';
import { fingerprintOf } from '../../../tls/pem.ts';
import { printNames, given, type Check, type Facts, type Remark } from '../facts.ts';

/** Somebody leads, and replicas say that they live, by the clock of this machine. */
export const leases: Check = {
  name: 'leases',
  judge: (facts) =>
    given(facts.leases, 'Leases', (all) => [
      ...judgeLeader(
        all.find(({ metadata }) => metadata?.name === INSTALLATION.name),
        facts,
      ),
      ...judgeReplicas(all.filter(isOfReplica), facts),
    ]),
};

function isOfReplica({ metadata }: Lease): boolean {
  return metadata?.labels?.[COMPONENT_LABEL] === 'replica';
}

/** Clocks differ, and renewing takes a moment. */
const SLACK_MS = 30_000;

function isFresh({ spec }: Lease, now: Date): boolean {
  const renewed = Date.parse(spec?.renewTime ?? '');
  return renewed + (spec?.leaseDurationSeconds ?? 0) * 1000 + SLACK_MS >= now.getTime();
}

function judgeLeader(lease: Lease | undefined, { now, namespace }: Facts): readonly Remark[] {
  const where = `Lease ${INSTALLATION.name}`;
  const holder = lease?.spec?.holderIdentity ?? '';
  if (lease && holder !== '' && isFresh(lease, now)) return [{ severity: 'ok', where, what: `${holder} leads` }];
  const what = !lease
    ? 'is not there: nobody leads, or each replica runs with --leader-elect=false'
    : holder === ''
      ? 'nobody leads'
      : `${holder} led, but has not renewed it since ${lease.spec?.renewTime ?? 'ever'}`;
  return [
    {
      severity: 'problem',
      where,
      what,
      why: 'certificates are not renewed, namespaces get no ranges; what is decided already stays',
      fix: `kubectl -n ${namespace} logs -l app.kubernetes.io/name=portcullis --tail=50`,
    },
  ];
}

function judgeReplicas(all: readonly Lease[], { now, certificate, namespace }: Facts): readonly Remark[] {
  const fresh = all.filter((lease) => isFresh(lease, now));
  const where = 'Leases of replicas';
  if (fresh.length === 0) {
    return all.length === 0
      ? []
      : [{ severity: 'problem', where, what: 'no replica has renewed its Lease', why: 'none runs, or none may write' }];
  }
  const chain = 'value' in certificate ? certificate.value.chain : undefined;
  const served = chain === undefined ? undefined : fingerprintOf(chain);
  const others = fresh.filter(({ metadata }) => {
    const reported = metadata?.annotations?.[SERVING_CERTIFICATE_ANNOTATION];
    return served !== undefined && reported !== undefined && reported !== served;
  });
  const names = others.map(({ metadata }) => metadata?.name ?? '');
  return [
    { severity: 'ok', where, what: `${fresh.length} of ${all.length} are fresh` },
    ...(names.length === 0
      ? []
      : [
          {
            severity: 'warning' as const,
            where: printNames(names),
            what: 'serves another certificate than the Secret holds',
            why: 'for a moment after a renewal that is so; if it stays, the replica does not see the Secret',
            fix: `kubectl -n ${namespace} rollout restart deployment portcullis`,
          },
        ]),
  ];
}
