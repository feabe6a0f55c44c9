/** The review of workloads, which warns about pods that policies will deny. */
import type { WebhookRegistration } from '../../api/webhooks.ts';
import type { Store } from '../../cluster/store.ts';
import type { AdmissionRequest } from '../../kube/admission.ts';
import type { Namespace } from '../../kube/types.ts';
import type { PodFields, WorkloadResource } from '../../policy/pod/index.ts';
import {
  completeTemplate,
  decodeWorkload,
  hasDefaults,
  type PodDefaults,
  type DecodedWorkload,
} from '../../policy/psa/index.ts';
import { admitTemplate, sccMode, type SccSettings, templateWarnings } from '../../policy/scc/index.ts';
import { sccAccess, getSccSet } from '../../views/access.ts';
import { getRanges, isReady, type PreviewRanges } from '../scc-review.ts';
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

/** A workload in a namespace where SCCs or defaults apply. */
export interface AdmittedWorkload {
  /** The workload with the defaults that SCC admission or the pod defaults set in its templates. */
  readonly object: DecodedWorkload;
  /** Warnings about pods that SCC admission denies. */
  readonly warnings: readonly string[];
  /** True if pods cannot be defaulted yet because the namespace has no ranges. */
  readonly isPending: boolean;
}

export interface WorkloadAdmission {
  /** Returns `undefined` where neither SCCs nor defaults apply. */
  admit(request: AdmissionRequest, resources: readonly WorkloadResource[], store: Store): AdmittedWorkload | undefined;
  /** True if `admit` does not wait for the namespace's ranges. */
  isReady(namespace: Namespace): boolean;
}

interface WorkloadAdmissionDeps {
  readonly previewRanges: PreviewRanges;
  /** Returns the current settings. */
  settings(): { readonly scc: SccSettings; readonly defaults: PodDefaults };
}

/**
 * Creates the function that defaults workload templates through SCC admission or pod defaults. It checks access based
 * on the roles and bindings in the store, because warnings do not justify requests to the API server.
 */
export function createWorkloadAdmission({ settings, previewRanges }: WorkloadAdmissionDeps): WorkloadAdmission {
  return {
    isReady: (namespace) => isReady(namespace, settings().scc),
    admit(request, resources, store) {
      const stored = store.get('Namespace', request.namespace ?? '');
      const current = settings();
      if (!stored) return undefined;
      const { mode } = sccMode(stored, current.scc);
      const withDefaults = (template: PodFields): PodFields => completeTemplate(template, stored, current);
      if (mode === 'off') {
        if (!hasDefaults(stored, current)) return undefined;
        return {
          object: mapTemplates(decodeWorkload(request, resources), withDefaults),
          warnings: [],
          isPending: false,
        };
      }
      const { compatibility, preferUserNamespaces } = current.scc;
      const namespace = mode === 'report' ? previewRanges(stored, store.list('Namespace')) : stored;
      const namespaceRanges = getRanges(namespace);
      const input = {
        namespace,
        namespaceRanges,
        sccs: getSccSet(store),
        access: sccAccess(store),
        compatibility,
        preferUserNamespaces,
      };
      const denials: Denial[] = [];
      const object = mapTemplates(decodeWorkload(request, resources), (original) => {
        const template = withDefaults(original);
        const { pod, denial } = admitTemplate(template, input);
        if (denial) denials.push(denial);
        return mode === 'enforce' ? pod : template;
      });
      const { problem } = namespaceRanges;
      const isPending = mode === 'enforce' && denials.some(({ status }) => status.message === problem);
      // OpenShift does not warn about templates that SCC admission denies.
      const reported = mode === 'enforce' && compatibility === 'openshift' ? [] : denials;
      const warnings = new Set(reported.flatMap((denial) => templateWarnings(denial, mode)));
      return { object, warnings: [...warnings], isPending };
    },
  };
}

type Denial = NonNullable<ReturnType<typeof admitTemplate>['denial']>;

function mapTemplates(workload: DecodedWorkload, complete: (template: PodFields) => PodFields): DecodedWorkload {
  if (workload.outcome === 'decoded') return workload.pod ? { ...workload, pod: complete(workload.pod) } : workload;
  if (workload.outcome !== 'templates') return workload;
  const templates = workload.templates.map(({ location, decoded }) => {
    return { location, decoded: decoded.pod ? { pod: complete(decoded.pod) } : decoded };
  });
  return { ...workload, templates };
}
