import { list, option, type Values } from '../options.ts';
import { text } from '../values.ts';

/** Where a command reads from: manifests, or a cluster. */
export const inventoryOptions = {
  filename: list('PATH', text, {
    short: 'f',
    help: 'Manifests to read instead of a cluster: files, folders, - for the standard input',
  }),
  kubeconfig: option('FILE', text, undefined, {
    help: 'Kubeconfig of the cluster to read; absent, $KUBECONFIG, ~/.kube/config, or the cluster around the process',
  }),
  context: option('NAME', text, undefined, { help: 'Context of the kubeconfig; absent, its current one' }),
};

export type InventoryValues = Values<typeof inventoryOptions> & {
  /** The namespace of objects in manifests that name none; absent: `default`. */
  readonly namespace?: string | undefined;
};
