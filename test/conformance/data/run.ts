#!/usr/bin/env node
/**
 * Compares another implementation with the recorded cases: `node run.ts SUITE [--verdicts] -- COMMAND [ARGUMENT...]`.
 *
 * The command reads one JSON document per line from stdin, and writes one line for each to stdout, in the same order.
 * Exits with 0 if all responses are equal to the recorded ones, and with 1 otherwise. README.md describes the
 * documents. The program needs Node 24 but no packages.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { isDeepStrictEqual } from 'node:util';
import { gunzipSync } from 'node:zlib';

interface Case {
  readonly id: string;
  readonly request: object;
  readonly expected: Readonly<Record<string, unknown>>;
}

interface RecordedPod {
  readonly id: string;
  readonly pod: object;
  readonly expect: readonly (Readonly<Record<'allowed', boolean>> &
    Readonly<Record<'level', string>> &
    Readonly<Record<'versions', readonly string[]>> & { readonly reason?: string; readonly detail?: string })[];
}

type RecordedRequest = Readonly<Record<'id', string>> & { readonly expect: Case['expected'] };

function read<T>(file: string): readonly T[] {
  const text = gunzipSync(readFileSync(join(import.meta.dirname, `${file}.ndjson.gz`))).toString();
  return text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as T);
}

/** The cases by suite. Each case is created only when it is sent. */
const SUITES: Readonly<Record<string, () => Iterable<Case>>> = {
  *'pod-security'() {
    for (const { id, pod, expect } of read<RecordedPod>('random/pss-random')) {
      for (const { level, versions, allowed, reason = '', detail = '' } of expect) {
        for (const version of versions) {
          yield { id: `${id} ${level}:${version}`, request: { pod, level, version }, expected: { allowed, reason, detail } };
        }
      }
    }
  },
  *scc() {
    for (const { expect, ...request } of read<RecordedRequest>('random/scc-admission-random')) {
      yield { id: request.id, request, expected: expect };
    }
  },
};

const MAX_PRINTED = 20;
/** Number of requests that are sent before their responses are read. */
const BATCH = 16;

function fail(message: string): never {
  process.stderr.write(`error: ${message}\n`);
  process.exit(2);
}

/** Returns the verdicts of a response, which are the values of `allowed` at any depth. */
function verdicts(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return undefined;
  const { allowed } = value as { readonly allowed?: unknown };
  if (allowed !== undefined) return allowed;
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, verdicts(member)]));
}

async function run(suite: string, [program = '', ...args]: readonly string[], compared: (value: unknown) => unknown) {
  const cases = SUITES[suite] ?? fail(`unknown suite ${JSON.stringify(suite)}: use ${Object.keys(SUITES).join(' or ')}`);
  const child = spawn(program, args, { stdio: ['pipe', 'pipe', 'inherit'] });
  child.on('error', (error) => fail(`${program}: ${error.message}`));
  child.stdin.on('error', () => undefined);
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  let [total, differing] = [0, 0];
  const compare = async (batch: readonly Case[]): Promise<void> => {
    const text = batch.map(({ request }) => `${JSON.stringify(request)}\n`).join('');
    // If the command has ended, reading its output fails with a message.
    if (!child.stdin.write(text)) await once(child.stdin, 'drain').catch(() => undefined);
    for (const { id, expected } of batch) {
      const { value, done } = await lines.next();
      if (done === true) fail(`${program} ended before it responded to ${id}`);
      total++;
      if (isDeepStrictEqual(compared(parse(value, id)), compared(expected))) continue;
      differing++;
      if (differing <= MAX_PRINTED)
        process.stdout.write(`${id}\n  expected ${JSON.stringify(expected)}\n  but got  ${value}\n`);
    }
  };
  let batch: Case[] = [];
  for (const one of cases()) {
    batch.push(one);
    if (batch.length === BATCH) {
      await compare(batch);
      batch = [];
    }
  }
  await compare(batch);
  child.stdin.end();
  process.stdout.write(`${suite}: ${total} cases, ${differing} differ\n`);
  return differing === 0 ? 0 : 1;
}

function parse(line: string, id: string): unknown {
  try {
    return JSON.parse(line) as unknown;
  } catch {
    return fail(`the response to ${id} is not JSON: ${line.slice(0, 200)}`);
  }
}

const separator = process.argv.indexOf('--');
if (separator < 3) fail(`usage: node run.ts ${Object.keys(SUITES).join('|')} [--verdicts] -- COMMAND [ARGUMENT...]`);
const options = process.argv.slice(2, separator);
const [suite = ''] = options.filter((option) => option !== '--verdicts');
const code = await run(suite, process.argv.slice(separator + 1), options.includes('--verdicts') ? verdicts : (value) => value);
process.exit(code);
