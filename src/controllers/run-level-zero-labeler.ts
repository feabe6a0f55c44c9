import { RUN_LEVEL_ZERO_MANAGER } from '../kube/well-known.ts';
import { planRunLevelZero, RUN_LEVEL_ZERO_NAMESPACES } from '../policy/rollout/label-sync.ts';
import type { RolloutSettings } from '../policy/rollout/settings.ts';
import { on, type Controller, type ReconcileResult } from './controller.ts';

/** The configuration file is followed; nobody tells when it changes. */
const LOOK_AGAIN_MS = 60_000;

/**
 * Makes the controller that keeps the namespaces privileged in which SCCs never count: an enforcing cluster would hold them
 * to restricted. Whatever the phase, unless the rollout is disabled.
 * @see https://github.com/openshift/cluster-policy-controller/blob/master/pkg/psalabelsyncer/privileged_namespaces_controller.go
 */
export function createRunLevelZeroLabeller(settings: () => RolloutSettings): Controller {
  return {
    name: RUN_LEVEL_ZERO_MANAGER,
    runs: 'leader',
    keys: RUN_LEVEL_ZERO_NAMESPACES,
    sources: [on('Namespace', ({ metadata }) => RUN_LEVEL_ZERO_NAMESPACES.filter((name) => name === metadata?.name))],
    async reconcile(name, { cluster, logger }): Promise<ReconcileResult> {
      const namespace = cluster.store.get('Namespace', name);
      if (settings().phase === 'Disabled') return { requeueAfterMs: LOOK_AGAIN_MS };
      const labels = namespace && planRunLevelZero(namespace);
      if (!labels) return undefined;
      await cluster.apply('Namespace', labels, { fieldManager: RUN_LEVEL_ZERO_MANAGER, force: true });
      logger.info({ name }, 'namespace kept privileged');
      return undefined;
    },
  };
}
