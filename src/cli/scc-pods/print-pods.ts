import { printColumns } from '../report/columns.ts';
import { printThrough } from '../scc-access/scc-grants.ts';
import type { AuditedPod } from './audit-pods.ts';

/** For people. */
export function printPodTable(pods: readonly AuditedPod[]): string {
  const header = ['NAMESPACE', 'POD', 'SCC', 'SUBJECT', 'GRANTED THROUGH', 'SINCE', 'OWNER'];
  return printColumns(
    header,
    pods.map((pod) => cellsOf(pod).map((cell) => cell || '<none>')),
  );
}

/**
 * For spreadsheets: a header, one line per pod.
 * @see https://www.rfc-editor.org/rfc/rfc4180
 */
export function printPodCsv(pods: readonly AuditedPod[]): string {
  const header = ['namespace', 'pod', 'scc', 'subject', 'granted through', 'since', 'owner', 'service account'];
  const rows = pods.map((pod) => [...cellsOf(pod), pod.serviceAccount ?? '']);
  return [header, ...rows].map((cells) => `${cells.map(printCell).join(',')}\r\n`).join('');
}

function cellsOf({ namespace, name, scc, subject, through, remark, since, owner }: AuditedPod): string[] {
  const [first, ...others] = through.map(printThrough);
  const more = others.length === 0 ? '' : ` and ${others.length} more`;
  const granted = [...(first === undefined ? [] : [`${first}${more}`]), ...(remark === undefined ? [] : [remark])].join(
    '; ',
  );
  return [namespace, name, scc ?? '', subject ?? '', granted, since ?? '', owner ? `${owner.kind}/${owner.name}` : ''];
}

/** Annotations are free text: what begins like a formula must not become one. */
function printCell(text: string): string {
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
