import { rolloutOf, type RolloutPlace } from '../../cluster/rollout.ts';
import type { Store } from '../../cluster/store.ts';
import { PSA_ENFORCEMENT_CONFIG } from '../../kube/psa-enforcement-config.ts';
import { readEnforcement } from '../../policy/rollout/enforcement.ts';
import {
  DEFAULT_UNMANAGED_NAMESPACES,
  isAwaitingLabel,
  standingOf,
  type ManagementSettings,
} from '../../policy/rollout/label-sync.ts';
import type { PodSecurity } from '../../policy/psa/pod-security.ts';
import type { RolloutSettings } from '../../policy/rollout/rollout-settings.ts';
import type { Io } from '../command.ts';
import { readInventory } from '../inventory/inventory.ts';
import { VERSION } from '../version.ts';
import { installationObjects, readInstallation } from './installation.ts';
import { ROLLOUT_COMMAND_KINDS, type RolloutValues } from './options.ts';
import type { RolloutState } from './types.ts';

/** All that the commands about the rollout decide from. */
export interface RolloutFacts {
  readonly store: Store;
  readonly settings: RolloutSettings;
  readonly podSecurity: PodSecurity;
  readonly management: ManagementSettings;
  readonly state: RolloutState;
  /** What was not there, each in a few words without a full stop. */
  readonly assumptions: readonly string[];
}

/** Reads a cluster, or manifests, and how the rollout stands there. Rejects with a UserError for what cannot be read. */
export async function gatherRollout(values: RolloutValues, io: Io, date: Date): Promise<RolloutFacts> {
  const namespace = values['installation-namespace'];
  const inventory = await readInventory(values, io, {
    kinds: ROLLOUT_COMMAND_KINDS,
    also: (store) => installationObjects(store, namespace),
  });
  const { store } = inventory;
  const { configuration, scc, assumptions } = await readInstallation(store, values);
  const management = { exemptNamespaces: new Set(DEFAULT_UNMANAGED_NAMESPACES), scc };
  const { rollout: settings, podSecurity } = configuration;
  const place = { store, namespace, version: VERSION };
  return {
    store,
    settings,
    podSecurity,
    management,
    state: stateOf(place, settings, unlabelledIn(store, management, date)),
    assumptions: [...inventory.assumptions, ...assumptions],
  };
}

function stateOf(place: RolloutPlace, settings: RolloutSettings, unlabelled: readonly string[]): RolloutState {
  const { gate, enforce, published, generation, syncer } = rolloutOf(place, settings);
  const config = place.store.get('PSAEnforcementConfig', PSA_ENFORCEMENT_CONFIG);
  const { spec, status, specOwner } = readEnforcement(config);
  const time = config?.status?.lastEvaluationTime;
  return {
    phase: settings.phase,
    ...(settings.enforcementDate === undefined ? {} : { enforcementDate: settings.enforcementDate }),
    gate,
    ...(config === undefined ? {} : { requested: spec }),
    ...(specOwner === undefined ? {} : { requestedBy: specOwner }),
    decided: status,
    ...(time == null ? {} : { lastEvaluationTime: time }),
    enforce,
    published,
    generation,
    syncer,
    raiseSettleMs: settings.raiseSettleMs,
    conditions: config?.status?.conditions ?? [],
    unlabelled,
  };
}

function unlabelledIn(store: Store, management: ManagementSettings, date: Date): readonly string[] {
  return store
    .list('Namespace')
    .filter((namespace) => {
      const accounts = store.list('ServiceAccount', namespace.metadata?.name ?? '');
      const serviceAccounts = accounts.flatMap(({ metadata }) => metadata?.name ?? []);
      const { isManaged } = standingOf(namespace, management);
      return isAwaitingLabel({ namespace, isManaged, serviceAccounts }, date.getTime());
    })
    .map(({ metadata }) => metadata?.name ?? '')
    .sort();
}
