import { createEmbeddedCluster } from '../../../src/cluster/embedded/cluster.ts';
import { clusterContract } from '../contract.ts';

clusterContract('the embedded cluster', async () => {
  const cluster = createEmbeddedCluster({
    clock: () => new Date(),
    call: () => Promise.resolve({ ok: false, error: 'there are no webhooks here' }),
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
