/** Interfaces of controllers, and helpers that controllers share. */
import type { OptionalFeature } from '../api/names.ts';
import type { WebhookRegistration } from '../api/webhooks.ts';
import { ignoreNotFound, isNotFound } from '../cluster/client.ts';
import { type Clock, createTurn } from '../cluster/clock.ts';
import type { Cluster, WriteOptions } from '../cluster/cluster.ts';
import type { Store } from '../cluster/store.ts';
import type { Observable, Settings, SettingsStatus } from '../config/settings.ts';
import type { Kind, Kinds } from '../kube/kinds.ts';
import { getApiVersion, RESOURCES } from '../kube/resources.ts';
import type { JsonObject, KubeObject, ObjectMeta } from '../kube/types.ts';
import type { Version } from '../policy/pss/index.ts';
import { type AffectedNamespaces, type AffectingKind, findAffectedNamespaces } from '../policy/rollout/index.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import type { KeyPair, ServerNames, Service } from '../tls/index.ts';
import type { NamespaceEvaluations } from './evaluations.ts';
import type { RecordEvent } from './events.ts';
import type { Features, PermissionSet } from './permissions.ts';
import type { RemovedGrants } from './removed-grants.ts';

/** A registered controller. The RBAC manifests, the settings and the reference documentation are generated from it. */
export interface ControllerDefinition {
  /** Name in settings, logs, metrics and events. */
  readonly name: string;
  /** Description for the reference documentation. Begins with a verb in lower case and has no final period. */
  readonly description: string;
  /** `leader` controllers run on one replica at a time, and `replica` controllers run on every replica. */
  readonly runsOn: 'leader' | 'replica';
  readonly permissions: readonly PermissionSet[];
  /**
   * Name of the controller to which this controller belongs. If that controller is disabled, this controller is
   * disabled too.
   */
  readonly disabledWith?: string;
  /** True if `create` reads the settings for SCC admission, ranges or defaults. */
  readonly readsSettings?: boolean;
  isEnabled(features: Features): boolean;
  /**
   * Creates the reconciler without side effects. Each start creates a new reconciler, so no state outlives a term of
   * leadership.
   */
  create(context: ControllerContext, store: Store): Reconciler;
}

/** Returns true if `spec.controllers.disabled` contains the controller, or the controller to which it belongs. */
export function isDisabled(
  { name, disabledWith = name }: Pick<ControllerDefinition, 'name' | 'disabledWith'>,
  disabled: readonly string[],
): boolean {
  return disabled.includes(name) || disabled.includes(disabledWith);
}

/** Dependencies of `create`. Each reconcile also receives the cluster and the logger. */
export interface ControllerContext {
  readonly settings: Observable<Settings>;
  /** State of the document that contains the settings. */
  settingsStatus(): SettingsStatus;
  /** Initial settings, which the leader applies when it starts. */
  readonly initialSettings: JsonObject;
  /** The installation's Service. Its namespace is the installation namespace. */
  readonly service: Service;
  /** Portcullis version, which selects the FeatureGate entry. */
  readonly version: string;
  /** The API server's version, or `undefined` until it is known. */
  readonly apiServerVersion: Observable<Version | undefined>;
  readonly replica: ReplicaIdentity;
  readonly removedGrants: RemovedGrants;
  /** The evaluations of namespaces. Empty on replicas that are not the leader. */
  readonly evaluations: NamespaceEvaluations;
  readonly certificate: {
    readonly served: ServedPair;
    /** Subject alternative names for a managed certificate. */
    readonly names: ServerNames;
    /** `managed` means that the replicas create the certificate, and `provided` means that it comes from files. */
    readonly source: 'managed' | 'provided';
  };
  /** The webhooks of this version, and the address at which API servers reach them. */
  readonly webhooks: {
    readonly registrations: readonly WebhookRegistration[];
    /** Base URL of the webhooks, instead of the Service. */
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
  /** Name of this replica's Lease, which is unique among running replicas and survives restarts. */
  readonly name: string;
  /** Identity of this process, which differs after a restart. */
  readonly identity: string;
  /** Time when this process started to respond to reviews, in Unix milliseconds. */
  readonly startMs: number;
}

/** The serving certificate of this replica. */
export interface ServedPair {
  current(): KeyPair;
  /** True while serving the self-signed certificate because no other certificate is available yet. */
  isTemporary(): boolean;
  use(pair: KeyPair): void;
}

/** Reconciles the keys that its sources produce. A key that is already waiting is not added again. */
export interface Reconciler {
  readonly sources: readonly Source[];
  /** Keys to enqueue at startup, before the keys from the sources. */
  readonly initialKeys?: readonly string[];
  /** Interval between resyncs. A resync enqueues the keys of all objects from the sources. */
  readonly resyncMs?: number;
  /** Number of keys that are processed concurrently. Defaults to 1. */
  readonly concurrency?: number;
  /** Maximum delay before a failed key is retried. */
  readonly maxRetryMs?: number;
  /**
   * Reconciles the state for the key. If it rejects, the key is retried with backoff. An `ApiError` 404 or 409 is not
   * logged as an error, because the object was usually deleted or changed in the meantime.
   */
  reconcile(key: string, context: ReconcileContext): Promise<ReconcileResult>;
  /** Deletes the state that the controller has published. Called after the last reconcile. */
  onStop?(context: Pick<ReconcileContext, 'cluster' | 'logger'> & { readonly clock: Clock }): Promise<void>;
}

/** A controller that can be started several times. */
export interface Controller extends Pick<ControllerDefinition, 'name' | 'runsOn'> {
  create(store: Store): Reconciler;
}

/** The context of a reconcile. On the leader, writes fail as soon as leadership is lost. */
export interface ReconcileContext extends YieldContext {
  readonly cluster: Cluster;
  readonly logger: Logger;
  /** Aborted when the controller stops. */
  readonly signal: AbortSignal;
  /** Enqueues a key, optionally after a delay. A key that is being processed is processed again afterwards. */
  enqueue(key: string, delayMs?: number): void;
  readonly recordEvent: RecordEvent;
}

/** `requeueAfterMs` enqueues the key again after this delay. */
export type ReconcileResult = { readonly requeueAfterMs: number } | undefined;

/** Produces keys from the objects of a kind or from changes to an observable value. */
export type Source = ObjectSource | ValueSource;

interface ObjectSource {
  readonly kind: Kind;
  /** If true, existing objects produce no keys at startup and during resyncs. */
  readonly isChangesOnly: boolean;
  keys(object: Kinds[Kind], store: Store, event: SourceEvent<Kind>): readonly string[];
}

interface ValueSource {
  subscribe(enqueue: (keys: readonly string[]) => void): () => void;
}

/** The event that a source maps to keys. */
interface SourceEvent<K extends Kind> {
  /**
   * `put` means created or updated, `remove` means deleted, and `sync` means that the object exists at startup or
   * during a resync.
   */
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

/** Time after which controllers yield, because they share the thread with reviews. */
export const SLICE_MS = 5;

/** Waits for the next turn of the event loop. In each turn, all controllers together use one time slice. */
export const nextTurn = createTurn();

/** The context of a loop that yields. */
export interface YieldContext {
  /** Returns a monotonic time in milliseconds. */
  now(): number;
  readonly signal: AbortSignal;
  /** Called with the duration of each slice. */
  onSlice?(ms: number): void;
}

/**
 * Runs all steps, but yields to other work whenever a time budget is used up. Resolves to the result of the steps.
 * Rejects with the signal's reason if the signal is aborted.
 */
export async function runYielding<T>(steps: Iterator<unknown, T>, context: YieldContext): Promise<T> {
  const { now, signal } = context;
  for (let startMs = now(); ;) {
    const step = steps.next();
    const sliceMs = now() - startMs;
    if (step.done !== true && sliceMs < SLICE_MS) continue;
    context.onSlice?.(sliceMs);
    if (step.done === true) return step.value;
    await nextTurn();
    signal.throwIfAborted();
    startMs = now();
  }
}

/** Visits all items, and yields like `runYielding`. Items may change between visits. */
export function forEachYielding<T>(items: Iterable<T>, visit: (item: T) => void, context: YieldContext): Promise<void> {
  const steps = function* (): Generator<void, void> {
    for (const item of items) {
      visit(item);
      yield;
    }
  };
  return runYielding(steps(), context);
}

/**
 * Creates an object. If the cluster does not serve the kind, rejects with a plain `Error`, which is logged because the
 * CRD must be installed.
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

/**
 * Makes one of the installation's ClusterRoles the owner of an object, so the garbage collector deletes the object with
 * the role. Without the role, no replica has permission to delete the object. Replicas outside the cluster may have no
 * ClusterRole.
 */
export async function withOwner(metadata: ObjectMeta, role: string, cluster: Cluster): Promise<ObjectMeta> {
  const owner = await ignoreNotFound(cluster.get('ClusterRole', role));
  const uid = owner?.metadata?.uid;
  if (uid === undefined) return metadata;
  const others = (metadata.ownerReferences ?? []).filter(({ name }) => name !== role);
  const own = { apiVersion: getApiVersion('ClusterRole'), kind: 'ClusterRole', name: role, uid };
  return { ...metadata, ownerReferences: [...others, own] };
}

/**
 * Time after which all API servers have observed a change to a policy or webhook configuration. They usually need about
 * 1 s.
 */
export const OBSERVED_MS = 5_000;

/**
 * Creates a function that returns the time since a state was first observed, in milliseconds. It returns 0 if the state
 * has just changed, and `undefined` if the state is `undefined`.
 */
export function createStateAge() {
  let seen: { readonly state: string; readonly sinceMs: number } | undefined;
  return (state: string | undefined, nowMs: number): number | undefined => {
    if (state === undefined) seen = undefined;
    else if (seen?.state !== state) seen = { state, sinceMs: nowMs };
    return seen && nowMs - seen.sinceMs;
  };
}
