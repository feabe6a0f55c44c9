import type { AdmissionRequest } from '../kube/admission.ts';
import type { Cell } from '../telemetry/hot.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import type { SccOutcome } from './scc-review.ts';

/** Counts one decision. */
export type SccRecorder = (request: AdmissionRequest, outcome: SccOutcome) => void;

const SUBRESOURCES: ReadonlySet<string> = new Set(['attach', 'ephemeralcontainers', 'exec', 'resize']);

/** Makes what counts decisions; of a series only the first decision looks for its cell. */
export function createSccRecorder(decisions: Metrics['scc']['decisions']): SccRecorder {
  const cells = new Map<string, Cell>();
  return (request, { mode: { mode }, decision }) => {
    const operation = operationOf(request);
    const { scc = '', subjectType: subject_type = '' } = decision.facts ?? {};
    const verdict = verdictOf(decision);
    const key = `${operation} ${mode} ${verdict} ${subject_type} ${scc}`;
    let cell = cells.get(key);
    if (!cell) {
      cell = decisions.cell({ operation, mode, decision: verdict, scc, subject_type });
      cells.set(key, cell);
    }
    cell.count++;
  };
}

/** What is done with the pod, out of a fixed set. */
function operationOf({ operation, subResource = '' }: AdmissionRequest): string {
  if (subResource !== '') return SUBRESOURCES.has(subResource) ? subResource : 'other';
  return operation === 'CREATE' || operation === 'UPDATE' ? operation.toLowerCase() : 'other';
}

/** `skip` of what SCCs have nothing to do with, as pods on Windows. */
function verdictOf({ allowed, facts }: SccOutcome['decision']): 'allow' | 'deny' | 'skip' {
  if (!allowed) return 'deny';
  return facts ? 'allow' : 'skip';
}
