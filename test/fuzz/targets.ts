/** What is tried: each a property of the server over generated calls. */
import assert from 'node:assert/strict';
import fc, { type IAsyncProperty } from 'fast-check';
import * as requests from './requests.ts';
import { type Response, sendRaw } from '../support/https.ts';
import { isObject, type JsonObject } from '../support/oracle/json.ts';
import { isLegalReview } from '../support/oracle/review.ts';
import { damage, depthOf, inflict } from './bytes.ts';
import type { Judge } from './judge.ts';
import { podsFrom } from './pods.ts';
import type { FuzzServer } from './server.ts';

export interface Context {
  readonly server: FuzzServer;
  readonly judge: Judge;
  readonly seeds: readonly JsonObject[];
  /** Called for each answer. */
  count(): unknown;
}

export interface Target {
  readonly name: string;
  /** How often it is tried in a round. */
  readonly runs: number;
  property(context: Context): IAsyncProperty<unknown>;
}

/** How long an answer may take, in milliseconds: those that wait for a namespace are told to wait half a second. */
const PATIENCE_MS = 10_000;
const QUERY = '?timeout=1s';

function textOf(request: JsonObject): string {
  return JSON.stringify({ kind: 'AdmissionReview', apiVersion: 'admission.k8s.io/v1', request });
}

async function answerTo(answer: Promise<Response>, { count }: Context): Promise<Response> {
  const timer = new AbortController();
  const late = new Promise<never>((_resolve, reject) => {
    const timeout = setTimeout(() => reject(new Error(`no answer in ${PATIENCE_MS} ms`)), PATIENCE_MS);
    timer.signal.addEventListener('abort', () => clearTimeout(timeout));
  });
  try {
    return await Promise.race([answer, late]);
  } finally {
    timer.abort();
    count();
  }
}

/** Sends a request as a review, and checks what comes back. */
async function ask(path: string, request: JsonObject, context: Context): Promise<JsonObject | undefined> {
  const answer = await answerTo(context.server.post(path + QUERY, textOf(request)), context);
  return context.judge.check(path, request, answer);
}

/** A pod on its way: completed, judged by the second pass and by Pod Security, completed again. */
async function admit(request: JsonObject, context: Context): Promise<void> {
  const completed = await ask('/scc/mutate', request, context);
  await ask('/psa/validate', request, context);
  await ask('/scc/validate', request, context);
  if (completed === undefined) return;
  const after = { ...request, object: completed };
  await ask('/scc/validate', after, context);
  await ask('/scc/mutate', after, context);
  await ask('/psa/validate', after, context);
}

const of = (
  name: string,
  runs: number,
  arbitrary: (context: Context) => fc.Arbitrary<JsonObject>,
  attempt: (request: JsonObject, context: Context) => Promise<unknown>,
): Target => ({
  name,
  runs,
  property: (context) =>
    fc.asyncProperty(arbitrary(context), async (request) => {
      await attempt(request, context);
    }),
});

const allRequests = ({ seeds, judge }: Context): fc.Arbitrary<JsonObject> => {
  const pods = podsFrom(seeds);
  return fc.oneof(
    requests.creates(pods),
    requests.updates(pods, judge.complete),
    requests.workloads(pods),
    requests.namespaces,
    requests.execs,
    requests.sccObjects,
  );
};

const PATHS = [
  '/psa/validate',
  '/scc/mutate',
  '/scc/validate',
  '/scc/exec',
  '/scc/objects/default',
  '/scc/objects/validate',
];

/** Deeper than any object that could be stored; the oracle need not follow. */
const DEEP = 500;

async function checkDamaged(path: string, body: Buffer, contentType: string, context: Context): Promise<void> {
  const {
    status,
    body: text,
    ...answer
  } = await answerTo(context.server.post(path + QUERY, body, contentType), context);
  assert.ok([200, 400, 413].includes(status), `${status}: ${text.slice(0, 300)}`);
  const review = parse(body);
  const isLegal =
    contentType.startsWith('application/json') && isLegalReview(review) && depthOf(body.toString()) <= DEEP;
  if (isLegal) assert.equal(status, 200, text);
  if (status !== 200 || !isObject(review) || depthOf(body.toString()) > DEEP) return;
  context.judge.check(path, review['request'] as JsonObject, { status, body: text, ...answer });
}

function parse(body: Buffer): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(body)) as unknown;
  } catch {
    return undefined;
  }
}

const damaged: Target = {
  name: 'damaged reviews',
  runs: 60,
  property: (context) =>
    fc.asyncProperty(
      fc.constantFrom(...PATHS),
      allRequests(context),
      fc.array(damage, { minLength: 1, maxLength: 3 }),
      fc.oneof(
        { weight: 8, arbitrary: fc.constant('application/json') },
        fc.constantFrom(
          'application/json; charset=utf-8',
          'text/plain',
          'application/yaml',
          'x',
          'application/json; a',
        ),
      ),
      async (path, request, damages, contentType) => {
        await checkDamaged(path, inflict(textOf(request), damages), contentType, context);
      },
    ),
};

/** Well-formed reviews on connections of all kinds: in pieces, several at once, left in the middle. */
const framed: Target = {
  name: 'connections',
  runs: 6,
  property: (context) =>
    fc.asyncProperty(
      fc.array(allRequests(context), { minLength: 1, maxLength: 4 }),
      fc.constantFrom('length', 'chunked'),
      fc.integer({ min: 1, max: 4000 }),
      fc.oneof({ weight: 2, arbitrary: fc.constant(1) }, fc.double({ min: 0, max: 1, noNaN: true })),
      async (calls, framing, chunkBytes, part) => {
        const texts = calls.map((request, index) =>
          framing === 'length'
            ? withLength(request, index === calls.length - 1)
            : inChunks(request, chunkBytes, index === calls.length - 1),
        );
        const whole = texts.join('');
        const size = Math.max(chunkBytes, Math.ceil(whole.length / 40));
        const received = await sendRaw(context.server.endpoint, whole.slice(0, Math.ceil(whole.length * part)), {
          chunkBytes: size,
          pauseMs: 0,
          end: part < 1,
        });
        const statuses = [...received.matchAll(/HTTP\/1\.1 (\d+) /g)].map(([, status]) => Number(status));
        for (const status of statuses) {
          context.count();
          assert.ok([200, 400, 408].includes(status), String(status));
        }
        if (part === 1)
          assert.deepEqual(
            statuses,
            calls.map(() => 200),
          );
      },
    ),
};

const head = (more: string): string =>
  `POST /psa/validate${QUERY} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n${more}\r\n`;
const closing = (isLast: boolean): string => (isLast ? 'Connection: close\r\n' : '');

/** In ASCII, so that bytes and characters are the same. */
function plainText(request: JsonObject): string {
  return textOf(request).replaceAll(
    /[^\0-\x7f]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

function withLength(request: JsonObject, isLast: boolean): string {
  const text = plainText(request);
  return head(`Content-Length: ${text.length}\r\n${closing(isLast)}`) + text;
}

function inChunks(request: JsonObject, chunkBytes: number, isLast: boolean): string {
  const text = plainText(request);
  const chunks: string[] = [];
  for (let index = 0; index < text.length; index += chunkBytes) {
    const chunk = text.slice(index, index + chunkBytes);
    chunks.push(`${chunk.length.toString(16)}\r\n${chunk}\r\n`);
  }
  return `${head(`Transfer-Encoding: chunked\r\n${closing(isLast)}`)}${chunks.join('')}0\r\n\r\n`;
}

/** Those that look at what is decided. */
export const DECISIONS: readonly Target[] = [
  of('new pods', 40, ({ seeds }) => requests.creates(podsFrom(seeds)), admit),
  of('changed pods', 40, ({ seeds, judge }) => requests.updates(podsFrom(seeds), judge.complete), admit),
  of(
    'workloads',
    20,
    ({ seeds }) => requests.workloads(podsFrom(seeds)),
    (request, context) => ask('/psa/validate', request, context),
  ),
  of(
    'namespaces',
    20,
    () => requests.namespaces,
    (request, context) => ask('/psa/validate', request, context),
  ),
  of(
    'exec',
    20,
    () => requests.execs,
    (request, context) => ask('/scc/exec', request, context),
  ),
  of(
    'SCC objects',
    20,
    () => requests.sccObjects,
    async (request, context) => {
      const completed = await ask('/scc/objects/default', request, context);
      await ask('/scc/objects/validate', { ...request, object: completed ?? request['object'] }, context);
    },
  ),
  of('any path', 20, allRequests, async (request, context) => {
    for (const path of PATHS) await ask(path, request, context);
  }),
];

/** Those that look at how reviews arrive. */
export const ARRIVALS: readonly Target[] = [damaged, framed];
