import { rolloutOf, type RolloutPlace } from '../cluster/rollout.ts';
import { POD_SECURITY_CONFIG_MAP, RAISED_AT_ANNOTATION } from '../kube/installation.ts';
import { readTimestamp } from '../kube/timestamp.ts';
import type { PodSecurityConfiguration } from '../policy/psa/configuration.ts';
import { planEffect, raiseOf } from '../policy/rollout/enforcement.ts';
import type { ManagementSettings } from '../policy/rollout/label-sync.ts';
import type { RolloutSettings } from '../policy/rollout/rollout-settings.ts';
import { on, type Controller, type ReconcileResult } from './controller.ts';
import { tellConditions } from './psa-config/conditions.ts';
import { createStandings, type NamespaceLabels } from './psa-config/namespace-labels.ts';
import { publish } from './psa-config/publish.ts';
import { currentOf } from './psa-config/replicas.ts';
import { createReplicaObserver, isReplicaLease } from './replica-leases.ts';
import { createStopwatch } from './stopwatch.ts';

export const PSA_CONFIG_OBSERVER = 'pod-security-config-observer';

export interface ConfigObserverOptions {
  /** Of the installation. */
  readonly namespace: string;
  /** Ours. */
  readonly version: string;
  settings(): RolloutSettings;
  /** Of the configuration file. */
  exemptions(): PodSecurityConfiguration['exemptions'];
  readonly management: ManagementSettings;
  readonly date: () => Date;
}

const fieldManager = PSA_CONFIG_OBSERVER;
const KEY = 'cluster';
/** How soon to look again at what tells nothing when it changes: that labels have settled, that a replica is gone. */
const LOOK_AGAIN_MS = 5_000;
/** Who has not looked for longer does not know whether labels were there all the time. */
const UNSEEN_MS = 4 * LOOK_AGAIN_MS;

/**
 * Makes the controller that publishes the default level: up once it is wanted, all managed namespaces have had their labels
 * for a while and the last time is long enough ago; down as soon as it is not wanted. What becomes of labels is part of it:
 * they are given up when no replica can hold anybody to the raised default any more.
 */
export function createConfigObserver(options: ConfigObserverOptions): Controller {
  const { namespace, version, date } = options;
  const replicas = createReplicaObserver();
  const labelled = createStopwatch();
  const wanted = createStopwatch();
  const standings = createStandings(options.management);
  let lookedMs: number | undefined;

  /** Since when things are as they are: not known to whoever has just begun to look. */
  const since = (labels: NamespaceLabels, want: boolean, nowMs: number) => {
    const isNew = lookedMs === undefined || nowMs - lookedMs > UNSEEN_MS;
    lookedMs = nowMs;
    if (isNew) for (const watch of [labelled, wanted]) watch.msOf(undefined, nowMs);
    const labelledMs = labelled.msOf(labels.unlabelled.length === 0 ? 'all' : undefined, nowMs);
    const wantedMs = wanted.msOf(want ? 'yes' : undefined, nowMs);
    return {
      labelledSinceMs: labelledMs === undefined ? undefined : nowMs - labelledMs,
      decidedAtMs: wantedMs === undefined ? undefined : nowMs - wantedMs,
    };
  };

  return {
    name: PSA_CONFIG_OBSERVER,
    runs: 'leader',
    keys: [KEY],
    sources: [
      on('PSAEnforcementConfig', () => [KEY]),
      on('FeatureGate', () => [KEY]),
      on('ConfigMap', ({ metadata }) => (metadata?.name === POD_SECURITY_CONFIG_MAP ? [KEY] : [])),
      on('Lease', (lease) => (isReplicaLease(lease) ? [KEY] : [])),
    ],
    async reconcile(_key, context): Promise<ReconcileResult> {
      const settings = options.settings();
      // Nothing is touched then; the settings may change any time.
      if (settings.phase === 'Disabled') return { requeueAfterMs: LOOK_AGAIN_MS };
      const { cluster, now } = context;
      const { store } = cluster;
      const place: RolloutPlace = { store, namespace, version };
      const configMap = store.get('ConfigMap', POD_SECURITY_CONFIG_MAP, namespace);
      const saidMs = readTimestamp(configMap?.metadata?.annotations?.[RAISED_AT_ANNOTATION]);
      // A time to come is that of a clock that was wrong.
      const raisedAtMs = saidMs === undefined ? undefined : Math.min(saidMs, date().getTime());
      const labels = await standings.look(store, date().getTime(), context);
      // From here on all is of one moment.
      const view = rolloutOf(place, settings);
      const live = replicas.observe(store.list('Lease', namespace), now()).filter(({ state }) => state === 'live');
      const leases = live.flatMap(({ name }) => store.get('Lease', name, namespace) ?? []);
      const currentEnforce = currentOf(view, leases, raisedAtMs !== undefined);
      const { isSettled, waitMs } = raiseOf({
        nowMs: now(),
        ...since(labels, view.want, now()),
        lastRaiseMs: raisedAtMs === undefined ? undefined : now() - (date().getTime() - raisedAtMs),
        settleMs: settings.raiseSettleMs,
      });
      const effect = planEffect({ want: view.want, currentEnforce, isSettled });
      await publish({ ...options, fieldManager, view, effect, configMap, raisedAtMs }, context);
      await tellConditions(
        { fieldManager, settings, view, effect, labels, leases, currentEnforce, date: date() },
        context,
      );
      return { requeueAfterMs: Math.min(waitMs ?? LOOK_AGAIN_MS, LOOK_AGAIN_MS) };
    },
  };
}
