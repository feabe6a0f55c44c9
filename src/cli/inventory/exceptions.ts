/** Lists PodSecurityExceptions for commands and reports. */
import type { Store } from '../../cluster/store.ts';
import type { PodSecurityException } from '../../kube/pod-security-exception.ts';
import { objectKey } from '../../kube/resources.ts';
import { compareBytes } from '../../kube/text.ts';
import {
  type ExceptionProblem,
  type ExceptionSettings,
  findExceptionProblem,
  findTimeProblem,
  type PreparedException,
} from '../../policy/psa/index.ts';
import { type ExceptionIndex, indexExceptions, unexpired } from '../../policy/pss/index.ts';
import { readException, unapproved } from '../../views/exceptions.ts';
import type { ListedException } from '../../web/report-data.ts';

/** Returns the unexpired exceptions in manifests, which are assumed to be approved. */
export function proposedExceptions(store: Store, namespace: string, nowMs: number): ExceptionIndex {
  const rules = store.list('PodSecurityException', namespace).flatMap((object) => readException(object)?.rule ?? []);
  return indexExceptions(unexpired(rules, nowMs));
}

/**
 * Lists the exceptions in one namespace or in all namespaces, sorted by namespace and name. If the settings are
 * unknown, the states come from the status.
 */
export function listExceptions(
  store: Store,
  settings: ExceptionSettings | undefined,
  nowMs: number,
  namespace?: string,
): readonly ListedException[] {
  return store
    .list('PodSecurityException', namespace)
    .toSorted((a, b) => compareBytes(objectKey(a), objectKey(b)))
    .map((object) => listException(object, settings, nowMs));
}

function listException(
  object: PodSecurityException,
  settings: ExceptionSettings | undefined,
  nowMs: number,
): ListedException {
  const exception = readException(object);
  const { metadata: { name = '', namespace = '' } = {}, spec, status } = object;
  const problem =
    exception &&
    (settings ? findExceptionProblem(exception, settings, nowMs) : reportedProblem(exception, object, nowMs));
  const find = (type: string) =>
    status?.conditions?.find((condition) => condition.type === type && condition.status === 'True');
  const condition = find('Shadowed') ?? find('Unused');
  return {
    namespace,
    name,
    serviceAccount: spec?.serviceAccountName ?? '',
    state: unapproved(problem) ? 'Proposed' : (problem?.reason ?? condition?.type ?? 'Active'),
    problem: problem?.message ?? condition?.message,
    expiresAt: spec?.expiresAt ?? '',
    specHash: exception?.specHash,
    authors: exception?.authors ?? [],
    // An approval of an earlier spec is omitted, because it does not apply to the current spec.
    approvedBy: unapproved(problem) ? undefined : exception?.approval?.by,
    uses: status?.uses ?? 0,
    lastUsed: status?.lastUsed,
    reason: spec?.reason ?? '',
  };
}

/** Returns the problem that the leader has reported. For an active exception, returns a problem with its times. */
function reportedProblem(
  exception: PreparedException,
  { status }: PodSecurityException,
  nowMs: number,
): ExceptionProblem | undefined {
  const active = status?.conditions?.find(({ type }) => type === 'Active');
  if (active?.status === 'True') return findTimeProblem(exception, nowMs);
  const { reason = 'NotApproved', message = 'its state has not been reported yet' } = active ?? {};
  return { reason: reason as ExceptionProblem['reason'], message };
}
