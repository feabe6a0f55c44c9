import { serveOptions } from './serve/options.ts';

const {
  'scc-mode': mode,
  'scc-exempt-namespaces': exemptNamespaces,
  'scc-compatibility': compatibility,
  'scc-identity': identity,
  'scc-broken': broken,
  'scc-required': required,
  'scc-unprocessed-pods': unprocessedPods,
  'scc-prefer-user-namespaces': preferUserNamespaces,
} = serveOptions;

/** The options of `serve` that say how SCCs work, for commands that foretell what it would do. */
export const sccOptions = {
  'scc-mode': mode,
  'scc-exempt-namespaces': exemptNamespaces,
  'scc-compatibility': compatibility,
  'scc-identity': identity,
  'scc-broken': broken,
  'scc-required': required,
  // Of updates only, which are not foretold.
  'scc-unprocessed-pods': { ...unprocessedPods, visibility: 'hidden' },
  'scc-prefer-user-namespaces': preferUserNamespaces,
} as const;
