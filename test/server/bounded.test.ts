import assert from 'node:assert/strict';
import { test } from 'node:test';
import { allow, deny } from '../../src/kube/admission.ts';
import { forbidden } from '../../src/kube/status.ts';
import { MAX_TEXT } from '../../src/server/review.ts';
import { startAdmissionServer } from '../support/admission-server.ts';
import { post } from '../support/https.ts';
import { podReview } from '../support/reviews.ts';

const LONG = 'x'.repeat(MAX_TEXT + 1);
const CUT = `${'x'.repeat(MAX_TEXT)}…`;

interface Response {
  readonly status?: { readonly message: string; readonly reason: string };
  readonly auditAnnotations?: Readonly<Record<string, string>>;
  readonly warnings?: readonly string[];
}

test('texts of an answer and of the log are cut where nobody reads on', async () => {
  const refusal = { ...forbidden({ group: '', resource: 'pods' }, 'web', 'no'), message: LONG };
  const server = await startAdmissionServer([
    { path: '/deny', decide: () => deny(refusal) },
    {
      path: '/allow',
      decide: () => allow({ auditAnnotations: { a: 'short', b: LONG, c: LONG }, warnings: ['w', LONG] }),
    },
  ]);
  const ask = async (path: string): Promise<Response> => {
    const { body } = await post(server, path, JSON.stringify(podReview({})), 'application/json');
    return (JSON.parse(body) as { readonly response: Response }).response;
  };
  const denied = await ask('/deny');
  const allowed = await ask('/allow');
  await server.stop();
  assert.deepEqual([denied.status?.message, denied.status?.reason], [CUT, 'Forbidden']);
  assert.equal(server.log[0]?.['reason'], CUT);
  assert.deepEqual(allowed, {
    uid: podReview({}).request.uid,
    allowed: true,
    auditAnnotations: { a: 'short', b: `${'x'.repeat(MAX_TEXT - 5)}…`, c: '…' },
    warnings: ['w', CUT],
  });
});
