/**
 * `--caller-tokens=required` beside a real API server, which sends a token with each review. Only with KUBEBUILDER_ASSETS: the
 * development cluster publishes no keys of service accounts.
 */
import assert from 'node:assert/strict';
import { createPrivateKey } from 'node:crypto';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { SignJWT } from 'jose';
import { WEBHOOK_REGISTRATIONS } from '../../src/server/webhooks/index.ts';
import { responseMessage } from '../support/answers.ts';
import {
  ASSETS,
  createSystem,
  startControlPlane,
  type ControlPlane,
  type System,
} from '../support/control-plane/index.ts';
import { create } from '../support/control-plane/installation.ts';
import { eventually } from '../support/eventually.ts';
import { post } from '../support/https.ts';
import { podReview } from '../support/reviews.ts';

const KEYS = '/openid/v1/jwks';
const REVIEW = JSON.stringify(podReview({}));
const ISSUER = 'https://kubernetes.default.svc';
const POD = {
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name: 'web' },
  spec: { containers: [{ name: 'c', image: 'i' }] },
};

suite('tokens of a real API server', { skip: ASSETS === undefined && 'no KUBEBUILDER_ASSETS' }, () => {
  let folder: string;
  let plane: ControlPlane;
  let system: System;

  const writeAdmissionConfig = async (): Promise<string> => {
    const kubeConfigFile = join(folder, 'webhooks.kubeconfig');
    const users = [{ name: '*', user: { tokenFile: join(folder, 'token') } }];
    await writeFile(kubeConfigFile, JSON.stringify({ apiVersion: 'v1', kind: 'Config', users }));
    const configuration = {
      apiVersion: 'apiserver.config.k8s.io/v1',
      kind: 'WebhookAdmissionConfiguration',
      kubeConfigFile,
    };
    const plugins = ['MutatingAdmissionWebhook', 'ValidatingAdmissionWebhook'].map((name) => ({ name, configuration }));
    const file = join(folder, 'admission.json');
    const type = { apiVersion: 'apiserver.config.k8s.io/v1', kind: 'AdmissionConfiguration' };
    await writeFile(file, JSON.stringify({ ...type, plugins }));
    return file;
  };
  /** Signs a token as an API server with KEP-6060. */
  const writeToken = async (): Promise<void> => {
    const { body } = await plane.admin.send('GET', KEYS);
    const [key] = (body as { readonly keys: readonly { readonly kid: string }[] }).keys;
    const token = await new SignJWT({
      'kubernetes.io': {
        validatingWebhookConfiguration: { name: 'portcullis', uid: '1' },
        attestations: { admissionReviewAPIGroups: ['*'] },
      },
    })
      .setProtectedHeader({ alg: 'ES256', kid: key?.kid ?? '' })
      .setIssuer(ISSUER)
      .setAudience(WEBHOOK_REGISTRATIONS.map(({ path }) => url(path)))
      .setExpirationTime('10 minutes')
      .sign(createPrivateKey(await readFile(join(plane.folder, 'accounts.key'), 'utf8')));
    await writeFile(join(folder, 'token'), token);
  };
  const url = (path: string): string => `https://127.0.0.1:${system.port}${path}`;

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'portcullis-test-'));
    plane = await startControlPlane({ admissionConfig: await writeAdmissionConfig() });
    system = await createSystem(plane, { args: ['--caller-tokens=required', '--shutdown-delay-duration=0s'] });
    await writeToken();
    await system.install();
    await system.scale(1);
    const labels = { 'pod-security.kubernetes.io/enforce': 'restricted' };
    await create(plane.admin, { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'shop', labels } });
  });
  after(async () => {
    await system.stop().finally(() => plane.stop());
    await rm(folder, { recursive: true });
  });

  test('the reviews of the API server are answered', async () => {
    await eventually(async () => {
      const answer = await plane.admin.send('POST', '/api/v1/namespaces/shop/pods', POD);
      assert.equal(answer.status, 403, answer.text);
      assert.match(String(responseMessage(answer)), /violates PodSecurity "restricted:latest"/);
    });
    const { text } = (await system.replicas[0]?.probe('/metrics')) ?? { text: '' };
    const counts = [...text.matchAll(/^portcullis_webhook_caller_tokens_total\{result="(\w+)"\} [1-9]/gm)];
    assert.deepEqual(
      counts.map(([, result]) => result),
      ['valid'],
    );
  });

  test('the token of a service account of the cluster, with the right audience, is rejected', async () => {
    const request = {
      apiVersion: 'authentication.k8s.io/v1',
      kind: 'TokenRequest',
      spec: { audiences: [url('/psa/validate')] },
    };
    const account = '/api/v1/namespaces/shop/serviceaccounts/default';
    await eventually(async () => assert.equal((await plane.admin.send('GET', account)).status, 200));
    const { body } = await plane.admin.send('POST', `${account}/token`, request);
    const { token } = (body as { readonly status: { readonly token: string } }).status;
    const found = await plane.admin.send(
      'GET',
      '/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations',
    );
    const [bundle] = /(?<="caBundle":")[^"]+/.exec(JSON.stringify(found.body)) ?? [''];
    const ca = Buffer.from(bundle, 'base64').toString();
    const headers = { authorization: `Bearer ${token}` };
    const reply = await post({ port: system.port, ca, headers }, '/psa/validate', REVIEW, 'application/json');
    assert.deepEqual(
      [reply.status, reply.body],
      [
        401,
        'the token of the caller is not accepted: its claim kubernetes.io.attestations.admissionReviewAPIGroups must be a list of API groups\n',
      ],
    );
  });
});
