/** Controllers, their context, and helpers that they share. */
import { setImmediate } from 'node:timers/promises';
import type { V1PolicyRule } from '@kubernetes/client-node';
import type { Clock } from '../cluster/clock.ts';
import type { Cluster, ClusterEvent, WriteOptions } from '../cluster/cluster.ts';
import type { Store } from '../cluster/store.ts';
import type { Observable, Settings, SettingsStatus } from '../config/settings.ts';
import type { Kind, Kinds } from '../kube/kinds.ts';
import { getApiVersion, RESOURCES, typeMeta } from '../kube/resources.ts';
import { ApiError } from '../kube/status.ts';
import type { JsonObject, KubeObject, ObjectMeta, Wire } from '../kube/types.ts';
import {
  CONFIGURATION_KINDS,
  configurationFeature,
  INSTALLED_CONFIGURATIONS,
  type WebhookRegistration,
} from '../kube/webhooks.ts';
import { OPTIONAL_FEATURES, type OptionalFeature } from '../kube/well-known.ts';
import type { Version } from '../policy/pss/policy.ts';
import {
  type AffectedNamespaces,
  type AffectingKind,
  findAffectedNamespaces,
} from '../policy/rollout/affected-namespaces.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import type { KeyPair } from '../tls/certificate-pair.ts';
import type { ServerNames } from '../tls/issue.ts';
import type { Service } from '../tls/trust.ts';

/** A controller in the registry. The RBAC manifests, the settings and the reference are generated from it. */
export interface ControllerDefinition {
  /** Name in settings, logs and metrics, and as the reporting controller of events. */
  readonly name: string;
  /** One line for the help and the reference. */
  readonly description: string;
  /** `leader`: runs on one replica at a time; `replica`: runs on every replica. */
  readonly runsOn: 'leader' | 'replica';
  readonly permissions: readonly PermissionSet[];
  /** True if `create` reads the settings for SCC admission, ranges or defaults. */
  readonly readsSettings?: boolean;
  isEnabled(features: Features): boolean;
  create(context: ControllerContext): Reconciler;
}

/** Features of an installation that determine which controllers run and which permissions they need. */
export interface Features {
  /** SCC admission is not `off`. */
  readonly scc: boolean;
  /** The rollout of enforcement is not `Disabled`. */
  readonly rollout: boolean;
  /** The rollout permissions are installed, so workloads are evaluated in every phase. */
  readonly evaluation: boolean;
  /** The standard SCCs are maintained (`spec.scc.standardSCCs: install`). */
  readonly standardSccs: boolean;
  /** The replicas create their serving certificate and distribute its CA. */
  readonly managedCertificate: boolean;
  /** The settings come from the PortcullisConfiguration in the cluster, not from a file. */
  readonly settingsObject: boolean;
  /** Several replicas may run, and each publishes its state in a Lease. */
  readonly replicas: boolean;
  /** The leader maintains the webhook configurations. */
  readonly managedWebhooks: boolean;
  /** The minimum kubelet version feature is installed. */
  readonly kubelet: boolean;
  /** Nodes with a kubelet below the minimum are tainted (`spec.kubelet.taint`). */
  readonly kubeletTaint: boolean;
  /** Support for the Operator Lifecycle Manager is installed. */
  readonly olm: boolean;
  /** PodSecurityExceptions can apply (`spec.podSecurity.exceptions.mode` is not `off`). */
  readonly exceptions: boolean;
  /** New pods get defaults (`spec.defaults.mode` is not `off`). */
  readonly podDefaults: boolean;
}

export type PolicyRule = Wire<V1PolicyRule>;

/** Rules that are granted together by a ClusterRole and a Role with the same name. */
export interface PermissionSet {
  /** Suffix of the role name, which follows the name of the installation: `label-syncer`. */
  readonly role: string;
  readonly clusterRules?: readonly PolicyRule[];
  /** Rules that apply in the installation namespace. */
  readonly namespaceRules?: readonly PolicyRule[];
  /** Namespace labels and annotations that the controller writes. RBAC cannot limit patches to them. */
  readonly namespaceKeys?: readonly string[];
  /** If absent, the rules are needed whenever the controller is enabled. */
  isNeeded?(features: Features): boolean;
}

/** Verbs that the store needs to follow a kind. */
export const WATCH_VERBS = ['list', 'watch'] as const;

/** An RBAC rule for kinds in one API group, limited to the given object names, if any. */
export function rule(
  verbs: readonly string[],
  kinds: readonly [Kind, ...Kind[]],
  names?: readonly string[],
): PolicyRule {
  return {
    apiGroups: [RESOURCES[kinds[0]].group],
    resources: kinds.map((kind) => RESOURCES[kind].resource),
    ...(names ? { resourceNames: names } : {}),
    verbs,
  };
}

/** An RBAC rule for SubjectAccessReviews, which are not stored. */
export const ACCESS_REVIEW_RULE: PolicyRule = {
  apiGroups: ['authorization.k8s.io'],
  resources: ['subjectaccessreviews'],
  verbs: ['create'],
};

/** RBAC rules for the webhook configurations whose feature satisfies the predicate. */
export function configurationRules(
  verbs: readonly string[],
  includes: (feature: string | undefined) => boolean,
): readonly PolicyRule[] {
  return CONFIGURATION_KINDS.flatMap((kind) => {
    const names = INSTALLED_CONFIGURATIONS[kind].filter((name) => includes(configurationFeature(name)));
    return names.length === 0 ? [] : [rule(verbs, [kind], names)];
  });
}

/** True for features that are off by default. Their permissions are in separate roles. */
export function isOptionalFeature(feature: string | undefined): feature is OptionalFeature {
  return OPTIONAL_FEATURES.some((one) => one === feature);
}

/** An RBAC rule for the status subresource of a kind. */
export function statusRule(verbs: readonly string[], kind: Kind): PolicyRule {
  const { group, resource } = RESOURCES[kind];
  return { apiGroups: [group], resources: [`${resource}/status`], verbs };
}

/** Dependencies of `create`. The cluster and the logger are passed to each reconcile. */
export interface ControllerContext {
  readonly settings: Observable<Settings>;
  /** State of the document from which the settings are read. */
  settingsStatus(): SettingsStatus;
  /** PortcullisConfiguration spec fields that the leader applies when it starts. */
  readonly initialSettings: JsonObject;
  /** Service of the installation. Its namespace is the installation namespace. */
  readonly service: Service;
  /** Program version, which selects the entry of a FeatureGate. */
  readonly version: string;
  /** Version of the API server, or `undefined` until it is known. */
  readonly apiServerVersion: Observable<Version | undefined>;
  readonly replica: ReplicaIdentity;
  readonly certificate: {
    readonly served: ServedPair;
    /** Names and addresses for which a managed certificate is issued. */
    readonly names: ServerNames;
    /** `managed`: the replicas create the certificate; `provided`: it comes from files. */
    readonly source: 'managed' | 'provided';
  };
  /** Webhooks of this version, and how API servers reach them. */
  readonly webhooks: {
    readonly registrations: readonly WebhookRegistration[];
    /** Base URL of the webhooks, used instead of the Service. */
    readonly url: string | undefined;
    /** Annotations for the webhook configurations. */
    readonly annotations: Readonly<Record<string, string>>;
  };
  /** The optional features of the installation. */
  readonly features: Pick<Features, OptionalFeature>;
  readonly metrics: Metrics;
  readonly date: () => Date;
  /** Returns a number from 0 (inclusive) to 1 (exclusive). */
  readonly random: () => number;
}

export interface ReplicaIdentity {
  /** Name of the Lease of this replica. It is unique among running replicas and survives a restart. */
  readonly name: string;
  /** Unique for each process. */
  readonly identity: string;
}

/** The serving certificate of this replica. */
export interface ServedPair {
  current(): KeyPair;
  /** True for the self-signed certificate that is served until another one is available. */
  isTemporary(): boolean;
  use(pair: KeyPair): void;
}

/** Reconciles keys. Sources produce the keys. Equal keys that are waiting are merged. */
export interface Reconciler {
  readonly sources: readonly Source[];
  /** Keys to enqueue at startup, before those from the sources. */
  readonly initialKeys?: readonly string[];
  /** Interval between resyncs. A resync enqueues the keys of all objects from the sources. */
  readonly resyncMs?: number;
  /** Number of keys that are processed concurrently. Defaults to 1. */
  readonly concurrency?: number;
  /** Maximum delay before a failed key is retried. */
  readonly maxRetryMs?: number;
  /**
   * Brings the cluster to the desired state of the key. If it rejects, the key is retried with backoff, except after an
   * `ApiError` 404, because a deleted object needs no reconciliation.
   */
  reconcile(key: string, context: ReconcileContext): Promise<ReconcileResult>;
  /** Deletes the state that the controller has published. Called once, after the last reconcile. */
  onStop?(context: Pick<ReconcileContext, 'cluster' | 'logger' | 'clock'>): Promise<void>;
}

export interface Controller extends Reconciler, Pick<ControllerDefinition, 'name' | 'runsOn'> {}

/** The context of a reconcile. On the leader, writes fail as soon as leadership is lost. */
export interface ReconcileContext {
  readonly cluster: Cluster;
  readonly logger: Logger;
  readonly clock: Clock;
  /** Aborted when the controller stops. */
  readonly signal: AbortSignal;
  /** Monotonic time in milliseconds. */
  now(): number;
  /** Enqueues a key, optionally after a delay. A key that is being processed is processed again afterwards. */
  enqueue(key: string, delayMs?: number): void;
  readonly recordEvent: RecordEvent;
}

/** `requeueAfterMs`: the key is processed again after this delay. */
export type ReconcileResult = { readonly requeueAfterMs: number } | undefined;

/** Produces keys from objects of a kind or from changes to an observable value. */
export type Source = ObjectSource | ValueSource;

interface ObjectSource {
  readonly kind: Kind;
  /** If true, objects that exist at startup and resyncs produce no keys. */
  readonly isChangesOnly: boolean;
  keys(object: Kinds[Kind], store: Store, event: SourceEvent<Kind>): readonly string[];
}

interface ValueSource {
  subscribe(enqueue: (keys: readonly string[]) => void): () => void;
}

/** Reason why a source is evaluated. */
export interface SourceEvent<K extends Kind> {
  /** `put`: created or updated. `remove`: deleted. `sync`: exists at startup or during a resync. */
  readonly type: 'put' | 'remove' | 'sync';
  /** Previous version. Absent for a new object. */
  readonly before?: Kinds[K];
}

type Keys<K extends Kind> = (object: Kinds[K], store: Store, event: SourceEvent<K>) => readonly string[];

/** Produces keys from all objects of a kind at startup, during resyncs, and when they change. */
export function watch<K extends Kind>(kind: K, keys: Keys<K>, isChangesOnly = false): Source {
  return {
    kind,
    isChangesOnly,
    keys: (object, store, event) => keys(object as Kinds[K], store, event as SourceEvent<K>),
  };
}

/** Produces keys from changes to objects of a kind. */
export function watchChanges<K extends Kind>(kind: K, keys: Keys<K>): Source {
  return watch(kind, keys, true);
}

/** Computes the namespaces whose level a change to the object may affect. */
export function getAffectedNamespaces(
  kind: AffectingKind,
  object: KubeObject,
  store: Store,
  { type, before }: SourceEvent<Kind>,
): AffectedNamespaces {
  const change = type === 'remove' ? { kind, before: object } : { kind, before, after: object };
  return findAffectedNamespaces(change, {
    sccNames: store.list('SecurityContextConstraints').flatMap(({ metadata }) => metadata?.name ?? []),
    findRole: (namespace, name) =>
      namespace === '' ? store.get('ClusterRole', name) : store.get('Role', name, namespace),
  });
}

/** Produces keys whenever an observable value changes. */
export function watchValue<T>(observable: Observable<T>, keys: (value: T) => readonly string[]): Source {
  return { subscribe: (enqueue) => observable.subscribe((value) => enqueue(keys(value))) };
}

/** An event for an object, as `kubectl describe` shows it. */
export interface ControllerEvent extends Pick<ClusterEvent, 'type' | 'reason' | 'action'> {
  readonly message: string;
}

/** Records an event for an object in the background. Failures are logged. */
export type RecordEvent = (kind: Kind, object: KubeObject, event: ControllerEvent) => void;

/** The API server rejects longer messages. */
const MAX_EVENT_MESSAGE = 1000;

/** Creates the event recorder of a controller. `track` receives the promise of each write. */
export function createEventRecorder(
  cluster: Pick<Cluster, 'recordEvent'>,
  reportingController: string,
  logger: Logger,
  track: (write: Promise<void>) => void = () => undefined,
): RecordEvent {
  return (kind, { metadata }, { message, ...event }) => {
    const { name = '', namespace, uid } = metadata ?? {};
    const identity: ObjectMeta = {
      name,
      ...(namespace === undefined ? {} : { namespace }),
      ...(uid === undefined ? {} : { uid }),
    };
    const regarding = { ...typeMeta(kind), metadata: identity };
    const note = message.length > MAX_EVENT_MESSAGE ? `${message.slice(0, MAX_EVENT_MESSAGE - 1)}…` : message;
    const written = cluster.recordEvent({ ...event, note, regarding, reportingController });
    track(written.catch((err: unknown) => logger.debug({ err, reason: event.reason }, 'event not recorded')));
  };
}

/** Reviews share the thread, so a loop yields after this time. */
const SLICE_MS = 5;

/**
 * Visits all items within a time budget, yielding to other work. Items may change between visits. Rejects with the
 * signal's reason if it is aborted.
 */
export async function forEachYielding<T>(
  items: Iterable<T>,
  visit: (item: T) => void,
  { now, signal }: { now(): number; readonly signal: AbortSignal },
): Promise<void> {
  let endMs = now() + SLICE_MS;
  for (const item of items) {
    visit(item);
    if (now() < endMs) continue;
    await setImmediate();
    signal.throwIfAborted();
    endMs = now() + SLICE_MS;
  }
}

/**
 * Creates an object. If the cluster does not serve the kind, rejects with a plain error, which is retried because the
 * CRD may be installed later.
 */
export async function createObject<K extends Kind>(
  cluster: Cluster,
  kind: K,
  object: Kinds[K],
  options: WriteOptions,
): Promise<Kinds[K]> {
  try {
    return await cluster.create(kind, object, options);
  } catch (error) {
    if (!isNotFound(error)) throw error;
    const { group, resource } = RESOURCES[kind];
    throw new Error(`the cluster does not serve ${resource}.${group}: install its CustomResourceDefinition`, {
      cause: error,
    });
  }
}

export function isNotFound(error: unknown): error is ApiError {
  return error instanceof ApiError && error.status.code === 404;
}

/** Resolves to `undefined` instead of rejecting with an `ApiError` 404. */
export async function orUndefined<T>(result: Promise<T>): Promise<T | undefined> {
  try {
    return await result;
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
}

/**
 * Makes a ClusterRole of the installation the owner of an object. When the role is deleted, the garbage collector
 * deletes the object, because no replica could delete it without the role. A replica outside the cluster may have no
 * ClusterRole.
 */
export async function withOwner(metadata: ObjectMeta, role: string, cluster: Cluster): Promise<ObjectMeta> {
  const owner = await orUndefined(cluster.get('ClusterRole', role));
  const uid = owner?.metadata?.uid;
  if (uid === undefined) return metadata;
  const others = (metadata.ownerReferences ?? []).filter(({ name }) => name !== role);
  const own = { apiVersion: getApiVersion('ClusterRole'), kind: 'ClusterRole', name: role, uid };
  return { ...metadata, ownerReferences: [...others, own] };
}

export type Stopwatch = ReturnType<typeof createStopwatch>;

/** Measures how long a state has lasted. */
export function createStopwatch() {
  let seen: { readonly state: string; readonly sinceMs: number } | undefined;
  return {
    /**
     * Milliseconds since the state was first observed. It is 0 if the state has just changed. Returns `undefined` if
     * the state is `undefined`.
     */
    elapsedMs(state: string | undefined, nowMs: number): number | undefined {
      if (state === undefined) seen = undefined;
      else if (seen?.state !== state) seen = { state, sinceMs: nowMs };
      return seen && nowMs - seen.sinceMs;
    },
  };
}
