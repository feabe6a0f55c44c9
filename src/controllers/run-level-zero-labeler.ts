import { POD_SECURITY_LABELS, RUN_LEVEL_ZERO_MANAGER } from '../kube/well-known.ts';
import { planRunLevelZero, RUN_LEVEL_ZERO_NAMESPACES } from '../policy/rollout/index.ts';
import { type ControllerDefinition, watch, watchValue } from './controller.ts';
import { rbacRule } from './permissions.ts';

/**
 * Labels the run-level-zero namespaces as privileged. SCC admission skips these namespaces, but a cluster that enforces
 * Pod Security by default would apply the restricted level to them. The controller changes nothing while the cluster
 * does not enforce SCCs.
 * @see https://github.com/openshift/cluster-policy-controller/blob/master/pkg/psalabelsyncer/privileged_namespaces_controller.go
 */
export const runLevelZeroLabeler: ControllerDefinition = {
  name: RUN_LEVEL_ZERO_MANAGER,
  description: `labels ${RUN_LEVEL_ZERO_NAMESPACES.join(' and ')} as privileged while SCCs are enforced`,
  runsOn: 'leader',
  permissions: [
    {
      role: 'run-level-zero-labeler',
      clusterRules: [rbacRule(['patch'], ['Namespace'], RUN_LEVEL_ZERO_NAMESPACES)],
      namespaceKeys: Object.values(POD_SECURITY_LABELS),
    },
  ],
  isEnabled: ({ scc, rollout }) => scc && rollout,
  create: ({ settings }) => ({
    initialKeys: RUN_LEVEL_ZERO_NAMESPACES,
    sources: [
      watch('Namespace', ({ metadata }) => RUN_LEVEL_ZERO_NAMESPACES.filter((name) => name === metadata?.name)),
      watchValue(settings, () => RUN_LEVEL_ZERO_NAMESPACES),
    ],
    async reconcile(name, { cluster, logger }) {
      const namespace = cluster.store.get('Namespace', name);
      const { rollout, scc } = settings.value;
      const isActive = rollout.phase !== 'Disabled' && scc.mode === 'enforce';
      const labels = isActive && namespace ? planRunLevelZero(namespace) : undefined;
      if (!labels) return undefined;
      await cluster.apply('Namespace', labels, { fieldManager: RUN_LEVEL_ZERO_MANAGER });
      logger.info({ name }, 'namespace labeled as privileged');
      return undefined;
    },
  }),
};
