import type { V1ConfigMap, V1Volume, V1VolumeMount } from '@kubernetes/client-node';
import { printYaml } from '../config/manifests.ts';
import type { Wire } from '../kube/types.ts';
import { metadataIn } from './metadata.ts';
import type { ManifestSettings } from './settings.ts';
import type { ManifestOf } from './types.ts';

const NAME = 'portcullis-configuration';
const FOLDER = '/etc/portcullis/configuration';
const FILE = 'configuration.yaml';

/**
 * What counts where namespaces have no labels, but for the rollout: nothing, as in a cluster without a configuration.
 */
export const CONFIGURATION = {
  apiVersion: 'config.portcullis.dev/v1alpha1',
  kind: 'PortcullisConfiguration',
  podSecurity: { exemptions: { usernames: [], runtimeClasses: [], namespaces: [] } },
} as const;

/** The part of it that says how far enforcement is rolled out. */
export function rolloutSection({ rollout: phase, evaluator }: Pick<ManifestSettings, 'rollout' | 'evaluator'>) {
  return { phase, evaluator } as const;
}

/** The configuration file; replicas follow its changes. */
export function configuration(settings: ManifestSettings): ManifestOf<V1ConfigMap> {
  return {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: metadataIn(settings.namespace, NAME),
    data: { [FILE]: printYaml([{ ...CONFIGURATION, rollout: rolloutSection(settings) }]) },
  };
}

export const CONFIGURATION_ARGUMENT = `--config=${FOLDER}/${FILE}`;
export const CONFIGURATION_VOLUME: Wire<V1Volume> = { name: 'configuration', configMap: { name: NAME } };
export const CONFIGURATION_MOUNT: Wire<V1VolumeMount> = { name: 'configuration', mountPath: FOLDER, readOnly: true };
