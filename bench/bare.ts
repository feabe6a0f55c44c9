/**
 * The baseline for the admission server, a Fastify server over TLS that only parses the body and responds. It runs as a
 * process and prints its port.
 */
import { readFileSync } from 'node:fs';
import Fastify from 'fastify';

const [certFile = '', keyFile = ''] = process.argv.slice(2);
const app = Fastify({
  https: { cert: readFileSync(certFile), key: readFileSync(keyFile) },
  keepAliveTimeout: 100_000,
  bodyLimit: 7 * 1024 * 1024,
});
app.removeAllContentTypeParsers();
app.addContentTypeParser('application/json', { parseAs: 'string' }, (_request, body, done) => {
  done(null, JSON.parse(body as string));
});
app.post('/', (request, reply) => {
  const { request: review } = request.body as { readonly request: { readonly uid: string } };
  return reply
    .type('application/json')
    .send(
      `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{"uid":"${review.uid}","allowed":true}}`,
    );
});
const address = await app.listen({ host: '127.0.0.1', port: 0 });
process.stdout.write(`${new URL(address).port}\n`);
process.once('SIGTERM', () => void app.close());
