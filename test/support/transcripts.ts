/** Exchanges with a real API server: what was asked, what it answered, and what it asked webhooks meanwhile. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

export interface WebhookExchange {
  readonly url: string;
  /** The AdmissionReview, where it was recorded whole. */
  readonly body?: unknown;
  readonly request?: { readonly uid: string; readonly operation: string; readonly subResource?: string };
  /** Absent: the webhook closed the connection or never answered. */
  readonly answer?: { readonly status: number; readonly body: unknown };
}

export interface Exchange {
  readonly area: string;
  readonly name: string;
  readonly request: {
    readonly method: string;
    readonly path: string;
    readonly headers?: Readonly<Record<string, string>>;
    readonly body?: unknown;
  };
  readonly response: {
    readonly status: number;
    readonly headers: Readonly<Record<string, string>>;
    readonly warning?: readonly string[];
    readonly body?: unknown;
  };
  readonly webhookCalls?: readonly WebhookExchange[];
}

/** The recorded exchanges in order; `undefined` where there are none on this machine. */
export function readTranscripts(): readonly Exchange[] | undefined {
  const root = process.env['PORTCULLIS_CONFORMANCE'] ?? join(import.meta.dirname, '../../../shared/conformance');
  const file = join(root, 'apiserver/transcripts.ndjson');
  if (!existsSync(file)) return undefined;
  const lines = readFileSync(file, 'utf8').split('\n');
  const records = lines.filter((line) => line !== '').map((line) => JSON.parse(line) as Partial<Exchange>);
  return records.filter((record): record is Exchange => record.request !== undefined);
}
