/** Pod templates in objects of any kind. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { JsonObject } from '../../../src/kube/types.ts';
import { findPodTemplates, printFieldPath } from '../../../src/policy/pod/templates.ts';
import { readFixture } from '../../support/fixtures.ts';

interface Case {
  readonly name: string;
  readonly object: JsonObject;
  readonly templates?: readonly string[];
  readonly unknown?: readonly string[];
}

suite('pod templates', () => {
  for (const { name, object, templates = [], unknown = [] } of readFixture<readonly Case[]>('pod-templates.yaml')) {
    test(name, () => {
      const found = findPodTemplates(object);
      const actual = { templates: found.templates.map(printFieldPath), unknown: found.unknown.map(printFieldPath) };
      assert.deepEqual(actual, { templates, unknown });
    });
  }
});
