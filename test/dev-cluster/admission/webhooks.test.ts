import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { WebhookCall, WebhookReply } from '../../../src/dev-cluster/admission/https.ts';
import { createAdmission } from '../../../src/dev-cluster/admission/index.ts';
import { createStorage } from '../../../src/dev-cluster/storage.ts';
import type { ApiObject } from '../../../src/dev-cluster/types.ts';
import type { JsonObject } from '../../../src/kube/types.ts';
import { attributes, createRequestContext, object, rejectionStatus, resource } from './support.ts';

type Answer = (request: JsonObject) => JsonObject | string;

const RULES = [{ apiGroups: ['*'], apiVersions: ['*'], operations: ['*'], resources: ['*/*'], scope: '*' }];

function patch(ops: unknown): JsonObject {
  return { allowed: true, patchType: 'JSONPatch', patch: Buffer.from(JSON.stringify(ops)).toString('base64') };
}

interface Hook {
  readonly name: string;
  readonly answer: Answer;
  readonly more?: object;
}

/**
 * Creates an admission chain whose webhooks respond in the same process. `calls` contains their names in call order.
 */
function chain(hooks: { readonly mutating?: readonly Hook[]; readonly validating?: readonly Hook[] }) {
  const storage = createStorage();
  const calls: string[] = [];
  const answers = new Map<string, Answer>();
  storage.create(resource('namespaces'), object('Namespace', 'a'));
  storage.create(resource('serviceaccounts'), object('ServiceAccount', 'default', {}, 'a'));
  for (const kind of ['mutating', 'validating'] as const) {
    const webhooks = (hooks[kind] ?? []).map(({ name, answer, more }) => {
      answers.set(name, answer);
      const clientConfig = { url: `https://${name}` };
      return { name, clientConfig, rules: RULES, sideEffects: 'None', failurePolicy: 'Fail', ...more };
    });
    const configuration = object(`${kind}WebhookConfiguration`, 'c', { webhooks });
    storage.create(resource(`${kind}webhookconfigurations`), configuration);
  }
  const call = ({ clientConfig, review }: WebhookCall): Promise<WebhookReply> => {
    const name = String(clientConfig['url']).slice('https://'.length);
    calls.push(name);
    const request = review['request'] as JsonObject;
    const response = answers.get(name)?.(request) ?? 'unknown';
    if (typeof response === 'string') return Promise.resolve({ ok: false, error: response });
    return Promise.resolve({ ok: true, review: { response: { uid: request['uid'], ...response } } });
  };
  return {
    admission: createAdmission({ reader: storage, access: () => false, call }),
    calls,
  };
}

function pod(): ApiObject {
  return object('Pod', 'p', { spec: { containers: [{ name: 'c', image: 'i' }] } }, 'a');
}

const mark: Answer = (request) => {
  const given = request['object'] as ApiObject;
  const annotations = (given.metadata?.['annotations'] ?? {}) as Record<string, string>;
  const marks = Number(annotations['marks'] ?? 0) + 1;
  return patch([{ op: 'add', path: '/metadata/annotations', value: { marks: String(marks) } }]);
};
const addSidecar: Answer = (request) => {
  const { spec } = request['object'] as { spec: { containers: unknown[] } };
  return spec.containers.length > 1
    ? { allowed: true }
    : patch([{ op: 'add', path: '/spec/containers/-', value: { name: 'sidecar', image: 's:1' } }]);
};
const allow: Answer = () => ({ allowed: true });

describe('the chain of mutating webhooks', () => {
  const IF_NEEDED = { reinvocationPolicy: 'IfNeeded' };
  const cases: { name: string; hooks: readonly Hook[]; calls: string[]; marks?: string }[] = [
    {
      name: 'calls webhooks in the order of their configurations',
      hooks: [
        { name: 'b', answer: allow },
        { name: 'a', answer: allow },
      ],
      calls: ['b', 'a'],
    },
    {
      name: 'calls a webhook without reinvocationPolicy only once, even after a change',
      hooks: [
        { name: 'mark', answer: mark },
        { name: 'sidecar', answer: addSidecar },
      ],
      calls: ['mark', 'sidecar'],
      marks: '1',
    },
    {
      name: 'calls a webhook again after a plugin has added the token volume to a sidecar',
      hooks: [
        { name: 'sidecar', answer: addSidecar },
        { name: 'last', answer: allow, more: IF_NEEDED },
      ],
      calls: ['sidecar', 'last', 'last'],
    },
    {
      name: 'does not reinvoke a webhook that was initially skipped',
      hooks: [
        { name: 'late', answer: allow, more: { ...IF_NEEDED, objectSelector: { matchLabels: { x: 'y' } } } },
        {
          name: 'label',
          answer: () => patch([{ op: 'add', path: '/metadata/labels', value: { x: 'y' } }]),
        },
      ],
      calls: ['label'],
    },
  ];
  for (const { name, hooks, calls: expected, marks } of cases) {
    test(name, async () => {
      const { admission, calls } = chain({ mutating: hooks });
      const admitted = await admission.mutate(
        attributes({ resource: 'pods', object: pod() }),
        createRequestContext().context,
      );
      assert.deepEqual(calls, expected);
      const annotations = admitted?.metadata?.['annotations'] as Record<string, string> | undefined;
      assert.equal(annotations?.['marks'], marks);
    });
  }

  test('sets the defaults and mounts the token in a container that a webhook adds', async () => {
    const { admission } = chain({ mutating: [{ name: 'sidecar', answer: addSidecar }] });
    const admitted = await admission.mutate(
      attributes({ resource: 'pods', object: pod() }),
      createRequestContext().context,
    );
    const { containers } = admitted?.['spec'] as { containers: JsonObject[] };
    assert.equal(containers[1]?.['imagePullPolicy'], 'IfNotPresent');
    assert.deepEqual(containers[1]['volumeMounts'], containers[0]?.['volumeMounts']);
  });

  const refusals: { name: string; answer: Answer; code: number; message: string }[] = [
    {
      name: 'rejects a patch that is not JSON',
      answer: () => ({ allowed: true, patchType: 'JSONPatch', patch: Buffer.from('[{').toString('base64') }),
      code: 500,
      message:
        'Internal error occurred: failed calling webhook "h": received undecodable patch in webhook response: it is not a list of operations',
    },
    {
      name: 'rejects a patch that does not apply',
      answer: () => patch([{ op: 'remove', path: '/nothing/here' }]),
      code: 500,
      message:
        'Internal error occurred: remove operation does not apply: doc is missing path: "/nothing/here": missing value',
    },
  ];
  for (const { name, answer, code, message } of refusals) {
    test(name, async () => {
      const { admission } = chain({ mutating: [{ name: 'h', answer }] });
      const status = await rejectionStatus(() =>
        admission.mutate(attributes({ resource: 'pods', object: pod() }), createRequestContext().context),
      );
      const shown = status?.message.replace(/[0-9a-f-]{36}/, 'UID');
      assert.deepEqual([status?.code, shown], [code, message]);
    });
  }

  test('rejects a patch in the response to a request without an object', async () => {
    const { admission } = chain({
      mutating: [{ name: 'h', answer: () => patch([{ op: 'add', path: '/a', value: 1 }]) }],
    });
    const given = attributes({ resource: 'pods', operation: 'DELETE', name: 'p', oldObject: pod() });
    const status = await rejectionStatus(() => admission.mutate(given, createRequestContext().context));
    assert.equal(
      status?.message,
      'Internal error occurred: admission webhook "h" attempted to modify the object, which is not supported for this operation',
    );
  });

  test('ignores failures of webhooks with failurePolicy Ignore', async () => {
    const broken: Answer = () => 'EOF';
    const hooks = [
      { name: 'h', answer: broken, more: { failurePolicy: 'Ignore' } },
      { name: 'i', answer: mark },
    ];
    const { admission, calls } = chain({ mutating: hooks });
    const said = createRequestContext();
    await admission.mutate(
      attributes({ resource: 'configmaps', object: object('ConfigMap', 'x', {}, 'a') }),
      said.context,
    );
    assert.deepEqual(calls, ['h', 'i']);
  });
});

describe('validating webhooks', () => {
  test('are all called, and the first denial in webhook order is returned', async () => {
    const { admission, calls } = chain({
      validating: [
        { name: 'a', answer: () => ({ allowed: true, warnings: ['careful'] }) },
        { name: 'b', answer: () => ({ allowed: false, warnings: ['really'], status: { message: 'b says no' } }) },
        {
          name: 'c',
          answer: () => ({ allowed: false, status: { code: 422, reason: 'Invalid', message: 'c says no' } }),
        },
      ],
    });
    const said = createRequestContext();
    const status = await rejectionStatus(() =>
      admission.validate(
        attributes({ resource: 'configmaps', object: object('ConfigMap', 'x', {}, 'a') }),
        said.context,
      ),
    );
    assert.deepEqual(calls, ['a', 'b', 'c']);
    assert.deepEqual(status, {
      metadata: {},
      status: 'Failure',
      message: 'admission webhook "b" denied the request: b says no',
      code: 400,
    });
    assert.deepEqual(said.warnings, ['careful', 'really']);
  });

  const cases: { name: string; answer: Answer; message: string | undefined; more?: object; dryRun?: boolean }[] = [
    {
      name: 'may not return a patch',
      answer: () => patch([]),
      message:
        'Internal error occurred: failed calling webhook "h": received invalid webhook response: validating webhook may not return response.patch',
    },
    { name: 'are called in a dry run if they have no side effects', answer: allow, dryRun: true, message: undefined },
    {
      name: 'cause the denial of a dry run if they have side effects',
      answer: allow,
      dryRun: true,
      more: { sideEffects: 'Some', failurePolicy: 'Ignore' },
      message: 'admission webhook "h" does not support dry run',
    },
  ];
  for (const { name, answer, message, more = {}, dryRun = false } of cases) {
    test(name, async () => {
      const { admission } = chain({ validating: [{ name: 'h', answer, more }] });
      const given = attributes({ resource: 'configmaps', object: object('ConfigMap', 'x', {}, 'a'), dryRun });
      const status = await rejectionStatus(() => admission.validate(given, createRequestContext().context));
      assert.equal(status?.message, message);
    });
  }
});

describe('webhook reviews', () => {
  test('contain the old object when it is deleted', async () => {
    let seen: JsonObject = {};
    const answer: Answer = (request) => {
      seen = request;
      return { allowed: true };
    };
    const { admission } = chain({ validating: [{ name: 'h', answer }] });
    const options = { kind: 'DeleteOptions', apiVersion: 'meta.k8s.io/v1' };
    const given = attributes({
      resource: 'pods',
      operation: 'DELETE',
      name: 'p',
      oldObject: pod(),
      options,
      dryRun: true,
    });
    await admission.validate(given, createRequestContext().context);
    assert.deepEqual(
      [seen['object'], seen['oldObject'], seen['options'], seen['userInfo'], seen['dryRun'], seen['kind']],
      [null, pod(), options, {}, true, { group: '', version: 'v1', kind: 'Pod' }],
    );
  });
});
