/**
 * Replays requests that were recorded with a real API server, and compares the responses of the development cluster.
 */
import assert from 'node:assert/strict';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { after, before, describe, test } from 'node:test';
import { parse } from 'yaml';
import { isObject } from '../../src/kube/types.ts';
import { createAuthority, createServing } from '../../src/tls/issue.ts';
import { readLines } from '../support/conformance/cases.ts';
import { startEmptyCluster, type TestCluster } from '../support/dev-cluster.ts';

interface WebhookExchange {
  readonly url: string;
  /** The complete AdmissionReview, if recorded. */
  readonly body?: unknown;
  readonly request?: { readonly uid: string; readonly operation: string; readonly subResource?: string };
  /** Absent if the webhook closed the connection or did not respond. */
  readonly answer?: { readonly status: number; readonly body: unknown };
}

interface Exchange {
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

/** A documented deviation from the recorded API server. */
interface Exception {
  readonly reason: string;
  /** Reduces both responses to the parts that must be equal. */
  readonly reduce?: (response: unknown) => unknown;
  /** True if a webhook may be called once more than recorded. */
  readonly repeatsCall?: boolean;
}

const REPEATED_CALL: Exception = {
  reason: 'A call over a kept connection that breaks is repeated over a new connection.',
  repeatsCall: true,
};

const UNKNOWN_FIELD: Exception = { reason: 'Unknown fields are kept.', reduce: () => 'created' };

/** Deviations by name of the exchange. */
const EXCEPTIONS: Readonly<Record<string, Exception>> = {
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

/**
 * Exchanges whose bodies contain details that the development cluster omits. Only the statuses of these exchanges are
 * compared.
 */
const STATUS_ONLY = new Set([
  ...[
    'not JSON',
    'unsupported media type',
    'list with limit',
    'list with bad continue',
    'table',
    'table of namespaces',
  ],
  ...['partial metadata list', 'watch from a resource version too old', 'watch from 0 with bookmarks'],
  ...['watch with initial events', 'api versions', 'api groups', 'resources of a group', 'core resources', 'version'],
  ...['self subject access review', 'subject access review, not allowed', 'create a CRD', 'enum violated'],
  ...['required field missing', 'custom resource table'],
]);

/** Exchanges that require typed decoding, a recorded continue token, or an API that the development cluster lacks. */
const SKIPPED = new Set([
  ...['wrong type in body', 'unknown field, strict', 'unknown field, warn', 'duplicate field, warn'],
  ...['apply without fieldManager', 'list continued', 'aggregated discovery of /api', 'lease with millisecond time'],
]);

const RECORDED_WEBHOOK = '127.0.0.1:30443';
const CONFIGURATIONS = '/apis/admissionregistration.k8s.io/v1';
const transcripts = readLines<Exchange | { readonly request?: undefined }>('apiserver/transcripts.ndjson').filter(
  (record): record is Exchange => record.request !== undefined && !SKIPPED.has(record.name),
);

describe('the development cluster responds as a recorded API server did:', () => {
  let cluster: TestCluster;
  let webhook: RecordedWebhook;
  /** Current resource versions by recorded resource version. */
  const versions = new Map<string, string>();
  let previous: Exchange | undefined;

  before(async () => {
    // All writes get the same time, because the recorded writes took less than a second.
    const now = new Date();
    cluster = await startEmptyCluster(() => now);
    webhook = await startRecordedWebhook();
    for (const name of ['default', 'kube-node-lease', 'kube-public', 'kube-system']) {
      const namespace = { apiVersion: 'v1', kind: 'Namespace', metadata: { name } };
      await cluster.cluster.writer.create({ group: '', resource: 'namespaces' }, namespace);
    }
  });
  after(async () => {
    await cluster.stop();
    await webhook.close();
    assert.deepEqual(cluster.errors, []);
  });

  for (const exchange of transcripts) {
    test(`${exchange.area}: ${exchange.name}`, async () => {
      const isReconfigured = configuresWebhooks(exchange) && !(previous && configuresWebhooks(previous));
      // The recording of the API used a cluster without webhooks.
      if (isReconfigured || (exchange.area === 'api' && previous?.area !== 'api')) removeConfigurations(cluster);
      previous = exchange;
      if (exchange.area === 'verdict') await removeWarnLabel(cluster);
      webhook.play(exchange.webhookCalls ?? []);
      const { method, path, headers, body } = translate(exchange.request);
      const response = await cluster.admin.send(method, path, body, headers);
      learnVersions(exchange.response.body, response.body ?? response.text);

      const { reduce = (value: unknown) => value, repeatsCall = false } = EXCEPTIONS[exchange.name] ?? {};
      const recorded = { status: exchange.response.status, body: exchange.response.body };
      const actual = { status: response.status, body: response.body ?? response.text };
      if (STATUS_ONLY.has(exchange.name)) assert.equal(actual.status, recorded.status);
      else assert.deepEqual(reduce(comparable(toRecorded(actual))), reduce(comparable(recorded)));
      assert.deepEqual(response.warnings, exchange.response.warning ?? []);
      assert.equal(response.headers['content-type'], exchange.response.headers['content-type']);
      const received = webhook.received();
      compareCalls(repeatsCall ? received.slice(0, 1) : received, exchange.webhookCalls ?? []);
    });
  }

  /**
   * Replaces recorded addresses, certificates and resource versions with current ones. Converts the YAML of an apply,
   * which the development cluster accepts only as JSON.
   */
  function translate(request: Exchange['request']): Exchange['request'] {
    const isYaml = typeof request.body === 'string' && request.body.startsWith('apiVersion:');
    const recorded: unknown = isYaml ? parse(request.body) : request.body;
    const body = replaceDeep(recorded, (name, value) => {
      if (name === 'caBundle') return webhook.caBundle;
      if (name === 'resourceVersion') return versions.get(value) ?? value;
      return value.replace(RECORDED_WEBHOOK, `127.0.0.1:${webhook.port}`);
    });
    return { ...request, body };
  }

  /** Replaces current addresses and certificates with the recorded ones. */
  function toRecorded(value: unknown): unknown {
    const recorded = findText(transcripts, 'caBundle') ?? '';
    return replaceDeep(value, (name, text) =>
      name === 'caBundle' ? recorded : text.replaceAll(`127.0.0.1:${webhook.port}`, RECORDED_WEBHOOK),
    );
  }

  function learnVersions(recorded: unknown, actual: unknown): void {
    if (!isObject(recorded) || !isObject(actual)) return;
    for (const [name, value] of Object.entries(recorded)) {
      const current = actual[name];
      if (name === 'resourceVersion' && typeof current === 'string') versions.set(String(value), current);
      else learnVersions(value, current);
    }
  }
});

/**
 * Returns true if the exchange writes a webhook configuration. The recording never deletes configurations, but only the
 * latest configuration was in effect, unless two were created in succession.
 */
function configuresWebhooks({ request }: Exchange): boolean {
  return request.path.startsWith(CONFIGURATIONS);
}

function removeConfigurations(cluster: TestCluster): void {
  for (const resource of ['mutatingwebhookconfigurations', 'validatingwebhookconfigurations']) {
    const key = { group: 'admissionregistration.k8s.io', resource };
    for (const stored of cluster.cluster.storage.list(key)) cluster.cluster.storage.remove(key, stored);
  }
}

/** Removes the label that one exchange sets, because its removal was not recorded. */
async function removeWarnLabel(cluster: TestCluster): Promise<void> {
  const body = { metadata: { labels: { 'pod-security.kubernetes.io/warn': null } } };
  await cluster.admin.send('PATCH', '/api/v1/namespaces/rec', body, { 'content-type': 'application/merge-patch+json' });
}

function compareCalls(received: readonly ReceivedCall[], recorded: readonly WebhookExchange[]): void {
  const byUrl = (a: { url: string }, b: { url: string }): number => (a.url < b.url ? -1 : a.url > b.url ? 1 : 0);
  assert.deepEqual(received.map(({ url }) => url).toSorted(), recorded.map(({ url }) => url).toSorted());
  const calls = received.toSorted(byUrl);
  for (const [index, call] of recorded.toSorted(byUrl).entries()) {
    if (call.body !== undefined) assert.deepEqual(comparable(calls[index]?.review), comparable(call.body));
  }
}

function replaceDeep(value: unknown, replace: (name: string, text: string) => string, name = ''): unknown {
  if (typeof value === 'string') return replace(name, value);
  if (Array.isArray(value)) return value.map((item) => replaceDeep(item, replace, name));
  if (!isObject(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([field, item]) => [field, replaceDeep(item, replace, field)]));
}

function findText(value: unknown, name: string): string | undefined {
  if (Array.isArray(value)) return value.map((item) => findText(item, name)).find((found) => found !== undefined);
  if (!isObject(value)) return undefined;
  const own = value[name];
  return typeof own === 'string' ? own : findText(Object.values(value), name);
}

const UUID = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g;
const TIME = /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ/g;
const TOKEN_VOLUME = /kube-api-access-[a-z0-9]{5}/g;
const CREDENTIAL = /X509SHA256=[0-9a-f]{64}/g;
const GENERATED = /^gen-[bcdfghjklmnpqrstvwxz2456789]{5}$/;

/** Returns a value without the parts that differ between runs. */
function comparable(value: unknown): unknown {
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

/** Removes the source that only OpenShift's API server adds to the token volume. */
function isOpenShiftVolume(item: unknown): boolean {
  return isObject(item) && isObject(item['configMap']) && item['configMap']['name'] === 'openshift-service-ca.crt';
}

interface ReceivedCall {
  readonly url: string;
  readonly review: { readonly request: { readonly uid: string } };
}

/** A webhook that replays recorded responses. */
interface RecordedWebhook {
  readonly port: number;
  readonly caBundle: string;
  /** Replaces the recorded responses and clears the received calls. */
  play(calls: readonly WebhookExchange[]): void;
  received(): readonly ReceivedCall[];
  close(): Promise<void>;
}

async function startRecordedWebhook(): Promise<RecordedWebhook> {
  const validity = { now: new Date(), days: 1 };
  const authority = createAuthority(validity);
  const serving = createServing(authority, { dnsNames: ['localhost'], ipAddresses: ['127.0.0.1'] }, validity);
  let waiting: WebhookExchange[] = [];
  let received: ReceivedCall[] = [];
  const take = (url: string): WebhookExchange | undefined => {
    const index = waiting.findIndex((call) => call.url === url);
    return index < 0 ? undefined : waiting.splice(index, 1)[0];
  };

  const server = createServer(serving, (request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const url = request.url ?? '';
      const review = JSON.parse(Buffer.concat(chunks).toString()) as ReceivedCall['review'];
      received.push({ url, review });
      const call = take(url);
      if (!call?.answer) {
        // Without a recorded response, the connection is reset or the call times out.
        if (!url.startsWith('/slow')) request.socket.destroy();
        return;
      }
      const { status, body } = call.answer;
      const text = typeof body === 'string' ? body : JSON.stringify(withUid(call, review.request.uid));
      response.writeHead(status, { 'content-type': status === 200 ? 'application/json' : 'text/plain' });
      response.end(text);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    port: (server.address() as AddressInfo).port,
    caBundle: Buffer.from(authority.cert).toString('base64'),
    play(calls) {
      waiting = [...calls];
      received = [];
    },
    received: () => received,
    close() {
      server.closeAllConnections();
      return new Promise((resolve, reject) => server.close((error) => (error ? reject(error) : resolve())));
    },
  };
}

/** Returns the recorded response with the UID of the current review. */
function withUid(call: WebhookExchange, uid: string): unknown {
  const recordedUid = call.request?.uid ?? (call.body as { request: { uid: string } }).request.uid;
  const answer = call.answer?.body as { response?: { uid?: string } };
  if (answer.response?.uid !== recordedUid) return answer;
  return { ...answer, response: { ...answer.response, uid } };
}
