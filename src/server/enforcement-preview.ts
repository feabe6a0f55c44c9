/** The warning about pods that planned enforcement of Pod Security will deny. */
import { canUseScc, getSccSet } from '../cluster/access.ts';
import { getRolloutView, predictNamespaceLevel, type RolloutScope } from '../cluster/rollout.ts';
import type { Store } from '../cluster/store.ts';
import type { AdmissionRequest, Decision } from '../kube/admission.ts';
import { PSA_ENFORCEMENT_CONFIG } from '../kube/psa-enforcement-config.ts';
import type { Exemptions } from '../policy/psa/configuration.ts';
import type { TemplateContext } from '../policy/rollout/evaluation.ts';
import type { ManagementSettings } from '../policy/rollout/label-sync.ts';
import { formatPreviewWarning, isEnforcementPending, previewEnforcement } from '../policy/rollout/preview.ts';
import type { RolloutSettings } from '../policy/rollout/settings.ts';
import { sccMode } from '../policy/scc/mode.ts';

/** The rollout of Pod Security enforcement. */
export interface RolloutInForce {
  readonly place: Pick<RolloutScope, 'namespace' | 'version'>;
  settings(): RolloutSettings;
  readonly management: ManagementSettings;
}

interface PreviewContext {
  readonly store: Store;
  readonly exemptions: Exemptions;
}

/** Returns the warning about pods that planned enforcement will deny, or undefined. */
export type PreviewEnforcement = (
  request: AdmissionRequest,
  decision: Decision,
  context: PreviewContext,
) => string | undefined;

/** Creates the preview of a rollout. */
export function createEnforcementPreview({
  place,
  management,
  settings: getSettings,
}: RolloutInForce): PreviewEnforcement {
  return (request, { allowed, warnings = [] }, { store, exemptions }) => {
    if (!allowed) return undefined;
    const settings = getSettings();
    if (settings.phase === 'Disabled') return undefined;
    if (settings.phase === 'Evaluate' && settings.enforcementDate === undefined) return undefined;
    const view = getRolloutView({ ...place, store }, settings);
    const config = store.get('PSAEnforcementConfig', PSA_ENFORCEMENT_CONFIG);
    if (!isEnforcementPending({ settings, config, ...view })) return undefined;
    const found = previewEnforcement({
      request,
      exemptions,
      templateContext: (name) => templateSurroundings(store, name, management),
      predictLevel: ({ namespace }) => predictNamespaceLevel(namespace, store, management),
    });
    return found && formatPreviewWarning(found, { date: settings.enforcementDate, warnings });
  };
}

function templateSurroundings(store: Store, name: string, { scc }: ManagementSettings): TemplateContext | undefined {
  const namespace = store.get('Namespace', name);
  if (namespace === undefined) return undefined;
  return {
    namespace,
    sccMode: sccMode(namespace, scc).mode,
    sccs: getSccSet(store),
    canUse: canUseScc(store),
    findAccount: (account) => store.get('ServiceAccount', account, name),
  };
}
