import type { Cluster } from '../../cluster/cluster.ts';
import type { KubeletScope } from '../../cluster/kubelet.ts';
import type { Settings } from '../../config/settings.ts';
import type { WebhookRegistration } from '../../kube/webhooks.ts';
import type { PodSecurity } from '../../policy/psa/configuration.ts';
import { createRangePreview } from '../../policy/uid-range/allocation.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { Metrics } from '../../telemetry/metrics.ts';
import {
  createAccessReviewLimit,
  createAccessReviews,
  type TakeAccessReview,
  withReviewedAccess,
  withStoredAccess,
} from '../access-reviews.ts';
import { createDisclosure, type Discloses } from '../disclosure.ts';
import { createEnforcementPreview, createLabelPreview, type Installation } from '../enforcement-preview.ts';
import { createEvaluations, type Evaluations } from '../evaluations.ts';
import { createSccRecorder, createWorkloadAdmission, type SccReviewDeps, type WithAccess } from '../scc-review.ts';
import { createWaitingRoom } from '../waiting-room.ts';
import type { Webhook } from '../webhook.ts';
import {
  createExceptionsRecordWebhook,
  createExceptionsValidateWebhook,
  EXCEPTIONS_RECORD,
  EXCEPTIONS_VALIDATE,
} from './exceptions.ts';
import { createKubeletConfigWebhook, KUBELET_CONFIG } from './kubelet-config.ts';
import { createKubeletNodeWebhook, KUBELET_NODE } from './kubelet-node.ts';
import { createKubeletWritesWebhook, KUBELET_CERTIFICATES, KUBELET_NODE_WRITES } from './kubelet-writes.ts';
import { createOlmHardenWebhook, OLM_HARDEN, OLM_HARDEN_UNLABELED } from './olm-harden.ts';
import { createPodDefaultsWebhook, POD_DEFAULTS } from './pod-defaults.ts';
import { createPsaEnforcementWebhook, PSA_ENFORCEMENT } from './psa-enforcement.ts';
import { createPsaWebhook, PSA, PSA_ADVISORY, PSA_NAMESPACES } from './psa.ts';
import { createSccExecWebhook, SCC_EXEC } from './scc-exec.ts';
import { createSccModeWebhook, SCC_MODE } from './scc-mode.ts';
import {
  createSccObjectsDefaultWebhook,
  createSccObjectsValidateWebhook,
  SCC_OBJECTS_DEFAULT,
  SCC_OBJECTS_VALIDATE,
} from './scc-objects.ts';
import { createSccMutateWebhook, createSccValidateWebhook, SCC_MUTATE, SCC_VALIDATE } from './scc-pods.ts';
import { createSettingsWebhook, SETTINGS, type SettingsDeps } from './settings.ts';

export interface WebhooksOptions extends Pick<SettingsDeps, 'readSettings' | 'createFailsClosed'> {
  /** Returns the current settings. */
  settings(): Settings;
  /** Returns the effective Pod Security configuration. */
  podSecurity(): PodSecurity;
  readonly installation: Installation;
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

interface WebhookDeps extends WebhooksOptions {
  readonly review: Omit<SccReviewDeps, 'record'>;
  readonly evaluate: Evaluations;
  readonly discloses: Discloses;
  readonly takeAccessReview: TakeAccessReview;
}

/** A webhook with its registrations and the function that creates it. */
interface WebhookEntry {
  readonly registrations: readonly WebhookRegistration[];
  create(deps: WebhookDeps): Webhook;
}

/** All webhooks. */
const WEBHOOKS: readonly WebhookEntry[] = [
  {
    registrations: [PSA, PSA_NAMESPACES, PSA_ADVISORY],
    create: ({ settings, podSecurity, installation, review, metrics, evaluate, discloses }) =>
      createPsaWebhook({
        discloses,
        podSecurity,
        workloadResources: () => settings().workloadResources,
        metrics: metrics.podSecurity,
        waitingRoom: review.waitingRoom,
        evaluate,
        scc: review.settings,
        workloads: createWorkloadAdmission({ settings, previewRanges: review.previewRanges }),
        exceptions: () => settings().exceptions,
        preview: createEnforcementPreview(installation, settings),
        previewLabels: createLabelPreview(installation, settings),
      }),
  },
  {
    registrations: [EXCEPTIONS_RECORD],
    create: () => createExceptionsRecordWebhook({ date: () => new Date() }),
  },
  {
    registrations: [EXCEPTIONS_VALIDATE],
    create: ({ settings, ...deps }) =>
      createExceptionsValidateWebhook({ ...deps, settings: () => settings().exceptions, date: () => new Date() }),
  },
  {
    registrations: [SETTINGS],
    create: (deps) => createSettingsWebhook({ ...deps, date: () => new Date() }),
  },
  {
    registrations: [POD_DEFAULTS],
    create: ({ settings }) => createPodDefaultsWebhook(settings),
  },
  { registrations: [PSA_ENFORCEMENT], create: createPsaEnforcementWebhook },
  {
    registrations: [KUBELET_CONFIG],
    create: ({ kubelet, discloses }) => createKubeletConfigWebhook(kubelet, discloses),
  },
  { registrations: [KUBELET_NODE], create: ({ kubelet }) => createKubeletNodeWebhook(kubelet) },
  {
    registrations: [KUBELET_CERTIFICATES, KUBELET_NODE_WRITES],
    create: ({ kubelet }) => createKubeletWritesWebhook(kubelet),
  },
  {
    registrations: [OLM_HARDEN, OLM_HARDEN_UNLABELED],
    create: ({ settings, metrics }) =>
      createOlmHardenWebhook({ mode: () => settings().olm.hardening.mode, metrics: metrics.olm }),
  },
  {
    registrations: [SCC_MUTATE],
    create: ({ review, metrics }) =>
      createSccMutateWebhook({ ...review, record: createSccRecorder(metrics.scc.decisions) }),
  },
  { registrations: [SCC_OBJECTS_DEFAULT], create: ({ review }) => createSccObjectsDefaultWebhook(review) },
  {
    registrations: [SCC_VALIDATE],
    create: ({ review, metrics, podSecurity, settings }) =>
      createSccValidateWebhook(
        { ...review, record: createSccRecorder(metrics.scc.validations, metrics.scc.decisions) },
        { podSecurity, failsOpen: () => settings().webhooks.failurePolicy === 'Ignore' },
      ),
  },
  {
    registrations: [SCC_EXEC],
    create: ({ review, cluster, metrics, discloses }) =>
      createSccExecWebhook({ ...review, cluster, discloses, record: createSccRecorder(metrics.scc.decisions) }),
  },
  {
    registrations: [SCC_OBJECTS_VALIDATE],
    create: ({ review, evaluate, discloses }) => createSccObjectsValidateWebhook({ ...review, evaluate, discloses }),
  },
  {
    registrations: [SCC_MODE],
    create: ({ review, evaluate, discloses }) => createSccModeWebhook({ ...review, evaluate, discloses }),
  },
];

/** Registrations of all webhooks, from which the webhook configurations are generated. */
export const WEBHOOK_REGISTRATIONS: readonly WebhookRegistration[] = WEBHOOKS.flatMap((entry) => entry.registrations);

/** Creates all webhooks. */
export function createWebhooks(options: WebhooksOptions): readonly Webhook[] {
  const { settings, restoresStandardSccs, cluster, logger, metrics, now, areClientsKnown } = options;
  const waitingRoom = createWaitingRoom();
  const takeAccessReview = createAccessReviewLimit(now);
  const accessReviews = createAccessReviews({ cluster, takeAccessReview, logger, metrics: metrics.scc, now });
  const withSentReviews = withReviewedAccess(accessReviews, waitingRoom);
  const withAccess: WithAccess = (decide, context) =>
    (settings().scc.authorization === 'sar' ? withSentReviews : withStoredAccess)(decide, context);
  const previewRanges = createRangePreview(() => settings().ranges);
  const review = { settings: () => settings().scc, withAccess, waitingRoom, previewRanges, restoresStandardSccs };
  const evaluate = createEvaluations(now, areClientsKnown);
  const deps = { ...options, evaluate, discloses: createDisclosure(areClientsKnown), review, takeAccessReview };
  return WEBHOOKS.map((entry) => entry.create(deps));
}
