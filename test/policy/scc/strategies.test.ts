import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { test } from 'node:test';
import type { JsonObject } from '../../../src/kube/types.ts';
import { completePod, writePod } from '../../../src/policy/scc/complete.ts';
import { formatErrors } from '../../../src/policy/scc/decision.ts';
import { readNamespaceRanges } from '../../../src/policy/scc/namespace.ts';
import { prepareScc } from '../../../src/policy/scc/scc.ts';
import { CONTAINER_STRATEGIES, POD_STRATEGIES } from '../../../src/policy/scc/strategies/index.ts';
import { decodePodFields, laxScc } from '../../support/scc.ts';
import { readCases } from './requests.ts';

/** A row in `strategies.yaml`. It contains a pod, an SCC, and the errors or the changes to the defaulted pod. */
interface StrategyCase {
  readonly name: string;
  /** The fields of the SCC. All other fields allow everything, and need no namespace ranges. */
  readonly scc: JsonObject;
  /** The security contexts of the pod and of its container `app`. */
  readonly pod?: JsonObject;
  readonly container?: JsonObject;
  /** Other pod spec fields, and annotations. */
  readonly spec?: JsonObject;
  readonly annotations?: JsonObject;
  /** The expected errors. Errors that begin with a dot get the prefix `provider some: `. */
  readonly errors?: readonly string[];
  /** The expected changes. If there are no errors, other parts of the pod do not change. */
  readonly expected?: {
    readonly pod?: JsonObject;
    readonly container?: JsonObject;
    readonly annotations?: JsonObject;
  };
}

function check({ scc, errors, expected = {}, ...parts }: Omit<StrategyCase, 'name'>): void {
  const before = buildPod(parts);
  const prepared = prepareScc(laxScc({ ...scc, name: 'some' }));
  const completion = completePod(prepared, { namespace: readNamespaceRanges({}), pod: decodePodFields(before) });
  assert.deepEqual(
    formatErrors('some', completion.errors),
    errors?.map((text) => (text.startsWith('.') ? `provider some: ${text}` : text)) ?? [],
  );
  if (errors) return;
  const annotations = { ...parts.annotations, ...expected.annotations };
  assert.deepEqual(writePod(completion, {}), buildPod({ ...parts, ...expected, annotations }));
}

function buildPod({ pod, container, spec, annotations = {} }: Omit<StrategyCase, 'name' | 'scc'>): JsonObject {
  return {
    metadata: { annotations },
    spec: {
      containers: [{ name: 'app', ...(container && { securityContext: container }) }],
      ...spec,
      ...(pod && { securityContext: pod }),
    },
  };
}

for (const { name, ...given } of readCases<readonly StrategyCase[]>('strategies.yaml'))
  test(`SCC strategies default and validate pods: ${name}`, () => check(given));

test('the supplementalGroups strategy reports only the first error of a long list', () => {
  const groups = Array.from({ length: 101 }, (_, index) => index + 100);
  check({
    scc: { supplementalGroups: { type: 'MustRunAs', ranges: [{ min: 10, max: 19 }] } },
    pod: { supplementalGroups: groups },
    errors: [
      `.spec.securityContext.supplementalGroups: Invalid value: ${JSON.stringify(groups)}: 100 is not an allowed group`,
    ],
  });
});

const folder = new URL('../../../src/policy/scc/strategies/', import.meta.url);

test('every SCC strategy is registered once', async () => {
  const registered: readonly unknown[] = [...POD_STRATEGIES, ...CONTAINER_STRATEGIES];
  const strategies: unknown[] = [];
  for (const file of readdirSync(folder)) {
    if (file === 'index.ts') continue;
    const exported = Object.values((await import(new URL(file, folder).href)) as Record<string, unknown>);
    strategies.push(...exported.filter((value) => isStrategy(value)));
  }
  assert.equal(new Set(registered).size, registered.length);
  assert.deepEqual(new Set(strategies), new Set(registered));
});

function isStrategy(value: unknown): boolean {
  return typeof value === 'object' && value !== null && ('validate' in value || 'generate' in value);
}
