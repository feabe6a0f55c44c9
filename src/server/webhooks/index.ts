import type { Cluster } from '../../cluster/cluster.ts';
import type { KubeletScope } from '../../cluster/kubelet.ts';
import type { OlmSettings } from '../../config/settings.ts';
import type { WebhookRegistration } from '../../kube/webhooks.ts';
import type { WorkloadResource } from '../../policy/pod/templates.ts';
import type { PodSecurity } from '../../policy/psa/configuration.ts';
import type { PodDefaults } from '../../policy/psa/defaults.ts';
import type { ExceptionSettings } from '../../policy/psa/exceptions.ts';
import type { SccSettings } from '../../policy/scc/mode.ts';
import { createRangePreview } from '../../policy/uid-range/allocation.ts';
import { DEFAULT_RANGES, type RangeSettings } from '../../policy/uid-range/ranges.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { Metrics } from '../../telemetry/metrics.ts';
import { type Authorization, createAccessReviews, withReviewedAccess, withStoredAccess } from '../access-reviews.ts';
import { createEnforcementPreview, createLabelPreview, type RolloutInForce } from '../enforcement-preview.ts';
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
import { createPsaWebhook, PSA, PSA_ADVISORY } from './psa.ts';
import { createSccExecWebhook, SCC_EXEC } from './scc-exec.ts';
import { createSccModeWebhook, SCC_MODE } from './scc-mode.ts';
import {
  createSccObjectsDefaultWebhook,
  createSccObjectsValidateWebhook,
  SCC_OBJECTS_DEFAULT,
  SCC_OBJECTS_VALIDATE,
} from './scc-objects.ts';
import { createSccMutateWebhook, createSccValidateWebhook, SCC_MUTATE, SCC_VALIDATE } from './scc-pods.ts';

export interface WebhooksOptions {
  /** Returns the effective Pod Security configuration. */
  podSecurity(): PodSecurity;
  /** Returns the settings for PodSecurityExceptions. */
  exceptions(): ExceptionSettings;
  /** Returns the resources in other API groups that the settings list. */
  readonly workloadResources?: (() => readonly WorkloadResource[]) | undefined;
  /** Returns the settings of the pod defaults. Absent without pod defaults. */
  readonly podDefaults?: (() => PodDefaults) | undefined;
  /** Returns the effective SCC admission settings. */
  scc(): SccSettings & { readonly authorization: Authorization };
  /** Returns the ranges from which namespaces receive their IDs and labels. Defaults to the default ranges. */
  ranges?(): RangeSettings;
  /** Input of the webhooks for the minimum kubelet version. Absent without the feature. */
  readonly kubelet?: KubeletScope | undefined;
  /** Returns the hardening mode for pods of the Operator Lifecycle Manager. */
  olmHardening(): OlmSettings['hardening']['mode'];
  /** The Pod Security enforcement rollout, if there is one. */
  readonly rollout?: RolloutInForce | undefined;
  /** True if SCC webhooks fail open for pods that the floor policies restrict. Absent if they fail closed. */
  failsOpen?(): boolean;
  /** True if a controller restores the standard SCCs after changes. */
  restoresStandardSccs?(): boolean;
  readonly cluster: Pick<Cluster, 'get' | 'reviewAccess'>;
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** Monotonic clock in milliseconds. */
  now(): number;
}

interface WebhookDeps extends WebhooksOptions {
  readonly review: Omit<SccReviewDeps, 'record'>;
  readonly evaluate: Evaluations;
}

/** A webhook with its registrations and the function that creates it. */
interface WebhookEntry {
  readonly registrations: readonly WebhookRegistration[];
  create(deps: WebhookDeps): Webhook;
}

/** All webhooks. */
const WEBHOOKS: readonly WebhookEntry[] = [
  {
    registrations: [PSA, PSA_ADVISORY],
    create: ({
      podSecurity,
      workloadResources,
      rollout,
      scc,
      podDefaults,
      exceptions,
      review: { waitingRoom, previewRanges },
      metrics,
      evaluate,
    }) =>
      createPsaWebhook({
        podSecurity,
        workloadResources,
        metrics: metrics.podSecurity,
        waitingRoom,
        evaluate,
        scc,
        workloads: createWorkloadAdmission({ settings: scc, podDefaults, previewRanges }),
        exceptions,
        preview: rollout && createEnforcementPreview(rollout),
        previewLabels: rollout && createLabelPreview(rollout),
      }),
  },
  {
    registrations: [EXCEPTIONS_RECORD],
    create: () => createExceptionsRecordWebhook({ date: () => new Date() }),
  },
  {
    registrations: [EXCEPTIONS_VALIDATE],
    create: ({ exceptions: settings, cluster }) =>
      createExceptionsValidateWebhook({ settings, cluster, date: () => new Date() }),
  },
  {
    registrations: [POD_DEFAULTS],
    create: ({ podDefaults, scc }) =>
      createPodDefaultsWebhook(podDefaults && (() => ({ defaults: podDefaults(), scc: scc() }))),
  },
  { registrations: [PSA_ENFORCEMENT], create: createPsaEnforcementWebhook },
  { registrations: [KUBELET_CONFIG], create: ({ kubelet }) => createKubeletConfigWebhook(kubelet) },
  { registrations: [KUBELET_NODE], create: ({ kubelet }) => createKubeletNodeWebhook(kubelet) },
  {
    registrations: [KUBELET_CERTIFICATES, KUBELET_NODE_WRITES],
    create: ({ kubelet }) => createKubeletWritesWebhook(kubelet),
  },
  {
    registrations: [OLM_HARDEN, OLM_HARDEN_UNLABELED],
    create: ({ olmHardening: mode, metrics }) => createOlmHardenWebhook({ mode, metrics: metrics.olm }),
  },
  {
    registrations: [SCC_MUTATE],
    create: ({ review, metrics }) =>
      createSccMutateWebhook({ ...review, record: createSccRecorder(metrics.scc.decisions) }),
  },
  { registrations: [SCC_OBJECTS_DEFAULT], create: ({ scc: settings }) => createSccObjectsDefaultWebhook({ settings }) },
  {
    registrations: [SCC_VALIDATE],
    create: ({ review, metrics, podSecurity, failsOpen = () => false }) =>
      createSccValidateWebhook(
        { ...review, record: createSccRecorder(metrics.scc.validations) },
        { podSecurity, failsOpen },
      ),
  },
  {
    registrations: [SCC_EXEC],
    create: ({ review, cluster, metrics }) =>
      createSccExecWebhook({ ...review, cluster, record: createSccRecorder(metrics.scc.decisions) }),
  },
  {
    registrations: [SCC_OBJECTS_VALIDATE],
    create: ({ scc: settings, restoresStandardSccs, evaluate }) =>
      createSccObjectsValidateWebhook({ settings, restoresStandardSccs, evaluate }),
  },
  { registrations: [SCC_MODE], create: ({ review, evaluate }) => createSccModeWebhook({ ...review, evaluate }) },
];

/** Registrations of all webhooks, from which the webhook configurations are generated. */
export const WEBHOOK_REGISTRATIONS: readonly WebhookRegistration[] = WEBHOOKS.flatMap((entry) => entry.registrations);

/** Creates all webhooks. */
export function createWebhooks(options: WebhooksOptions): readonly Webhook[] {
  const { scc: settings, cluster, logger, metrics, now } = options;
  const waitingRoom = createWaitingRoom();
  const accessReviews = createAccessReviews({ cluster, logger, metrics: metrics.scc, now });
  const withSentReviews = withReviewedAccess(accessReviews, waitingRoom);
  const withAccess: WithAccess = (decide, context) =>
    (settings().authorization === 'sar' ? withSentReviews : withStoredAccess)(decide, context);
  const previewRanges = createRangePreview(options.ranges ?? (() => DEFAULT_RANGES));
  const { restoresStandardSccs = () => false } = options;
  const evaluate = createEvaluations(now);
  const deps = {
    ...options,
    evaluate,
    review: { settings, withAccess, waitingRoom, previewRanges, restoresStandardSccs },
  };
  return WEBHOOKS.map((entry) => entry.create(deps));
}
