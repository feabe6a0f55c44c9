/** Lists the denied workloads in a plan with the reason for each denial and the ways to admit the workload. */
import { POD_SCC_ANNOTATIONS } from '../../../kube/scc.ts';
import { quote, shellQuote } from '../../../kube/text.ts';
import type { SccMode } from '../mode.ts';
import { formatDisallowedField } from './disallowed-fields.ts';
import type { PodDenial } from './explain.ts';
import { FULL_CONTROL } from './permissions.ts';
import type { AdmissionPlan } from './plan.ts';
import type { SuggestedScc } from './suggestion.ts';

/**
 * Describes why no SCC admits the pod. Returns the fields that the closest SCC does not allow, or the message of the
 * denial.
 */
function describeCause({ closest, problem, message }: Omit<PodDenial, 'outcome'>): string {
  if (problem !== undefined || closest === undefined) return problem ?? message;
  const fields = closest.disallowedFields.map(formatDisallowedField).join(', ');
  return `the closest SCC is ${quote(closest.scc)}, which does not allow ${fields}`;
}

/** Describes the cause of a denial and the ways to admit the pod. Each item is one sentence. */
export function describeDenial(denial: PodDenial, serviceAccount: string | undefined): readonly string[] {
  const { grantable, suggestedScc, corrections, closest, isLastResort } = denial;
  const subject = serviceAccount === undefined ? 'its node' : `service account ${quote(serviceAccount)}`;
  const caveat = isLastResort ? ', but it allows everything' : '';
  const isNeeded = isLastResort || grantable === undefined;
  const details = [
    closest && capitalize(describeCause(denial)),
    corrections?.scc && `${corrections.scc} admits it after a correction: ${corrections.changes.join(', ')}`,
    isNeeded && suggestedScc ? `Needs ${describeCustomScc(suggestedScc)}` : undefined,
    grantable && `${grantable} would admit it if ${subject} were allowed to use it${caveat}`,
  ].filter((detail) => detail !== undefined);
  return details.length === 0 ? [describeCause(denial)] : details;
}

function capitalize(text: string): string {
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}

export function describeCustomScc({ original, changes }: SuggestedScc): string {
  return `a custom SCC: copy ${original} and ${changes.join(', ')}`;
}

/** Returns the command that grants an SCC to a service account. The flags select the cluster. */
export function grantCommand(
  scc: string,
  {
    namespace,
    serviceAccount = 'default',
  }: { readonly namespace: string; readonly serviceAccount?: string | undefined },
  clusterFlags: readonly string[],
): string {
  const args = [scc, '-z', serviceAccount, '-n', namespace, ...clusterFlags];
  return `portcullis scc grant ${args.map(shellQuote).join(' ')}`;
}

/** The phrase with which all commands describe the reason for a denial. */
export const NO_SCC = 'no SCC admits it';

export interface SccDenial {
  readonly namespace: string;
  readonly kind: string;
  readonly name: string;
  /** SCC mode of the namespace. In `report` mode, the denial is only a warning. */
  readonly mode: Exclude<SccMode, 'off'>;
  readonly reason: string;
  /** Ways to admit the workload, in order of preference. */
  readonly fixes: readonly SccFix[];
}

export interface SccFix {
  /** One sentence, or a phrase that introduces the command. */
  readonly text: string;
  readonly command?: string | undefined;
  /** One sentence that explains what else the command permits. */
  readonly consequence?: string | undefined;
}

/** Returns the denied workloads of a namespace, or an empty list if SCC admission is off. */
export function listDenials(
  { name: namespace, mode, workloads }: AdmissionPlan,
  files: readonly string[] = [],
): readonly SccDenial[] {
  return workloads.flatMap((workload) => {
    const { kind, name, result, denial } = workload;
    if (mode === 'off' || result.outcome !== 'denied') return [];
    const reason = denial ?? capitalize(describeCause(result));
    return [{ namespace, kind, name, mode, reason, fixes: listFixes(result, { ...workload, files }, namespace) }];
  });
}

function joinPhrases(phrases: readonly string[]): string {
  const last = phrases.at(-1) ?? '';
  return phrases.length < 2 ? last : `${phrases.slice(0, -1).join(', ')} and ${last}`;
}

interface DeniedWorkload {
  readonly kind: string;
  /** Name of the workload. Ends with a hyphen or an asterisk if it is only a prefix. */
  readonly name: string;
  /** Path of the pod template. Set only if the object's kind is not built in. */
  readonly template?: string | undefined;
  readonly serviceAccount?: string | undefined;
  /** Files and folders from which the workload was read, such as `-`. Empty if it was read from the cluster. */
  readonly files?: readonly string[];
  /** Flags that select the cluster in the commands of the fixes. */
  readonly clusterFlags?: readonly string[];
}

/**
 * Lists the ways to admit the pods of a denied workload, in order of preference. Correcting or changing the workload
 * comes first, followed by copying an SCC and by granting a more permissive SCC.
 */
export function listFixes(
  denial: PodDenial,
  { kind, name, template, serviceAccount, files = [], clusterFlags = [] }: DeniedWorkload,
  namespace: string,
): readonly SccFix[] {
  const { problem, corrections, requiredScc, closest, suggestedScc, changing } = denial;
  const { grantable, permits = [] } = denial;
  if (problem !== undefined) return [{ text: problem }];
  if (corrections?.scc !== undefined) return [{ text: `${capitalize(corrections.changes.join(', '))}.` }];
  if (requiredScc !== undefined) {
    return [{ text: `Write ${quote(requiredScc)} in annotation ${POD_SCC_ANNOTATIONS.requiredScc}.` }];
  }
  const paths = (closest?.disallowedFields ?? changing?.paths.map((path) => ({ path })))?.map(({ path }) => path);
  const fixes: SccFix[] = [
    { text: paths === undefined ? 'Change the workload.' : `Remove or change ${paths.join(', ')} in the pods.` },
  ];
  // The SCC with the name of the workload usually is the copy, which has not been granted yet.
  if (suggestedScc && grantable !== name) {
    const changes = [...(corrections?.changes ?? []), ...suggestedScc.changes].join(', ');
    const isNamed = /[^-*]$/.test(name) && template === undefined;
    // Standard input cannot be read again.
    const read = files.flatMap((file) => ['-f', file === '-' ? 'FILE' : file]);
    const args = [name, `${kind.toLowerCase()}/${name}`, '-n', namespace, ...read, ...clusterFlags];
    const command = `portcullis scc create ${args.map(shellQuote).join(' ')}`;
    const text = `Copy SCC ${quote(suggestedScc.original)}, ${changes}, and grant the copy`;
    fixes.push(isNamed ? { text, command } : { text: `${text}.` });
  }
  if (grantable === undefined || serviceAccount === undefined) return fixes;
  const scope = permits.length === 0 ? `everything that SCC ${quote(grantable)} allows` : joinPhrases(permits);
  return [
    ...fixes,
    {
      text: `${permits.includes(FULL_CONTROL) ? 'As a last resort, grant' : 'Grant'} SCC ${quote(grantable)}`,
      command: grantCommand(grantable, { namespace, serviceAccount }, clusterFlags),
      consequence: `This gives all pods of service account ${quote(serviceAccount)} these permissions: ${scope}.`,
    },
  ];
}

/** Returns false if the denial does not depend on the fields of the pod, so there is nothing to suggest. */
export function hasAdvice(denial: PodDenial): boolean {
  return Object.keys(denial).some((key) => key !== 'outcome' && key !== 'message');
}

/** Returns the reason for a denial in the format of a Pod Security violation. */
export function describeReason(denial: PodDenial): { readonly reason: string; readonly detail: string } {
  return hasAdvice(denial)
    ? { reason: 'no SCC admits the pod', detail: describeCause(denial) }
    : { reason: denial.message, detail: '' };
}

/** Formats a fix as sentences on one line. */
export function formatFix({ text, command, consequence }: SccFix): string {
  const first = command === undefined ? text : `${text}: ${command}.`;
  return consequence === undefined ? first : `${first} ${consequence}`;
}
