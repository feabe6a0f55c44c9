/**
 * Determines which SCC admitted an existing pod according to its annotations, and whether it would be admitted again.
 */
import { POD_SCC_ANNOTATIONS, type SecurityContextConstraints } from '../../../kube/scc.ts';
import type { Namespace, Pod } from '../../../kube/types.ts';
import type { SccMode } from '../mode.ts';
import { findSccViolations } from './explain.ts';

interface PodAuditInput {
  readonly namespace: Namespace;
  /** SCC mode of the namespace. */
  readonly mode: SccMode;
  /** The recorded SCC, if it exists. */
  readonly scc: SecurityContextConstraints | undefined;
  /** Number of grants of the recorded SCC to the service account, or `undefined` if the SCC does not exist. */
  readonly grants: number | undefined;
}

/**
 * Returns a pod with the SCC that admitted it and the recorded subject type. The note explains a missing SCC, a missing
 * grant, or fields that the SCC does not allow.
 */
export function auditPod(pod: Pod, { namespace: namespaceObject, mode: sccMode, scc: object, grants }: PodAuditInput) {
  const mode = pod.spec?.os?.name === 'windows' ? 'windows' : sccMode;
  const { name = '', namespace = '', annotations, creationTimestamp: since, ownerReferences } = pod.metadata ?? {};
  const scc = annotations?.[POD_SCC_ANNOTATIONS.scc];
  const serviceAccount = pod.spec?.serviceAccountName || undefined;
  const controller = ownerReferences?.find((owner) => owner.controller === true);
  const owner = controller && { kind: controller.kind, name: controller.name };
  const facts = { namespace, name, serviceAccount, since, owner };
  if (!scc) return { ...facts, scc: undefined, subject: undefined, note: NOTES[mode] };
  const subject = annotations?.[POD_SCC_ANNOTATIONS.subjectType] || undefined;
  const disallowed = object === undefined ? [] : findSccViolations(pod, object, namespaceObject);
  const notes = [grantNote(subject, grants, mode), disallowedNote(scc, disallowed)].filter(
    (note) => note !== undefined,
  );
  return { ...facts, scc, subject, note: notes.length === 0 ? undefined : notes.join('; ') };
}

/** SCC mode for a pod. Windows pods are exempt. */
type PodMode = SccMode | 'windows';

/** Why a pod has no SCC. */
const NOTES: Readonly<Record<PodMode, string>> = {
  windows: 'Windows pod: exempt from SCC admission',
  off: 'exempt namespace',
  report: 'SCC admission only reports here',
  enforce: 'created before SCC admission was enforced here',
};

const MAX_FIELDS = 3;

/**
 * Ephemeral containers may have been added under another SCC, but the recorded SCC must have admitted all other fields.
 */
function disallowedNote(scc: string, disallowed: readonly string[]): string | undefined {
  if (disallowed.length === 0) return undefined;
  const more = disallowed.length > MAX_FIELDS ? ` and ${disallowed.length - MAX_FIELDS} more` : '';
  const fields = `${disallowed.slice(0, MAX_FIELDS).join(', ')}${more}`;
  const isAddedLater = disallowed.every((field) => field.startsWith('spec.ephemeralContainers['));
  return isAddedLater ? `added under another SCC: ${fields}` : `not allowed by ${scc}: ${fields}`;
}

function grantNote(subject: string | undefined, grants: number | undefined, mode: PodMode): string | undefined {
  if (mode !== 'enforce')
    return 'SCC admission is not enforced here: the creator of the pod may have written the annotation';
  if (grants === undefined) return 'the SCC no longer exists';
  if (grants > 0) return undefined;
  return subject === 'serviceaccount'
    ? 'the grant no longer exists'
    : "admitted only because of its creator's permissions";
}
