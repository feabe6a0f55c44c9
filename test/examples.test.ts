/**
 * Tests the examples for other tools. Their objects must be valid, and their health checks must agree about the state
 * of a cluster.
 */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { suite, test } from 'node:test';
import { Environment } from '@marcbachmann/cel-js';
import { LuaFactory } from 'wasmoon';
import { compileFields } from '../src/config/ajv.ts';
import { readDocuments } from '../src/config/yaml.ts';
import { CRDS } from '../src/install/index.ts';
import { readyConditions } from '../src/kube/conditions.ts';
import { isObject, type JsonObject, valueAt } from '../src/kube/types.ts';

const FOLDER = 'examples/many-clusters';
const files = readdirSync(FOLDER).filter((name) => name.endsWith('.yaml'));
const documents = files.flatMap((file) => {
  const { documents: found, errors } = readDocuments(readFileSync(`${FOLDER}/${file}`, 'utf8'), file);
  assert.deepEqual(errors, []);
  return found.map(({ value }) => value);
});

/** Returns the objects of the kinds that Portcullis defines, including those inside other objects. */
function findObjects(value: unknown): readonly JsonObject[] {
  if (Array.isArray(value)) return value.flatMap(findObjects);
  if (!isObject(value)) return [];
  return [...(value['metadata'] && findCrd(value) ? [value] : []), ...Object.values(value).flatMap(findObjects)];
}

const findCrd = ({ kind, apiVersion }: JsonObject) =>
  CRDS.find(({ spec }) => spec.names.kind === kind && `${spec.group}/${spec.versions[0]?.name}` === apiVersion);

test('the objects in the examples match the schemas of their kinds', () => {
  const objects = findObjects(documents);
  assert.equal(objects.length, 5);
  for (const object of objects) {
    const { metadata: _metadata, ...schema } =
      findCrd(object)?.spec.versions[0]?.schema?.openAPIV3Schema?.properties ?? {};
    const properties = { ...schema, metadata: {} };
    // Policies of Open Cluster Management contain only some fields.
    const invalid = compileFields({ type: 'object', properties })(object).filter(
      ({ type }) => type !== 'FieldValueRequired',
    );
    assert.deepEqual(invalid, [], JSON.stringify(object));
  }
});

type Conditions = Readonly<Record<string, string>>;

const WAITING = { reason: 'RolloutProgressing', message: 'namespaces are being labeled' };
const BLOCKED = { reason: 'LegacyMode', message: 'nothing is enforced in Legacy mode' };

/** The conditions of a PSAEnforcementConfig, and the results in Argo CD, Flux and Open Cluster Management. */
const GATES: readonly (readonly [
  state: string,
  progress: Parameters<typeof readyConditions>[0],
  others: Conditions,
  results: readonly [argo: string, flux: 'current' | 'failed' | 'in progress', compliant: boolean],
])[] = [
  ['enforcing', 'ready', { Enforcing: 'True', ViolationsDetected: 'False' }, ['Healthy', 'current', true]],
  ['evaluated', 'ready', { Enforcing: 'False', ViolationsDetected: 'False' }, ['Healthy', 'current', false]],
  ['blocked', 'ready', { Enforcing: 'False', ViolationsDetected: 'True' }, ['Suspended', 'failed', false]],
  [
    'changing',
    'reconciling',
    { Enforcing: 'False', ViolationsDetected: 'False' },
    ['Progressing', 'in progress', false],
  ],
  [
    'not evaluated',
    'reconciling',
    { Enforcing: 'False', ViolationsDetected: 'Unknown' },
    ['Progressing', 'in progress', false],
  ],
  ['invalid', 'stalled', { Enforcing: 'False', ViolationsDetected: 'False' }, ['Degraded', 'in progress', false]],
];

await suite('other tools compute the health of Portcullis objects:', async () => {
  const engine = await new LuaFactory().createEngine({ enableProxy: false });
  const script = readFileSync('examples/integrations/health.lua', 'utf8');
  const computeHealth = (object: JsonObject): string => {
    engine.global.set('obj', object);
    return String(valueAt(engine.doStringSync(script), ['status']));
  };
  const cel = new Environment({ unlistedVariablesAreDyn: true });
  const gates = documents.map((document) => valueAt(document, ['spec', 'healthCheckExprs', 0])).filter(isObject);
  const required = documents.map((document) => valueAt(document, ['spec', 'policy-templates', 0, 'objectDefinition']));
  const [policy] = required.filter((one) => valueAt(one, ['metadata', 'name']) === 'portcullis-enforcing');
  const expected = valueAt(policy, ['spec', 'object-templates', 0, 'objectDefinition', 'status', 'conditions']);

  for (const [state, progress, others, results] of GATES) {
    test(`a cluster that is ${state}`, () => {
      const conditions = [
        ...Object.entries(others).map(([type, status]) => ({ type, status })),
        ...readyConditions(progress, progress === 'ready' ? BLOCKED : WAITING),
      ];
      const status = { observedGeneration: 2, conditions };
      const holds = (gate: JsonObject, name: string): boolean => cel.evaluate(String(gate[name]), { status }) === true;
      const flux = gates.map((gate) =>
        holds(gate, 'current') ? 'current' : holds(gate, 'failed') ? 'failed' : 'in progress',
      );
      assert.deepEqual(new Set(flux), new Set([results[1]]));
      assert.ok(Array.isArray(expected));
      const isCompliant = (expected as readonly Conditions[]).every((one) =>
        conditions.some(({ type, status: actual }) => type === one['type'] && actual === one['status']),
      );
      assert.deepEqual([computeHealth({ metadata: { generation: 2 }, status }), isCompliant], [results[0], results[2]]);
    });
  }

  test('an object without a current status is progressing, and an exception without an approval is suspended', () => {
    const conditions = readyConditions('ready', BLOCKED);
    const unapproved = readyConditions('reconciling', { reason: 'NotApproved', message: 'it is not approved' });
    const cases: readonly (readonly [status: object | undefined, health: string])[] = [
      [undefined, 'Progressing'],
      [{}, 'Progressing'],
      [{ observedGeneration: 1, conditions }, 'Progressing'],
      [{ observedGeneration: 2, conditions }, 'Healthy'],
      [{ conditions: unapproved }, 'Suspended'],
    ];
    for (const [status, health] of cases) {
      assert.equal(computeHealth({ metadata: { generation: 2 }, ...(status && { status }) }), health);
    }
  });
});
