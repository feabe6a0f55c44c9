import assert from 'node:assert/strict';
import { test } from 'node:test';
import { findMissingRules } from '../../../src/policy/rbac/rules.ts';

const EVERYTHING = { verbs: ['*'], apiGroups: ['*'], resources: ['*'] };
const PODS = { verbs: ['get', 'list'], apiGroups: [''], resources: ['pods'] };

interface Case {
  readonly name: string;
  readonly held?: readonly object[];
  readonly wanted: readonly object[];
  readonly missing: readonly string[];
}

const CASES: readonly Case[] = [
  { name: 'nothing is wanted', wanted: [], missing: [] },
  { name: 'what is held', held: [PODS], wanted: [PODS], missing: [] },
  {
    name: 'what is held by two rules',
    held: [
      { ...PODS, verbs: ['get'] },
      { ...PODS, verbs: ['list'] },
    ],
    wanted: [PODS],
    missing: [],
  },
  { name: 'nothing is held', wanted: [PODS], missing: ['{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}'] },
  {
    name: 'a part is held',
    held: [{ ...PODS, verbs: ['get'] }],
    wanted: [{ ...PODS, resources: ['pods', 'secrets'] }],
    missing: [
      '{APIGroups:[""], Resources:["pods"], Verbs:["list"]}',
      '{APIGroups:[""], Resources:["secrets"], Verbs:["get" "list"]}',
    ],
  },
  {
    name: 'verbs of several rules are told together, in their order',
    wanted: [
      { ...PODS, verbs: ['watch'] },
      { ...PODS, apiGroups: ['apps'] },
      { ...PODS, verbs: ['get', 'watch'] },
    ],
    missing: [
      '{APIGroups:[""], Resources:["pods"], Verbs:["watch" "get" "watch"]}',
      '{APIGroups:["apps"], Resources:["pods"], Verbs:["get" "list"]}',
    ],
  },
  {
    name: 'each name stands for itself',
    held: [{ ...PODS, resourceNames: ['a'] }],
    wanted: [{ ...PODS, verbs: ['get'], resourceNames: ['a', 'b', 'c'] }],
    missing: [
      '{APIGroups:[""], Resources:["pods"], ResourceNames:["b"], Verbs:["get"]}',
      '{APIGroups:[""], Resources:["pods"], ResourceNames:["c"], Verbs:["get"]}',
    ],
  },
  {
    name: 'some names are not all',
    held: [{ ...PODS, resourceNames: ['a'] }],
    wanted: [{ ...PODS, verbs: ['get'] }],
    missing: ['{APIGroups:[""], Resources:["pods"], Verbs:["get"]}'],
  },
  { name: 'all names are some', held: [PODS], wanted: [{ ...PODS, resourceNames: ['a'] }], missing: [] },
  { name: 'everything that is a resource', held: [EVERYTHING], wanted: [PODS, EVERYTHING], missing: [] },
  {
    name: 'an asterisk needs an asterisk',
    held: [PODS],
    wanted: [EVERYTHING],
    missing: ['{APIGroups:["*"], Resources:["*"], Verbs:["*"]}'],
  },
  {
    name: 'subresources',
    held: [{ ...PODS, resources: ['pods', '*/scale'] }],
    wanted: [{ ...PODS, verbs: ['get'], resources: ['pods/scale', 'deployments/scale', 'pods/exec'] }],
    missing: ['{APIGroups:[""], Resources:["pods/exec"], Verbs:["get"]}'],
  },
  {
    name: 'paths, which everything does not include',
    held: [EVERYTHING, { verbs: ['get'], nonResourceURLs: ['/healthz', '/logs/**'] }],
    wanted: [{ verbs: ['get'], nonResourceURLs: ['/healthz', '/logs/a', '/metrics', '/logs'] }],
    missing: ['{NonResourceURLs:["/logs"], Verbs:["get"]}', '{NonResourceURLs:["/metrics"], Verbs:["get"]}'],
  },
  {
    name: 'odd texts are quoted',
    wanted: [{ verbs: ['"'], apiGroups: ['\n'], resources: ['é'] }],
    missing: ['{APIGroups:["\\n"], Resources:["é"], Verbs:["\\""]}'],
  },
  {
    name: 'what is malformed is not held',
    held: [{ ...EVERYTHING, resourceNames: 'a' }],
    wanted: [{ ...PODS, verbs: ['get'] }],
    missing: ['{APIGroups:[""], Resources:["pods"], Verbs:["get"]}'],
  },
];

for (const { name, held = [], wanted, missing } of CASES) {
  test(name, () => assert.deepEqual(findMissingRules(held, wanted), missing));
}

test('a rule of a million rights is refused in a moment', { timeout: 5_000 }, () => {
  const many = Array.from({ length: 1000 }, (_, index) => `r${index}`);
  const rule = { verbs: many, apiGroups: many, resources: many };
  assert.ok(findMissingRules([PODS], [rule]).length > 0);
  assert.ok(findMissingRules([{ ...rule, verbs: ['get'] }], [rule]).length > 0);
  assert.deepEqual(findMissingRules([rule], [rule]), []);
});
