import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { JsonObject } from '../../../../src/kube/types.ts';
import { readNamespaceRanges } from '../../../../src/policy/scc/namespace.ts';
import { prepareScc } from '../../../../src/policy/scc/scc.ts';
import { formatErrors } from '../../../../src/policy/scc/messages.ts';
import { completePod, writePod } from '../../../../src/policy/scc/complete.ts';
import { laxScc, podFieldsOf } from '../../../support/scc.ts';

/** What an SCC makes of a pod, or what it holds against it. */
export interface StrategyCase {
  readonly name: string;
  /** Beside these fields the SCC is lax; it takes nothing from a namespace. */
  readonly scc: JsonObject;
  /** The security context of the pod, and that of its one container `app`. */
  readonly pod?: JsonObject;
  readonly container?: JsonObject;
  /** Fields of the pod spec beside them, and annotations. */
  readonly spec?: JsonObject;
  readonly annotations?: JsonObject;
  /** The parts that are to change; without errors and changes the pod stays as it is. */
  readonly expected: {
    readonly errors?: readonly string[];
    readonly pod?: JsonObject;
    readonly container?: JsonObject;
    readonly annotations?: JsonObject;
  };
}

export function checkStrategies(cases: readonly StrategyCase[]): void {
  for (const { name, scc, expected, ...parts } of cases) {
    test(name, () => {
      const before = podOf(parts);
      const prepared = prepareScc(laxScc({ ...scc, name: 'some' }));
      const attempt = completePod(prepared, { namespace: readNamespaceRanges({}), pod: podFieldsOf(before) });
      assert.deepEqual(formatErrors('some', attempt.errors), expected.errors ?? []);
      if (expected.errors) return;
      const { pod = parts.pod, container = parts.container } = expected;
      const annotations = { ...parts.annotations, ...expected.annotations };
      const after = podOf({ ...parts, ...(pod && { pod }), ...(container && { container }), annotations });
      assert.deepEqual(writePod(attempt, {}), after);
    });
  }
}

function podOf({
  pod,
  container,
  spec,
  annotations = {},
}: Omit<StrategyCase, 'name' | 'scc' | 'expected'>): JsonObject {
  return {
    metadata: { annotations },
    spec: {
      containers: [{ name: 'app', ...(container && { securityContext: container }) }],
      ...spec,
      ...(pod && { securityContext: pod }),
    },
  };
}
