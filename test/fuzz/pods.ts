/**
 * Generates pods near the limits of Pod Security and SCC admission, and extends and mutates pods from the manifests of
 * the project.
 */
import { fileURLToPath } from 'node:url';
import fc, { type Arbitrary } from 'fast-check';
import { readManifests } from '../../src/config/manifests.ts';
import { isObject, type JsonObject, valueAt } from '../../src/kube/types.ts';
import { pods as standardPods } from '../policy/pss/arbitrary.ts';
import { pod as sccPod } from '../policy/scc/arbitrary.ts';
import { mutate, mutations } from './mutations.ts';

const one = fc.constantFrom;

/** Reads the pods and pod templates of examples and fixtures. */
export async function readSeeds(): Promise<readonly JsonObject[]> {
  const folders = ['examples', 'test/fixtures/explain', 'test/fixtures/scc-plan/shop.yaml'];
  const paths = folders.map((folder) => fileURLToPath(new URL(`../../${folder}`, import.meta.url)));
  const { objects } = await readManifests(paths, { stdin: emptyStdin() });
  return objects.flatMap(({ value }) => getPod(value)).map((pod) => JSON.parse(JSON.stringify(pod)) as JsonObject);
}

async function* emptyStdin(): AsyncGenerator<string> {}

function getPod(object: JsonObject): readonly JsonObject[] {
  if (object['kind'] === 'Pod') return [object];
  for (const path of [['spec', 'template'], ['spec', 'jobTemplate', 'spec', 'template'], ['template']]) {
    const template = valueAt(object, path);
    if (isObject(template)) return [template];
  }
  return [];
}

/** Fields that rarely affect decisions. */
const otherFields = fc.record(
  {
    serviceAccountName: one('default', 'builder', ''),
    runtimeClassName: one('gvisor', ''),
    os: one({ name: 'windows' }, { name: 'linux' }, {}),
    schedulingGates: one([], [{ name: 'g' }]),
    nodeSelector: one({}, { 'kubernetes.io/os': 'windows' }),
    tolerations: one([{ key: 'k', tolerationSeconds: 300 }]),
    shareProcessNamespace: fc.boolean(),
    hostUsers: fc.boolean(),
  },
  { requiredKeys: [] },
);

const annotations = fc.dictionary(
  one(
    'openshift.io/required-scc',
    'openshift.io/scc',
    'security.openshift.io/validated-scc-subject-type',
    'k8s.ovn.org/pod-networks',
    'container.apparmor.security.beta.kubernetes.io/x',
    'seccomp.security.alpha.kubernetes.io/pod',
    'container.seccomp.security.alpha.kubernetes.io/a',
    '__proto__',
  ),
  one('', 'restricted-v2', 'anyuid', 'custom-a', 'missing', 'runtime/default', 'localhost/p', 'unconfined'),
  { maxKeys: 2, noNullPrototype: true },
);

/** Returns `undefined` in three of four cases. */
const sometimes = <T>(arbitrary: Arbitrary<T>): Arbitrary<T | undefined> =>
  fc.oneof({ weight: 3, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary });

/** Generates pods, including mutated pods that no API server would send. */
export function podsFrom(seeds: readonly JsonObject[]): Arbitrary<JsonObject> {
  const base = fc.oneof(
    { weight: 4, arbitrary: standardPods() },
    { weight: 5, arbitrary: sccPod },
    { weight: 2, arbitrary: one(...seeds) },
  ) as Arbitrary<JsonObject>;
  return fc
    .record({ base, otherFields: sometimes(otherFields), annotations: sometimes(annotations), changes: mutations })
    .map((parts) => mutate(extend(parts.base, parts.otherFields, parts.annotations), parts.changes));
}

function extend(pod: JsonObject, more: JsonObject | undefined, notes: JsonObject | undefined): JsonObject {
  const metadata = valueAt(pod, ['metadata']);
  const own = valueAt(metadata, ['annotations']);
  const { name, ...rest } = (isObject(metadata) ? metadata : {}) as { readonly name?: unknown };
  const merged = merge(isObject(own) ? own : {}, notes ?? {});
  const spec = valueAt(pod, ['spec']);
  return JSON.parse(
    JSON.stringify({
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: {
        name: name ?? 'p',
        ...rest,
        ...(Object.keys(merged).length === 0 ? {} : { annotations: merged }),
      },
      spec: { serviceAccountName: 'default', ...(isObject(spec) ? spec : {}), ...more },
    }),
  ) as JsonObject;
}

/** Merges objects and keeps keys such as `__proto__`, which assignments would lose. */
function merge(first: JsonObject, second: JsonObject): JsonObject {
  return Object.fromEntries([...Object.entries(first), ...Object.entries(second)]);
}
