/** Recorded exchanges with a real API server, and the comparison of responses with them. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { isObject } from '../../src/kube/types.ts';

export interface WebhookExchange {
  readonly url: string;
  /** The complete AdmissionReview, if it was recorded. */
  readonly body?: unknown;
  readonly request?: { readonly uid: string; readonly operation: string; readonly subResource?: string };
  /** Absent if the webhook closed the connection or did not respond. */
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

/** The areas that the development cluster reproduces, and the setup that they share. */
const AREAS = ['setup', 'review', 'verdict', 'mutation'];

/** The recorded exchanges in order; `undefined` if the conformance data are not available. */
export function readTranscripts(): readonly Exchange[] | undefined {
  const root = process.env['PORTCULLIS_CONFORMANCE'] ?? join(import.meta.dirname, '../../../shared/conformance');
  const file = join(root, 'apiserver/transcripts.ndjson');
  if (!existsSync(file)) return undefined;
  const lines = readFileSync(file, 'utf8').split('\n');
  const records = lines.filter((line) => line !== '').map((line) => JSON.parse(line) as Partial<Exchange>);
  const exchanges = records.filter((record): record is Exchange => record.request !== undefined);
  return exchanges.filter(({ area }) => AREAS.includes(area));
}

/** A documented difference from the recorded API server. */
export interface Exception {
  readonly reason: string;
  /** Reduces both responses to the part that must be equal. */
  readonly reduce?: (response: unknown) => unknown;
  /** True if a webhook may be called once more than recorded. */
  readonly repeatsCall?: boolean;
}

const REPEATED_CALL: Exception = {
  reason: 'A call over a kept connection that breaks is repeated over a new connection.',
  repeatsCall: true,
};

const UNKNOWN_FIELD: Exception = { reason: 'Unknown fields are kept.', reduce: () => 'created' };

/** By the name of the exchange. */
export const EXCEPTIONS: Readonly<Record<string, Exception>> = {
  'two validating webhooks deny': {
    reason: 'The recorded response comes from the faster webhook. The development cluster uses the first one in order.',
    reduce: () => 'denied',
  },
  'validating webhook: reset, failurePolicy Fail': REPEATED_CALL,
  'validating webhook: reset, failurePolicy Ignore': REPEATED_CALL,
  'validating webhook: badjson, failurePolicy Fail': {
    reason: "Syntax errors are reported in the words of JSON.parse instead of Go's decoder.",
    reduce: (response) =>
      JSON.parse(JSON.stringify(response).replaceAll(/(json parse error): [^"]*/g, '$1')) as unknown,
  },
  'mutating webhook: patch-unknown-field': UNKNOWN_FIELD,
  'mutating webhook: patch-invalid-path': UNKNOWN_FIELD,
  'mutating webhook: patch-wrong-type': {
    reason: 'The types of fields outside of metadata are not checked.',
    reduce: () => 'no decoding',
  },
};

const UUID = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g;
const TIME = /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ/g;
const TOKEN_VOLUME = /kube-api-access-[a-z0-9]{5}/g;
const CREDENTIAL = /X509SHA256=[0-9a-f]{64}/g;
const GENERATED = /^gen-[bcdfghjklmnpqrstvwxz2456789]{5}$/;

/** A value without the parts that differ from run to run. */
export function comparable(value: unknown): unknown {
  if (typeof value === 'string') {
    return value
      .replaceAll(UUID, 'UUID')
      .replaceAll(TIME, 'TIME')
      .replaceAll(TOKEN_VOLUME, 'kube-api-access-?????')
      .replace(GENERATED, 'gen-?????')
      .replaceAll(CREDENTIAL, 'X509SHA256=?');
  }
  if (Array.isArray(value)) return value.filter((item) => !isOpenShiftVolume(item)).map(comparable);
  if (!isObject(value)) return value;
  const entries = Object.entries(value).map(([name, item]): [string, unknown] => {
    const varies = (name === 'resourceVersion' || name === 'uid') && typeof item === 'string';
    return [name, varies ? name : comparable(item)];
  });
  return Object.fromEntries(entries);
}

/** Only OpenShift's build of the API server adds this source to the token volume. */
function isOpenShiftVolume(item: unknown): boolean {
  return isObject(item) && isObject(item['configMap']) && item['configMap']['name'] === 'openshift-service-ca.crt';
}
