import type { Store } from '../cluster/store.ts';
import { ROTATE_ANNOTATION, COMPONENT_LABEL, PART_OF, PART_OF_LABEL } from '../kube/well-known.ts';
import type { Secret, JsonObject } from '../kube/types.ts';
import {
  CONFIGURATION_KINDS,
  enforcingWebhooks,
  caSecretReference,
  isInstalled,
  getWebhooks,
  type ConfigurationKind,
  type RegisteredWebhook,
  type WebhookConfiguration,
} from '../kube/webhooks.ts';
import { pemOf, holdSame, removedBy, holdsAll, planBundle } from '../tls/bundle.ts';
import {
  ROTATIONS,
  type Rotation,
  type KeyringPlan,
  type Step,
  ASKED_FOR,
  planKeyring,
  SETTLE_MS,
  takeStep,
} from '../tls/plan-keyring.ts';
import { ApiError } from '../kube/status.ts';
import { fingerprint, readCertificates, fingerprintOf } from '../tls/pem.ts';
import { type ReconcileContext, on, type Controller, createStopwatch, type Stopwatch } from './controller.ts';
import { KEYRING_FILES, printKeyring, type Keyring, readKeyring } from '../tls/keyring.ts';
import { getApiVersion } from '../kube/resources.ts';
import type { CertificateMetrics } from '../telemetry/certificates.ts';
import type { ServerNames } from '../tls/self-signed.ts';
import { createReplicaObserver, isReplicaLease, type ReplicaObserver } from './replica-leases.ts';

/** Where the Secret of the certificates is. */
export interface SecretPlace {
  readonly namespace: string;
  readonly name: string;
}

/** A configuration whose webhooks are to trust what the Secret holds. */
interface InjectedConfiguration {
  readonly kind: ConfigurationKind;
  readonly name: string;
  readonly webhooks: readonly Pick<RegisteredWebhook, 'name' | 'caBundle' | 'failurePolicy'>[];
}

/** True if the configuration asks for the authorities of that Secret. */
function isInjectedFrom(configuration: WebhookConfiguration, { namespace, name }: SecretPlace): boolean {
  return caSecretReference(configuration) === `${namespace}/${name}`;
}

interface InjectedConfigurations {
  /** Those of the installation. */
  readonly ours: readonly InjectedConfiguration[];
  /** Those that nobody here may write. */
  readonly strange: readonly InjectedConfiguration[];
}

/** The configurations that ask for the authorities of that Secret. */
function injectedConfigurations(store: Store, place: SecretPlace): InjectedConfigurations {
  const all = CONFIGURATION_KINDS.flatMap((kind) =>
    store
      .list(kind)
      .filter((configuration: WebhookConfiguration) => isInjectedFrom(configuration, place))
      .map((configuration: WebhookConfiguration) => ({
        kind,
        name: configuration.metadata?.name ?? '',
        webhooks: getWebhooks(configuration),
      })),
  );
  return {
    ours: all.filter(({ kind, name }) => isInstalled(kind, name)),
    strange: all.filter(({ kind, name }) => !isInstalled(kind, name)),
  };
}

/** Whom API servers trust, in PEM, each text once. */
function heldBundles(configurations: readonly InjectedConfiguration[]): readonly string[] {
  return bundlesOf(configurations.flatMap(({ webhooks }) => webhooks));
}

/** Whom they trust where that counts. */
function decisiveBundles(configurations: readonly InjectedConfiguration[]): readonly string[] {
  return bundlesOf(enforcingWebhooks(configurations.flatMap(({ webhooks }) => webhooks)));
}

function bundlesOf(webhooks: readonly Pick<RegisteredWebhook, 'caBundle'>[]): readonly string[] {
  return [...new Set(webhooks.map(({ caBundle }) => caBundle))].map(pemOf);
}

/** The texts of a Secret by their names. */
export function textsOf(secret: Secret | undefined): ReadonlyMap<string, string> {
  const data = Object.entries(secret?.data ?? {});
  return new Map(data.map(([name, value]) => [name, pemOf(value)]));
}

/** What somebody has asked for; what is no such word counts for nothing. */
function rotationAsked(secret: Secret | undefined): Rotation | undefined {
  const asked = secret?.metadata?.annotations?.[ROTATE_ANNOTATION];
  return ROTATIONS.find((one) => one === asked);
}

interface BundleWrite {
  readonly fieldManager: string;
  /** Where the authorities of the bundle are from. */
  readonly place: SecretPlace;
  readonly configurations: readonly InjectedConfiguration[];
  /** In PEM. */
  readonly bundle: string;
}

/**
 * Lets all webhooks of the configurations trust the bundle, and changes nothing else in them; resolves to the SHA-256 of the
 * certificates that it took out of them. One that fails does not keep others from it; rejects with the first error when
 * all have been tried.
 */
async function applyBundle(write: BundleWrite, context: ReconcileContext): Promise<ReadonlySet<string>> {
  const { configurations, bundle, fieldManager } = write;
  const { cluster, logger } = context;
  const caBundle = Buffer.from(bundle).toString('base64');
  const errors: unknown[] = [];
  const removed = new Set<string>();
  for (const { kind, name, webhooks } of configurations) {
    if (webhooks.every((webhook) => holdSame(pemOf(webhook.caBundle), bundle))) continue;
    try {
      const removals = webhooks.flatMap((webhook) => removedBy(pemOf(webhook.caBundle), bundle));
      if (removals.length > 0 && !(await isCurrent(write.place, context))) continue;
      // Of a configuration that is gone meanwhile, too much is missing for the API server to make one of it.
      const trusting: JsonObject = {
        metadata: { name },
        webhooks: webhooks.map((webhook) => ({ name: webhook.name, clientConfig: { caBundle } })),
      };
      await cluster.apply(kind, trusting, { fieldManager, force: true });
      for (const cert of removals) removed.add(fingerprint(cert));
      logger.info({ kind, name, authorities: readCertificates(bundle).length }, 'caBundle applied');
    } catch (error) {
      errors.push(error);
    }
  }
  if (errors.length > 0) throw errors[0];
  return removed;
}

/** False if another leader has gone further than the store knows: then that one knows what may be removed. */
async function isCurrent({ namespace, name }: SecretPlace, { cluster }: ReconcileContext): Promise<boolean> {
  try {
    const { metadata } = await cluster.get('Secret', name, namespace);
    return metadata?.resourceVersion === cluster.store.get('Secret', name, namespace)?.metadata?.resourceVersion;
  } catch (error) {
    if (error instanceof ApiError && error.status.code === 404) return false;
    throw error;
  }
}

interface SecretWrite {
  readonly fieldManager: string;
  readonly place: SecretPlace;
  /** As it was read. */
  readonly secret: Secret | undefined;
  readonly keyring: Keyring;
  /** Takes away what somebody asked for. */
  readonly asked: 'answered' | 'open';
}

const LABELS = { 'app.kubernetes.io/name': PART_OF, [PART_OF_LABEL]: PART_OF, [COMPONENT_LABEL]: 'certificates' };

/**
 * Writes the keyring into its Secret, and returns what was written; `undefined` if that holds it already. Rejects with
 * an `ApiError` 409 if somebody else has written in the meantime.
 */
async function writeKeyring(write: SecretWrite, { cluster }: ReconcileContext): Promise<Secret | undefined> {
  const { fieldManager, place, secret } = write;
  const data = dataOf(secret, write.keyring);
  const metadata = metadataOf(write);
  const isSame = secret !== undefined && hasSame(data, secret.data ?? {});
  if (isSame && metadata === secret.metadata) return undefined;
  // The content of an immutable one can only be replaced.
  if (secret?.immutable === true) await cluster.remove('Secret', place.name, place.namespace);
  if (secret !== undefined && secret.immutable !== true) {
    return cluster.update('Secret', { ...secret, metadata, data }, { fieldManager });
  }
  try {
    const fresh: Secret = { metadata: { ...place, labels: LABELS }, type: 'Opaque', data };
    return await cluster.create('Secret', fresh, { fieldManager });
  } catch (error) {
    // 404 is about what it would be in, which may still come.
    if (!(error instanceof ApiError && error.status.code === 404)) throw error;
    throw new Error(`there is no namespace ${place.namespace}`, { cause: error });
  }
}

function metadataOf({ secret, asked, place }: SecretWrite): NonNullable<Secret['metadata']> {
  const metadata: NonNullable<Secret['metadata']> = secret?.metadata ?? place;
  const { [ROTATE_ANNOTATION]: word, ...annotations } = metadata.annotations ?? {};
  return word === undefined || asked === 'open' ? metadata : { ...metadata, annotations };
}

/** What else the Secret holds stays. */
function dataOf(secret: Secret | undefined, keyring: Keyring): Readonly<Record<string, string>> {
  const others = Object.entries(secret?.data ?? {}).filter(([name]) => !KEYRING_FILES.includes(name));
  const texts = [...printKeyring(keyring)].map(([name, text]) => [name, Buffer.from(text).toString('base64')] as const);
  return Object.fromEntries([...others, ...texts]);
}

function hasSame(a: Readonly<Record<string, string>>, b: Readonly<Record<string, string>>): boolean {
  const others = Object.entries(b);
  return (
    Object.keys(a).length === others.length &&
    others.every(([name, value]) => Object.hasOwn(a, name) && a[name] === value)
  );
}

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
      apiVersion: getApiVersion('Secret'),
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
