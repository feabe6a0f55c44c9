/** Services that the webhooks of a server share, which are their input from the cluster and their limits. */
import type { WebhookRegistration } from '../api/webhooks.ts';
import { createAccessReviewLimit, createAccessReviews } from '../cluster/access-reviews.ts';
import type { Cluster } from '../cluster/cluster.ts';
import type { Settings } from '../config/settings.ts';
import type { Namespace } from '../kube/types.ts';
import type { PodSecurity } from '../policy/psa/index.ts';
import { createRangePreview } from '../policy/uid-range/index.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import {
  createEnforcementPreview,
  createLabelPreview,
  type InstallationIdentity,
} from '../views/enforcement-preview.ts';
import type { KubeletScope } from '../views/kubelet.ts';
import { createDisclosure } from './disclosure.ts';
import { createEvaluations } from './evaluations.ts';
import { createPodSecurityReviewer, createWorkloadAdmission } from './pod-security.ts';
import { createAccessSessions } from './scc-review.ts';
import { createWaitingRoom } from './waiting-room.ts';
import type { Webhook, WebhookContext } from './webhook.ts';

/**
 * An entry in the registry of webhooks, which contains the requests that API servers send and the function that creates
 * the webhook.
 */
export interface WebhookDefinition {
  readonly registrations: readonly WebhookRegistration[];
  create(services: WebhookServices): readonly Webhook[];
}

export interface WebhooksOptions {
  settings(): Settings;
  /** Returns the settings in a PortcullisConfiguration, or `undefined` if they are not valid. */
  readSettings(object: unknown): Settings | undefined;
  /** Returns the function that is true for namespaces that fail closed with the settings. */
  createFailsClosed(settings: Settings): (namespace: Namespace) => boolean;
  /** Returns the effective Pod Security configuration. */
  podSecurity(): PodSecurity;
  readonly installation: InstallationIdentity;
  /** Input of the webhooks for the minimum kubelet version. Absent if the feature is not installed. */
  readonly kubelet?: KubeletScope | undefined;
  /** Returns true if a controller restores the standard SCCs after changes. */
  restoresStandardSccs(): boolean;
  readonly cluster: Pick<Cluster, 'get' | 'reviewAccess'>;
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** True if only API servers can send reviews, because the server verifies client certificates. */
  readonly areClientsKnown: boolean;
  /** Returns a monotonic time in milliseconds. */
  now(): number;
}

export type WebhookServices = ReturnType<typeof createServices>;

export function createServices(options: WebhooksOptions) {
  const { settings, restoresStandardSccs, cluster, logger, metrics, now, areClientsKnown } = options;
  const waitingRoom = createWaitingRoom();
  const takeAccessReview = createAccessReviewLimit(now);
  const reviewAccess = createAccessReviews({ cluster, takeAccessReview, logger, metrics: metrics.scc, now });
  const startAccessReviews = createAccessSessions(reviewAccess, waitingRoom);
  const previewRanges = createRangePreview(() => settings().ranges);
  const evaluate = createEvaluations(now, areClientsKnown);
  const discloses = createDisclosure(areClientsKnown);
  return {
    ...options,
    takeAccessReview,
    evaluate,
    discloses,
    date: (): Date => new Date(),
    previewRanges,
    /** Input for SCC admission. */
    scc: {
      settings: () => settings().scc,
      accessReviews: (context: WebhookContext) =>
        settings().scc.authorization === 'sar' ? startAccessReviews(context) : undefined,
      waitingRoom,
      previewRanges,
      restoresStandardSccs,
    },
    /** Reviews pods, namespaces and workloads with Pod Security Admission. */
    podSecurityReviewer: createPodSecurityReviewer({
      discloses,
      podSecurity: options.podSecurity,
      workloadResources: () => settings().workloadResources,
      metrics: metrics.podSecurity,
      waitingRoom,
      evaluate,
      scc: () => settings().scc,
      workloads: createWorkloadAdmission({ settings, previewRanges }),
      exceptions: () => settings().exceptions,
      preview: createEnforcementPreview(options.installation, settings),
      previewLabels: createLabelPreview(options.installation, settings),
    }),
  };
}
