/** Lists the denied workloads in a plan, why each is denied, and how to admit it. */
import { quote, shellQuote } from '../../../kube/text.ts';
import type { SccMode } from '../mode.ts';
import type { PodDenial } from './explain.ts';
import { type AdmissionPlan, grantableScc, type PlannedWorkload } from './plan.ts';
import { formatDisallowedField, type SuggestedScc } from './suggestion.ts';

/** Describes the fields that the closest SCC does not allow. Returns `undefined` if there is no closest SCC. */
function describeClosest({ closest }: PodDenial): string | undefined {
  if (closest === undefined) return undefined;
  const fields = closest.disallowedFields.map(formatDisallowedField).join(', ');
  return `The closest SCC is ${quote(closest.scc)}. It does not allow: ${fields}`;
}

/** Describes the cause of a denial and how to admit the pod. Each item is one sentence. */
export function describeDenial(denial: PodDenial, serviceAccount: string | undefined): readonly string[] {
  const { grantable, suggestedScc, message } = denial;
  const subject = serviceAccount === undefined ? 'its node' : `service account ${quote(serviceAccount)}`;
  const caveat = suggestedScc ? ', but it allows everything' : '';
  const details = [
    describeClosest(denial),
    suggestedScc && `Needs ${describeCustomScc(suggestedScc)}`,
    grantable && `${grantable} would admit it if ${subject} were allowed to use it${caveat}`,
  ].filter((detail) => detail !== undefined);
  return details.length === 0 ? [message] : details;
}

export function describeCustomScc({ original, changes }: SuggestedScc): string {
  return `a custom SCC: copy ${original} and ${changes.join(', ')}`;
}

/** Returns the command that grants an SCC to a service account. */
export function grantCommand(scc: string, namespace: string, serviceAccount = 'default'): string {
  return `portcullis scc grant ${[scc, '-z', serviceAccount, '-n', namespace].map(shellQuote).join(' ')}`;
}

export interface SccDenial {
  readonly namespace: string;
  readonly kind: string;
  readonly name: string;
  /** With `report`, the denial is only a warning. */
  readonly mode: Exclude<SccMode, 'off'>;
  readonly reason: string;
  /** Ways to admit the workload, in order of preference. */
  readonly fixes: readonly SccFix[];
}

interface SccFix {
  /** One sentence, or a phrase that introduces the command. */
  readonly text: string;
  readonly command?: string | undefined;
  /** One sentence that describes what else the command permits. */
  readonly consequence?: string | undefined;
}

/** Returns the denied workloads of a namespace, or none if SCC admission is off. */
export function listDenials(
  { name: namespace, mode, workloads }: AdmissionPlan,
  isPrivileged: (scc: string) => boolean,
): readonly SccDenial[] {
  return workloads.flatMap((workload) => {
    const { kind, name, result, denial } = workload;
    if (mode === 'off' || result.outcome !== 'denied') return [];
    const reason = denial ?? describeClosest(result) ?? result.message;
    return [
      { namespace, kind, name, mode, reason, fixes: listFixes({ ...workload, result }, namespace, isPrivileged) },
    ];
  });
}

/** Lists the fixes in order of preference: change the workload, create a custom SCC, grant an existing SCC. */
function listFixes(
  workload: PlannedWorkload & { readonly result: PodDenial },
  namespace: string,
  isPrivileged: (scc: string) => boolean,
): readonly SccFix[] {
  const { kind, name, result, serviceAccount = '' } = workload;
  const fields = result.closest?.disallowedFields.map(({ path }) => path).join(', ');
  const change = fields === undefined ? 'Change the workload.' : `Remove or change ${fields} in the pods.`;
  const custom = [name, `${kind.toLowerCase()}/${name}`, '-n', namespace].map(shellQuote).join(' ');
  const fixes: SccFix[] = [{ text: change }];
  if (result.suggestedScc) {
    const text = 'Create a custom SCC that allows what the pods need, and grant it';
    fixes.push({ text, command: `portcullis scc create ${custom}` });
  }
  const scc = grantableScc(workload);
  if (scc === undefined) return fixes;
  const extent = isPrivileged(scc) ? 'full control of their nodes' : `everything that SCC ${quote(scc)} allows`;
  return [
    ...fixes,
    {
      text: isPrivileged(scc) ? 'As a last resort, grant the SCC' : 'Grant the SCC',
      command: grantCommand(scc, namespace, serviceAccount),
      consequence: `This gives all pods of service account ${quote(serviceAccount)} ${extent}.`,
    },
  ];
}
