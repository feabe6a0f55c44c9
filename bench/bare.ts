/**
 * The baseline for the admission server: a Fastify server over TLS that only parses the body and responds. It runs as a
 * process and prints its port. The response to `/patch` contains a patch like that of SCC admission.
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
/** JSON patch with the fields that the restricted-v2 SCC adds to a pod with one container. */
const PATCH = [
  {
    op: 'add',
    path: '/metadata/annotations',
    value: { 'openshift.io/scc': 'restricted-v2', 'security.openshift.io/validated-scc-subject-type': 'user' },
  },
  {
    op: 'add',
    path: '/spec/securityContext',
    value: { fsGroup: 1000000000, seLinuxOptions: { level: 's0:c1,c0' }, seccompProfile: { type: 'RuntimeDefault' } },
  },
  {
    op: 'add',
    path: '/spec/containers/0/securityContext',
    value: {
      allowPrivilegeEscalation: false,
      capabilities: { drop: ['ALL'] },
      runAsNonRoot: true,
      runAsUser: 1000000000,
    },
  },
];
const PATCHED = `,"patchType":"JSONPatch","patch":"${Buffer.from(JSON.stringify(PATCH)).toString('base64')}"`;

for (const [path, patch] of [
  ['/', ''],
  ['/patch', PATCHED],
] as const) {
  app.post(path, (request, reply) => {
    const { request: review } = request.body as { readonly request: { readonly uid: string } };
    return reply
      .type('application/json')
      .send(
        `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{"uid":"${review.uid}","allowed":true${patch}}}`,
      );
  });
}
const address = await app.listen({ host: '127.0.0.1', port: 0 });
process.stdout.write(`${new URL(address).port}\n`);
process.once('SIGTERM', () => void app.close());
