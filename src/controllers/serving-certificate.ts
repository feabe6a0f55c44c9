import { apiVersionOf } from '../kube/resources.ts';
import type { Secret } from '../kube/types.ts';
import type { CertificateMetrics } from '../telemetry/certificates.ts';
import { readCertificates, fingerprintOf } from '../tls/pem.ts';
import { type KeyringPlan, type Step, ASKED_FOR, planKeyring, SETTLE_MS, takeStep } from '../tls/plan-keyring.ts';
import { type ReconcileContext, on, type Controller } from './controller.ts';
import {
  textsOf,
  decisiveBundles,
  heldBundles,
  injectedConfigurations,
  isInjectedFrom,
  rotationAsked,
  type InjectedConfiguration,
  type SecretPlace,
} from './serving-certificate-state.ts';
import { holdsAll, planBundle } from '../tls/bundle.ts';
import { readKeyring, type Keyring } from '../tls/keyring.ts';
import type { ServerNames } from '../tls/self-signed.ts';
import { applyBundle } from './ca-bundle.ts';
import { writeKeyring } from './keyring-secret.ts';
import { createReplicaObserver, isReplicaLease, type ReplicaObserver } from './replica-leases.ts';
import { createStopwatch, type Stopwatch } from './stopwatch.ts';

/** What a step makes, and what people are told of it. */
const STEPS: Readonly<
  Record<
    Step,
    { readonly made: readonly ('authority' | 'serving')[]; readonly reason: string; readonly message: string }
  >
> = {
  'start over': {
    made: ['authority', 'serving'],
    reason: 'AuthorityCreated',
    message: 'made an authority and a serving certificate',
  },
  sign: { made: ['serving'], reason: 'ServingCertificateRenewed', message: 'signed a serving certificate' },
  prepare: {
    made: ['authority'],
    reason: 'AuthorityPrepared',
    message: 'made the next authority, which signs once it is trusted everywhere',
  },
  change: {
    made: ['serving'],
    reason: 'AuthorityChanged',
    message: 'signed a serving certificate with the next authority',
  },
};

/** Tells of a step that was taken. */
function tellStep(
  { step, reason: why }: KeyringPlan,
  secret: Secret,
  metrics: Pick<CertificateMetrics, 'issued'>,
  { logger, tell }: ReconcileContext,
): void {
  const name = secret.metadata?.name;
  if (step === undefined) {
    logger.info({ secret: name }, 'Secret of the certificates set right');
    return;
  }
  const { made, reason, message } = STEPS[step];
  for (const certificate of made) metrics.issued.cell({ certificate }).count++;
  const [serving] = readCertificates(textsOf(secret).get('tls.crt') ?? '');
  logger.info({ secret: name, reason: why, notAfter: serving?.validToDate.toISOString() }, message);
  tell(noteOn(secret, reason, `${message}: ${why}`));
}

/** Tells that API servers trust so many certificates no more that they trusted before. */
function tellRetired(count: number, secret: Secret | undefined, { tell }: ReconcileContext): void {
  if (!secret) return;
  const what = count === 1 ? 'an authority' : `${count} authorities`;
  tell(
    noteOn(secret, 'AuthorityRetired', `took ${what} out of caBundle: nobody serves what it signed, or it has expired`),
  );
}

function noteOn({ metadata }: Secret, reason: string, note: string): Parameters<ReconcileContext['tell']>[0] {
  const { name = '', namespace = '', uid } = metadata ?? {};
  return {
    regarding: {
      apiVersion: apiVersionOf('Secret'),
      kind: 'Secret',
      metadata: { name, namespace, ...(uid === undefined ? {} : { uid }) },
    },
    type: 'Normal',
    reason,
    action: 'Rotate',
    note,
  };
}

export const SERVING_CERTIFICATE_CONTROLLER = 'serving-certificate-controller';

interface ServingCertificateOptions {
  readonly secret: SecretPlace;
  /** Those of the service, and by what else the server is called. */
  readonly names: ServerNames;
  readonly date: () => Date;
  readonly metrics: Pick<CertificateMetrics, 'issued'>;
  /** How long API servers and replicas get to follow. */
  readonly settleMs?: number;
}

const KEY = 'serving-certificate';
/** However long there is nothing to do: clocks may be set. */
const MAX_AGAIN_MS = 3_600_000;
const MAX_RETRY_MS = 30_000;

/** What a leader has seen since it leads. */
interface Observations {
  readonly signal: AbortSignal;
  readonly trusted: Stopwatch;
  readonly served: Stopwatch;
  readonly replicas: ReplicaObserver;
}

/**
 * Keeps the Secret with the authority and the serving certificate of all replicas, and lets API servers trust them: first
 * an authority is trusted everywhere, then it signs, then all replicas serve what it signed, and only then the one
 * before is trusted no more. What API servers trust says how far that has come, so it goes on wherever a leader stopped.
 */
export function createServingCertificate(options: ServingCertificateOptions): Controller {
  const { secret: place, names, date, metrics, settleMs = SETTLE_MS } = options;
  const fieldManager = SERVING_CERTIFICATE_CONTROLLER;
  const isPlace = ({ metadata }: Secret): boolean =>
    metadata?.namespace === place.namespace && metadata.name === place.name;
  const tellProblems = createProblemLog();
  const tellStrange = createStrangerLog();
  let seen: Observations | undefined;
  /** Whoever leads again has missed what was in between. */
  const observationsOf = ({ signal }: ReconcileContext): Observations => {
    if (seen?.signal !== signal) {
      seen = { signal, trusted: createStopwatch(), served: createStopwatch(), replicas: createReplicaObserver() };
    }
    return seen;
  };

  return {
    name: SERVING_CERTIFICATE_CONTROLLER,
    runs: 'leader',
    keys: [KEY],
    sources: [
      on('Secret', (secret) => (isPlace(secret) ? [KEY] : [])),
      on('ValidatingWebhookConfiguration', (one) => (isInjectedFrom(one, place) ? [KEY] : [])),
      on('MutatingWebhookConfiguration', (one) => (isInjectedFrom(one, place) ? [KEY] : [])),
      on('Lease', (lease) => (lease.metadata?.namespace === place.namespace && isReplicaLease(lease) ? [KEY] : [])),
    ],
    maxRetryMs: MAX_RETRY_MS,
    async reconcile(_key, context) {
      const { store } = context.cluster;
      const { trusted, served, replicas } = observationsOf(context);
      const [now, nowMs] = [date(), context.now()];
      const secret = store.get('Secret', place.name, place.namespace);
      const { ours: configurations, strange } = injectedConfigurations(store, place);
      tellStrange(strange, context);
      const held = heldBundles(configurations);
      const { keyring, problems } = secret
        ? readKeyring(textsOf(secret), { now, trusted: held.flatMap(readCertificates) })
        : { keyring: {}, problems: [`there is no Secret ${place.name}`] };
      tellProblems(problems, secret, context);

      const ours = authoritiesOf(keyring);
      const isTrusted = decisiveBundles(configurations).every((bundle) => holdsAll(bundle, ours));
      const trustedMs = trusted.msOf(isTrusted ? ours.map(fingerprintOf).join() : undefined, nowMs);
      const asked = rotationAsked(secret);
      const plan = planKeyring({ keyring, problems, names, asked, trustedMs, settleMs, now });
      const current = plan.step === undefined ? keyring : takeStep(plan.step, { keyring, names, now });
      const isAnswered = asked === undefined || plan.reason === ASKED_FOR || current.next !== undefined;
      const write = { fieldManager, place, secret, keyring: current, asked: isAnswered ? 'answered' : 'open' } as const;
      const written = await writeKeyring(write, context);
      if (written) tellStep(plan, written, metrics, context);

      const live = replicas
        .observe(store.list('Lease', place.namespace), nowMs)
        .filter(({ state }) => state === 'live');
      const serving = fingerprintOf(current.serving?.cert ?? '');
      const isServed = live.length > 0 && live.every((replica) => replica.serving === serving);
      const servedMs = served.msOf(isServed ? serving : undefined, nowMs);
      const isOursServed = servedMs !== undefined && servedMs >= settleMs;
      const bundle = planBundle({ ours: authoritiesOf(current), held, isOursServed, now });
      const retired = await applyBundle({ fieldManager, place, configurations, bundle }, context);
      if (retired.size > 0) tellRetired(retired.size, written ?? secret, context);

      const untilServedMs = isOursServed ? MAX_AGAIN_MS : settleMs - (servedMs ?? 0);
      return { requeueAfterMs: Math.max(1, Math.min(plan.againMs, untilServedMs)) };
    },
  };
}

function authoritiesOf({ authority, next }: Keyring): readonly string[] {
  return [authority, next].flatMap((one) => (one ? [one.cert] : []));
}

/** Logs what is wrong with a Secret, once until that changes. */
function createProblemLog() {
  let told = '';
  return (problems: readonly string[], secret: Secret | undefined, { logger }: ReconcileContext): void => {
    const text = problems.join('; ');
    if (secret && text !== '' && text !== told) {
      logger.warn(
        { secret: secret.metadata?.name, problems },
        'the Secret of the certificates is damaged, it is set right',
      );
    }
    told = text;
  };
}

/** Logs which configurations ask in vain, once until that changes. */
function createStrangerLog() {
  let told = '';
  return (strange: readonly InjectedConfiguration[], { logger }: ReconcileContext): void => {
    const configurations = strange.map(({ kind, name }) => `${kind} ${name}`);
    const text = configurations.join();
    if (text !== '' && text !== told) {
      logger.warn(
        { configurations },
        'configurations that are not those of the installation ask for its authorities: caBundle is left as it is',
      );
    }
    told = text;
  };
}
