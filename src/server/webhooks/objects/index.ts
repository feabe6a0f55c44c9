/** The registry of reviews of the objects that configure Portcullis, with one entry for each kind. */
import type { WebhookRegistration } from '../../../api/webhooks.ts';
import { type AdmissionRequest, allow } from '../../../kube/admission.ts';
import { RESOURCES } from '../../../kube/resources.ts';
import type { WebhookDefinition, WebhookServices } from '../../services.ts';
import { type ObjectReviewer, webhookRule, type Webhook, WRITES } from '../../webhook.ts';
import { createEnforcementConfigReviewer } from './enforcement-config.ts';
import { createExceptionReviewer } from './exceptions.ts';
import { createNodesConfigReviewer } from './nodes-config.ts';
import { createSccObjectReviewer } from './sccs.ts';
import { createSettingsReviewer } from './settings.ts';

const { SecurityContextConstraints: SCC, PodSecurityException: EXCEPTION, NodesConfig } = RESOURCES;

/** Objects in which mistakes can permit more than intended. They cannot be written while no replica responds. */
const CLOSED_RULES: WebhookRegistration['rules'] = [
  // Without its defaults, an SCC may allow more than intended. For example, `allowHostDirVolumePlugin` limits `volumes`
  // only through the defaults.
  { feature: 'scc', rule: webhookRule(WRITES, SCC.group, [SCC.resource], { scope: 'Cluster' }) },
  // These requests are reviewed even in namespaces that fail open.
  {
    feature: 'exceptions',
    rule: webhookRule(WRITES, EXCEPTION.group, [EXCEPTION.resource, `${EXCEPTION.resource}/status`], { version: '*' }),
  },
];

const CHANGE_OBJECTS: WebhookRegistration = {
  name: 'mutate.objects.portcullis.dev',
  path: '/mutate/objects',
  description:
    'sets absent fields of SCCs to their defaults. Records the authors of a PodSecurityException, and the user and time of its approval',
  kind: 'MutatingWebhookConfiguration',
  rules: CLOSED_RULES,
  timeoutSeconds: 10,
  failure: 'closed',
};

const VALIDATE = { path: '/validate/objects', kind: 'ValidatingWebhookConfiguration' } as const;

const VALIDATE_OBJECTS: WebhookRegistration = {
  ...VALIDATE,
  name: 'objects.portcullis.dev',
  description:
    'denies invalid SCCs, PodSecurityExceptions beyond the limits in the settings, and approvals of an exception by one of its authors or by a user without the `approve` permission. Sends a SubjectAccessReview for each approval. Returns warnings about SCCs that would be assigned to existing pods instead of their current SCC',
  rules: CLOSED_RULES,
  timeoutSeconds: 10,
  failure: 'closed',
};

/** The review of objects about which it mostly returns warnings. */
const VALIDATE_SETTINGS: WebhookRegistration = {
  ...VALIDATE,
  name: 'fail-open.objects.portcullis.dev',
  description:
    'returns warnings about a PSAEnforcementConfig that would deny known workloads, and about changes to the settings that make namespaces fail closed, end active exceptions, or deny workloads with `spec.scc.mode: enforce`. With the `kubelet` feature, denies a minimum in `nodes.config.openshift.io` that some nodes do not meet, with a warning for each of these nodes, and changes between the worker latency profiles `Default` and `LowUpdateSlowReaction`',
  rules: [
    {
      feature: 'podSecurity',
      rule: webhookRule(WRITES, 'config.portcullis.dev', ['portcullisconfigurations'], {
        version: 'v1alpha1',
        scope: 'Cluster',
      }),
    },
    {
      feature: 'rollout',
      rule: webhookRule(WRITES, 'config.openshift.io', ['psaenforcementconfigs'], {
        version: 'v1alpha1',
        scope: 'Cluster',
      }),
    },
    { feature: 'kubelet', rule: webhookRule(WRITES, NodesConfig.group, [NodesConfig.resource], { scope: 'Cluster' }) },
  ],
  timeoutSeconds: 5,
  failure: 'open',
};

export const objects: WebhookDefinition = {
  registrations: [CHANGE_OBJECTS, VALIDATE_OBJECTS, VALIDATE_SETTINGS],
  create: (services) => createObjectWebhooks(createReviewers(services)),
};

/** Creates the reviewers, by `<resource>.<group>`. */
function createReviewers(services: WebhookServices): Readonly<Record<string, ObjectReviewer>> {
  const { settings, kubelet, discloses } = services;
  return {
    'securitycontextconstraints.security.openshift.io': createSccObjectReviewer({ ...services, ...services.scc }),
    'podsecurityexceptions.policy.portcullis.dev': createExceptionReviewer({
      ...services,
      settings: () => settings().exceptions,
    }),
    'portcullisconfigurations.config.portcullis.dev': createSettingsReviewer(services),
    'psaenforcementconfigs.config.openshift.io': createEnforcementConfigReviewer(),
    'nodes.config.openshift.io': createNodesConfigReviewer(kubelet, discloses),
  };
}

/**
 * Creates the webhooks that change and validate objects.
 * @param reviewers by `<resource>.<group>`
 */
export function createObjectWebhooks(reviewers: Readonly<Record<string, ObjectReviewer>>): readonly Webhook[] {
  const find = ({ resource }: AdmissionRequest): ObjectReviewer | undefined =>
    reviewers[`${resource.resource}.${resource.group}`];
  const common: Pick<Webhook, 'enforces' | 'readsWholeObjects'> = {
    enforces(request, store) {
      const reviewer = find(request);
      return reviewer !== undefined && reviewer.enforces?.(request, store) !== false;
    },
    readsWholeObjects: true,
  };
  return [
    {
      ...common,
      path: CHANGE_OBJECTS.path,
      decide: (request, context) => find(request)?.change?.(request, context) ?? allow(),
    },
    {
      ...common,
      path: VALIDATE.path,
      decide: (request, context) => find(request)?.validate(request, context) ?? allow(),
    },
  ];
}
