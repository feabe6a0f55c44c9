import { setTimeout as pause } from 'node:timers/promises';
import type { ResourceRequest } from '../../../src/dev-cluster/call.ts';
import {
  createApiServer,
  createDevCluster,
  createHttpsCaller,
  type DevCluster,
} from '../../../src/dev-cluster/index.ts';
import { ApiError } from '../../../src/kube/status.ts';
import { createCredentials } from './process.ts';
import type { ControlPlane, RecordedCall } from './index.ts';

/** Serves the development cluster's API in this process. */
export async function startDevControlPlane(): Promise<ControlPlane> {
  const credentials = await createCredentials();
  const { authority, serving } = credentials;
  const caller = createHttpsCaller(() => undefined);
  const cluster = createDevCluster({ clock: () => new Date(), call: caller.call });
  const errors: unknown[] = [];
  const onError = (error: unknown): void => void errors.push(error);
  await cluster.start({ rootCertificate: authority.cert, onError });
  const calls: RecordedCall[] = [];
  const observed = observe(cluster, calls);
  const serveOn = async (port: number): Promise<{ server: ReturnType<typeof createApiServer>; port: number }> => {
    const tls = { ...serving, clientAuthority: authority.cert };
    const server = createApiServer({ cluster: observed, tls, onError });
    return { server, port: await server.listen(port) };
  };
  let { server, port } = await serveOn(0);
  const address = `https://127.0.0.1:${port}`;
  const admin = credentials.administrator(port);
  return {
    which: 'dev-cluster',
    title: 'development cluster',
    server: address,
    authority: authority.cert,
    folder: credentials.folder,
    pid: process.pid,
    admin,
    issueClientCertificate: credentials.issueClientCertificate,
    kubeconfigFor: (user, groups) => credentials.kubeconfigFor(address, user, groups),
    calls: () => Promise.resolve([...calls]),
    async interrupt() {
      await server.close();
      // Clients in this process observe closed connections in later ticks.
      await pause(20);
    },
    async resume() {
      ({ server, port } = await serveOn(port));
    },
    async stop() {
      admin.close();
      cluster.stop();
      await server.close();
      caller.close();
      await credentials.remove();
      if (errors.length > 0) throw new AggregateError(errors, 'the development cluster has defects');
    },
  };
}

/** Returns the cluster with a recorder for external requests. */
function observe(cluster: DevCluster, calls: RecordedCall[]): DevCluster {
  const note = (request: ResourceRequest, code: number): void => {
    const { verb, group, resource, subresource, namespace, name, user } = request;
    const isAuthorized = cluster.access(user, { verb, apiGroup: group, resource, subresource, namespace, name });
    calls.push({ user: user.username ?? '', verb, group, resource, subresource, namespace, name, code, isAuthorized });
  };
  return {
    ...cluster,
    async handle(request) {
      try {
        const result = await cluster.handle(request);
        note(request, result.kind === 'object' ? result.code : 200);
        return result;
      } catch (error) {
        note(request, error instanceof ApiError ? error.status.code : 500);
        throw error;
      }
    },
  };
}
