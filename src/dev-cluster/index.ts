/** A Kubernetes API server in memory, for a first trial and for tests. It stores and admits objects, but runs no pods. */
export { createHttpsCaller } from './admission/index.ts';
export { createDevCluster, type DevCluster } from './cluster.ts';
export { writeKubeconfig } from './http/kubeconfig.ts';
export { createApiServer } from './http/server.ts';
export type { ApiObject, ResourceKey } from './types.ts';
