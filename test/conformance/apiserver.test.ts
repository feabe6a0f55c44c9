/** Replays recorded requests to a real API server and compares the responses of the development cluster. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { isObject } from '../../src/kube/types.ts';
import { startEmptyCluster, type TestCluster } from '../support/dev-cluster.ts';
import { startRecordedWebhook, type ReceivedCall, type RecordedWebhook } from '../support/recorded-webhook.ts';
import {
  comparable,
  EXCEPTIONS,
  readTranscripts,
  type Exchange,
  type WebhookExchange,
} from '../support/transcripts.ts';

const RECORDED_WEBHOOK = '127.0.0.1:30443';
const CONFIGURATIONS = '/apis/admissionregistration.k8s.io/v1';
/** The areas that the development cluster answers like a real API server. */
const AREAS = ['setup', 'review', 'verdict', 'mutation'];
const transcripts = readTranscripts()?.filter(({ area }) => AREAS.includes(area));

describe(
  'transcripts of a real API server',
  { skip: transcripts ? false : 'the conformance data are not available' },
  () => {
    let cluster: TestCluster;
    let webhook: RecordedWebhook;
    /** Current resource versions by the recorded ones. */
    const versions = new Map<string, string>();
    let previous: Exchange | undefined;

    before(async () => {
      // All writes get the same time, because the recorded ones took less than a second.
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
        if (configuresWebhooks(exchange) && !(previous && configuresWebhooks(previous))) {
          await removeConfigurations(cluster);
        }
        previous = exchange;
        if (exchange.area === 'verdict') await removeWarnLabel(cluster);
        webhook.play(exchange.webhookCalls ?? []);
        const { method, path, headers, body } = translate(exchange.request);
        const response = await cluster.admin.send(method, path, body, headers);
        learnVersions(exchange.response.body, response.body ?? response.text);

        const { reduce = (value: unknown) => value, repeatsCall = false } = EXCEPTIONS[exchange.name] ?? {};
        const recorded = { status: exchange.response.status, body: exchange.response.body };
        const actual = { status: response.status, body: response.body ?? response.text };
        assert.deepEqual(reduce(comparable(toRecorded(actual))), reduce(comparable(recorded)));
        assert.deepEqual(response.warnings, exchange.response.warning ?? []);
        assert.equal(response.headers['content-type'], exchange.response.headers['content-type']);
        const received = webhook.received();
        compareCalls(repeatsCall ? received.slice(0, 1) : received, exchange.webhookCalls ?? []);
      });
    }

    /** Replaces recorded addresses, certificates and resource versions by current ones. */
    function translate(request: Exchange['request']): Exchange['request'] {
      const body = replaceDeep(request.body, (name, value) => {
        if (name === 'caBundle') return webhook.caBundle;
        if (name === 'resourceVersion') return versions.get(value) ?? value;
        return value.replace(RECORDED_WEBHOOK, `127.0.0.1:${webhook.port}`);
      });
      return { ...request, body };
    }

    /** Replaces current addresses and certificates by the recorded ones. */
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
  },
);

/** The recorded configurations are never deleted. Each applies alone, unless two are created in a row. */
function configuresWebhooks({ request }: Exchange): boolean {
  return request.path.startsWith(CONFIGURATIONS);
}

async function removeConfigurations(cluster: TestCluster): Promise<void> {
  for (const resource of ['mutatingwebhookconfigurations', 'validatingwebhookconfigurations']) {
    await cluster.admin.send('DELETE', `${CONFIGURATIONS}/${resource}`);
  }
}

/** Removes the label that one exchange sets. The removal was not recorded. */
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
