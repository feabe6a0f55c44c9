import type { EventNote } from '../../cluster/port.ts';
import { apiVersionOf } from '../../kube/resources.ts';
import type { Namespace } from '../../kube/types.ts';
import type { PSAEnforcementConfig } from '../../kube/psa-enforcement-config.ts';
import { forcedWarning } from '../../policy/rollout/enforcement.ts';
import type { NamespaceEvaluation } from '../../policy/rollout/readiness.ts';
import { printSome } from '../../policy/psa/some.ts';
import type { Decision } from './decision.ts';

type Note = Omit<EventNote, 'reportingController'>;

/** The API server takes no longer notes. */
const MAX_NOTE = 1000;

/** What enforcement would do to a namespace. */
export function violationNote(namespace: Namespace, { level, workloads }: NamespaceEvaluation): Note {
  const count = `${workloads.length} ${workloads.length === 1 ? 'workload' : 'workloads'}`;
  const names = printSome(workloads.map(({ kind, name }) => `${kind}/${name}`));
  const note = `enforcement would hold this namespace to ${level} and refuse ${count}: ${names}`;
  return {
    regarding: { apiVersion: 'v1', kind: 'Namespace', ...namespace },
    type: 'Warning',
    reason: 'PodSecurityViolations',
    action: 'EvaluatePodSecurity',
    note: note.length > MAX_NOTE ? `${note.slice(0, MAX_NOTE - 1)}…` : note,
  };
}

/** Who deletes the object takes back what it says. */
export function deletionNote(created: PSAEnforcementConfig): Note {
  return {
    regarding: { apiVersion: apiVersionOf('PSAEnforcementConfig'), kind: 'PSAEnforcementConfig', ...created },
    type: 'Warning',
    reason: 'EnforcementConfigDeleted',
    action: 'Create',
    note: 'the object was deleted while namespaces were held to restricted: they are not any more',
  };
}

/** What a decision changes, and what an administrator who asks for it should know. */
export function decisionNotes(object: PSAEnforcementConfig, { spec, status }: Decision): readonly Note[] {
  const regarding = { apiVersion: apiVersionOf('PSAEnforcementConfig'), kind: 'PSAEnforcementConfig', ...object };
  const asked = object.spec?.enforcementMode ?? '';
  const before = object.status?.enforcementMode ?? '';
  const isNews = object.status?.observedGeneration !== object.metadata?.generation;
  const forced = isNews ? forcedWarning({ ...object, status }, undefined) : undefined;
  const note = (type: Note['type'], reason: string, text: string): Note => ({
    regarding,
    type,
    reason,
    action: 'Decide',
    note: text.length > MAX_NOTE ? `${text.slice(0, MAX_NOTE - 1)}…` : text,
  });
  return [
    ...(forced === undefined ? [] : [note('Warning', 'EnforcementForced', forced)]),
    ...(spec === asked
      ? []
      : [note('Warning', 'LegacyProposed', 'workloads would be refused: spec.enforcementMode becomes Legacy')]),
    ...(status.enforcementMode === before
      ? []
      : [note('Normal', 'EnforcementDecided', `status.enforcementMode becomes "${status.enforcementMode ?? ''}"`)]),
  ];
}

/** The names of namespaces that have not violated before. */
export function newlyViolating(
  { status: before }: PSAEnforcementConfig,
  { violatingNamespaces }: NonNullable<PSAEnforcementConfig['status']>,
): readonly string[] {
  const isCurrent = ({ state }: { readonly state?: string | null }): boolean => state !== 'Previous';
  const known = new Set(before?.violatingNamespaces?.filter(isCurrent).map(({ name }) => name));
  return (violatingNamespaces ?? []).filter(isCurrent).flatMap(({ name }) => (known.has(name) ? [] : name));
}
