import type { KubeObject } from './types.ts';

/** What something refers to, as far as reports tell. */
export interface ReportSubject {
  readonly apiVersion?: string;
  readonly kind: string;
  readonly namespace?: string;
  readonly name: string;
}

export interface ReportResult {
  readonly policy: string;
  readonly rule: string;
  readonly category: string;
  readonly severity: 'high' | 'medium' | 'low';
  readonly result: 'pass' | 'fail' | 'warn' | 'error' | 'skip';
  readonly scored: boolean;
  readonly message: string;
  readonly timestamp: { readonly seconds: number; readonly nanos: number };
  readonly resources?: readonly ReportSubject[];
  readonly properties?: Readonly<Record<string, string>>;
}

/**
 * What is wrong in a namespace, in the form that tools for many policy engines read.
 * @see https://github.com/openreports/reports-api/blob/main/docs/api-docs.md
 */
export interface Report extends KubeObject {
  readonly source: string;
  readonly scope: ReportSubject;
  readonly summary: Readonly<Record<ReportResult['result'], number>>;
  readonly results: readonly ReportResult[];
}
