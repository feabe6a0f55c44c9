/** Common parts of the explanation of a decision on a workload. */
import type { ServiceAccount, UserInfo } from '../../kube/types.ts';
import { printFieldPath } from '../../policy/pod/templates.ts';
import type { Workload } from '../inventory/workloads.ts';
import { printable, printTable, type Style } from '../output/print.ts';

/** Creator of the workload's pods, and their service account. */
export interface Creation {
  /** Creator of bare pods. */
  readonly creator: UserInfo;
  findAccount(name: string, namespace: string): ServiceAccount | undefined;
}

/** `off` if SCC admission is off in the namespace. `ignored` if the pod is exempt, such as a Windows pod. */
export type AdmissionResult = 'admitted' | 'denied' | 'ignored' | 'off';

export interface Explanation {
  readonly outcome: AdmissionResult;
  /** The explanation as JSON and YAML. */
  readonly data: object;
  print(style: Style): string;
}

/** Returns the first fields of every explanation. */
export function describeWorkload(
  { source, name, namespace }: Workload,
  { username = 'any authenticated user (set --as)' }: UserInfo,
  serviceAccount: string | undefined,
) {
  return {
    kind: source.kind,
    name,
    /** Path of the pod template in a custom resource. */
    template: source.template && printFieldPath(source.template),
    namespace,
    createdBy: username,
    /** Absent if the pod does not set a service account. */
    serviceAccount,
  };
}

interface ExplanationText {
  /** The result to print after the workload's name. */
  readonly result: string;
  /** Facts with their titles. Undefined facts are omitted. */
  readonly facts: readonly (readonly [title: string, fact: string | undefined])[];
  readonly blocks?: readonly string[];
  readonly warnings: readonly string[];
}

/** Prints the result for a workload, its facts, and warnings. */
export function printExplanation(
  { kind, name, namespace, template, createdBy, serviceAccount }: ReturnType<typeof describeWorkload>,
  { result, facts, blocks = [], warnings }: ExplanationText,
  style: Style,
): string {
  const path = template === undefined ? '' : ` (${template})`;
  const title = printable(`${kind} ${namespace}/${name || '(no name)'}${path}: ${result}`);
  const rows = [['Created by', createdBy] as const, ['Service account', serviceAccount ?? '(none)'] as const, ...facts];
  const shown = rows.flatMap(([fact, text]) => (text === undefined ? [] : [[fact, text]]));
  const lines = warnings.map((warning) => `${style('yellow', 'Warning:')} ${printable(warning)}\n`);
  return [
    `${style('bold', title)}\n${printTable(shown, { indent: '  ', gap: '  ' })}`,
    ...blocks,
    ...(lines.length === 0 ? [] : [lines.join('')]),
  ].join('\n');
}
