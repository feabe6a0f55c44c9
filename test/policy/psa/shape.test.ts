import assert from 'node:assert/strict';
import { test } from 'node:test';
import { wrongType, type Shape } from '../../../src/policy/psa/decode.ts';

interface Case {
  readonly name: string;
  /** As JSON, so that keys such as `__proto__` are properties. */
  readonly value: string;
  readonly expected: string | undefined;
}

const SHAPE: Shape = { name: 'string', labels: { '*': 'string' }, spec: { replicas: 'int32' } };

const into = (found: string, field: string, type: string) =>
  `json: cannot unmarshal ${found} into Go struct field Kind.${field} of type ${type}`;

const CASES: readonly Case[] = [
  { name: 'nothing', value: '{}', expected: undefined },
  { name: 'null fits everywhere', value: '{"name":null,"labels":{"a":null},"spec":null}', expected: undefined },
  { name: 'other fields hold anything', value: '{"x":1,"spec":{"y":[]}}', expected: undefined },
  { name: 'all is right', value: '{"name":"n","labels":{"a":"b"},"spec":{"replicas":-3}}', expected: undefined },
  { name: 'a number for a text', value: '{"name":1}', expected: into('number', 'name', 'string') },
  { name: 'a list for a map', value: '{"labels":[]}', expected: into('array', 'labels', 'map[string]string') },
  { name: 'an object in a map', value: '{"labels":{"a":{}}}', expected: into('object', 'labels.a', 'string') },
  {
    name: 'an odd key in a map',
    value: '{"labels":{"__proto__":true}}',
    expected: into('bool', 'labels.__proto__', 'string'),
  },
  { name: 'a text for a struct', value: '{"spec":"x"}', expected: into('string', 'spec', 'struct') },
  { name: 'a fraction', value: '{"spec":{"replicas":1.5}}', expected: into('number 1.5', 'spec.replicas', 'int32') },
  {
    name: 'more than 32 bits',
    value: '{"spec":{"replicas":2147483648}}',
    expected: into('number 2147483648', 'spec.replicas', 'int32'),
  },
  {
    name: 'an object that cannot be converted',
    value: '{"spec":{"replicas":{"valueOf":1,"toString":1}}}',
    expected: into('object', 'spec.replicas', 'int32'),
  },
];

for (const { name, value, expected } of CASES) {
  test(name, () => assert.equal(wrongType(JSON.parse(value), SHAPE, 'Kind'), expected));
}
