import { createHash } from 'node:crypto';
import type { Store } from '../cluster/store.ts';
import type { Secret, Kind, Lease } from '../kube/types.ts';
import {
  CONFIGURATION_KINDS,
  enforcingWebhooks,
  isInstalled,
  isPartOfPortcullis,
  getWebhooks,
  type WebhookConfiguration,
} from '../kube/webhooks.ts';
import { keyPairError, type KeyPair } from '../tls/key-pair.ts';
import { fingerprintOf } from '../tls/pem.ts';
import { findTrustProblems, type Service } from '../tls/served-trust.ts';
import { textsOf, type SecretPlace } from './serving-certificate.ts';
import type { Cluster } from '../cluster/cluster.ts';
import {
  COMPONENT_LABEL,
  PART_OF,
  PART_OF_LABEL,
  REPLICA,
  SERVING_CERTIFICATE_ANNOTATION,
} from '../kube/well-known.ts';
import { ApiError } from '../kube/status.ts';
import { on, type Controller, type ReconcileContext, type ReconcileResult, createStopwatch } from './controller.ts';
import { heldSpec } from './leadership.ts';
import { createReplicaObserver, REPLICA_LEASE_MS } from './replica-leases.ts';

/** The configurations of webhooks that are those of the installation. */
export function ourConfigurations(store: Store): readonly WebhookConfiguration[] {
  return CONFIGURATION_KINDS.flatMap((kind) =>
    store
      .list(kind)
      .filter((one: WebhookConfiguration) => isPartOfPortcullis(one) && isInstalled(kind, one.metadata?.name)),
  );
}

/** Those that say that they are ours, but have other names: copies, and what another version has left. */
export function strangeConfigurations(store: Store): readonly WebhookConfiguration[] {
  return CONFIGURATION_KINDS.flatMap((kind) =>
    store
      .list(kind)
      .filter((one: WebhookConfiguration) => isPartOfPortcullis(one) && !isInstalled(kind, one.metadata?.name)),
  );
}

/** A text that changes with whom API servers trust where that counts. */
function trustMark(configurations: readonly WebhookConfiguration[]): string {
  const bundles = enforcingWebhooks(configurations.flatMap(getWebhooks)).map(
    ({ name, caBundle }) => `${name} ${caBundle}`,
  );
  return createHash('sha256').update(bundles.join('\n')).digest('hex');
}

/** The pair that the Secret offers, or what is wrong with it. */
function offeredPair(secret: Secret | undefined, now: Date): KeyPair | { readonly problem: string } {
  if (!secret) return { problem: 'there is no Secret yet' };
  const texts = textsOf(secret);
  const pair = { cert: texts.get('tls.crt') ?? '', key: texts.get('tls.key') ?? '' };
  const problem = keyPairError(pair, { cert: 'tls.crt', key: 'tls.key' }, now);
  return problem === undefined ? pair : { problem };
}

interface ServeChoice {
  /** What is served now; absent: only something for the meantime. */
  readonly current: KeyPair | undefined;
  readonly offered: KeyPair;
  readonly configurations: readonly WebhookConfiguration[];
  /** How long they have trusted the same. */
  readonly unchangedMs: number;
  readonly service: Service;
  readonly now: Date;
}

/** Of two pairs that API servers take the new one is served when all of them have had so long to learn of its authority. */
const KNOWN_MS = 10_000;

/** In how many milliseconds the offered pair is to be served: 0 at once, `undefined` not before more of them trust it. */
function serveInMs(choice: ServeChoice): number | undefined {
  const { current, offered, unchangedMs } = choice;
  if (!current) return 0;
  if (fingerprintOf(current.cert) === fingerprintOf(offered.cert)) return undefined;
  const isTaken = (pair: KeyPair): boolean => findTrustProblems({ ...choice, pair }).length === 0;
  // What nobody takes is not worth keeping.
  if (!isTaken(current)) return 0;
  return isTaken(offered) ? Math.max(0, KNOWN_MS - unchangedMs) : undefined;
}

export const REPLICA_CONTROLLER = 'replica-controller';

/** What this replica serves, and the way to serve something else. */
export interface ServedPair {
  current(): KeyPair;
  /** True if it is nothing but a stand-in until there is a better one. */
  isTemporary(): boolean;
  use(pair: KeyPair): void;
}

interface ReplicaOptions {
  readonly cluster: Pick<Cluster, 'remove'>;
  /** Of the replica, alike after a restart: no two that run have the same. */
  readonly name: string;
  /** Of this process. */
  readonly identity: string;
  readonly namespace: string;
  readonly service: Service;
  readonly served: ServedPair;
  /** Where to take the pair from; absent: it comes from elsewhere. */
  readonly secret?: SecretPlace;
  readonly date: () => Date;
  readonly announcement?: Announcement;
}

/** What else the replica says of itself. */
export interface Announcement {
  /** What it hangs on. */
  readonly kinds: readonly Kind[];
  /** Annotations of its Lease. */
  annotations(store: Store): Readonly<Record<string, string>>;
}

export interface Replica {
  readonly controller: Controller;
  /** Takes back for good what the replica has said of itself. */
  leave(): Promise<void>;
}

const BY_US = { fieldManager: REPLICA_CONTROLLER };
const LEASE = 'lease';
const CERTIFICATE = 'certificate';
const RENEW_MS = 15_000;
/** Certificates become valid and expire by themselves. */
const LOOK_AGAIN: ReconcileResult = { requeueAfterMs: 60_000 };
/** After such a silence nobody comes back: pods have other names after a restart. */
const GONE_MS = 600_000;
const LABELS = { 'app.kubernetes.io/name': PART_OF, [PART_OF_LABEL]: PART_OF, [COMPONENT_LABEL]: REPLICA };

/**
 * Makes what a replica does for itself: it serves what the Secret of the certificates offers as soon as API servers take
 * it, and says in a Lease of its own that it is alive and what it serves.
 */
export function createReplica(options: ReplicaOptions): Replica {
  const { name, namespace, secret: place, served } = options;
  const unchanged = createStopwatch();
  const others = createReplicaObserver();
  let told = '';
  let isLeaving = false;
  let announced = '';
  const announce = (store: Store): Readonly<Record<string, string>> => options.announcement?.annotations(store) ?? {};

  const follow = (
    place: SecretPlace,
    { cluster: { store }, logger, now, enqueue }: ReconcileContext,
  ): ReconcileResult => {
    const date = options.date();
    const configurations = ourConfigurations(store);
    const unchangedMs = unchanged.msOf(trustMark(configurations), now()) ?? 0;
    const secret = store.get('Secret', place.name, place.namespace);
    const offered = offeredPair(secret, date);
    if ('problem' in offered) {
      const line = { secret: place.name, reason: offered.problem };
      // In the beginning there is none.
      const level = secret ? 'warn' : 'info';
      if (told !== offered.problem) logger[level](line, 'no serving certificate to load, the last one stays');
      told = offered.problem;
      return LOOK_AGAIN;
    }
    told = '';
    const current = served.isTemporary() ? undefined : served.current();
    const dueMs = serveInMs({ current, offered, configurations, unchangedMs, service: options.service, now: date });
    if (dueMs === undefined) return LOOK_AGAIN;
    if (dueMs > 0) return { requeueAfterMs: dueMs };
    served.use(offered);
    enqueue(LEASE);
    return undefined;
  };

  const renew = async ({ cluster, now }: ReconcileContext): Promise<ReconcileResult> => {
    const known = cluster.store.get('Lease', name, namespace);
    const more = announce(cluster.store);
    announced = JSON.stringify(more);
    const holding = { identity: options.identity, durationMs: REPLICA_LEASE_MS, date: options.date() };
    const metadata = {
      ...(known?.metadata ?? { name, namespace }),
      labels: { ...known?.metadata?.labels, ...LABELS },
      annotations: {
        ...known?.metadata?.annotations,
        ...more,
        [SERVING_CERTIFICATE_ANNOTATION]: fingerprintOf(served.current().cert),
      },
    };
    await write(cluster, { ...known, metadata, spec: heldSpec(known, holding) }, known !== undefined);
    for (const other of others.observe(cluster.store.list('Lease', namespace), now())) {
      if (other.silentMs >= GONE_MS) await removeLease(cluster, other.name, namespace);
    }
    return { requeueAfterMs: RENEW_MS };
  };

  return {
    controller: {
      name: REPLICA_CONTROLLER,
      runs: 'replica',
      keys: place ? [CERTIFICATE, LEASE] : [LEASE],
      sources: [
        ...(options.announcement?.kinds ?? []).map((kind) =>
          on(kind, (_object, store) => (JSON.stringify(announce(store)) === announced ? [] : [LEASE])),
        ),
        on('Lease', ({ metadata }, store) =>
          metadata?.name === name && metadata.namespace === namespace && !store.get('Lease', name, namespace)
            ? [LEASE]
            : [],
        ),
        ...(place
          ? [
              on('Secret', ({ metadata }) =>
                metadata?.name === place.name && metadata.namespace === place.namespace ? [CERTIFICATE] : [],
              ),
              on('ValidatingWebhookConfiguration', () => [CERTIFICATE]),
              on('MutatingWebhookConfiguration', () => [CERTIFICATE]),
            ]
          : []),
      ],
      maxRetryMs: RENEW_MS,
      async reconcile(key, context) {
        if (key === LEASE) return isLeaving ? undefined : renew(context);
        return place && follow(place, context);
      },
    },
    leave() {
      isLeaving = true;
      return removeLease(options.cluster, name, namespace);
    },
  };
}

async function write(cluster: Cluster, lease: Lease, exists: boolean): Promise<void> {
  try {
    await (exists ? cluster.update('Lease', lease, BY_US) : cluster.create('Lease', lease, BY_US));
  } catch (error) {
    // It is gone, or there is nothing yet that it could be in: either way it comes again.
    if (!(error instanceof ApiError && error.status.code === 404)) throw error;
    throw new Error(`the Lease ${lease.metadata?.name ?? ''} cannot be written`, { cause: error });
  }
}

async function removeLease(cluster: Pick<Cluster, 'remove'>, name: string, namespace: string): Promise<void> {
  try {
    await cluster.remove('Lease', name, namespace);
  } catch (error) {
    if (!(error instanceof ApiError && error.status.code === 404)) throw error;
  }
}
