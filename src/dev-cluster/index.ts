/**
 * An in-memory Kubernetes API server for evaluation and for tests. It stores objects and runs admission, but runs no
 * pods.
 */
export { createHttpsCaller } from './admission/https.ts';
export { createDevCluster, type DevCluster } from './cluster.ts';
export { default as OLM_DEFINITIONS } from './olm-definitions.json' with { type: 'json' };
export { KUBERNETES_VERSION } from './discovery.ts';
export { createApiServer, writeKubeconfig } from './server.ts';
export type { ApiObject } from './types.ts';
