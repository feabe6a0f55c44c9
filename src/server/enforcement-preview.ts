/** The warning about pods that planned enforcement of Pod Security will deny. */
import { getRolloutView, predictNamespaceLevel, type RolloutScope } from '../cluster/rollout.ts';
import type { Store } from '../cluster/store.ts';
import type { AdmissionRequest, Decision } from '../kube/admission.ts';
import { PSA_ENFORCEMENT_CONFIG } from '../kube/psa-enforcement-config.ts';
import type { Exemptions } from '../policy/psa/configuration.ts';
import type { ManagementSettings } from '../policy/rollout/label-sync.ts';
import { formatPreviewWarning, isEnforcementPending, previewEnforcement } from '../policy/rollout/preview.ts';
import type { RolloutSettings } from '../policy/rollout/settings.ts';
import type { AdmittedWorkload } from './scc-review.ts';

/** The rollout of Pod Security enforcement. */
export interface RolloutInForce {
  readonly place: Pick<RolloutScope, 'namespace' | 'version'>;
  settings(): RolloutSettings;
  management(): ManagementSettings;
}

interface PreviewContext {
  readonly store: Store;
  readonly exemptions: Exemptions;
  /** The object of a workload where SCCs apply. */
  readonly workload: AdmittedWorkload | undefined;
}

/** Returns the warning about pods that planned enforcement will deny, or undefined. */
export type PreviewEnforcement = (
  request: AdmissionRequest,
  decision: Decision,
  context: PreviewContext,
) => string | undefined;

/** Creates the preview of a rollout. */
export function createEnforcementPreview(rollout: RolloutInForce): PreviewEnforcement {
  return (request, { allowed, warnings = [] }, { store, exemptions, workload }) => {
    // A template is evaluated when SCC admission can complete it.
    if (!allowed || workload?.isPending === true) return undefined;
    const settings = rollout.settings();
    if (settings.phase === 'Disabled') return undefined;
    if (settings.phase === 'Evaluate' && settings.enforcementDate === undefined) return undefined;
    const view = getRolloutView({ ...rollout.place, store }, settings);
    const config = store.get('PSAEnforcementConfig', PSA_ENFORCEMENT_CONFIG);
    if (!isEnforcementPending({ settings, config, ...view })) return undefined;
    const management = rollout.management();
    const found = previewEnforcement({
      request,
      workload: workload?.object,
      exemptions,
      emulationVersion: store.emulationVersion,
      findNamespace: (name) => store.get('Namespace', name),
      predictLevel: (namespace) => predictNamespaceLevel(namespace, store, management),
    });
    return found && formatPreviewWarning(found, { date: settings.enforcementDate, warnings });
  };
}
