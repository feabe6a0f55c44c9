import { inventoryOptions } from '../inventory/options.ts';
import { option } from '../options.ts';
import { objectName, text } from '../values.ts';
import { INSTALLATION } from '../../kube/well-known.ts';

/** Which cluster a command looks after. */
export const clusterOptions = {
  kubeconfig: option('FILE', text, undefined, {
    help: 'Kubeconfig of the cluster; absent, $KUBECONFIG, ~/.kube/config, or the cluster around the process',
  }),
  context: inventoryOptions.context,
};

/** Where in the cluster the installation is. */
export const namespaceOption = {
  namespace: option('NAME', objectName, INSTALLATION.namespace, {
    short: 'n',
    help: 'Namespace of the installation',
  }),
};
