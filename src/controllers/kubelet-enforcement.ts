/**
 * Reports whether API servers call the authorization webhook for the minimum kubelet version. Does not change the
 * minimum.
 */
import { CONFIGURATION_NAME, FEATURE_STATUS_CONTROLLERS } from '../api/names.ts';
import { type ConditionState, withTransitionTimes } from '../kube/conditions.ts';
import { formatTimestamp } from '../kube/units.ts';
import { describeEnforcement } from '../policy/kubelet/index.ts';
import { API_SERVERS, checkApiServers, minimumInForce } from '../views/kubelet.ts';
import { type ControllerContext, type ControllerDefinition, type Reconciler, watch, watchValue } from './controller.ts';
import { ACCESS_REVIEW_RULE, rbacRule, statusRule } from './permissions.ts';

const [, NAME] = FEATURE_STATUS_CONTROLLERS.kubelet;
const KIND = 'PortcullisConfiguration';
const CONDITION = 'KubeletMinimumEnforced';

export const kubeletEnforcement: ControllerDefinition = {
  name: NAME,
  description: 'reports which API servers call the authorization webhook for the minimum kubelet version',
  runsOn: 'leader',
  permissions: [
    {
      role: 'kubelet-enforcement',
      clusterRules: [
        statusRule(['patch'], KIND),
        ACCESS_REVIEW_RULE,
        rbacRule(['get'], ['EndpointSlice'], [API_SERVERS.name]),
      ],
    },
  ],
  isEnabled: ({ kubelet, settingsObject }) => kubelet && settingsObject,
  create: createReconciler,
};

/** Delay before the first check, in which the webhooks observe a new minimum. */
const FIRST_CHECK_MS = 5_000;
const CHECK_INTERVAL_MS = 300_000;

function createReconciler({ settings, date }: ControllerContext): Reconciler {
  const key = (): readonly string[] => [CONFIGURATION_NAME];
  let next = { minimum: '', dueMs: 0 };
  return {
    initialKeys: key(),
    sources: [watch(KIND, key), watchValue(settings, key)],
    async reconcile(name, { cluster, now }) {
      const { store } = cluster;
      const object = store.get(KIND, name);
      if (!object) return undefined;
      const write = async (states: readonly ConditionState[]): Promise<void> => {
        const own = (object.status?.conditions ?? []).filter(({ type }) => type === CONDITION);
        if (states.length + own.length === 0) return;
        const conditions = withTransitionTimes(states, own, formatTimestamp(date().getTime()));
        const options = { fieldManager: NAME, force: true };
        await cluster.applyStatus(KIND, { metadata: { name }, status: { conditions } }, options);
      };
      const minimum = minimumInForce({ store, settings: () => settings.value.kubelet, hasSettingsObject: true });
      if (minimum !== next.minimum) next = { minimum, dueMs: now() + FIRST_CHECK_MS };
      if (minimum === '') {
        await write([]);
        return undefined;
      }
      if (next.dueMs > now()) return { requeueAfterMs: next.dueMs - now() };
      const checks = await checkApiServers(cluster);
      await write([describeEnforcement(minimum, checks, formatTimestamp(date().getTime()))]);
      next = { minimum, dueMs: now() + CHECK_INTERVAL_MS };
      return { requeueAfterMs: CHECK_INTERVAL_MS };
    },
  };
}
