import type { V1MutatingWebhookConfiguration, V1ValidatingWebhookConfiguration } from '@kubernetes/client-node';
import { DISABLE_LABEL, RUN_LEVEL_LABEL, SCC_MODE_LABEL } from '../../policy/scc/mode.ts';
import { exemptNamespacesOf } from '../exempt-namespaces.ts';
import type { ManifestSettings } from '../settings.ts';
import type { ManifestOf } from '../types.ts';
import { SCC_CONDITIONS } from './conditions.ts';
import { notNamed, tiersOf, type Requirement, type Tier } from './tiers.ts';
import { configurationMetadata, webhook, webhookOfTier, type Asked } from './webhook.ts';

/** Longer than the wait of 10 s for the ranges of a new namespace, so that the requester reads why. */
const WAITING_SECONDS = 15;
const OTHER_SECONDS = 10;
/** Where pods may start unjudged nobody waits long. */
const FAIL_OPEN_SECONDS = 5;

const PODS: Pick<Asked, 'rules' | 'matchConditions' | 'timeoutSeconds'> = {
  rules: [
    {
      apiGroups: [''],
      apiVersions: ['v1'],
      operations: ['CREATE', 'UPDATE'],
      resources: ['pods'],
      scope: 'Namespaced',
    },
    {
      apiGroups: [''],
      apiVersions: ['v1'],
      operations: ['UPDATE'],
      resources: ['pods/ephemeralcontainers', 'pods/resize'],
      scope: 'Namespaced',
    },
  ],
  matchConditions: SCC_CONDITIONS,
  timeoutSeconds: WAITING_SECONDS,
};

const MUTATE: Asked = { name: 'mutate.scc.portcullis.dev', path: '/scc/mutate', ...PODS };
const VALIDATE: Asked = { name: 'validate.scc.portcullis.dev', path: '/scc/validate', ...PODS };
const EXEC: Asked = {
  name: 'exec.scc.portcullis.dev',
  path: '/scc/exec',
  rules: [
    {
      apiGroups: [''],
      apiVersions: ['v1'],
      operations: ['CONNECT'],
      resources: ['pods/attach', 'pods/exec'],
      scope: 'Namespaced',
    },
  ],
  timeoutSeconds: OTHER_SECONDS,
};

const OBJECTS: Pick<Asked, 'name' | 'rules' | 'timeoutSeconds'> = {
  name: 'objects.scc.portcullis.dev',
  rules: [
    {
      apiGroups: ['security.openshift.io'],
      apiVersions: ['v1'],
      operations: ['CREATE', 'UPDATE'],
      resources: ['securitycontextconstraints'],
      scope: 'Cluster',
    },
  ],
  timeoutSeconds: OTHER_SECONDS,
};

const MUTATING = { apiVersion: 'admissionregistration.k8s.io/v1', kind: 'MutatingWebhookConfiguration' } as const;
const VALIDATING = { apiVersion: 'admissionregistration.k8s.io/v1', kind: 'ValidatingWebhookConfiguration' } as const;
/** Asked again if a webhook that comes later changes the object. */
const AGAIN = { reinvocationPolicy: 'IfNeeded' } as const;

/**
 * Security context constraints. Pods are asked about twice: the mutating webhook chooses an SCC and completes the pod
 * by it, and its configuration sorts behind those of others; the validating one judges what has become of the pod.
 * SCCs themselves are completed before the schema could refuse short ones, and judged.
 */
export function sccConfigurations(
  settings: ManifestSettings,
): readonly ManifestOf<V1MutatingWebhookConfiguration | V1ValidatingWebhookConfiguration>[] {
  const tiers = tiersOf(judgedNamespaces(settings));
  const inTiers = (asked: Asked) => tiers.map((tier) => webhookOfTier(patient(asked, tier), tier, settings));
  const metadata = (name: string) => configurationMetadata(name, settings);
  return [
    {
      ...MUTATING,
      metadata: metadata('zz.scc.portcullis.dev'),
      webhooks: inTiers(MUTATE).map((hook) => ({ ...hook, ...AGAIN })),
    },
    {
      ...MUTATING,
      metadata: metadata('objects.scc.portcullis.dev'),
      webhooks: [{ ...webhook({ ...OBJECTS, path: '/scc/objects/default' }, settings), ...AGAIN }],
    },
    {
      ...VALIDATING,
      metadata: metadata('scc.portcullis.dev'),
      webhooks: [
        ...inTiers(VALIDATE),
        ...inTiers(EXEC),
        webhook({ ...OBJECTS, path: '/scc/objects/validate' }, settings),
      ],
    },
  ];
}

function patient(asked: Asked, { failurePolicy }: Tier): Asked {
  return failurePolicy === 'Fail' ? asked : { ...asked, timeoutSeconds: FAIL_OPEN_SECONDS };
}

/** All but those in which SCCs never count; the server, asked all the same, would leave them alone, too. */
function judgedNamespaces(settings: ManifestSettings): readonly Requirement[] {
  return [
    notNamed(exemptNamespacesOf(settings)),
    { key: RUN_LEVEL_LABEL, operator: 'NotIn', values: ['0', '1'] },
    { key: DISABLE_LABEL, operator: 'NotIn', values: ['true'] },
    { key: SCC_MODE_LABEL, operator: 'NotIn', values: ['off'] },
  ];
}
