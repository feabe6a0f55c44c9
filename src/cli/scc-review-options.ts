import type { Kind } from '../kube/types.ts';
import { RBAC_KINDS } from '../policy/rbac/rules.ts';
import { inventoryOptions } from './inventory/options.ts';
import { objectName, option } from './options.ts';
import { DATA_AND_TABLE, outputOption } from './report/output-option.ts';
import { sccOptions } from './scc-options.ts';

/** The options of commands that are asked which SCC admits the pods of manifests. */
export const sccReviewOptions = {
  namespace: option('NAME', objectName, undefined, { short: 'n', help: 'Namespace of objects that name none' }),
  output: outputOption(DATA_AND_TABLE),
  ...inventoryOptions,
  ...sccOptions,
};

/** What these commands read beside the manifests. */
export const SCC_REVIEW_KINDS: readonly Kind[] = [
  'Namespace',
  'ServiceAccount',
  'SecurityContextConstraints',
  ...RBAC_KINDS,
];
