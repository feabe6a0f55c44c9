/** Reviews of the objects that configure Portcullis, one entry for each kind. */
import type { WebhookRegistration } from '../../api/webhooks.ts';
import { type AdmissionRequest, allow, type Decision } from '../../kube/admission.ts';
import { RESOURCES } from '../../kube/resources.ts';
import { webhookRule, type Webhook, type WebhookContext, WRITES } from '../webhook.ts';

/** The reviews of one kind of object. */
export interface ObjectReviewer extends Pick<Webhook, 'enforces'> {
  /** Sets fields before API servers validate the schema. */
  change?(request: AdmissionRequest, context: WebhookContext): Decision;
  validate(request: AdmissionRequest, context: WebhookContext): Decision | Promise<Decision>;
}

const { SecurityContextConstraints: SCC, PodSecurityException: EXCEPTION, NodesConfig } = RESOURCES;

/** Objects of which a wrong one permits more. They cannot be written while no replica responds. */
const CLOSED_RULES: WebhookRegistration['rules'] = [
  // Without its defaults, an SCC may allow more. For example, `allowHostDirVolumePlugin` limits `volumes` only there.
  { feature: 'scc', rule: webhookRule(WRITES, SCC.group, [SCC.resource], { scope: 'Cluster' }) },
  // Reviewed even in namespaces that fail open.
  {
    feature: 'exceptions',
    rule: webhookRule(WRITES, EXCEPTION.group, [EXCEPTION.resource, `${EXCEPTION.resource}/status`], { version: '*' }),
  },
];

export const CHANGE_OBJECTS: WebhookRegistration = {
  name: 'mutate.objects.portcullis.dev',
  path: '/mutate/objects',
  kind: 'MutatingWebhookConfiguration',
  rules: CLOSED_RULES,
  timeoutSeconds: 10,
  failure: 'closed',
};

const VALIDATE = { path: '/validate/objects', kind: 'ValidatingWebhookConfiguration' } as const;

export const VALIDATE_OBJECTS: WebhookRegistration = {
  ...VALIDATE,
  name: 'objects.portcullis.dev',
  rules: CLOSED_RULES,
  timeoutSeconds: 10,
  failure: 'closed',
};

/** Objects whose reviews mostly warn. */
export const VALIDATE_SETTINGS: WebhookRegistration = {
  ...VALIDATE,
  name: 'fail-open.objects.portcullis.dev',
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
