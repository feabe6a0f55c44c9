import { CONFIGURATION_NAME } from '../api/names.ts';
import { ignoreNotFound } from '../cluster/client.ts';
import { selectObservable } from '../config/settings.ts';
import { type ConditionState, withTransitionTimes } from '../kube/conditions.ts';
import { deepEqual } from '../kube/equality.ts';
import { getMetadataOwners } from '../kube/managed-fields.ts';
import { resourceName } from '../kube/resources.ts';
import type { Namespace } from '../kube/types.ts';
import { formatTimestamp } from '../kube/units.ts';
import {
  LABEL_SYNC_LABEL,
  LABEL_SYNC_MANAGER,
  OLM_AUTO_LABELER,
  OLM_MANAGED_ANNOTATION,
  POD_SECURITY_LABELS,
} from '../kube/well-known.ts';
import {
  decideLabeling,
  hasLabelerPrefix,
  isCopied,
  type LabelerDecision,
  type LabelerInput,
  type LabelerMode,
  labelerMode,
  type LabelerTrigger,
  labelingPatch,
  OPENSHIFT_OLM,
} from '../policy/olm/index.ts';
import { UNMANAGED_NAMESPACES } from '../policy/rollout/index.ts';
import {
  type ControllerContext,
  type ControllerDefinition,
  type ReconcileContext,
  type Reconciler,
  type ReconcileResult,
  watch,
  watchChanges,
  watchValue,
} from './controller.ts';
import type { ControllerEvent } from './events.ts';
import { rbacRule, statusRule } from './permissions.ts';

const KIND = 'ClusterServiceVersion';
const OPTIONS = { fieldManager: OLM_AUTO_LABELER };

/** @see https://github.com/openshift/operator-framework-olm */
export const olmAutoLabeler: ControllerDefinition = {
  name: OLM_AUTO_LABELER,
  description: 'enables the label syncer in openshift-* namespaces that contain Operator Lifecycle Manager operators',
  runsOn: 'leader',
  permissions: [
    {
      role: 'olm-auto-labeler',
      clusterRules: [
        rbacRule(['get', 'patch'], ['Namespace']),
        rbacRule(['get'], ['Deployment'], [OPENSHIFT_OLM.name]),
        statusRule(['patch'], 'PortcullisConfiguration'),
      ],
      namespaceKeys: [LABEL_SYNC_LABEL, OLM_MANAGED_ANNOTATION],
    },
  ],
  isEnabled: ({ olm }) => olm,
  create: createReconciler,
};

/** Key for the mode and the condition. Other keys are namespace names. */
const ALL = '*';
/** Interval for checking whether the Operator Lifecycle Manager is installed. */
const CHECK_MS = 30_000;
const RESYNC_MS = 600_000;
/**
 * Delay before labels are removed, because an upgrade may delete an operator shortly before it creates the next
 * version.
 */
const SETTLE_MS = 10_000;

type Active = Pick<LabelerInput, 'mode'>;
type Triggers = ReturnType<typeof createTriggers>;

function createReconciler({ settings, date }: ControllerContext): Reconciler {
  const triggers = createTriggers();
  const labeler = createLabeler(triggers);
  /** Settings at the last evaluation of all namespaces. Absent while the controller is idle. */
  let active: Active | undefined;

  /** Enqueues all namespaces if the Operator Lifecycle Manager has been installed or the settings have changed. */
  const checkAll = async (context: ReconcileContext): Promise<ReconcileResult> => {
    const { cluster, logger, enqueue } = context;
    const isInstalled = cluster.serves(KIND);
    const { mode } = settings.value.olm.autoLabeler;
    const hasLabeler = isInstalled && mode === undefined && (await hasOpenShiftLabeler(context));
    const next = isInstalled ? { mode: labelerMode(mode, hasLabeler) } : undefined;
    const isChanged = !deepEqual(next, active);
    if (isChanged) logger.info({ mode: next?.mode ?? 'idle', isInstalled }, 'auto-labeler mode');
    if (next && isChanged) {
      for (const { metadata: { name = '' } = {} } of cluster.store.list('Namespace')) {
        if (hasLabelerPrefix(name)) enqueue(triggers.add(name, 'startup'));
      }
    }
    active = next;
    await applyCondition(context, describeCondition(next?.mode, hasLabeler), date());
    return { requeueAfterMs: CHECK_MS };
  };

  return {
    initialKeys: [ALL],
    resyncMs: RESYNC_MS,
    sources: [
      watchValue(
        selectObservable(settings, ({ olm }) => olm.autoLabeler),
        () => [ALL],
      ),
      watchChanges(KIND, (csv, _store, { type, before }) => {
        const name = csv.metadata?.namespace ?? '';
        if (!hasLabelerPrefix(name) || (isCopied(csv) && (before === undefined || isCopied(before)))) return [];
        const isGone = type === 'remove' || isCopied(csv);
        return [triggers.add(name, isGone ? 'csv-deleted' : before ? 'csv-updated' : 'csv-created')];
      }),
      watch('Namespace', ({ metadata: { name = '' } = {} }, _store, { type }) => {
        if (!hasLabelerPrefix(name) || type === 'remove') return [];
        return [triggers.add(name, type === 'sync' ? 'resync' : 'namespace')];
      }),
    ],
    async reconcile(key, context) {
      const isIdle = active === undefined;
      if (key === ALL || isIdle === context.cluster.serves(KIND)) {
        const result = await checkAll(context);
        if (key === ALL) return result;
      }
      return labeler.label(key, active, context);
    },
  };
}

function createLabeler(triggers: Triggers) {
  /** For each namespace without operators, the time in milliseconds at which its label is removed. */
  const releases = new Map<string, number>();
  /** Returns the delay before a decision takes effect, in milliseconds. */
  const findDelayMs = (name: string, { action }: LabelerDecision, nowMs: number): number => {
    const dueMs = action === 'release' ? (releases.get(name) ?? nowMs + SETTLE_MS) : undefined;
    if (dueMs === undefined) releases.delete(name);
    else releases.set(name, dueMs);
    return Math.max(0, (dueMs ?? nowMs) - nowMs);
  };
  return {
    async label(name: string, active: Active | undefined, context: ReconcileContext): Promise<ReconcileResult> {
      const { cluster, logger, recordEvent, now } = context;
      // Reads the namespace from the API server if necessary, because the event for an operator may arrive before the
      // event for its namespace.
      const namespace = cluster.store.get('Namespace', name) ?? (await ignoreNotFound(cluster.get('Namespace', name)));
      if (!namespace || !active) {
        triggers.take(name);
        releases.delete(name);
        return undefined;
      }
      const { mode } = active;
      const csvs = cluster.store.list(KIND, name);
      const decision = decideLabeling({
        ...active,
        exemptNamespaces: UNMANAGED_NAMESPACES,
        namespace,
        csvs,
        triggers: triggers.get(name),
      });
      const { action, row, reason } = decision;
      const delayMs = findDelayMs(name, decision, now());
      if (delayMs > 0) {
        logger.debug({ name, mode, row, reason, delayMs }, 'removing the label after a delay');
        return { requeueAfterMs: delayMs };
      }
      const patch = labelingPatch(namespace, decision);
      const taken = triggers.take(name);
      try {
        if (patch) await cluster.patch('Namespace', { name }, patch, OPTIONS);
      } catch (error) {
        triggers.restore(name, taken);
        throw error;
      }
      releases.delete(name);
      logger[patch ? 'info' : 'debug']({ name, mode, row, action, reason }, 'namespace evaluated');
      if (!patch) return undefined;
      recordEvent('Namespace', namespace, describeEvent(namespace, decision, mode));
      return undefined;
    },
  };
}

async function applyCondition({ cluster }: ReconcileContext, state: ConditionState, now: Date): Promise<void> {
  const object = cluster.store.get('PortcullisConfiguration', CONFIGURATION_NAME);
  if (!object) return;
  const current = object.status?.conditions?.filter(({ type }) => type === state.type);
  const conditions = withTransitionTimes([state], current, formatTimestamp(now.getTime()));
  if (deepEqual(conditions, current)) return;
  const metadata = { name: CONFIGURATION_NAME };
  await cluster.applyStatus(
    'PortcullisConfiguration',
    { metadata, status: { conditions } },
    { ...OPTIONS, force: true },
  );
}

/** Collects the events for each namespace since the previous decision about it. */
function createTriggers() {
  const byNamespace = new Map<string, ReadonlySet<LabelerTrigger>>();
  const get = (name: string): ReadonlySet<LabelerTrigger> => byNamespace.get(name) ?? new Set();
  return {
    get,
    add(name: string, trigger: LabelerTrigger): string {
      byNamespace.set(name, new Set([...get(name), trigger]));
      return name;
    },
    take(name: string): ReadonlySet<LabelerTrigger> {
      const taken = get(name);
      byNamespace.delete(name);
      return taken;
    },
    restore(name: string, taken: ReadonlySet<LabelerTrigger>): void {
      byNamespace.set(name, get(name).union(taken));
    },
  };
}

async function hasOpenShiftLabeler({ cluster }: ReconcileContext): Promise<boolean> {
  const { name, namespace } = OPENSHIFT_OLM;
  return (await ignoreNotFound(cluster.get('Deployment', name, namespace))) !== undefined;
}

function describeCondition(mode: LabelerMode | undefined, hasLabeler: boolean): ConditionState {
  const type = 'OLMAvailable';
  if (mode === undefined) {
    const message = `the cluster does not serve ${resourceName(KIND)}: the auto-labeler is idle`;
    return { type, status: 'False', reason: 'OLMNotInstalled', message };
  }
  const { namespace, name } = OPENSHIFT_OLM;
  const message = hasLabeler
    ? `the auto-labeler is off, because the Deployment ${name} in ${namespace} labels namespaces: set spec.olm.autoLabeler.mode to run it anyway`
    : `the auto-labeler mode is ${mode}`;
  return { type, status: 'True', reason: 'Installed', message };
}

/**
 * Returns the event for a change. The event warns that the label syncer overwrites the labels of other managers if the
 * label is set.
 */
function describeEvent(
  { metadata }: Namespace,
  { action, reason }: LabelerDecision,
  mode: LabelerMode,
): ControllerEvent {
  const event = { type: 'Normal', action: 'LabelNamespace' } as const;
  const message = `${action === 'release' ? 'removed' : 'set'} the label ${LABEL_SYNC_LABEL}: ${reason}`;
  if (action === 'release') return { ...event, reason: 'LabelSyncReleased', message };
  if (action === 'label' && mode !== 'shipped') return { ...event, reason: 'LabelSyncRestored', message };
  const optOut =
    mode === 'shipped'
      ? 'set the label to "false"'
      : `set the annotation ${OLM_MANAGED_ANNOTATION} to "false" and remove the label`;
  const advised = `${message}. To opt out, ${optOut}`;
  const level = metadata?.labels?.[POD_SECURITY_LABELS.enforce];
  const owners = getMetadataOwners(metadata)?.filter(({ labels }) => labels.has(POD_SECURITY_LABELS.enforce)) ?? [];
  if (level === undefined || owners.some(({ manager }) => manager === LABEL_SYNC_MANAGER))
    return { ...event, reason: 'LabelSyncEnabled', message: advised };
  const by = owners.length === 0 ? '' : ` of ${owners.map(({ manager }) => manager).join(', ')}`;
  const overwritten = `the label syncer overwrites ${POD_SECURITY_LABELS.enforce}=${level}${by}`;
  return { ...event, type: 'Warning', reason: 'LabelSyncEnabled', message: `${advised}; ${overwritten}` };
}
