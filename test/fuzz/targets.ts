/** Fuzz targets. Each target is a property of the server that must hold for generated requests. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import fc, { type IAsyncProperty } from 'fast-check';
import { LIMITS } from '../../src/kube/limits.ts';
import type { JsonObject } from '../../src/kube/types.ts';
import { readReview } from '../../src/server/envelope.ts';
import type { Response } from '../support/https.ts';
import { applyDamages, damage, maxDepth } from './bytes.ts';
import type { Judge } from './judge.ts';
import { podsFrom } from './pods.ts';
import * as requests from './requests.ts';
import type { FuzzServer } from './server.ts';

export interface Context {
  readonly server: FuzzServer;
  readonly judge: Judge;
  readonly seeds: readonly JsonObject[];
  /** Counts a response to an evaluated review. */
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

/** Matches responses to reviews that an overloaded server does not evaluate in time. */
const LATE = /not evaluated within its timeout/;

/** Sends a body. Resolves to `undefined` if the server does not evaluate it in time. */
async function post(
  { server, count }: Context,
  ...[path, body, contentType]: Parameters<FuzzServer['post']>
): Promise<Response | undefined> {
  const late = AbortSignal.timeout(MAX_RESPONSE_MS);
  const response = await Promise.race([
    server.post(path + QUERY, body, contentType),
    once(late, 'abort').then(() => assert.fail(`no response within ${MAX_RESPONSE_MS} ms`)),
  ]);
  if (LATE.test(response.body)) return undefined;
  count();
  return response;
}

/** Sends a request as a review and checks the response. */
async function send(path: string, request: JsonObject, context: Context): Promise<JsonObject | undefined> {
  const answer = await post(context, path, formatReview(request));
  return answer && (await context.judge.check(path, request, answer));
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

/** Maximum depth at which the server accepts objects at every path. */
const MAX_DEPTH = LIMITS.nestingLevels;

async function checkDamaged(path: string, body: Buffer, contentType: string, context: Context): Promise<void> {
  const answer = await post(context, path, body, contentType);
  if (answer === undefined) return;
  const { status, body: text } = answer;
  // A large review is not evaluated if a mutation nests it too deeply.
  if (body.length > LIMITS.mainThreadBytes && /"code":413}}}$/.test(text)) return;
  assert.ok([200, 400, 413].includes(status), `${status}: ${text.slice(0, 300)}`);
  if (!contentType.startsWith('application/json') || maxDepth(body.toString()) > MAX_DEPTH) return;
  const review = readReview(body);
  if ('error' in review) assert.equal(status, 400, text);
  else await context.judge.check(path, review.request as unknown as JsonObject, answer);
}

/** Sends reviews with damaged bytes. */
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
