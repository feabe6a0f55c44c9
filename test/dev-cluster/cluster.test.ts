import { createDevCluster } from '../../src/dev-cluster/cluster.ts';
import { clusterContract } from '../cluster/contract.ts';

clusterContract('the development cluster', async () => {
  const cluster = createDevCluster({
    clock: () => new Date(),
    call: () => Promise.resolve({ ok: false, error: 'this cluster has no webhooks' }),
  });
  await cluster.start();
  return {
    cluster,
    events: () => {
      const events = cluster.storage.list({ group: '', resource: 'events' });
      return Promise.resolve(events.map((event) => String(event['reason'])));
    },
    stop() {
      cluster.stop();
      return Promise.resolve();
    },
  };
});
