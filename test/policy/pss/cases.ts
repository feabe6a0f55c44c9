import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parse } from 'yaml';
import type { FieldError } from '../../../src/kube/field-error.ts';
import type { PodLike } from '../../../src/kube/types.ts';
import { createEvaluator, type Check, type Version } from '../../../src/policy/pss/index.ts';

export interface CheckCase {
  readonly name: string;
  /** Default: `latest`. */
  readonly version?: Version;
  /** A pod, as YAML. */
  readonly given: string;
  /** The reason with the detail in parentheses; empty if the pod passes. */
  readonly expected: string;
  /** The offending fields, each as type, path and value in JSON. */
  readonly fields?: readonly string[];
}

/** Runs each case through one check alone. */
export function testCheck(check: Check, cases: readonly CheckCase[]): void {
  const { evaluatePod } = createEvaluator([check]);
  for (const { name, version = 'latest', given, expected, fields } of cases) {
    test(`${check.id} ${version}: ${name}`, () => {
      const result = evaluatePod(parsePod(given), { level: check.level, version, fields: true });
      assert.equal(result.detail, expected);
      assert.equal(result.allowed, expected === '');
      if (fields) assert.deepEqual(result.violations.flatMap((violation) => violation.fields ?? []).map(print), fields);
    });
  }
}

export function parsePod(yaml: string): PodLike {
  return parse(yaml) as PodLike;
}

function print({ type, path, value }: FieldError): string {
  return `${type} ${path} ${JSON.stringify(value)}`;
}
