import type { WebhookRegistration } from '../../api/webhooks.ts';
import { createAccessReviewLimit, createAccessReviews } from '../../cluster/access-reviews.ts';
import type { Cluster } from '../../cluster/cluster.ts';
import type { Settings } from '../../config/settings.ts';
import { type AdmissionRequest, allow } from '../../kube/admission.ts';
import type { PodSecurity } from '../../policy/psa/index.ts';
import { createRangePreview } from '../../policy/uid-range/index.ts';
import { createSccRecorder } from '../../telemetry/admission.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { Metrics } from '../../telemetry/metrics.ts';
import {
  createEnforcementPreview,
  createLabelPreview,
  type InstallationIdentity,
} from '../../views/enforcement-preview.ts';
import type { KubeletScope } from '../../views/kubelet.ts';
import { createDisclosure } from '../disclosure.ts';
import { createEvaluations } from '../evaluations.ts';
import { createEnforcementConfigReviewer } from '../objects/enforcement-config.ts';
import { createExceptionReviewer } from '../objects/exceptions.ts';
import { createNodesConfigReviewer } from '../objects/nodes-config.ts';
import { createSccObjectReviewer } from '../objects/sccs.ts';
import { createSettingsReviewer, type SettingsDeps } from '../objects/settings.ts';
import { createOlmHardening } from '../olm-hardening.ts';
import { createPodSecurityReviewer } from '../pod-security.ts';
import { createAccessSessions } from '../scc-review.ts';
import { createWaitingRoom } from '../waiting-room.ts';
import type { Webhook, WebhookContext } from '../webhook.ts';
import { NAMESPACES } from './namespaces.ts';
import { createMirrorPodPolicy, createNodes, NODES } from './nodes.ts';
import { CHANGE_OBJECTS, createObjectWebhooks, VALIDATE_OBJECTS, VALIDATE_SETTINGS } from './objects.ts';
import { CONNECT_PODS, createConnectPods } from './pods-connect.ts';
import {
  createMutatePods,
  createSccPolicy,
  createValidatePods,
  MUTATE_DEFAULTED_PODS,
  MUTATE_OLM_PODS,
  MUTATE_PODS,
  VALIDATE_PODS,
} from './pods.ts';
import { createWorkloadAdmission, WORKLOADS } from './workloads.ts';

export interface WebhooksOptions extends Pick<SettingsDeps, 'readSettings' | 'createFailsClosed'> {
  /** Returns the current settings. */
  settings(): Settings;
  /** Returns the effective Pod Security configuration. */
  podSecurity(): PodSecurity;
  readonly installation: InstallationIdentity;
  /** Input of the webhooks for the minimum kubelet version. Absent if the feature is not installed. */
  readonly kubelet?: KubeletScope | undefined;
  /** True if a controller restores the standard SCCs after changes. */
  restoresStandardSccs(): boolean;
  readonly cluster: Pick<Cluster, 'get' | 'reviewAccess'>;
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** True if only API servers can send reviews, because the server verifies client certificates. */
  readonly areClientsKnown: boolean;
  /** Monotonic clock in milliseconds. */
  now(): number;
}

/**
 * Registrations of all webhooks, from which the webhook configurations are generated. A pod that several of them select
 * is sent once for each.
 */
export const WEBHOOK_REGISTRATIONS: readonly WebhookRegistration[] = [
  MUTATE_PODS,
  MUTATE_OLM_PODS,
  MUTATE_DEFAULTED_PODS,
  CHANGE_OBJECTS,
  VALIDATE_PODS,
  CONNECT_PODS,
  NAMESPACES,
  WORKLOADS,
  VALIDATE_OBJECTS,
  VALIDATE_SETTINGS,
  NODES,
];

/** Creates all webhooks. */
export function createWebhooks(options: WebhooksOptions): readonly Webhook[] {
  const { settings, restoresStandardSccs, cluster, logger, metrics, now, areClientsKnown } = options;
  const waitingRoom = createWaitingRoom();
  const takeAccessReview = createAccessReviewLimit(now);
  const accessReviews = createAccessReviews({ cluster, takeAccessReview, logger, metrics: metrics.scc, now });
  const startAccessReviews = createAccessSessions(accessReviews, waitingRoom);
  const previewRanges = createRangePreview(() => settings().ranges);
  const review = {
    settings: () => settings().scc,
    accessReviews: (context: WebhookContext) =>
      settings().scc.authorization === 'sar' ? startAccessReviews(context) : undefined,
    waitingRoom,
    previewRanges,
    restoresStandardSccs,
  };
  const evaluate = createEvaluations(now, areClientsKnown);
  const discloses = createDisclosure(areClientsKnown);
  const podSecurity = createPodSecurityReviewer({
    discloses,
    podSecurity: options.podSecurity,
    workloadResources: () => settings().workloadResources,
    metrics: metrics.podSecurity,
    waitingRoom,
    evaluate,
    scc: review.settings,
    workloads: createWorkloadAdmission({ settings, previewRanges }),
    exceptions: () => settings().exceptions,
    preview: createEnforcementPreview(options.installation, settings),
    previewLabels: createLabelPreview(options.installation, settings),
  });
  const { decisions, validations } = metrics.scc;
  const { kubelet } = options;
  const date = (): Date => new Date();
  const webhooks: readonly Webhook[] = [
    createMutatePods({
      ...review,
      record: createSccRecorder(decisions),
      harden: createOlmHardening({ mode: () => settings().olm.hardening.mode, metrics: metrics.olm }),
      defaults: () => settings().defaults,
    }),
    createValidatePods([
      podSecurity,
      createSccPolicy(
        { ...review, record: createSccRecorder(validations, decisions) },
        { podSecurity: options.podSecurity, failsOpen: () => settings().webhooks.failurePolicy === 'Ignore' },
      ),
      createMirrorPodPolicy(kubelet),
    ]),
    createConnectPods({ ...review, cluster, discloses, record: createSccRecorder(decisions) }),
    { path: NAMESPACES.path, ...podSecurity },
    { path: WORKLOADS.path, ...podSecurity },
    createNodes(kubelet),
    ...createObjectWebhooks({
      'securitycontextconstraints.security.openshift.io': createSccObjectReviewer({ ...review, evaluate, discloses }),
      'podsecurityexceptions.policy.portcullis.dev': createExceptionReviewer({
        settings: () => settings().exceptions,
        cluster,
        takeAccessReview,
        date,
      }),
      'portcullisconfigurations.config.portcullis.dev': createSettingsReviewer({
        ...options,
        previewRanges,
        evaluate,
        discloses,
        date,
      }),
      'psaenforcementconfigs.config.openshift.io': createEnforcementConfigReviewer(),
      'nodes.config.openshift.io': createNodesConfigReviewer(kubelet, discloses),
    }),
  ];
  return webhooks.map((webhook) => onlyRegistered(webhook, settings));
}

/**
 * Limits a webhook to the requests of its registrations, so requests of other clients do not reach its decisions. API
 * servers compare the other members of the rules.
 */
export function onlyRegistered(webhook: Webhook, settings: () => Pick<Settings, 'workloadResources'>): Webhook {
  const registrations = WEBHOOK_REGISTRATIONS.filter(({ path }) => path === webhook.path);
  const reviewsOthers = registrations.some(({ reviewsWorkloadResources }) => reviewsWorkloadResources);
  const known = new Set(
    registrations.flatMap(({ rules }) =>
      rules.flatMap(({ rule: { apiGroups = [], operations = [], resources = [] } }) =>
        apiGroups.flatMap((group) =>
          operations.flatMap((operation) => resources.map((resource) => `${operation} ${resource} ${group}`)),
        ),
      ),
    ),
  );
  const isRegistered = ({ operation, resource: { resource, group }, subResource }: AdmissionRequest): boolean =>
    known.has(`${operation} ${subResource ? `${resource}/${subResource}` : resource} ${group}`) ||
    (reviewsOthers &&
      (operation === 'CREATE' || operation === 'UPDATE') &&
      !subResource &&
      settings().workloadResources.some((other) => other.resource === resource && other.group === group));
  return {
    ...webhook,
    enforces: (request, store) => isRegistered(request) && webhook.enforces?.(request, store) !== false,
    decide: (request, context) => (isRegistered(request) ? webhook.decide(request, context) : allow()),
  };
}
