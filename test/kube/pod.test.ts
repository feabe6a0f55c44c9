import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { allContainers, hasUserNamespace, isWindows, getPodTemplate, podTemplatePath } from '../../src/kube/pod.ts';
import type { PodSpec } from '../../src/kube/types.ts';

test('containers come in the order init, regular, ephemeral', () => {
  const spec: PodSpec = {
    ephemeralContainers: [{ name: 'e' }],
    containers: [{ name: 'c' }, { name: 'd' }],
    initContainers: [{ name: 'i' }],
  };
  assert.deepEqual(
    allContainers(spec).map((container) => container.name),
    ['i', 'c', 'd', 'e'],
  );
  assert.deepEqual(allContainers(undefined), []);
});

describe('what a pod says of its node', () => {
  const cases: readonly { name: string; spec: string; windows: boolean; userNamespace: boolean }[] = [
    { name: 'nothing', spec: '{}', windows: false, userNamespace: false },
    { name: 'windows', spec: '{"os":{"name":"windows"}}', windows: true, userNamespace: false },
    { name: 'another spelling', spec: '{"os":{"name":"Windows"}}', windows: false, userNamespace: false },
    {
      name: 'a node selector',
      spec: '{"nodeSelector":{"kubernetes.io/os":"windows"}}',
      windows: false,
      userNamespace: false,
    },
    { name: 'host users', spec: '{"hostUsers":true}', windows: false, userNamespace: false },
    { name: 'no host users', spec: '{"hostUsers":false}', windows: false, userNamespace: true },
    { name: 'null', spec: '{"hostUsers":null,"os":null}', windows: false, userNamespace: false },
  ];
  for (const { name, spec: text, windows, userNamespace } of cases) {
    const spec = JSON.parse(text) as PodSpec;
    test(name, () => assert.deepEqual([isWindows(spec), hasUserNamespace(spec)], [windows, userNamespace]));
  }
});

describe('pod templates', () => {
  const cases: readonly { group: string; kind: string; object: unknown; expected: unknown }[] = [
    { group: '', kind: 'PodTemplate', object: { template: { spec: {} } }, expected: { spec: {} } },
    { group: 'apps', kind: 'Deployment', object: { spec: { template: { spec: {} } } }, expected: { spec: {} } },
    {
      group: 'batch',
      kind: 'CronJob',
      object: { spec: { jobTemplate: { spec: { template: { spec: {} } } } } },
      expected: { spec: {} },
    },
    { group: 'apps', kind: 'Deployment', object: { spec: null }, expected: undefined },
    { group: 'apps', kind: 'Deployment', object: 'text', expected: undefined },
    { group: 'apps', kind: 'Deployment', object: { spec: { template: [] } }, expected: undefined },
  ];
  for (const { group, kind, object, expected } of cases) {
    test(`${kind} ${JSON.stringify(object)}`, () => {
      assert.deepEqual(getPodTemplate(object, podTemplatePath(group, kind) ?? []), expected);
    });
  }

  test('kinds without a template have no path', () => {
    assert.deepEqual(
      [podTemplatePath('', 'Pod'), podTemplatePath('apps', 'constructor'), podTemplatePath('__proto__', 'Job')],
      [undefined, undefined, undefined],
    );
  });
});
