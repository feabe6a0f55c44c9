/**
 * Authentication of API servers by service account tokens. This file is loaded on demand, since few clusters use it.
 * @see https://github.com/kubernetes/enhancements/tree/master/keps/sig-auth/6060-api-server-authentication-to-webhooks
 * @see https://github.com/kubernetes/kubernetes/pull/140113
 */
import { hash } from 'node:crypto';
import type { FastifyRequest } from 'fastify';
import { createLocalJWKSet, errors, jwtVerify, type JSONWebKeySet, type JWTPayload } from 'jose';
import { sleep, withTimeout, type Clock } from '../cluster/clock.ts';
import type { Connection } from '../cluster/connection.ts';
import { quote, truncate } from '../kube/text.ts';
import { isObject } from '../kube/types.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import type { ClientRejection } from './body.ts';
import type { MaybePromise } from './webhook.ts';

export interface CallerTokens {
  /** Creates the check of requests to a webhook. It returns why a caller may not send reviews. */
  createCheck(path: string): (request: FastifyRequest) => MaybePromise<ClientRejection | undefined>;
  /** Returns why the caller of a request, which has passed its check, may not send reviews of objects of an API group. */
  rejectGroup(request: FastifyRequest, group: string): ClientRejection | undefined;
  /** Returns why every review is rejected. */
  problem(): string | undefined;
  /** Reads the keys of the cluster now and at intervals until the signal is aborted. */
  follow(signal: AbortSignal): Promise<void>;
}

export interface CallerTokenOptions {
  /** With `optional`, requests without a token are accepted. */
  readonly mode: 'optional' | 'required';
  /** The connection to the API server that publishes the keys. */
  readonly connection: Pick<Connection, 'request'>;
  /** The accepted issuer; absent: the issuer of the API server. */
  readonly issuer: string | undefined;
  /** Returns the accepted audiences of a webhook. */
  audiences(path: string): readonly string[];
  readonly clock: Clock;
  /** Returns the time of day. */
  date(): Date;
  readonly logger: Logger;
  readonly metrics: Pick<Metrics, 'webhook'>;
}

/** Tokens of service accounts have about 1,200 characters. */
const MAX_LENGTH = 8 * 1024;
const BEARER = /^Bearer +(\S+)$/i;

/** More than the webhooks of ten API servers. A token is valid for ten minutes. */
const MAX_CALLERS = 1000;

/** A caller with a valid token. */
interface Caller {
  readonly audiences: readonly string[];
  /** The API groups of the objects that it may send reviews of. */
  readonly groups: readonly string[];
  readonly expiresMs: number;
  /** The keys that verified the token. Other keys may not accept it. */
  readonly keys: Keys;
}

const ALL_GROUPS = '*';

/** Creates the authentication. It accepts no token until the keys are known. */
export function createCallerTokens(options: CallerTokenOptions): CallerTokens {
  const { mode, clock, date, metrics } = options;
  const keys = createKeySource(options);
  const verify = createVerifier({ keys, clock, date });
  const restricted = new WeakMap<FastifyRequest, Caller>();
  const count = (result: string) => metrics.webhook.callerTokens.cell({ result });
  const [valid, absent] = [count('valid'), count('absent')];
  const reject = ({ result, status, reason }: Problem): ClientRejection => {
    count(result).count++;
    return { status, reason };
  };
  const check = (request: FastifyRequest, outcome: Caller | Problem, expected: readonly string[]) => {
    if ('result' in outcome) return reject(outcome);
    const { audiences, groups } = outcome;
    if (!audiences.some((audience) => expected.includes(audience))) return reject(wrongAudience(audiences, expected));
    if (!groups.includes(ALL_GROUPS)) restricted.set(request, outcome);
    valid.count++;
    return undefined;
  };
  return {
    createCheck(path) {
      const expected = options.audiences(path);
      return (request) => {
        const { authorization } = request.headers;
        if (authorization === undefined && mode === 'optional') {
          absent.count++;
          return undefined;
        }
        if (authorization === undefined) return reject(MISSING);
        const outcome = verify(authorization, request.ip);
        return outcome instanceof Promise
          ? outcome.then((result) => check(request, result, expected))
          : check(request, outcome, expected);
      };
    },
    rejectGroup(request, group) {
      const caller = restricted.get(request);
      return caller && !caller.groups.includes(group) ? reject(wrongGroup(caller.groups, group)) : undefined;
    },
    problem() {
      if (mode === 'optional' || keys.current()) return undefined;
      return unavailable(keys.failure() ?? 'no response yet').reason;
    },
    follow: (signal) => keys.follow(signal),
  };
}

// Rejections

/** A rejection, and its label in the metrics. */
interface Problem extends ClientRejection {
  readonly result: string;
}

function problem(result: string, reason: string): Problem {
  return { result, status: 401, reason: `the token of the caller is not accepted: ${reason}` };
}

/** The algorithms of service account tokens. */
const ALGORITHMS = ['RS256', 'RS384', 'RS512', 'ES256', 'ES384', 'ES512'];

const MISSING: Problem = {
  result: 'missing',
  status: 401,
  reason: 'a service account token of an API server is required',
};
const TOO_LONG = problem('malformed', `it is longer than ${MAX_LENGTH} characters`);
const MALFORMED = problem('malformed', 'it is not a JSON Web Token with the scheme Bearer');
const ALGORITHM = problem('algorithm', `its algorithm is not one of ${ALGORITHMS.join(', ')}`);
const UNKNOWN_KEY = problem('unknown_key', 'the cluster has no key with its ID and algorithm');
const SIGNATURE = problem('signature', 'its signature is invalid');
const EXPIRED = problem('expired', 'it has expired');
const NOT_YET_VALID = problem('not_yet_valid', 'it is not valid yet');
const NO_EXPIRATION = problem('claims', 'its claim exp must be a time');
const NOT_ATTESTED = problem(
  'claims',
  'its claim kubernetes.io.attestations.admissionReviewAPIGroups must be a list of API groups',
);
const NOT_BOUND = problem(
  'claims',
  'it must be bound to either a ValidatingWebhookConfiguration or a MutatingWebhookConfiguration',
);
const TOO_MANY: Problem = {
  result: 'rate_limited',
  status: 429,
  reason: 'too many invalid tokens from this address; try again',
};

/** Rejections that other keys may prevent. */
const RENEWABLE: ReadonlySet<string> = new Set(['unknown_key', 'issuer']);

function unavailable(failure: string): Problem {
  const reason = `the keys of service account tokens cannot be read: ${failure}`;
  return { result: 'keys_unavailable', status: 503, reason };
}

/** The length of a claim in a message. Users choose the audiences of tokens. */
const MAX_SHOWN = 300;

function show(values: readonly string[]): string {
  return truncate(values.map(quote).join(', '), MAX_SHOWN);
}

function wrongAudience(audiences: readonly string[], expected: readonly string[]): Problem {
  return problem('audience', `its audience is ${show(audiences)}, not ${expected.map(quote).join(' or ')}`);
}

function wrongGroup(groups: readonly string[], group: string): Problem {
  const reason = `the token of the caller permits reviews of the API group ${show(groups)}, not ${show([group])}`;
  return { result: 'api_group', status: 403, reason };
}

// Verification

interface VerifierOptions extends Pick<CallerTokenOptions, 'clock' | 'date'> {
  readonly keys: KeySource;
}

/** The tolerated difference between the clocks of API servers and replicas. */
const CLOCK_SKEW_MS = 60_000;

/** Creates the verification of the header `Authorization`. Headers with valid tokens are remembered by their hash. */
function createVerifier({ keys, clock, date }: VerifierOptions) {
  const callers = new Map<string, Caller>();
  const running = new Map<string, Promise<Caller | Problem>>();
  const attempts = createAttemptLimit(clock);
  const verify = async (token: string): Promise<Caller | Problem> => {
    const used = keys.current();
    const first = used ? await verifyToken(token, used, date()) : UNKNOWN_KEY;
    if (!('result' in first) || !RENEWABLE.has(first.result)) return first;
    await keys.refresh();
    const current = keys.current();
    if (current && current !== used) return await verifyToken(token, current, date());
    const failure = keys.failure();
    return failure === undefined ? first : unavailable(failure);
  };
  const remember = (id: string, caller: Caller): void => {
    callers.delete(id);
    callers.set(id, caller);
    const [oldest = id] = callers.keys();
    if (callers.size > MAX_CALLERS) callers.delete(oldest);
  };
  const start = async (id: string, token: string, address: string): Promise<Caller | Problem> => {
    try {
      const outcome = await verify(token);
      if ('result' in outcome) return outcome;
      attempts.succeed(address);
      remember(id, outcome);
      return outcome;
    } finally {
      running.delete(id);
    }
  };
  return (authorization: string, address: string): MaybePromise<Caller | Problem> => {
    if (authorization.length > MAX_LENGTH) return TOO_LONG;
    // The hash of a part of the header takes four times as long, since the part is copied.
    const id = hash('sha256', authorization, 'base64');
    const known = callers.get(id);
    if (known && known.keys === keys.current() && known.expiresMs > date().getTime()) return known;
    const same = running.get(id);
    if (same) return same;
    const token = BEARER.exec(authorization)?.[1];
    if (token === undefined) return MALFORMED;
    if (!attempts.take(address)) return TOO_MANY;
    const verification = start(id, token, address);
    running.set(id, verification);
    return verification;
  };
}

/** Verifies the signature and the claims, without the audience, which differs between webhooks. */
async function verifyToken(token: string, keys: Keys, currentDate: Date): Promise<Caller | Problem> {
  try {
    const { payload } = await jwtVerify(token, keys.find, {
      algorithms: ALGORITHMS,
      issuer: keys.issuer,
      requiredClaims: ['exp'],
      clockTolerance: CLOCK_SKEW_MS / 1000,
      currentDate,
    });
    return readCaller(payload, keys);
  } catch (error) {
    return explainFailure(error, keys);
  }
}

function explainFailure(error: unknown, { issuer }: Keys): Problem {
  if (error instanceof errors.JWTExpired) return EXPIRED;
  if (error instanceof errors.JWTClaimValidationFailed) {
    const { claim, payload } = error;
    if (claim === 'iss') return problem('issuer', `its issuer is ${show([String(payload.iss)])}, not ${quote(issuer)}`);
    return claim === 'nbf' ? NOT_YET_VALID : NO_EXPIRATION;
  }
  if (error instanceof errors.JOSEAlgNotAllowed) return ALGORITHM;
  if (error instanceof errors.JWKSNoMatchingKey || error instanceof errors.JWKSMultipleMatchingKeys) return UNKNOWN_KEY;
  return error instanceof errors.JWSSignatureVerificationFailed ? SIGNATURE : MALFORMED;
}

/**
 * Reads the claims of KEP-6060. Without them, the token is not from an API server: the author of a pod can mount a token
 * with any audience.
 */
function readCaller({ aud = [], exp = 0, 'kubernetes.io': own }: JWTPayload, keys: Keys): Caller | Problem {
  const { attestations, validatingWebhookConfiguration, mutatingWebhookConfiguration } = isObject(own) ? own : {};
  const groups = isObject(attestations) ? attestations['admissionReviewAPIGroups'] : undefined;
  if (!isStrings(groups) || groups.length === 0) return NOT_ATTESTED;
  if (isObject(validatingWebhookConfiguration) === isObject(mutatingWebhookConfiguration)) return NOT_BOUND;
  const audiences = typeof aud === 'string' ? [aud] : aud;
  if (!isStrings(audiences)) return MALFORMED;
  return { audiences, groups, expiresMs: exp * 1000 + CLOCK_SKEW_MS, keys };
}

function isStrings(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.every((one) => typeof one === 'string');
}

/** Failed verifications of one address in a second. A failure closes its connection, which is the larger cost. */
const MAX_FAILURES = 50;
const WINDOW_MS = 1000;

/** Limits the verifications that fail or are in progress. */
function createAttemptLimit(clock: Clock) {
  const counts = new Map<string, number>();
  let startedMs = clock.now();
  const add = (address: string, change: number): number => {
    const sum = (counts.get(address) ?? 0) + change;
    counts.set(address, sum);
    return sum;
  };
  return {
    /** Reports whether the address may cause another verification. */
    take(address: string): boolean {
      if (clock.now() - startedMs >= WINDOW_MS) {
        counts.clear();
        startedMs = clock.now();
      }
      return (counts.get(address) ?? 0) < MAX_FAILURES && add(address, 1) > 0;
    },
    succeed: (address: string): void => void add(address, -1),
  };
}

// Keys of the cluster

/** The keys that the API server publishes, and the issuer of its tokens. */
interface Keys {
  readonly issuer: string;
  readonly find: ReturnType<typeof createLocalJWKSet>;
  /** The published documents. */
  readonly text: string;
}

type KeySource = ReturnType<typeof createKeySource>;

const DISCOVERY_PATH = '/.well-known/openid-configuration';
/** The issuer may be unreachable. The API server publishes the keys, too. */
const KEYS_PATH = '/openid/v1/jwks';
const KEYS_TYPES = 'application/jwk-set+json, application/json';

/** API servers publish a key before they use it. */
const INTERVAL_MS = 5 * 60_000;
const RETRY_MS = 10_000;
/** Tokens with an unknown key cause a read at most this often. */
const MIN_INTERVAL_MS = 10_000;
/** API servers wait for 10 s by default. */
const READ_TIMEOUT_MS = 5_000;

/** Creates the source of the keys. After a failure, the last known keys stay in use. */
function createKeySource({ connection, issuer, clock, logger }: CallerTokenOptions) {
  let keys: Keys | undefined;
  let failure: string | undefined;
  let startedMs = -Infinity;
  let reading: Promise<void> | undefined;
  const read = async (): Promise<void> => {
    startedMs = clock.now();
    try {
      const next = await withTimeout(clock, READ_TIMEOUT_MS, (signal) => readKeys(connection, issuer, signal));
      failure = undefined;
      if (next.text === keys?.text) return;
      keys = next;
      logger.info({ issuer: next.issuer }, 'keys of service account tokens read');
    } catch (err) {
      if (failure === undefined)
        logger.warn({ err }, 'cannot read the keys of service account tokens; the last known ones stay in use');
      failure = truncate(err instanceof Error ? err.message : String(err), MAX_SHOWN);
    }
  };
  const refresh = async (minIntervalMs: number): Promise<void> => {
    if (!reading && clock.now() - startedMs < minIntervalMs) return;
    await (reading ??= read().finally(() => (reading = undefined)));
  };
  return {
    current: () => keys,
    /** Returns why the last read failed. */
    failure: () => failure,
    /** Reads the keys again, unless they were read a moment ago. */
    refresh: () => refresh(MIN_INTERVAL_MS),
    async follow(signal: AbortSignal): Promise<void> {
      while (!signal.aborted) {
        await refresh(0);
        await sleep(clock, failure === undefined ? INTERVAL_MS : RETRY_MS, signal);
      }
    },
  };
}

async function readKeys(
  { request }: CallerTokenOptions['connection'],
  issuer: string | undefined,
  signal: AbortSignal,
): Promise<Keys> {
  const get = (path: string, accept: string) => request({ method: 'GET', path, accept, signal });
  const published = await get(KEYS_PATH, KEYS_TYPES);
  // The function checks the type of its argument.
  const find = createLocalJWKSet(published as unknown as JSONWebKeySet);
  const found = issuer ?? (await get(DISCOVERY_PATH, 'application/json'))['issuer'];
  if (typeof found !== 'string') throw new Error(`${DISCOVERY_PATH} of the API server has no issuer`);
  return { issuer: found, find, text: JSON.stringify([found, published]) };
}
