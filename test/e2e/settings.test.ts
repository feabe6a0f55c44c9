/**
 * Tests specs of the settings object that API servers reject, and the settings that replicas use while the object is
 * invalid.
 */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { decodeSettings } from '../../src/config/portcullis-configuration.ts';
import { CONTROLLER_NAMES } from '../../src/controllers/index.ts';
import { CRDS } from '../../src/install/index.ts';
import { isObject, type JsonObject, type PortcullisConfiguration } from '../../src/kube/types.ts';
import { responseMessage } from '../support/answers.ts';
import { ASSETS, useControlPlane, useSystem } from '../support/control-plane/index.ts';
import { apply } from '../support/control-plane/installation.ts';
import { eventually } from '../support/eventually.ts';
import { readFixture } from '../support/fixtures.ts';

const COLLECTION = '/apis/config.portcullis.dev/v1alpha1/portcullisconfigurations';

interface Case {
  readonly name: string;
  readonly spec?: JsonObject;
}

const { valid, invalid } = readFixture<{ readonly valid: readonly Case[]; readonly invalid: readonly Case[] }>(
  'config/portcullis-configurations.yaml',
);

/** Returns variants of the object. In each variant, either the object itself or one of the objects in it is empty. */
function emptied(object: JsonObject): readonly JsonObject[] {
  const inner = Object.entries(object).flatMap(([name, value]) =>
    isObject(value) ? emptied(value).map((changed) => ({ ...object, [name]: changed })) : [],
  );
  return [{}, ...inner];
}

await suite('API servers and replicas accept and reject the same settings:', async () => {
  const plane = await useControlPlane();
  await apply(plane.admin, JSON.parse(JSON.stringify(CRDS)) as JsonObject[]);
  await eventually(async () => assert.equal((await plane.admin.send('GET', COLLECTION)).status, 200));
  const create = (spec: JsonObject) => {
    const type = { apiVersion: 'config.portcullis.dev/v1alpha1', kind: 'PortcullisConfiguration' };
    return plane.admin.send('POST', `${COLLECTION}?dryRun=All&fieldValidation=Strict`, {
      ...type,
      metadata: { name: 'cluster' },
      spec,
    });
  };

  test('they accept an empty object for each object of a spec in server-side apply', async () => {
    const spec = {
      podSecurity: { defaults: { enforce: 'baseline' }, exemptions: { usernames: ['a'] }, exceptions: { mode: 'off' } },
      defaults: { namespaceSelector: { matchLabels: { a: 'b' } } },
      namespaceRanges: { uidRange: '1000-1999/1' },
      kubelet: { exemptNodes: { matchLabels: { a: 'b' } }, admission: { certificates: true } },
      webhooks: { failurePolicy: 'Ignore' },
      floor: { mode: 'enforce' },
    };
    const type = { 'content-type': 'application/apply-patch+yaml' };
    const send = (apiVersion: string, kind: string, object: JsonObject) => {
      const path = `/apis/${apiVersion}/${kind.toLowerCase()}s/cluster?fieldManager=test`;
      return plane.admin.send('PATCH', path, { apiVersion, kind, metadata: { name: 'cluster' }, ...object }, type);
    };
    const specs = [...emptied(spec), { ...spec, podSecurity: { defaults: {} }, rollout: { phase: 'Evaluate' } }];
    const settings = ['config.portcullis.dev/v1alpha1', 'PortcullisConfiguration'] as const;
    for (const object of [{}, ...specs.map((changed) => ({ spec: changed }))]) {
      await send(...settings, { spec });
      const answer = await send(...settings, object);
      const isAccepted = answer.status === 200;
      const document = isAccepted ? answer.body : object;
      const decoded = decodeSettings(document, { controllers: CONTROLLER_NAMES, namespace: 'portcullis' });
      assert.equal(isAccepted, 'settings' in decoded, `${JSON.stringify(object)}: ${answer.text}`);
    }
    await plane.admin.send('DELETE', `${COLLECTION}/cluster`);
    for (const object of [{}, { spec: {} }]) {
      const enforcement = ['config.openshift.io/v1alpha1', 'PSAEnforcementConfig'] as const;
      await send(...enforcement, { spec: { enforcementMode: 'Legacy' } });
      const answer = await send(...enforcement, object);
      assert.equal(answer.status, 200, answer.text);
    }
  });

  for (const { name, spec = {} } of valid) {
    test(`they accept ${name}`, async () => {
      const answer = await create(spec);
      assert.equal(answer.status, 201, answer.text);
    });
  }
  for (const { name, spec } of invalid) {
    if (spec === undefined) continue;
    test(`they reject ${name}`, async () => {
      const answer = await create(spec);
      assert.ok([400, 422].includes(answer.status), answer.text);
    });
  }

  const messages: readonly (readonly [spec: JsonObject, message: string])[] = [
    [
      { rollout: { evaluationInterval: '30s' } },
      'spec.rollout.evaluationInterval: Invalid value: "30s": must be at least 1m',
    ],
    [
      { rollout: { phase: 'Evaluate' }, podSecurity: { defaults: { enforce: 'baseline' } } },
      'spec: Invalid value: podSecurity.defaults cannot be set in the rollout phases Evaluate and Enforce, which manage the defaults',
    ],
    [
      { controllers: { disabled: ['olm'] } },
      `spec.controllers.disabled[0]: Unsupported value: "olm": supported values: ${CONTROLLER_NAMES.map((name) => JSON.stringify(name)).join(', ')}`,
    ],
    [
      { namespaceRanges: { uidRange: '0-10/1' } },
      'spec.namespaceRanges.uidRange: Invalid value: "0-10/1": must not contain the user ID 0 of root',
    ],
    [
      { namespaceRanges: { uidRange: '1000-1999/1', mcsRange: 's0:/1' } },
      'spec.namespaceRanges: Invalid value: mcsRange must have 5 labels for each block of uidRange',
    ],
  ];
  for (const [spec, message] of messages) {
    test(`they reject ${JSON.stringify(spec)}`, async () => {
      const answer = await create(spec);
      assert.equal(answer.status, 422, answer.text);
      // Older API servers print the type of the value.
      const older = message.replace(/Invalid value: (".*?": )?/, (_, value?: string) =>
        value === undefined ? 'Invalid value: "object": ' : 'Invalid value: "string": ',
      );
      const text = String(responseMessage(answer));
      assert.ok(text.includes(message) || text.includes(older), text);
    });
  }

  test('they give the same result for random specs', async (t) => {
    t.diagnostic(`ran against: ${plane.title}`);
    const durations = fc.constantFrom('30s', '1m', '59m', '1h', '1.5h', '4h', '8h1m', undefined);
    const number = (...values: readonly number[]) => fc.constantFrom(...values);
    const uidRange = fc
      .tuple(number(0, 1, 1000), number(5, 1000, 1999, 4294967295, 4294967296), number(0, 1, 10, 537, 1000))
      .map(([start, end, size]) => `${start}-${end}/${size}`);
    const mcsRange = fc
      .tuple(
        fc.constantFrom('s0:', ''),
        number(0, 1, 2, 3, 4, 5, 6),
        fc.constantFrom('', ',0', ',3', ',40', ',1024', ',1025'),
      )
      .map((parts) => `${parts[0]}/${parts[1]}${parts[2]}`.replace('//', '/'));
    const ranges = fc.record({ uidRange, mcsRange }, { requiredKeys: [] });
    const rollout = fc.record(
      {
        phase: fc.constantFrom('Disabled', 'Evaluate'),
        evaluationInterval: durations,
        raiseSettleTime: durations,
      },
      { requiredKeys: [] },
    );
    const keys = fc.constantFrom('a', 'a/b', 'A.b/c', 'a/b/c', '-a', 'a'.repeat(64), 'a'.repeat(63), 'a.b/C_d');
    const expression = fc.record(
      { key: keys, operator: fc.constantFrom('In', 'Exists'), values: fc.constantFrom([], ['x'], ['-']) },
      { requiredKeys: ['key', 'operator'] },
    );
    const selector = fc.record(
      {
        matchLabels: fc.dictionary(keys, fc.constantFrom('', 'x', '-')),
        matchExpressions: fc.array(expression, { maxLength: 2 }),
      },
      { requiredKeys: [] },
    );
    const specs = fc.oneof(
      fc.record({ rollout, podSecurity: fc.record({ defaults: fc.constant({}) }) }, { requiredKeys: ['rollout'] }),
      fc.record({ namespaceRanges: ranges }),
      fc.record({ defaults: fc.record({ namespaceSelector: selector }) }),
      fc.record({ kubelet: fc.record({ exemptNodes: selector }) }),
    );
    const seen = { accepted: 0, refused: 0 };
    for (const sample of fc.sample(specs, { seed: 1, numRuns: 600 })) {
      const spec = JSON.parse(JSON.stringify(sample)) as JsonObject;
      const answer = await create(spec);
      const decoded = decodeSettings({ spec }, { controllers: CONTROLLER_NAMES, namespace: 'portcullis' });
      const isAccepted = answer.status === 201;
      assert.equal(
        isAccepted,
        'settings' in decoded,
        `${JSON.stringify(spec)}: ${answer.text} ${JSON.stringify(decoded)}`,
      );
      seen[isAccepted ? 'accepted' : 'refused']++;
    }
    assert.ok(seen.accepted > 50 && seen.refused > 50, JSON.stringify(seen));
  });
});

await suite('a replica that starts while the settings are invalid', async () => {
  const { plane, system } = await useSystem();
  await system.install();
  await system.add(1);
  const read = async () => (await plane.admin.send('GET', `${COLLECTION}/cluster`)).body as PortcullisConfiguration;

  test('applies the last valid settings', async (t) => {
    t.diagnostic(`ran against: ${plane.title}`);
    const valid = { scc: { mode: 'off' } };
    await system.configure(valid);
    await eventually(async () => {
      const { metadata, status } = await read();
      assert.deepEqual(status?.applied, { generation: metadata?.generation, spec: valid });
    });
    // An earlier version of the CRD may have accepted the settings.
    const definition =
      '/apis/apiextensions.k8s.io/v1/customresourcedefinitions/portcullisconfigurations.config.portcullis.dev';
    const openAPIV3Schema = { type: 'object', 'x-kubernetes-preserve-unknown-fields': true };
    const lax = [{ op: 'replace', path: '/spec/versions/0/schema', value: { openAPIV3Schema } }];
    const patched = await plane.admin.send('PATCH', definition, lax, { 'content-type': 'application/json-patch+json' });
    assert.equal(patched.status, 200, patched.text);
    const invalid = { spec: { rollout: { evaluationInterval: '30s' } } };
    await eventually(async () => {
      const type = { 'content-type': 'application/merge-patch+json' };
      const answer = await plane.admin.send('PATCH', `${COLLECTION}/cluster`, invalid, type);
      assert.equal(answer.status, 200, answer.text);
    });
    await system.retire();
    await system.add(1);
    await eventually(async () => {
      const { metadata, status } = await read();
      assert.deepEqual(status?.applied, { generation: (metadata?.generation ?? 0) - 1, spec: valid });
      const accepted = status?.conditions?.find(({ type }) => type === 'Accepted');
      assert.deepEqual([accepted?.status, accepted?.observedGeneration], ['False', metadata?.generation]);
      const generations = new Set(status?.replicas?.map(({ generation }) => generation));
      assert.deepEqual([...generations], [status?.applied?.generation]);
    });
  });
});

suite('the deletion of the settings', async () => {
  const { plane, system } = await useSystem();
  const SPEC = { podSecurity: { defaults: { enforce: 'baseline' } } };
  await system.install();
  await system.add(2);
  await system.configure(SPEC);

  const OBJECT = `${COLLECTION}/cluster`;
  const BINDING = '/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/portcullis-settings';
  const MESSAGE =
    /ValidatingAdmissionPolicy 'portcullis-settings' with binding 'portcullis-settings' denied request: its deletion ends enforcement by these settings\. To confirm the deletion: kubectl annotate portcullisconfiguration cluster portcullis\.dev\/allow-deletion=true/;
  const merge = { 'content-type': 'application/merge-patch+json' };
  const read = async () => (await plane.admin.send('GET', OBJECT)).body as PortcullisConfiguration;
  const remove = (path: string) => plane.admin.send('DELETE', path);
  const violating = { apiVersion: 'v1', kind: 'Pod', metadata: { generateName: 'p-', namespace: 'default' } };
  const spec = { hostNetwork: true, containers: [{ name: 'c', image: 'registry.example.com/c:1' }] };
  const isDenied = async (): Promise<void> => {
    const answer = await plane.admin.send('POST', '/api/v1/namespaces/default/pods?dryRun=All', { ...violating, spec });
    assert.match(String(responseMessage(answer)), /violates PodSecurity "baseline:latest"/);
  };

  test('is denied if it is not confirmed, even if no replica responds', async (t) => {
    t.diagnostic(`ran against: ${plane.title}`);
    await eventually(isDenied, 30_000);
    await system.retire();
    await eventually(async () => {
      // The development cluster cannot delete collections.
      for (const path of ASSETS === undefined ? [OBJECT] : [OBJECT, COLLECTION]) {
        const answer = await remove(path);
        assert.match(answer.text, MESSAGE, path);
      }
    });
    await plane.admin.send(
      'PATCH',
      OBJECT,
      { metadata: { annotations: { 'portcullis.dev/allow-deletion': 'no' } } },
      merge,
    );
    assert.match((await remove(OBJECT)).text, MESSAGE);
    assert.deepEqual((await read()).spec, SPEC);
    await system.add(2);
  });

  test('is reverted by the leader if the policy does not exist, and enforcement continues', async () => {
    await remove(BINDING);
    const { metadata: before } = await read();
    await eventually(async () => assert.equal((await remove(OBJECT)).status, 200));
    for (let time = 0; time < 10; time++) await isDenied();
    await eventually(async () => {
      const { metadata, spec: restored } = await read();
      assert.notEqual(metadata?.uid, before?.uid);
      assert.deepEqual(restored, SPEC);
    });
    await system.retire();
    await system.add(1);
    await eventually(isDenied);
    assert.deepEqual((await read()).spec, SPEC);
  });

  test('leads to the initial settings if an annotation confirms it', async () => {
    await plane.admin.send(
      'PATCH',
      OBJECT,
      { metadata: { annotations: { 'portcullis.dev/allow-deletion': 'true' } } },
      merge,
    );
    assert.equal((await remove(OBJECT)).status, 200);
    await eventually(async () => {
      const { metadata, spec: created } = await read();
      assert.equal(metadata?.annotations?.['portcullis.dev/allow-deletion'], undefined);
      assert.deepEqual(created ?? {}, {});
      const answer = await plane.admin.send('POST', '/api/v1/namespaces/default/pods?dryRun=All', {
        ...violating,
        spec,
      });
      assert.equal(answer.status, 201, answer.text);
    }, 30_000);
  });

  test('is reverted by the leader once the CRD exists again, if the CRD was deleted', async () => {
    const crd =
      '/apis/apiextensions.k8s.io/v1/customresourcedefinitions/portcullisconfigurations.config.portcullis.dev';
    await system.configure(SPEC);
    await eventually(isDenied, 30_000);
    // Otherwise, the leader may still be creating the object with the initial settings after the confirmed deletion.
    await eventually(async () => assert.deepEqual((await read()).status?.applied?.spec, SPEC));
    const definition = JSON.parse(JSON.stringify(CRDS[0])) as JsonObject;
    await remove(crd);
    await eventually(async () => assert.equal((await plane.admin.send('GET', crd)).status, 404));
    for (let time = 0; time < 10; time++) await isDenied();
    await apply(plane.admin, [definition]);
    await eventually(async () => assert.deepEqual((await read()).spec, SPEC), 60_000);
    await isDenied();
  });
});
