/** The review of workloads, which warns about pods that policies will deny. */
import type { WebhookRegistration } from '../../api/webhooks.ts';
import type { Store } from '../../cluster/store.ts';
import type { AdmissionRequest } from '../../kube/admission.ts';
import type { Namespace } from '../../kube/types.ts';
import type { WorkloadResource } from '../../policy/pod/index.ts';
import { type AdmittedWorkload, admitWorkload, decodeWorkload, type WorkloadSettings } from '../../policy/psa/index.ts';
import { getSccSet, sccAccess } from '../../views/access.ts';
import { getRanges } from '../../views/scc-mode.ts';
import { isReady, type PreviewRanges } from '../scc-review.ts';
import { webhookRule, WRITES } from '../webhook.ts';

/** The review of workloads. As in upstream, it only warns and audits, and never denies a request. */
export const WORKLOADS: WebhookRegistration = {
  name: 'workloads.portcullis.dev',
  path: '/validate/workloads',
  description: 'returns warnings about pod templates whose pods a policy would deny. Never denies a workload',
  kind: 'ValidatingWebhookConfiguration',
  rules: [
    webhookRule(WRITES, '', ['podtemplates', 'replicationcontrollers']),
    webhookRule(WRITES, 'apps', ['daemonsets', 'deployments', 'replicasets', 'statefulsets']),
    webhookRule(WRITES, 'batch', ['cronjobs', 'jobs']),
  ].map((writes) => ({ feature: 'podSecurity', rule: writes }) as const),
  reviewsWorkloadResources: true,
  timeoutSeconds: 5,
  failure: 'open',
  namespaces: 'reviewed',
};

export interface WorkloadAdmission {
  /** Returns `undefined` where neither SCCs nor defaults apply. */
  admit(request: AdmissionRequest, resources: readonly WorkloadResource[], store: Store): AdmittedWorkload | undefined;
  /** True if `admit` does not wait for the namespace's ranges. */
  isReady(namespace: Namespace): boolean;
}

interface WorkloadAdmissionDeps {
  readonly previewRanges: PreviewRanges;
  /** Returns the current settings. */
  settings(): WorkloadSettings;
}

/**
 * Creates the function that defaults workload templates. It checks access based on the roles and bindings in the store,
 * because warnings do not justify requests to the API server.
 */
export function createWorkloadAdmission({ settings, previewRanges }: WorkloadAdmissionDeps): WorkloadAdmission {
  return {
    isReady: (namespace) => isReady(namespace, settings().scc),
    admit(request, resources, store) {
      const stored = store.get('Namespace', request.namespace ?? '');
      if (!stored) return undefined;
      return admitWorkload(() => decodeWorkload(request, resources), {
        namespace: stored,
        settings: settings(),
        findSccs(mode) {
          const namespace = mode === 'report' ? previewRanges(stored, store.list('Namespace')) : stored;
          return { namespace, namespaceRanges: getRanges(namespace), sccs: getSccSet(store), access: sccAccess(store) };
        },
      });
    },
  };
}
