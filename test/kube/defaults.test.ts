import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { setApiDefaults } from '../../src/kube/defaults.ts';
import { readFixture } from '../support/fixtures.ts';

type Json = Record<string, unknown>;

interface Case {
  readonly name: string;
  readonly given: Json;
  /** The expected fields with defaults. In objects, only the changed fields are listed. */
  readonly expected?: Json;
}

const CASES = readFixture<{ readonly podSpecs: readonly Case[]; readonly objects: readonly Case[] }>(
  'kube/defaults.yaml',
);

function defaulted(object: Json): Json {
  const copy = structuredClone(object);
  setApiDefaults(copy);
  return copy;
}

function podSpec(spec: Json): Json {
  return defaulted({ apiVersion: 'v1', kind: 'Pod', spec })['spec'] as Json;
}

describe('setApiDefaults sets the defaults', () => {
  for (const { name, given, expected } of CASES.podSpecs) {
    test(`of a pod: ${name}`, () => assert.deepEqual(podSpec(given), expected));
  }
  for (const { name, given, expected } of CASES.objects) {
    test(name, () => assert.deepEqual(defaulted(given), { ...given, ...expected }));
  }
});

describe('setApiDefaults chooses the default image pull policy by the tag:', () => {
  const cases: [image: string, policy: string][] = [
    ['nginx', 'Always'],
    ['nginx:latest', 'Always'],
    ['nginx:1.27', 'IfNotPresent'],
    ['registry:5000/nginx', 'Always'],
    ['registry:5000/nginx:1', 'IfNotPresent'],
    ['registry.example.com/team/app', 'Always'],
    ['nginx@sha256:0123456789abcdef', 'IfNotPresent'],
    ['nginx:latest@sha256:0123456789abcdef', 'Always'],
    ['localhost/App', 'IfNotPresent'],
    ['', 'IfNotPresent'],
  ];
  for (const [image, policy] of cases) {
    test(`${image || 'an empty image'}: ${policy}`, () => {
      const [container] = podSpec({ containers: [{ name: 'c', image }] })['containers'] as Json[];
      assert.equal(container?.['imagePullPolicy'], policy);
    });
  }
});

const KINDS = [
  ['v1', 'Pod'],
  ['v1', 'Namespace'],
  ['v1', 'Service'],
  ['v1', 'ReplicationController'],
  ['apps/v1', 'Deployment'],
  ['apps/v1', 'StatefulSet'],
  ['apps/v1', 'DaemonSet'],
  ['batch/v1', 'CronJob'],
  ['batch/v1', 'Job'],
  ['admissionregistration.k8s.io/v1', 'MutatingWebhookConfiguration'],
] as const;

const NAMES = 'spec template containers volumes metadata labels resources limits __proto__ ports'.split(' ');

/** Generates objects with known field names and arbitrary values. */
const parts = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 5, depthIdentifier: 'part' },
    fc.jsonValue({ maxDepth: 1 }),
    tie('part'),
    fc.array(tie('part'), { maxLength: 3, depthIdentifier: 'part' }),
  ),
  part: fc.dictionary(fc.constantFrom(...NAMES), tie('value'), { maxKeys: 4, depthIdentifier: 'part' }),
})).part;

test('setApiDefaults does not throw an error, and changes nothing when it runs again', () => {
  fc.assert(
    fc.property(fc.constantFrom(...KINDS), parts, ([apiVersion, kind], part) => {
      const object = { ...(part as Json), apiVersion, kind };
      const once = defaulted(object);
      assert.deepEqual(defaulted(once), once);
    }),
    { numRuns: 500 },
  );
});
