import type { V1ConfigMap, V1Volume, V1VolumeMount } from '@kubernetes/client-node';
import { printYaml } from '../config/manifests.ts';
import type { Wire } from '../kube/types.ts';
import { metadataIn } from './metadata.ts';
import type { ManifestSettings } from './settings.ts';
import type { ManifestOf } from './types.ts';

const NAME = 'portcullis-configuration';
const FOLDER = '/etc/portcullis/configuration';
const FILE = 'configuration.yaml';

/** What counts where namespaces have no labels: nothing, as in a cluster without a configuration. */
export const CONFIGURATION = {
  apiVersion: 'pod-security.admission.config.k8s.io/v1',
  kind: 'PodSecurityConfiguration',
  defaults: {
    enforce: 'privileged',
    'enforce-version': 'latest',
    audit: 'privileged',
    'audit-version': 'latest',
    warn: 'privileged',
    'warn-version': 'latest',
  },
  exemptions: { usernames: [], runtimeClasses: [], namespaces: [] },
} as const;

/** The configuration file; replicas follow its changes. */
export function configuration({ namespace }: ManifestSettings): ManifestOf<V1ConfigMap> {
  return {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: metadataIn(namespace, NAME),
    data: { [FILE]: printYaml([CONFIGURATION]) },
  };
}

export const CONFIGURATION_ARGUMENT = `--config=${FOLDER}/${FILE}`;
export const CONFIGURATION_VOLUME: Wire<V1Volume> = { name: 'configuration', configMap: { name: NAME } };
export const CONFIGURATION_MOUNT: Wire<V1VolumeMount> = { name: 'configuration', mountPath: FOLDER, readOnly: true };
