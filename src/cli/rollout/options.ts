import type { Kind } from '../../kube/types.ts';
import { INSTALLATION } from '../../kube/well-known.ts';
import { POD_SOURCES } from '../../cluster/workloads.ts';
import { RBAC_KINDS } from '../../policy/rbac/types.ts';
import { inventoryOptions } from '../inventory/options.ts';
import { option, type Values } from '../options.ts';
import { DATA_AND_TABLE, outputOption } from '../report/output-option.ts';
import { sccOptions } from '../scc-options.ts';
import { objectName, text } from '../values.ts';

/** What the commands about the rollout have in common. */
export const rolloutOptions = {
  ...inventoryOptions,
  config: option('FILE', text, undefined, {
    help: 'Configuration file of the server; absent, the one that the installation in the cluster runs with',
  }),
  'installation-namespace': option('NAME', objectName, INSTALLATION.namespace, {
    help: 'Namespace of the installation',
  }),
  'scc-mode': sccOptions['scc-mode'],
  'scc-exempt-namespaces': sccOptions['scc-exempt-namespaces'],
  output: outputOption(DATA_AND_TABLE),
};

export type RolloutValues = Values<typeof rolloutOptions> & { readonly namespace?: string | undefined };

/** What these commands read; of manifests everything is read. */
export const ROLLOUT_COMMAND_KINDS: readonly Kind[] = [
  'Namespace',
  'ServiceAccount',
  ...POD_SOURCES,
  ...RBAC_KINDS,
  'SecurityContextConstraints',
  'PSAEnforcementConfig',
  'FeatureGate',
];
