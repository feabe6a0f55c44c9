import { POD_SCC_ANNOTATIONS } from '../../../kube/scc.ts';
import { quote } from '../../../kube/quote.ts';
import { hasUserNamespace } from '../../../kube/pod.ts';
import type { Namespace, Pod } from '../../../kube/types.ts';
import { misfitsOf } from '../../scc/misfit.ts';
import type { GuardedScc, GuardedSccs } from './guarded-sccs.ts';
import { hiddenViolations } from './hidden-violations.ts';
import { rootlikeFields } from './rootlike-fields.ts';
import { finding, type AuditFinding } from './types.ts';

interface Surroundings {
  readonly guarded: GuardedSccs;
  /** Absent if the pod is in none that is known. */
  readonly namespace: Namespace | undefined;
}

/** What of a pod depends on its user namespace. */
export function auditPod(pod: Pod, { guarded, namespace }: Surroundings): readonly AuditFinding[] {
  const found = guarded.get(pod.metadata?.annotations?.[POD_SCC_ANNOTATIONS.scc] ?? '');
  const told = { kind: 'Pod', object: pod };
  const findings: AuditFinding[] = [];
  if (found?.risk === 'at risk') findings.push(admittedAtRisk(pod, found, namespace));
  if (!hasUserNamespace(pod.spec)) return findings;
  const fields = rootlikeFields(pod);
  if (fields.length > 0)
    findings.push(finding('UN004', { ...told, message: `spec.hostUsers=false with ${fields.join(', ')}` }));
  const hidden = hiddenViolations(pod, namespace);
  if (hidden !== undefined) {
    const message = `violates PodSecurity ${quote(hidden.policy)} if its user namespace does not count: ${hidden.detail}`;
    findings.push(finding('UN005', { ...told, message }));
  }
  if (found?.risk === 'harmless') {
    const message = `SCC ${quote(nameOf(found))} admitted it, which allows no more without the user namespace`;
    findings.push(finding('UN007', { ...told, message }));
  }
  return findings;
}

/** Where nothing but the annotation says so, anybody may have written it: then the pod decides how bad it is. */
function admittedAtRisk(pod: Pod, found: GuardedScc, namespace: Namespace | undefined): AuditFinding {
  const name = quote(nameOf(found));
  const obstacles = namespace === undefined ? [] : misfitsOf(pod, found.scc, namespace);
  const message =
    obstacles.length === 0
      ? `SCC ${name} admitted it, which is safe in a user namespace only`
      : `annotation ${POD_SCC_ANNOTATIONS.scc} names SCC ${name}, which would not admit it: ${obstacles.join(', ')}`;
  const told = finding('UN001', { kind: 'Pod', object: pod, message });
  return obstacles.length === 0 ? told : { ...told, severity: 'medium' };
}

function nameOf({ scc }: GuardedScc): string {
  return scc.metadata?.name ?? '';
}
