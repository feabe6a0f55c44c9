/** Fuzz targets, which are properties of the server for generated requests. */
import assert from 'node:assert/strict';
import fc, { type IAsyncProperty } from 'fast-check';
import { LIMITS } from '../../src/kube/limits.ts';
import type { Response } from '../support/https.ts';
import { isObject, type JsonObject } from '../support/oracle/json.ts';
import { isLegalReview } from '../support/oracle/review.ts';
import { applyDamages, damage, maxDepth } from './bytes.ts';
import type { Judge } from './judge.ts';
import { podsFrom } from './pods.ts';
import * as requests from './requests.ts';
import type { FuzzServer } from './server.ts';

export interface Context {
  readonly server: FuzzServer;
  readonly judge: Judge;
  readonly seeds: readonly JsonObject[];
  /** Called for each response. */
  count(): unknown;
}

export interface Target {
  readonly name: string;
  readonly runs: number;
  property(context: Context): IAsyncProperty<unknown>;
}

/** Maximum response time. The timeout in the query limits waits to half a second. */
const MAX_RESPONSE_MS = 60_000;
const QUERY = '?timeout=1s';

function formatReview(request: JsonObject): string {
  return JSON.stringify({ kind: 'AdmissionReview', apiVersion: 'admission.k8s.io/v1', request });
}

async function withTimeLimit(answer: Promise<Response>, { count }: Context): Promise<Response> {
  let timeout: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timeout = setTimeout(() => reject(new Error(`no response within ${MAX_RESPONSE_MS} ms`)), MAX_RESPONSE_MS);
  });
  try {
    return await Promise.race([answer, late]);
  } finally {
    clearTimeout(timeout);
    count();
  }
}

/** Sends a request as a review and checks the response. */
async function send(path: string, request: JsonObject, context: Context): Promise<JsonObject | undefined> {
  const answer = await withTimeLimit(context.server.post(path + QUERY, formatReview(request)), context);
  return context.judge.check(path, request, answer);
}

/** Sends a pod through all webhooks, before and after its mutation. */
async function admit(request: JsonObject, context: Context): Promise<void> {
  const completed = await send('/mutate/pods', request, context);
  await send('/validate/pods', request, context);
  if (completed === undefined) return;
  const after = { ...request, object: completed };
  await send('/mutate/pods', after, context);
  await send('/validate/pods', after, context);
}

/** Decisions differ between namespaces and users, so one generated pod results in many different reviews. */
async function admitEverywhere(request: JsonObject, context: Context): Promise<void> {
  for (const placed of requests.inOtherNamespaces(request)) await admit(placed, context);
}

const createTarget = (
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
  '/validate/namespaces',
  '/validate/workloads',
  '/mutate/pods',
  '/validate/pods',
  '/connect/pods',
  '/mutate/objects',
  '/validate/objects',
];

/** The maximum depth of an API object. The oracle does not evaluate deeper objects. */
const MAX_DEPTH = 500;

async function checkDamaged(path: string, body: Buffer, contentType: string, context: Context): Promise<void> {
  const {
    status,
    body: text,
    ...answer
  } = await withTimeLimit(context.server.post(path + QUERY, body, contentType), context);
  // A large review is not evaluated if a mutation nests it too deeply, or if it is still queued at its timeout.
  if (body.length > LIMITS.mainThreadBytes && (status === 503 || /"code":(?:413|429)}}}$/.test(text))) return;
  assert.ok([200, 400, 413].includes(status), `${status}: ${text.slice(0, 300)}`);
  const review = parse(body);
  const isLegal =
    contentType.startsWith('application/json') && isLegalReview(review) && maxDepth(body.toString()) <= MAX_DEPTH;
  if (isLegal) assert.equal(status, 200, text);
  if (status !== 200 || !isObject(review) || maxDepth(body.toString()) > MAX_DEPTH) return;
  context.judge.check(path, review['request'] as JsonObject, { status, body: text, ...answer });
}

function parse(body: Buffer): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(body)) as unknown;
  } catch {
    return undefined;
  }
}

/** Reviews with damaged bytes. */
export const DAMAGE: Target = {
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
        await checkDamaged(path, applyDamages(formatReview(request), damages), contentType, context);
      },
    ),
};

export const DECISIONS: readonly Target[] = [
  createTarget('new pods', 3, ({ seeds }) => requests.creates(podsFrom(seeds)), admitEverywhere),
  createTarget(
    'changed pods',
    3,
    ({ seeds, judge }) => requests.updates(podsFrom(seeds), judge.complete),
    admitEverywhere,
  ),
  createTarget(
    'workloads',
    5,
    ({ seeds }) => requests.workloads(podsFrom(seeds)),
    async (request, context) => {
      for (const placed of requests.inOtherNamespaces(request)) await send('/validate/workloads', placed, context);
    },
  ),
  createTarget(
    'namespaces',
    20,
    () => requests.namespaces,
    (request, context) => send('/validate/namespaces', request, context),
  ),
  createTarget(
    'exec',
    20,
    () => requests.execs,
    (request, context) => send('/connect/pods', request, context),
  ),
  createTarget(
    'SCC objects',
    20,
    () => requests.sccObjects,
    async (request, context) => {
      const completed = await send('/mutate/objects', request, context);
      await send('/validate/objects', { ...request, object: completed ?? request['object'] }, context);
    },
  ),
  createTarget('any path', 20, allRequests, async (request, context) => {
    for (const path of PATHS) await send(path, request, context);
  }),
];
