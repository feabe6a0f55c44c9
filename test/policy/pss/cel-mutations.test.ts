/**
 * Each expression of the checks, altered in one place, is detected by a pod of the fixtures. `PORTCULLIS_ALL_POLICY_CASES=1`
 * alters all places instead of a sample (`npm run test:policies`).
 */
import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { parse } from 'yaml';
import type { PodLike } from '../../../src/kube/types.ts';
import { VOLUME_SOURCES } from '../../../src/policy/pod/pod.ts';
import { buildCelChecks, type CelVariable } from '../../../src/policy/pss/cel-policy.ts';
import { checks, checksAt, createEvaluator, type Version } from '../../../src/policy/pss/index.ts';
import { asStored, compileVariables } from '../../../src/dev-cluster/cel.ts';
import { findUsed, mutate } from '../../support/cel.ts';

const ALL = process.env['PORTCULLIS_ALL_POLICY_CASES'] !== undefined;

/** A sample takes one of this number of mutations. */
const SAMPLE = 10;

const FIXTURES = join(import.meta.dirname, '../../fixtures');

function readFixture<T>(file: string): T {
  return parse(readFileSync(join(FIXTURES, file), 'utf8')) as T;
}

interface Parts {
  readonly metadata?: { readonly annotations?: object };
  readonly spec?: Readonly<Record<string, unknown>>;
}

/** A pod with the fields of the first pod, and the containers, volumes and annotations of both. */
function merge(pod: Parts, other: Parts): Parts {
  const lists = ['initContainers', 'containers', 'ephemeralContainers', 'volumes'].map((field) => {
    const items = [pod, other].flatMap(({ spec }) => (spec?.[field] ?? []) as readonly unknown[]);
    return [field, items] as const;
  });
  const annotations = { ...other.metadata?.annotations, ...pod.metadata?.annotations };
  return { metadata: { annotations }, spec: { ...pod.spec, ...Object.fromEntries(lists) } };
}

const PLAIN: Parts = { spec: { containers: [{ name: 'plain' }] } };

/** For each source, a pod with a volume of it and a volume that is always restricted. */
const VOLUMES: readonly Parts[] = VOLUME_SOURCES.map((source) => ({
  spec: {
    volumes: [
      { name: source, [source]: {} },
      { name: 'host', hostPath: {} },
    ],
  },
}));

/** The pods of a check, those of its revisions, combinations of them, and a pod without any field that checks read. */
function readPods(id: string): PodLike[] {
  const sources = id === 'restrictedVolumes' ? VOLUMES : [];
  const cases = readFixture<readonly { readonly pod: Parts }[]>(`pss-checks/${id}.yaml`).map(({ pod }) => pod);
  const files = globSync(`pss/**/${id}-*.yaml`, { cwd: FIXTURES }).sort();
  const pods = [...cases, ...files.map((file) => readFixture<Parts>(file)), PLAIN, ...sources];
  const all = pods.reduce(merge, {});
  const pairs = pods.map((pod, index) => merge(pod, pods[(index + 1) % pods.length] ?? {}));
  return [...pods, ...pairs, ...pods.map((pod) => merge(pod, all))] as PodLike[];
}

/** The versions at the borders of the revisions of a check, and of those that override it. */
function listVersions(id: string): Version[] {
  const related = checks.flatMap(({ id: own, versions }) =>
    versions.filter(({ overrides = [] }) => own === id || overrides.includes(id)),
  );
  const borders = related.map(({ since }) => minorOf(since)).flatMap((minor) => [Math.max(minor - 1, 0), minor]);
  return [...new Set(borders)].map((minor): Version => `v1.${minor}`);
}

function minorOf(version: Version): number {
  return Number(version.slice('v1.'.length));
}

interface Scene {
  readonly pod: unknown;
  readonly minor: number;
  /** Empty if the check passes or does not run. */
  readonly text: string;
}

function createScenes(id: string, level: 'baseline' | 'restricted'): Scene[] {
  const check = checks.filter((one) => one.id === id);
  const { evaluatePod } = createEvaluator(check);
  return readPods(id).flatMap((pod) =>
    listVersions(id).map((version) => {
      const runs = checksAt({ level, version }).some((one) => one.id === id);
      const text = runs ? evaluatePod(pod, { level: check[0]?.level ?? level, version }).detail : '';
      return { pod: asStored(pod), minor: minorOf(version), text };
    }),
  );
}

/** The name of an operating system that is not set: any name except windows has the same meaning. */
const EQUIVALENT = 'variables.spec.?os.?name.orValue("~") == "windows"';

const INPUTS: readonly CelVariable[] = [
  { name: 'pod', expression: 'dyn(object)' },
  { name: 'minor', expression: 'request.minor' },
];

/** True if a scene has another result. */
function isDetected(id: string, variables: readonly CelVariable[], scenes: readonly Scene[]): boolean {
  try {
    const evaluate = compileVariables([...INPUTS, ...variables]);
    return scenes.some(({ pod, minor, text }) => {
      const run = evaluate({ object: pod, request: { minor } });
      return run(`variables.${id}`) !== (text === '') || run(`variables.${id}Text`) !== text;
    });
  } catch {
    return true;
  }
}

const counts = { mutants: 0 };

for (const level of ['baseline', 'restricted'] as const) {
  const { variables } = buildCelChecks({ levels: [level], hasListFunctions: true });
  for (const { id } of checks.filter((check) => variables.some(({ name }) => name === check.id))) {
    test(`${id} at level ${level}`, () => {
      const scenes = createScenes(id, level);
      assert.ok(!isDetected(id, variables, scenes), 'the unaltered expressions differ');
      const used = findUsed(`${id}Text`, variables);
      const mutants = variables.flatMap(({ name, expression }) =>
        used.has(name)
          ? [...mutate(expression)]
              .filter((mutant) => mutant !== EQUIVALENT)
              .map((mutant) => ({ name, expression: mutant }))
          : [],
      );
      assert.ok(mutants.length > 5);
      const survivors = mutants.filter((mutant, index) => {
        if (!ALL && index % SAMPLE > 0) return false;
        const altered = variables.map((variable) => (variable.name === mutant.name ? mutant : variable));
        return !isDetected(id, altered, scenes);
      });
      assert.deepEqual(
        survivors.map(({ name, expression }) => `${name}: ${expression}`),
        [],
      );
      counts.mutants += ALL ? mutants.length : Math.ceil(mutants.length / SAMPLE);
    });
  }
}

after(() => {
  if (ALL) console.log(`${counts.mutants} altered expressions are detected`);
});
