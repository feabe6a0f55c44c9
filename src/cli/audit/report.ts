import {
  AUDIT_RULES,
  type AuditCode,
  type AuditFinding,
  type Severity,
} from '../../policy/rollout/user-namespace-audit.ts';
import { EXIT } from '../command.ts';

/** What an audit found, and what it took for granted. */
export interface AuditReport {
  /** Sorted by namespace, kind and name. */
  readonly findings: readonly AuditFinding[];
  readonly assumptions: readonly string[];
}

export type AuditSummary = Readonly<Record<Severity, number>>;

export function summarizeAudit({ findings }: AuditReport): AuditSummary {
  const count = (severity: Severity): number => findings.filter((one) => one.severity === severity).length;
  return { high: count('high'), medium: count('medium'), info: count('info') };
}

/** What is for information alone is no violation. */
export function exitCodeOfAudit(report: AuditReport): number {
  const { high, medium } = summarizeAudit(report);
  return high + medium === 0 ? EXIT.passed : EXIT.violations;
}

/** First what starts pods, lest it start them again, then the pods, then what lets others start such. */
const ORDER_OF_REPAIR: readonly AuditCode[] = ['UN002', 'UN001', 'UN004', 'UN005', 'UN003', 'UN006'];

/** What to do about the findings, in the order in which it has to be done. */
export function remediesFor({
  findings,
}: AuditReport): readonly { readonly code: AuditCode; readonly remedy: string }[] {
  const found = new Set(findings.map(({ code }) => code));
  return ORDER_OF_REPAIR.filter((code) => found.has(code)).map((code) => ({ code, remedy: AUDIT_RULES[code].remedy }));
}
