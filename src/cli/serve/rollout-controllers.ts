import { announcementOf, ROLLOUT_KINDS, rolloutOf, type RolloutPlace } from '../../cluster/rollout.ts';
import type { Controller } from '../../controllers/controller.ts';
import { createConfigObserver } from '../../controllers/psa-config-observer.ts';
import { createPsaReadiness } from '../../controllers/psa-readiness.ts';
import { createPsaLabelSyncer } from '../../controllers/psa-label-syncer.ts';
import type { Announcement } from '../../controllers/replica.ts';
import { createRunLevelZeroLabeller } from '../../controllers/run-level-zero-labeller.ts';
import type { PodSecurityConfiguration } from '../../policy/psa/configuration.ts';
import { DEFAULT_UNMANAGED_NAMESPACES, type ManagementSettings } from '../../policy/rollout/label-sync.ts';
import type { RolloutSettings } from '../../policy/rollout/rollout-settings.ts';
import type { SccSettings } from '../../policy/scc/mode.ts';
import type { Metrics } from '../../telemetry/metrics.ts';
import { isEnabled } from './controllers.ts';
import type { ServeValues } from './options.ts';

export interface RolloutControllersOptions {
  readonly values: ServeValues;
  readonly scc: SccSettings;
  readonly place: RolloutPlace;
  settings(): RolloutSettings;
  exemptions(): PodSecurityConfiguration['exemptions'];
  readonly metrics: Pick<Metrics, 'rollout'>;
}

/** Whose labels are managed. */
export function managementOf(scc: SccSettings): ManagementSettings {
  return { exemptNamespaces: new Set(DEFAULT_UNMANAGED_NAMESPACES), scc };
}

/** The controllers that roll enforcement out; none where that is disabled at start. */
export function rolloutControllers(options: RolloutControllersOptions): readonly Controller[] {
  const { values, scc, place, settings, exemptions, metrics } = options;
  if (settings().phase === 'Disabled') return [];
  const management = managementOf(scc);
  const { namespace, version } = place;
  const installation = { namespace, version, settings, management };
  // Where SCCs are somebody else's, so are the labels that follow from them.
  const labellers =
    scc.mode === 'off'
      ? []
      : [
          createPsaLabelSyncer({ ...installation, metrics: metrics.rollout.syncer }),
          createRunLevelZeroLabeller(settings),
        ];
  const date = (): Date => new Date();
  const readiness = createPsaReadiness({
    ...installation,
    exemptions,
    metrics: metrics.rollout.readiness,
    date,
    random: Math.random,
  });
  const observer = createConfigObserver({ ...installation, exemptions, date });
  return [...labellers, observer, readiness].filter(({ name }) => isEnabled(name, values.controllers));
}

/** What a replica says of the default that it holds namespaces to. */
export function rolloutAnnouncement(place: RolloutPlace, settings: () => RolloutSettings): Announcement {
  return {
    kinds: ROLLOUT_KINDS,
    annotations() {
      const now = settings();
      return now.phase === 'Disabled' ? {} : announcementOf(rolloutOf(place, now));
    },
  };
}
