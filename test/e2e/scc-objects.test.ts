/** Tests SCC writes with the server as a process, its development cluster and its webhook configurations. */
import assert from 'node:assert/strict';
import { after, suite, test } from 'node:test';
import { isObject, type JsonObject } from '../../src/kube/types.ts';
import { responseObject } from '../support/answers.ts';
import type { ApiResponse } from '../support/api-client.ts';
import { connect } from '../support/kubeconfig.ts';
import { serve } from '../support/serve-process.ts';

const SCCS = '/apis/security.openshift.io/v1/securitycontextconstraints';
const CONFIGURATIONS = '/apis/admissionregistration.k8s.io/v1';
const HOOK = 'admission webhook "objects.portcullis.dev" denied the request: ';
const DEFAULTING_HOOK = 'admission webhook "mutate.objects.portcullis.dev" denied the request: ';
const INVALID = (name: string): string => `SecurityContextConstraints.security.openshift.io "${name}" is invalid: `;

function short(name: string, fields: JsonObject = {}): JsonObject {
  return {
    apiVersion: 'security.openshift.io/v1',
    kind: 'SecurityContextConstraints',
    metadata: { name },
    runAsUser: { type: 'RunAsAny' },
    seLinuxContext: { type: 'RunAsAny' },
    ...fields,
  };
}

suite('SCCs', async () => {
  const running = await serve([]);
  const client = await connect(running);
  after(async () => {
    client.close();
    await running.stop();
  });
  const create = (scc: JsonObject, query = ''): Promise<ApiResponse> => client.send('POST', `${SCCS}${query}`, scc);
  const getMessage = ({ body, text }: ApiResponse): unknown => (isObject(body) ? body['message'] : text);

  test('are rejected if a value has the wrong type, with a message that names the field', async () => {
    const answer = await create(short('typed', { users: 'alice' }));
    assert.equal(
      getMessage(answer),
      `${DEFAULTING_HOOK}${INVALID('typed')}users: Invalid value: "alice": must be a list`,
    );
    assert.equal(answer.status, 422);
    assert.deepEqual(responseObject(answer)['details'], {
      name: 'typed',
      group: 'security.openshift.io',
      kind: 'SecurityContextConstraints',
      causes: [{ reason: 'FieldValueInvalid', message: 'Invalid value: "alice": must be a list', field: 'users' }],
    });
  });

  test('with an unknown enum value are rejected by the schema', async () => {
    const answer = await create(short('level', { userNamespaceLevel: 'Pod' }));
    assert.match(
      String(getMessage(answer)),
      /is invalid: userNamespaceLevel: Unsupported value: "Pod": supported values: "AllowHostLevel", "RequirePodLevel"$/,
    );
  });

  test('lose unknown fields, or are rejected by strict field validation', async () => {
    const answer = await create(short('pruned', { allowHostNetworks: true }), '?fieldValidation=Ignore');
    assert.equal(answer.status, 201);
    assert.equal(Object.hasOwn(responseObject(answer), 'allowHostNetworks'), false);
    const strict = await create(short('strict', { allowHostNetworks: true }), '?fieldValidation=Strict');
    assert.match(String(getMessage(strict)), /strict decoding error: unknown field "allowHostNetworks"$/);
  });

  test('are validated and not stored in a dry run', async () => {
    const answer = await create(short('dry', { priority: -1 }), '?dryRun=All');
    assert.equal(
      getMessage(answer),
      `${HOOK}${INVALID('dry')}priority: Invalid value: -1: priority cannot be negative`,
    );
    assert.equal((await create(short('dry'), '?dryRun=All')).status, 201);
    assert.equal((await client.send('GET', `${SCCS}/dry`)).status, 404);
  });

  test('are defaulted and validated after a patch', async () => {
    await create(short('patched'));
    const patch = (body: JsonObject) =>
      client.send('PATCH', `${SCCS}/patched`, body, { 'content-type': 'application/merge-patch+json' });
    const wider = await patch({ allowHostDirVolumePlugin: true, volumes: ['secret'] });
    assert.deepEqual(responseObject(wider)['volumes'], ['hostPath', 'secret']);
    const wrong = await patch({ volumes: ['none'] });
    assert.equal(
      getMessage(wrong),
      `${HOOK}${INVALID('patched')}volumes: Invalid value: ["hostPath","none"]: if 'none' is specified, no other values are allowed`,
    );
  });

  test('are defaulted in a server-side apply', async () => {
    const answer = await client.send('PATCH', `${SCCS}/applied?fieldManager=ops`, short('applied'), {
      'content-type': 'application/apply-patch+yaml',
    });
    assert.equal(answer.status, 201);
    assert.equal(responseObject(answer)['allowHostPorts'], false);
  });

  test('cause warnings if they are risky', async () => {
    const answer = await create(short('greedy', { priority: 11, groups: ['system:authenticated'] }));
    assert.equal(answer.status, 201);
    assert.deepEqual(answer.warnings, [
      '299 - "SCC \\"greedy\\" is usable by all users, and its priority 11 puts it before anyuid and restricted-v2, so it will admit every pod that it allows"',
    ]);
    const useless = await create(short('useless', { runAsUser: { type: 'MustRunAs' } }));
    assert.deepEqual(useless.warnings, ['299 - "SCC \\"useless\\" admits no pod: MustRunAs requires a UID"']);
  });

  test('are printed in a table with the columns of OpenShift', async () => {
    const answer = await client.send('GET', SCCS, undefined, {
      accept: 'application/json;as=Table;v=v1;g=meta.k8s.io',
    });
    const { columnDefinitions, rows } = responseObject(answer) as {
      readonly columnDefinitions: readonly { readonly name: string }[];
      readonly rows: readonly { readonly cells: readonly unknown[] }[];
    };
    assert.deepEqual(
      columnDefinitions.map(({ name }) => name),
      ['Name', 'Priv', 'Caps', 'SELinux', 'RunAsUser', 'FSGroup', 'SupGroup', 'Priority', 'ReadOnlyRootFS', 'Volumes'],
    );
    assert.deepEqual(rows.find(({ cells }) => cells[0] === 'privileged')?.cells, [
      'privileged',
      'true',
      '["*"]',
      'RunAsAny',
      'RunAsAny',
      'RunAsAny',
      'RunAsAny',
      '<no value>',
      'false',
      '["*"]',
    ]);
  });

  test('with missing or contradictory fields for host paths are rejected by the schema even without the webhooks', async () => {
    await client.send('DELETE', `${CONFIGURATIONS}/mutatingwebhookconfigurations/zz.portcullis.dev`);
    await client.send('DELETE', `${CONFIGURATIONS}/validatingwebhookconfigurations/portcullis.dev`);
    const bare = await create(short('bare'));
    assert.match(String(getMessage(bare)), /is invalid: \[allowHostDirVolumePlugin: Required value, /);
    const whole = {
      ...responseObject(await client.send('GET', `${SCCS}/privileged`)),
      metadata: { name: 'whole' },
      allowHostDirVolumePlugin: false,
    };
    assert.equal(
      getMessage(await create(whole)),
      `${INVALID('whole')}<nil>: Invalid value: volumes must not hold 'hostPath' or '*' unless allowHostDirVolumePlugin is true`,
    );
    assert.equal((await create({ ...whole, volumes: null })).status, 201);
  });
});
