/** Warns about pods that planned enforcement will deny, and about namespace labels that controllers revert. */
import { createCache } from '../cluster/cache.ts';
import { systemClock } from '../cluster/clock.ts';
import type { Store } from '../cluster/store.ts';
import type { Settings } from '../config/settings.ts';
import type { AdmissionRequest, Decision } from '../kube/admission.ts';
import { PSA_ENFORCEMENT_CONFIG } from '../kube/psa-enforcement-config.ts';
import { finishSteps } from '../kube/steps.ts';
import type { Namespace } from '../kube/types.ts';
import { LABEL_SYNC_MANAGER, RUN_LEVEL_ZERO_MANAGER } from '../kube/well-known.ts';
import type { AdmittedWorkload, Exemptions } from '../policy/psa/index.ts';
import type { Level } from '../policy/pss/index.ts';
import {
  formatPreviewWarning,
  isEnforcementPending,
  isPastDate,
  managementSettings,
  planRunLevelZero,
  previewEnforcement,
  previewLabelRevert,
} from '../policy/rollout/index.ts';
import type { SccSettings } from '../policy/scc/index.ts';
import { createLabelPlanner, getRolloutView, predictNamespaceLevel, type RolloutScope } from './rollout.ts';

/** The installation namespace and the Portcullis version. */
export type InstallationIdentity = Pick<RolloutScope, 'namespace' | 'version'>;

type PreviewSettings = Pick<Settings, 'rollout' | 'disabledControllers'> & { readonly scc: SccSettings };

interface PreviewContext {
  readonly store: Store;
  readonly exemptions: Exemptions;
  /** The reviewed workload. Absent where SCCs do not apply. */
  readonly workload: AdmittedWorkload | undefined;
}

/** Returns the warning about pods that planned enforcement will deny, or `undefined` if it denies none. */
export type PreviewEnforcement = (
  request: AdmissionRequest,
  decision: Decision,
  context: PreviewContext,
) => string | undefined;

/** Creates the function that warns about planned enforcement. The warning omits the announced date if it has passed. */
export function createEnforcementPreview(
  installation: InstallationIdentity,
  getSettings: () => PreviewSettings,
  today = () => new Date(),
): PreviewEnforcement {
  const predictLevel = createPrediction();
  return (request, { allowed, warnings = [] }, { store, exemptions, workload }) => {
    // SCC admission cannot default the template until the namespace has ranges.
    if (!allowed || workload?.isPending === true) return undefined;
    const { rollout: settings, scc } = getSettings();
    if (settings.phase === 'Disabled') return undefined;
    if (settings.phase === 'Evaluate' && settings.enforcementDate === undefined) return undefined;
    const view = getRolloutView({ ...installation, store }, settings);
    const config = store.get('PSAEnforcementConfig', PSA_ENFORCEMENT_CONFIG);
    if (!isEnforcementPending({ settings, config, ...view })) return undefined;
    const found = previewEnforcement({
      request,
      workload: workload?.object,
      exemptions,
      emulationVersion: store.emulationVersion,
      findNamespace: (name) => store.get('Namespace', name),
      predictLevel: (namespace) => predictLevel(namespace, store, scc),
    });
    const { enforcementDate } = settings;
    const date = enforcementDate !== undefined && isPastDate(enforcementDate, today()) ? undefined : enforcementDate;
    return found && formatPreviewWarning(found, { date, warnings });
  };
}

/** Number of service accounts above which a predicted level is reused for several reviews. */
const MANY_ACCOUNTS = 100;
const PREDICTION_MS = 1000;

/**
 * Creates a function that predicts levels. For a namespace with many service accounts, it reuses the result for one
 * second.
 */
function createPrediction() {
  const levels = createCache<{ readonly level: Level | undefined }>({
    limit: 'predictedLevelsBytes',
    ttlMs: PREDICTION_MS,
    now: systemClock.now,
  });
  return (namespace: Namespace, store: Store, scc: SccSettings): Level | undefined => {
    const { name = '' } = namespace.metadata ?? {};
    const known = levels.get(name);
    if (known) return known.level;
    const level = finishSteps(predictNamespaceLevel(namespace, store, managementSettings(scc)));
    if (store.list('ServiceAccount', name).length > MANY_ACCOUNTS) levels.set(name, { level });
    return level;
  };
}

/**
 * Returns the warning about an edit of Pod Security labels that a controller will revert, or `undefined` if there is
 * none.
 */
export type PreviewLabels = (request: AdmissionRequest, store: Store) => string | undefined;

/** Creates the function that warns about edits of labels that a controller will revert. */
export function createLabelPreview(
  installation: InstallationIdentity,
  getSettings: () => PreviewSettings,
): PreviewLabels {
  return (request, store) =>
    previewLabelRevert(request, (namespace) => {
      const { rollout, scc, disabledControllers: disabled } = getSettings();
      if (rollout.phase === 'Disabled' || scc.mode === 'off') return undefined;
      const { syncer: mode } = getRolloutView({ ...installation, store }, rollout);
      const plan = createLabelPlanner(store, { mode, settings: managementSettings(scc) });
      const synced = disabled.includes(LABEL_SYNC_MANAGER) ? undefined : finishSteps(plan(namespace)).apply;
      if (synced || scc.mode !== 'enforce' || disabled.includes(RUN_LEVEL_ZERO_MANAGER)) return synced;
      return planRunLevelZero(namespace);
    });
}
