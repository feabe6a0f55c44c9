import type { Cluster } from '../../cluster/cluster.ts';
import type { SccSettings } from '../../policy/scc/mode.ts';
import type { PodSecurity } from '../../policy/psa/pod-security.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { Metrics } from '../../telemetry/metrics.ts';
import { createAccessReviews } from '../access-reviews.ts';
import { createEnforcementConfigWebhook } from '../enforcement-config.ts';
import type { RolloutInForce } from '../foresight.ts';
import { createPsaWebhook } from './psa.ts';
import { withAskedAccess, withStoredAccess, type Authorization } from '../scc-access.ts';
import { createSccExecWebhook } from './scc-exec.ts';
import { createSccRecorder } from '../scc-metrics.ts';
import { createSccMutateWebhook } from './scc-mutate.ts';
import { createSccObjectsDefaultWebhook } from './scc-objects-default.ts';
import { createSccObjectsValidateWebhook } from './scc-objects-validate.ts';
import { createSccValidateWebhook } from './scc-validate.ts';
import { createWaitingRoom } from '../waiting-room.ts';
import type { Webhook } from '../webhook.ts';

export interface WebhooksOptions {
  /** The Pod Security configuration in force. */
  podSecurity(): PodSecurity;
  readonly scc: SccSettings;
  /** How enforcement is rolled out; absent, it is not. */
  readonly rollout?: RolloutInForce | undefined;
  readonly authorization: Authorization;
  /** What becomes of the SCCs that ship with the platform when they are changed; absent, nothing. */
  readonly standardSccs?: 'kept' | 'left alone';
  /** Asked for what the store cannot tell. */
  readonly cluster: Pick<Cluster, 'get' | 'reviewAccess'>;
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** A monotonic clock, in milliseconds. */
  now(): number;
}

/** All webhooks, in the order in which the API server meets them. */
export function createWebhooks(options: WebhooksOptions): readonly Webhook[] {
  const { podSecurity, scc: settings, authorization, cluster, logger, metrics, now } = options;
  const withAccess =
    authorization === 'rbac'
      ? withStoredAccess
      : withAskedAccess(createAccessReviews({ cluster, logger, metrics: metrics.scc, now }));
  const record = createSccRecorder(metrics.scc.decisions);
  const waitingRoom = createWaitingRoom();
  const review = { settings, withAccess, waitingRoom };
  return [
    createSccMutateWebhook({ ...review, record }),
    createSccValidateWebhook({ ...review, record: createSccRecorder(metrics.scc.validations) }),
    createPsaWebhook({
      podSecurity,
      metrics: metrics.podSecurity,
      waitingRoom,
      scc: settings,
      ...(options.rollout === undefined ? {} : { rollout: options.rollout }),
    }),
    createEnforcementConfigWebhook(),
    createSccExecWebhook({ ...review, record, cluster }),
    createSccObjectsDefaultWebhook({ settings }),
    createSccObjectsValidateWebhook({ settings, standardSccs: options.standardSccs }),
  ];
}
