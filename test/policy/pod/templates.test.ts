/** Tests how pod templates are found in objects of any kind. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { JsonObject } from '../../../src/kube/types.ts';
import { findPodTemplates, printFieldPath } from '../../../src/policy/pod/templates.ts';
import { readFixture } from '../../support/fixtures.ts';

interface Case {
  readonly name: string;
  readonly object: JsonObject;
  readonly templates?: readonly string[];
  readonly composed?: readonly string[];
  readonly unknown?: readonly string[];
  readonly fields?: readonly string[];
}

suite('findPodTemplates finds the templates in a custom resource:', () => {
  for (const { name, object, ...expected } of readFixture<readonly Case[]>('pod-templates.yaml')) {
    test(name, () => {
      const { templates, composed, unknown, fields } = findPodTemplates(object);
      const actual = {
        templates: templates.map(printFieldPath),
        composed: composed.map(({ path }) => printFieldPath(path)),
        unknown: unknown.map(printFieldPath),
        fields: fields.map(printFieldPath),
      };
      assert.deepEqual(actual, { templates: [], composed: [], unknown: [], fields: [], ...expected });
    });
  }
});

suite('the search for pod templates ends', () => {
  const template = { spec: { containers: [{ name: 'c', image: 'i' }] } };
  const many = Array.from({ length: 2000 }, () => ({ template }));
  const deep = Array.from({ length: 200 }).reduce<object>((inner) => ({ a: inner }), { template });
  const cases: readonly (readonly [name: string, spec: object, templatePath: string | undefined, unknown: string])[] = [
    ['after the maximum number of templates', { many }, undefined, 'spec.many[1000]'],
    ['after the maximum number of templates at a path', { many }, 'spec.many.*.template', 'spec.many[1000].template'],
    ['at the maximum depth', deep, undefined, `spec${'.a'.repeat(100)}`],
  ];
  test('after a short time for many objects at long paths', { timeout: 10_000 }, () => {
    const objects = Array.from({ length: 200_000 }, () => ({}));
    const name = 'a'.repeat(10_000);
    const long = Array.from({ length: 90 }).reduce<object>((inner) => ({ [name]: inner }), { objects, many });
    const found = findPodTemplates({ apiVersion: 'example.com/v1', kind: 'Long', spec: { template, long } });
    assert.deepEqual([found.templates.length, found.unknown.length], [1000, 1]);
    const lengths = found.templates.map((path) => printFieldPath(path).length);
    assert.ok(Math.max(...lengths) < 32_768);
  });

  test('after the maximum number of templates of a known kind', () => {
    const spec = { templates: many };
    const found = findPodTemplates({ apiVersion: 'argoproj.io/v1alpha1', kind: 'Experiment', spec });
    assert.equal(found.templates.length, 1000);
    assert.deepEqual(found.unknown.map(printFieldPath), ['spec.templates[1000].template']);
  });

  for (const [name, spec, templatePath, unknown] of cases) {
    test(name, () => {
      const found = findPodTemplates({ apiVersion: 'example.com/v1', kind: 'Many', spec }, templatePath);
      assert.equal(found.templates.length, spec === deep ? 0 : 1000);
      assert.deepEqual(found.unknown.map(printFieldPath), [unknown]);
    });
  }
});
