import { generationOf, type RolloutView } from '../../cluster/rollout.ts';
import type { Store } from '../../cluster/store.ts';
import { printYaml } from '../../config/manifests.ts';
import { deepEqual } from '../../kube/equal.ts';
import {
  LABEL_SYNC_MODE_ANNOTATION,
  PART_OF,
  PART_OF_LABEL,
  POD_SECURITY_CONFIG_MAP,
  POD_SECURITY_DEFAULT_ANNOTATION,
  POD_SECURITY_GENERATION_ANNOTATION,
  RAISED_AT_ANNOTATION,
} from '../../kube/installation.ts';
import { timestampOf } from '../../kube/timestamp.ts';
import type { ConfigMap } from '../../kube/types.ts';
import { admissionConfigurationOf, observeConfig } from '../../policy/rollout/observed-config/index.ts';
import type { PodSecurityConfiguration } from '../../policy/psa/configuration.ts';
import type { EnforcementPlan } from '../../policy/rollout/enforcement.ts';
import type { ReconcileContext } from '../controller.ts';

const CONFIG_KEY = 'admission-configuration.yaml';

/** What is to hold from now on. */
export interface Publication {
  /** Of the installation. */
  readonly namespace: string;
  /** Of the configuration file. */
  exemptions(): PodSecurityConfiguration['exemptions'];
  readonly date: () => Date;
  readonly fieldManager: string;
  readonly view: RolloutView;
  readonly effect: Pick<EnforcementPlan, 'enforce' | 'syncer'>;
  readonly configMap: ConfigMap | undefined;
  readonly raisedAtMs: number | undefined;
}

/** Writes what is to hold from now on, if it is something else than before. */
export async function publish(publication: Publication, { cluster, logger, tell }: ReconcileContext): Promise<void> {
  const { view, effect, configMap, namespace, date, raisedAtMs, fieldManager } = publication;
  const { config } = observeConfig(
    { plan: { enforce: effect.enforce, want: view.want }, exemptions: publication.exemptions() },
    {},
  );
  const data = { [CONFIG_KEY]: printYaml([admissionConfigurationOf(config)]) };
  const before = configMap?.metadata?.annotations ?? {};
  const isRaise = effect.enforce === 'restricted' && view.published !== 'restricted';
  const raisedAt = isRaise
    ? timestampOf(date().getTime())
    : raisedAtMs === undefined
      ? undefined
      : timestampOf(raisedAtMs);
  const said = {
    [POD_SECURITY_DEFAULT_ANNOTATION]: effect.enforce,
    [LABEL_SYNC_MODE_ANNOTATION]: effect.syncer,
    ...(raisedAt === undefined ? {} : { [RAISED_AT_ANNOTATION]: raisedAt }),
  };
  const isSaid = Object.entries(said).every(([key, value]) => before[key] === value) && view.generation > 0;
  if (isSaid && deepEqual(configMap?.data, data)) return;
  // Labels are not what replicas run: only what they run has a new number.
  const isAlike = before[POD_SECURITY_DEFAULT_ANNOTATION] === effect.enforce && deepEqual(configMap?.data, data);
  const generation =
    isAlike && view.generation > 0
      ? view.generation
      : Math.max(view.generation, highestIn(cluster.store, namespace)) + 1;
  const metadata = {
    ...(configMap?.metadata ?? { name: POD_SECURITY_CONFIG_MAP, namespace }),
    labels: { ...configMap?.metadata?.labels, [PART_OF_LABEL]: PART_OF },
    annotations: { ...before, ...said, [POD_SECURITY_GENERATION_ANNOTATION]: String(generation) },
  };
  const object = { ...configMap, metadata, data };
  const by = { fieldManager };
  await (configMap ? cluster.update('ConfigMap', object, by) : cluster.create('ConfigMap', object, by));
  logger.info({ enforce: effect.enforce, syncer: effect.syncer, generation }, 'default of Pod Security published');
  if (effect.enforce === view.published) return;
  const note = isRaise
    ? 'namespaces without a label are held to restricted from now on'
    : 'namespaces without a label are held to nothing any more';
  const reason = isRaise ? 'EnforcementRaised' : 'EnforcementLowered';
  tell({
    regarding: { apiVersion: 'v1', kind: 'ConfigMap', metadata },
    type: 'Normal',
    reason,
    action: 'Publish',
    note,
  });
}

/** Replicas may know a number from before the ConfigMap was lost. */
function highestIn(store: Store, namespace: string): number {
  return Math.max(0, ...store.list('Lease', namespace).map(generationOf));
}
