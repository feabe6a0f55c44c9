/**
 * Runs an admission server with a generated store of a given size. `node bench/scale-server.ts small|large` prints its
 * port.
 */
import type { AddressInfo } from 'node:net';
import { createParser } from '../src/cluster/parser.ts';
import { createServer } from '../src/server/server.ts';
import { createLogger } from '../src/telemetry/logger.ts';
import { createMetrics } from '../src/telemetry/metrics.ts';
import { createAuthority, createServing } from '../src/tls/issue.ts';
import { fill, LARGE, objectsOf, SMALL } from './cluster.ts';
import { mutateWebhook } from './scc.ts';

const validity = { now: new Date(), days: 1 };
const { app } = createServer({
  webhooks: [mutateWebhook()],
  store: fill(objectsOf(process.argv[2] === 'large' ? LARGE : SMALL)),
  parser: createParser(),
  logger: createLogger({ level: 'error', format: 'json' }).logger,
  metrics: createMetrics({ version: 'bench' }),
  now: () => performance.now(),
  tls: createServing(createAuthority(validity), { dnsNames: [], ipAddresses: ['127.0.0.1'] }, validity),
});
await app.listen({ host: '127.0.0.1', port: 0 });
process.stdout.write(`${(app.server.address() as AddressInfo).port}\n`);
process.once('SIGINT', () => void app.close());
