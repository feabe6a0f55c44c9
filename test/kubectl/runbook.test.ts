import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { describe, test } from 'node:test';
import { promisify } from 'node:util';
import alerts from '../../src/install/alerts.json' with { type: 'json' };
import { type BreakGlassStatus, breakGlassStatus } from '../../src/install/break-glass-state.ts';
import { defaultSettings, staticWebhookConfigurations } from '../../src/install/index.ts';
import { parseWebhookConfiguration } from '../../src/install/live-webhooks.ts';
import type { JsonObject, Namespace, ValidatingWebhookConfiguration } from '../../src/kube/types.ts';
import { startCluster } from '../support/dev-cluster.ts';
import { hasKubectl } from '../support/kubectl.ts';
import { runProgram } from '../support/memory-io.ts';

const TEXT = await readFile('docs/how-to/break-glass.md', 'utf8');
const RUNBOOK = await readFile('docs/how-to/runbook.md', 'utf8');
const HEADINGS = [...RUNBOOK.matchAll(/^#{1,3} (.*)$/gm)].map(([, heading = '']) => getAnchor(heading));

/** Returns the anchor of a heading on GitHub. */
function getAnchor(heading: string): string {
  return heading
    .toLowerCase()
    .replaceAll(/[^\w -]/g, '')
    .replaceAll(' ', '-');
}

test('every alert has a section in the runbook', () => {
  for (const { alert } of alerts) assert.ok(HEADINGS.includes(alert.toLowerCase()), alert);
});

/** Returns the shell block that matches the pattern. */
function blockWith(pattern: RegExp): string {
  const blocks = [...TEXT.matchAll(/```sh\n([^]*?)```/g)].map(([, block = '']) => block);
  return blocks.find((block) => pattern.test(block)) ?? assert.fail(`no block has ${pattern.source}`);
}

describe(
  'the kubectl commands for break-glass in the documentation',
  { skip: !hasKubectl && 'there is no kubectl' },
  () => {
    test('disable, enable and delete the webhooks', async () => {
      const cluster = await startCluster();
      try {
        const env = { ...process.env, KUBECONFIG: await cluster.kubeconfig() };
        const run = async (script: string) =>
          await promisify(execFile)('sh', ['-ec', script], { env, timeout: 60_000 });
        const root = '/apis/admissionregistration.k8s.io/v1';
        const kinds = ['ValidatingWebhookConfiguration', 'MutatingWebhookConfiguration'] as const;
        for (const manifest of staticWebhookConfigurations(defaultSettings('1.2.3'))) {
          const { status } = await cluster.admin.send('POST', `${root}/${manifest.kind.toLowerCase()}s`, manifest);
          assert.equal(status, 201);
        }
        const read = async (): Promise<readonly JsonObject[]> => {
          const lists = await Promise.all(
            kinds.map((kind) => cluster.admin.send('GET', `${root}/${kind.toLowerCase()}s`)),
          );
          return lists.flatMap(({ body }) => (body as { readonly items: readonly JsonObject[] }).items);
        };
        const state = async (): Promise<BreakGlassStatus['breakGlass']> => {
          const objects = (await read()) as readonly ValidatingWebhookConfiguration[];
          return breakGlassStatus(
            objects.map((object) => parseWebhookConfiguration('ValidatingWebhookConfiguration', object)),
          ).breakGlass;
        };
        const webhooks = async () => (await read()).map((object) => object['webhooks']);
        const since = async (): Promise<readonly unknown[]> =>
          (await read()).map((object) => {
            const { annotations } = object['metadata'] as { readonly annotations?: JsonObject };
            return annotations?.['portcullis.dev/break-glass-since'];
          });
        const whole = await webhooks();
        await run(blockWith(/"expression\\":\\"false/));
        assert.equal(await state(), 'on');
        assert.ok((await since()).every((time) => /^\d{4}-\d\d-\d\dT[\d:]+Z$/.test(String(time))));
        await run(blockWith(/\$patch/));
        assert.equal(await state(), 'off');
        assert.deepEqual(await webhooks(), whole);
        assert.ok((await since()).every((time) => time === undefined));
        await run(blockWith(/^kubectl delete validatingwebhook/));
        assert.deepEqual(await read(), []);
      } finally {
        await cluster.stop();
      }
    });

    test('relax and restore only the enforce labels of the label syncer', async () => {
      const cluster = await startCluster();
      try {
        const kubeconfig = await cluster.kubeconfig();
        const env = { ...process.env, KUBECONFIG: kubeconfig };
        const run = async (script: string) =>
          await promisify(execFile)('sh', ['-ec', script], { env, timeout: 60_000 });
        const enforce = 'pod-security.kubernetes.io/enforce';
        const syncer = 'pod-security-admission-label-synchronization-controller';
        const setups = {
          ours: [syncer, 'restricted'],
          open: [syncer, 'privileged'],
          others: ['helm', 'baseline'],
        } as const;
        for (const [name, [manager, level]] of Object.entries(setups)) {
          const labels = { [enforce]: level };
          await cluster.admin.send('POST', `/api/v1/namespaces?fieldManager=${manager}`, {
            metadata: { name, labels },
          });
        }
        const levels = async (): Promise<readonly unknown[]> =>
          await Promise.all(
            Object.keys(setups).map(async (name) => {
              const { body } = await cluster.admin.send('GET', `/api/v1/namespaces/${name}`);
              const { labels = {} } = (body as Namespace).metadata ?? {};
              return [labels[enforce], labels['portcullis.dev/break-glass-enforce']];
            }),
          );
        const before = await levels();
        const on = blockWith(/field-manager=portcullis-break-glass/);
        const relaxed = [['privileged', 'restricted'], ...before.slice(1)];
        await run(on);
        assert.deepEqual(await levels(), relaxed);
        await run(blockWith(/break-glass-enforce-$/m));
        assert.deepEqual(await levels(), before);
        await run(on);
        assert.deepEqual(await levels(), relaxed);
        assert.equal((await runProgram(['break-glass', 'off', '--kubeconfig', kubeconfig])).code, 0);
        assert.deepEqual(await levels(), before);
      } finally {
        await cluster.stop();
      }
    });
  },
);
