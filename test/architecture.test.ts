import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { findViolations } from './support/architecture.ts';

test('the sources keep to the rules of the house', () => {
  const paths = readdirSync('src', { recursive: true, encoding: 'utf8' }).filter((path) => path.endsWith('.ts'));
  const sources = new Map(paths.sort().map((path) => [path, readFileSync(join('src', path), 'utf8')]));
  assert.ok(sources.has('main.ts'));
  assert.deepEqual(findViolations(sources), []);
});

describe('the rules name what breaks them', () => {
  const cases: readonly { name: string; path: string; text: string; expected: readonly string[] }[] = [
    { name: 'own folder', path: 'server/a.ts', text: `import { x } from './psa.ts';`, expected: [] },
    { name: 'a lower row', path: 'server/a.ts', text: `import { x } from '../kube/types.ts';`, expected: [] },
    { name: 'the top', path: 'main.ts', text: `import { x } from './cli/main.ts';`, expected: [] },
    {
      name: 'a subfolder of its own unit',
      path: 'dev-cluster/admission/a.ts',
      text: `import { x } from '../types.ts';`,
      expected: [],
    },
    {
      name: 'a higher row',
      path: 'kube/a.ts',
      text: `import { x } from '../cluster/store.ts';`,
      expected: ['src/kube/a.ts: imports src/cluster/store.ts: kube may not import from cluster'],
    },
    {
      name: 'sideways',
      path: 'server/a.ts',
      text: `import { x } from '../dev-cluster/types.ts';`,
      expected: ['src/server/a.ts: imports src/dev-cluster/types.ts: server may not import from dev-cluster'],
    },
    {
      name: 'from a part below into the development cluster',
      path: 'cluster/a.ts',
      text: `import { x } from '../dev-cluster/types.ts';`,
      expected: ['src/cluster/a.ts: imports src/dev-cluster/types.ts: cluster may not import from dev-cluster'],
    },
    {
      name: 'types only',
      path: 'policy/psa/a.ts',
      text: `import type { X } from '../../server/psa.ts';`,
      expected: ['src/policy/psa/a.ts: imports src/server/psa.ts: policy/psa may not import from server'],
    },
    {
      name: 'a type in place',
      path: 'kube/a.ts',
      text: `export type X = import('../cluster/store.ts').Store;`,
      expected: ['src/kube/a.ts: imports src/cluster/store.ts: kube may not import from cluster'],
    },
    {
      name: 'passed on',
      path: 'kube/a.ts',
      text: `export * from '../cluster/store.ts';`,
      expected: ['src/kube/a.ts: imports src/cluster/store.ts: kube may not import from cluster'],
    },
    {
      name: 'at run time',
      path: 'server/a.ts',
      text: `const x = () => import('../cli/main.ts');`,
      expected: ['src/server/a.ts: imports src/cli/main.ts: server may not import from cli'],
    },
    {
      name: 'computed',
      path: 'cli/a.ts',
      text: `const x = (name: string) => import(name);`,
      expected: ['src/cli/a.ts: imports something computed'],
    },
    {
      name: 'no file',
      path: 'cli/a.ts',
      text: `import x from '../../package.json';`,
      expected: ['src/cli/a.ts: imports ../../package.json, which is no file of src/'],
    },
    { name: 'a new folder', path: 'utils/a.ts', text: '', expected: ['src/utils/a.ts: its folder has no row'] },
    {
      name: 'a new folder beside units',
      path: 'policy/new/a.ts',
      text: '',
      expected: ['src/policy/new/a.ts: its folder has no row'],
    },
    { name: 'a new file on top', path: 'a.ts', text: '', expected: ['src/a.ts: its folder has no row'] },
    {
      name: 'a package away from home',
      path: 'cli/a.ts',
      text: `import Fastify from 'fastify';`,
      expected: ['src/cli/a.ts: imports fastify, whose home is src/server/ and src/dev-cluster/server.ts'],
    },
    {
      name: 'a part of a package away from home',
      path: 'config/a.ts',
      text: `import { Ajv } from 'ajv/dist/2020.js';`,
      expected: [
        'src/config/a.ts: imports ajv, whose home is src/config/ajv.ts and src/dev-cluster/objects/custom-resources.ts',
      ],
    },
    {
      name: 'a new package',
      path: 'cli/a.ts',
      text: `import type { X } from '@scope/name/part';`,
      expected: ['src/cli/a.ts: imports @scope/name, which has no home'],
    },
    {
      name: 'the types of client-node',
      path: 'kube/a.ts',
      text: `import type { V1Pod } from '@kubernetes/client-node';`,
      expected: [],
    },
    {
      name: 'client-node by an import that is left at run time',
      path: 'kube/a.ts',
      text: `import { type V1Pod } from '@kubernetes/client-node';`,
      expected: ['src/kube/a.ts: imports @kubernetes/client-node, but its row is pure'],
    },
    {
      name: 'a module of Node',
      path: 'policy/pss/a.ts',
      text: `import { join } from 'node:path';`,
      expected: ['src/policy/pss/a.ts: imports node:path, but its row is pure'],
    },
    {
      name: 'waiting',
      path: 'policy/pss/a.ts',
      text: `export const x = async () => 1;`,
      expected: ['src/policy/pss/a.ts: waits, but its row is pure'],
    },
    {
      name: 'the clock',
      path: 'policy/pss/a.ts',
      text: `export const x = [new Date(), Date.now(), new Date(0)];`,
      expected: [
        'src/policy/pss/a.ts: reads the clock, but its row is pure',
        'src/policy/pss/a.ts: uses Date.now, but its row is pure',
      ],
    },
    {
      name: 'a log',
      path: 'policy/pss/a.ts',
      text: `console.log(1);`,
      expected: ['src/policy/pss/a.ts: uses console, but its row is pure'],
    },
    {
      name: 'a member that is called like a global',
      path: 'policy/pss/a.ts',
      text: `export const x = (pod: { process: { env: 1 } }) => pod.process.env;`,
      expected: [],
    },
    {
      name: 'the environment',
      path: 'server/a.ts',
      text: `export const x = process.env['X'];`,
      expected: ['src/server/a.ts: reads process.env'],
    },
    { name: 'the environment in cli', path: 'cli/a.ts', text: `export const x = process.env['X'];`, expected: [] },
    {
      name: 'process.exit',
      path: 'cli/a.ts',
      text: `process.exit(1);`,
      expected: ['src/cli/a.ts: calls process.exit'],
    },
    {
      name: 'default exports',
      path: 'cli/a.ts',
      text: `export default function x() {}`,
      expected: ['src/cli/a.ts: has a default export'],
    },
    {
      name: 'a default export of a value',
      path: 'cli/a.ts',
      text: `const x = 1; export default x;`,
      expected: ['src/cli/a.ts: has a default export'],
    },
    {
      name: 'a default export by name',
      path: 'cli/a.ts',
      text: `const x = 1; export { x as default };`,
      expected: ['src/cli/a.ts: has a default export'],
    },
    {
      name: 'a default branch',
      path: 'cli/a.ts',
      text: `switch (1 as number) { default: break; }`,
      expected: [],
    },
    { name: 'enums', path: 'cli/a.ts', text: `enum X { A }`, expected: ['src/cli/a.ts: has an enum, X'] },
    {
      name: 'classes',
      path: 'cli/a.ts',
      text: `class X {}`,
      expected: ['src/cli/a.ts: has a class that is no error, X'],
    },
    { name: 'errors', path: 'cli/a.ts', text: `class X extends Error {}`, expected: [] },
  ];
  const house = ['kube/types.ts', 'cluster/store.ts', 'dev-cluster/types.ts', 'server/psa.ts', 'cli/main.ts'];
  for (const { name, path, text, expected } of cases) {
    test(name, () => {
      const sources = new Map([...house.map((file) => [file, ''] as const), [path, text] as const]);
      assert.deepEqual(findViolations(sources), expected);
    });
  }
});
