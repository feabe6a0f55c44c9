import { createLevelPredictor, createRolloutViewCache, type RolloutScope } from '../cluster/rollout.ts';
import { canUseScc } from '../cluster/access.ts';
import type { Store } from '../cluster/store.ts';
import type { AdmissionRequest } from '../kube/admission.ts';
import { PSA_ENFORCEMENT_CONFIG } from '../kube/psa-enforcement-config.ts';
import type { Exemptions } from '../policy/psa/exemptions.ts';
import { previewEnforcement, formatPreviewWarning, isEnforcementPending } from '../policy/rollout/preview.ts';
import type { ManagementSettings } from '../policy/rollout/label-sync.ts';
import type { TemplateSurroundings } from '../policy/rollout/readiness.ts';
import type { RolloutSettings } from '../policy/rollout/settings.ts';
import { sccModeOf } from '../policy/scc/mode.ts';

/** How enforcement is rolled out. */
export interface RolloutInForce {
  readonly place: Pick<RolloutScope, 'namespace' | 'version'>;
  settings(): RolloutSettings;
  readonly management: ManagementSettings;
}

/** What the warnings depend on beside the request. */
export interface Surroundings {
  readonly store: Store;
  readonly exemptions: Exemptions;
  /** Warnings that there are already. */
  readonly told: readonly string[];
}

/** Makes the function that warns of what enforcement will refuse once it comes; `undefined`: there is nothing to tell. */
export function createForesight(
  rollout: RolloutInForce,
): (request: AdmissionRequest, around: Surroundings) => string | undefined {
  const { place, management } = rollout;
  const levelIn = createLevelPredictor(management);
  const viewOf = createRolloutViewCache();
  return (request, { store, exemptions, told }) => {
    const settings = rollout.settings();
    // The common case costs nothing.
    if (settings.phase === 'Disabled') return undefined;
    if (settings.phase === 'Evaluate' && settings.enforcementDate === undefined) return undefined;
    const view = viewOf({ ...place, store }, settings);
    const config = store.get('PSAEnforcementConfig', PSA_ENFORCEMENT_CONFIG);
    if (!isEnforcementPending({ settings, config, ...view })) return undefined;
    const found = previewEnforcement({
      request,
      exemptions,
      surroundingsOf: (name) => surroundingsOf(store, name, management),
      levelOf: ({ namespace }) => levelIn(namespace, store),
    });
    return found === undefined ? undefined : formatPreviewWarning(found, { date: settings.enforcementDate, told });
  };
}

function surroundingsOf(store: Store, name: string, { scc }: ManagementSettings): TemplateSurroundings | undefined {
  const namespace = store.get('Namespace', name);
  if (namespace === undefined) return undefined;
  return {
    namespace,
    sccMode: sccModeOf(namespace, scc).mode,
    sccs: store.list('SecurityContextConstraints'),
    canUse: canUseScc(store),
    findAccount: (account) => store.get('ServiceAccount', account, name),
  };
}
