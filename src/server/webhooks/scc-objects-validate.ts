import { canUseScc } from '../../cluster/access.ts';
import type { Store } from '../../cluster/store.ts';
import { allow, deny, type AdmissionRequest } from '../../kube/admission.ts';
import type { SecurityContextConstraints } from '../../kube/scc.ts';
import { isObject, type Namespace } from '../../kube/types.ts';
import { resolveCompatibility, sccModeOf, type SccSettings } from '../../policy/scc/mode.ts';
import { sccWarnings } from '../../policy/scc/advice/scc-warnings.ts';
import { sccObjectErrors } from '../../policy/scc/objects.ts';
import { refuseScc, sccOf } from '../scc-object.ts';
import type { Webhook, WebhookContext } from '../webhook.ts';

export interface SccObjectsOptions {
  readonly settings: SccSettings;
  /** What becomes of the SCCs that ship with the platform when they are changed; absent, nothing. */
  readonly standardSccs?: 'kept' | 'left alone' | undefined;
  /** How many pods are tried for warnings at most, and for how long. */
  readonly limits?: { readonly maxPods: number; readonly timeoutMs: number };
}

/** Makes the webhook that refuses SCCs that are wrong, and warns of what those that are right would do to others. */
export function createSccObjectsValidateWebhook(options: SccObjectsOptions): Webhook {
  return {
    path: '/scc/objects/validate',
    decide(request, context) {
      const scc = options.settings.mode === 'off' ? undefined : sccOf(request);
      if (scc === undefined) return allow();
      const errors = sccObjectErrors(scc);
      if (errors.length > 0) return deny(refuseScc(request, errors));
      return allow({ warnings: warningsOf(scc, request, context, options) });
    },
  };
}

const DEFAULT_LIMITS = { maxPods: 3000, timeoutMs: 1000 };

function warningsOf(
  scc: SecurityContextConstraints,
  { oldObject }: AdmissionRequest,
  { store, now, deadlineMs }: WebhookContext,
  { settings, standardSccs = 'left alone', limits: { maxPods, timeoutMs } = DEFAULT_LIMITS }: SccObjectsOptions,
): readonly string[] {
  const startMs = now();
  const endMs = startMs + Math.min(timeoutMs, deadlineMs === undefined ? Infinity : (deadlineMs - startMs) / 2);
  return sccWarnings({
    scc,
    ...(isObject(oldObject) ? { oldScc: oldObject } : {}),
    sccs: store.list('SecurityContextConstraints'),
    pods: store.list('Pod'),
    findNamespace: (name) => findNamespace(store, name, settings),
    canUse: canUseScc(store),
    maxPods,
    isOver: () => now() >= endMs,
    standardSccs,
    brokenScc: resolveCompatibility(settings.compatibility).brokenScc,
  });
}

/** Where SCCs do not count, none wins anything. */
function findNamespace(store: Store, name: string, settings: SccSettings): Namespace | undefined {
  const namespace = store.get('Namespace', name);
  return namespace && sccModeOf(namespace, settings).mode !== 'off' ? namespace : undefined;
}
