/** Tests that `kubectl wait` waits for the conditions of the three custom resources. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { hashSpec } from '../../src/views/exceptions.ts';
import { createKubectl, hasKubectl } from '../support/kubectl.ts';
import { type RunningServer, serve } from '../support/serve-process.ts';

const SPEC = {
  serviceAccountName: 'gateway',
  allow: [{ check: 'seccompProfile_restricted', values: ['nil'] }],
  expiresAt: new Date(Date.now() + 86_400_000).toISOString().replace(/\.\d+/, ''),
  reason: 'SEC-1',
};
const EXCEPTION = JSON.stringify({
  apiVersion: 'policy.portcullis.dev/v1alpha1',
  kind: 'PodSecurityException',
  metadata: { name: 'gateway', namespace: 'shop' },
  spec: SPEC,
});
const approval = JSON.stringify({ status: { approval: { specHash: hashSpec(SPEC) } } });
const settings = JSON.stringify({
  spec: { rollout: { phase: 'Evaluate' }, podSecurity: { exceptions: { mode: 'approved' } } },
});
const as = (user: string): readonly string[] => [`--as=${user}`, '--as-group=system:masters'];
const wait = (object: string, condition: string, timeout = '30s'): readonly string[] => [
  ...['wait', ...object.split(' '), `--for=${condition}`, `--timeout=${timeout}`, '-n', 'shop'],
];

const MET = / condition met$/;
const TIMED_OUT = /^error: timed out waiting for the condition/;

/** Each step depends on the previous steps. */
const STEPS: readonly (readonly [args: readonly string[], output: RegExp, stdin?: string])[] = [
  [wait('portcullis cluster', 'condition=Ready'), MET],
  [['patch', 'portcullis', 'cluster', '--type=merge', '-p', settings], / patched$/],
  [wait('portcullis cluster', 'condition=Ready'), MET],
  [wait('psaenforcementconfig cluster', 'condition=Ready'), MET],
  [wait('psaenforcementconfig cluster', 'condition=ViolationsDetected=False', '1s'), TIMED_OUT],
  [['create', '-f', '-', ...as('alice')], / created$/, EXCEPTION],
  [wait('podsecurityexception gateway', 'condition=Ready', '1s'), TIMED_OUT],
  [
    [
      ...['patch', 'podsecurityexception', 'gateway', '-n', 'shop', '--subresource=status', '--type=merge'],
      ...['-p', approval, ...as('bob')],
    ],
    / patched$/,
  ],
  [wait('podsecurityexception gateway', 'condition=Ready'), MET],
];

describe('kubectl wait reports the Ready condition with', { skip: !hasKubectl && 'there is no kubectl' }, () => {
  let server: RunningServer;
  before(async () => (server = await serve(['--dev-cluster'])));
  after(async () => await server.stop());

  for (const [args, output, stdin] of STEPS) {
    test(args.join(' '), async () => {
      const { stdout, stderr } = await createKubectl(server.kubeconfig)(args, stdin);
      assert.match(`${stderr}${stdout}`.trim(), output);
    });
  }
});
