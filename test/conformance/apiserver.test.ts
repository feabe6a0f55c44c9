/** Replays what was said to a real API server and compares what this one answers. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { isObject } from '../../src/kube/types.ts';
import { comparable } from '../support/comparable.ts';
import { startEmptyCluster, type TestCluster } from '../support/dev-cluster.ts';
import { startRecordedWebhook, type ReceivedCall, type RecordedWebhook } from '../support/recorded-webhook.ts';
import { readTranscripts, type Exchange, type WebhookExchange } from '../support/transcripts.ts';
import { exceptionFor } from '../support/transcript-exceptions.ts';

const RECORDED_WEBHOOK = '127.0.0.1:30443';
const CONFIGURATIONS = '/apis/admissionregistration.k8s.io/v1';
const transcripts = readTranscripts();

describe(
  'transcripts of a real API server',
  { skip: transcripts ? false : 'there are no conformance data here' },
  () => {
    let cluster: TestCluster;
    let webhook: RecordedWebhook;
    /** Resource versions of now, by the recorded ones. */
    const versions = new Map<string, string>();
    /** Continue tokens of now, by the recorded ones. */
    const tokens = new Map<string, string>();
    let previous: Exchange | undefined;

    before(async () => {
      // What was recorded within a second stays within one, however busy this machine is.
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

    for (const exchange of transcripts ?? []) {
      test(`${exchange.area}: ${exchange.name}`, async () => {
        const last = previous;
        previous = exchange;
        if (startsAfresh(exchange, last)) await removeConfigurations(cluster);
        if (exchange.area === 'verdict') await removeWarnLabel(cluster);
        webhook.play(exchange.webhookCalls ?? []);
        const { method, path, headers, body } = translate(exchange.request);
        const answer = await cluster.admin.send(method, path, body, headers);
        learn(exchange.response.body, answer.body ?? answer.text);

        const { reduce, calls } = exceptionFor(exchange.name);
        const recorded = { status: exchange.response.status, body: exchange.response.body };
        const actual = { status: answer.status, body: answer.body ?? answer.text };
        assert.deepEqual(reduce(comparable(asNow(actual))), reduce(comparable(lines(recorded))));
        assert.deepEqual(answer.warnings, exchange.response.warning ?? []);
        assert.equal(answer.headers['content-type'], exchange.response.headers['content-type']);
        const received = webhook.received();
        compareCalls(calls === 'again' ? received.slice(0, 1) : received, exchange.webhookCalls ?? []);
      });
    }

    /** Recorded addresses, certificates, versions and tokens become those of now. */
    function translate(request: Exchange['request']): Exchange['request'] {
      const token = /continue=([^&]+)/.exec(request.path)?.[1] ?? '';
      const path = request.path.replace(token, tokens.get(token) ?? token);
      const body = replaceDeep(request.body, (name, value) => {
        if (name === 'caBundle') return webhook.caBundle;
        if (name === 'resourceVersion') return versions.get(value) ?? value;
        return value.replace(RECORDED_WEBHOOK, `127.0.0.1:${webhook.port}`);
      });
      return { ...request, path, body };
    }

    /** Addresses and certificates of now become the recorded ones again. */
    function asNow<T>(value: T): T {
      const recorded = findText(transcripts, 'caBundle') ?? '';
      return lines(
        replaceDeep(value, (name, text) =>
          name === 'caBundle' ? recorded : text.replaceAll(`127.0.0.1:${webhook.port}`, RECORDED_WEBHOOK),
        ) as T,
      );
    }

    function learn(recorded: unknown, actual: unknown): void {
      if (!isObject(recorded) || !isObject(actual)) return;
      for (const [name, value] of Object.entries(recorded)) {
        const now = actual[name];
        if (name === 'resourceVersion' && typeof now === 'string') versions.set(String(value), now);
        else if (name === 'continue' && typeof now === 'string') tokens.set(String(value), now);
        else learn(value, now);
      }
    }
  },
);

/** Configurations are never deleted in the transcripts, but each stands for itself, unless two come in a row. */
function startsAfresh(exchange: Exchange, last: Exchange | undefined): boolean {
  const configures = (one: Exchange | undefined): boolean => one?.request.path.startsWith(CONFIGURATIONS) ?? false;
  return (configures(exchange) && !configures(last)) || (exchange.area === 'api' && last?.area !== 'api');
}

async function removeConfigurations(cluster: TestCluster): Promise<void> {
  for (const resource of ['mutatingwebhookconfigurations', 'validatingwebhookconfigurations']) {
    await cluster.admin.send('DELETE', `${CONFIGURATIONS}/${resource}`);
  }
}

/** The label that one exchange sets is gone in later ones; its removal is not among the transcripts. */
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

/** The text of a watch, line by line. */
function lines<T>(value: T): T {
  const { body } = value as { body?: unknown };
  if (typeof body !== 'string' || !body.startsWith('{"type"')) return value;
  const events: unknown[] = body
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as unknown);
  return { ...value, body: events };
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
