import { flag, list, objectName, option, text, type Values } from '../options.ts';

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

/** Of which namespaces a command tells. */
export const selectionOptions = {
  namespace: option('NAME', objectName, undefined, {
    short: 'n',
    help: 'This namespace only; of manifests, also the namespace of objects that name none',
  }),
  'all-namespaces': flag({ short: 'A', help: 'All namespaces, which is the default' }),
};

/** The only namespace of which to tell; `undefined`: all. */
export function selectedNamespace({
  namespace,
  'all-namespaces': all,
}: Values<typeof selectionOptions>): string | undefined {
  return all ? undefined : namespace;
}

export type InventoryValues = Values<typeof inventoryOptions> & {
  /** The namespace of objects in manifests that name none; absent: `default`. */
  readonly namespace?: string | undefined;
};
