/** Tests the webhooks for PodSecurityExceptions over TLS. As in a cluster, the recording webhook is called first. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { createAccessReviewLimit } from '../../src/cluster/access-reviews.ts';
import { createStore } from '../../src/cluster/store.ts';
import { applyJsonPatch } from '../../src/dev-cluster/json-patch.ts';
import { LIMITS } from '../../src/kube/limits.ts';
import type { JsonObject } from '../../src/kube/types.ts';
import type { ExceptionSettings } from '../../src/policy/psa/index.ts';
import { createEvaluations } from '../../src/server/evaluations.ts';
import { createExceptionReviewer, type ExceptionDeps } from '../../src/server/webhooks/objects/exceptions.ts';
import { createObjectWebhooks } from '../../src/server/webhooks/objects/index.ts';
import { createSettingsReviewer } from '../../src/server/webhooks/objects/settings.ts';
import { createMetrics } from '../../src/telemetry/metrics.ts';
import { hashSpec } from '../../src/views/exceptions.ts';
import { startAdmissionServer, type TestServer } from '../support/admission-server.ts';
import { post } from '../support/https.ts';
import { settingsDeps } from '../support/scc-webhooks.ts';

const NOW = '2027-01-01T00:00:00Z';
const SETTINGS: ExceptionSettings = {
  mode: 'approved',
  maxDurationMs: 90 * 24 * 3_600_000,
  forbiddenChecks: [],
  namespaces: [],
  selfApproval: false,
  trustedApprovers: [],
};
const AUTHORS = 'portcullis.dev/authors';

const spec = {
  serviceAccountName: 'gateway',
  allow: [{ check: 'capabilities_baseline', container: 'proxy', image: 'r.example/gateway', values: ['NET_ADMIN'] }],
  expiresAt: '2027-01-15T00:00:00Z',
  reason: 'SEC-123',
};

let settings = SETTINGS;
let reviewAccess: ExceptionDeps['cluster']['reviewAccess'];
let server: TestServer;
let nowMs = 0;
const metrics = createMetrics({ version: '0.0.0' });
const takeAccessReview = createAccessReviewLimit(() => nowMs);

before(async () => {
  const deps: ExceptionDeps = {
    settings: () => settings,
    cluster: { reviewAccess: (...args) => reviewAccess(...args) },
    takeAccessReview,
    date: () => new Date(NOW),
  };
  server = await startAdmissionServer(
    createObjectWebhooks({ 'podsecurityexceptions.policy.portcullis.dev': createExceptionReviewer(deps) }),
  );
});
after(() => server.stop());

interface Response {
  readonly allowed: boolean;
  readonly patch?: string;
  readonly warnings?: readonly string[];
  readonly status?: { readonly message: string; readonly code: number };
}

async function send(path: string, request: JsonObject): Promise<Response> {
  const review = { apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview', request };
  const reply = await post(server, path, JSON.stringify(review), 'application/json');
  assert.equal(reply.status, 200, reply.body);
  return (JSON.parse(reply.body) as { readonly response: Response }).response;
}

interface Write {
  readonly user?: string;
  readonly object: JsonObject;
  readonly old?: JsonObject;
  readonly status?: boolean;
  readonly version?: string;
  /** False if the recording webhook is not called. */
  readonly isRecorded?: boolean;
}

/** Sends a write to both webhooks. Returns the object, the warnings, or the message of the denial. */
async function write({ user = 'alice', object, old, status, version = 'v1alpha1', isRecorded = true }: Write) {
  const group = 'policy.portcullis.dev';
  const request = {
    uid: 'u',
    kind: { group, version, kind: 'PodSecurityException' },
    resource: { group, version, resource: 'podsecurityexceptions' },
    ...(status ? { subResource: 'status' } : {}),
    operation: old ? 'UPDATE' : 'CREATE',
    name: 'e',
    namespace: 'shop',
    userInfo: { username: user, groups: ['system:authenticated'] },
    object,
    ...(old ? { oldObject: old } : {}),
  };
  const { patch } = isRecorded ? await send('/mutate/objects', request) : {};
  const ops = patch === undefined ? [] : (JSON.parse(Buffer.from(patch, 'base64').toString()) as readonly JsonObject[]);
  const recorded = applyJsonPatch(object, ops) as JsonObject;
  const response = await send('/validate/objects', { ...request, object: recorded });
  return response.allowed ? (response.warnings?.join() ?? recorded) : (response.status?.message ?? '');
}

const object = (change: JsonObject = {}, annotations: JsonObject = {}): JsonObject => ({
  apiVersion: 'policy.portcullis.dev/v1alpha1',
  kind: 'PodSecurityException',
  metadata: { name: 'e', namespace: 'shop', ...(Object.keys(annotations).length > 0 ? { annotations } : {}) },
  spec,
  ...change,
});
const byAlice = { [AUTHORS]: '["alice"]' };
const stored = object({}, byAlice);
const approval = { by: 'bob', at: NOW, specHash: hashSpec(spec) };
const approved = object({ status: { approval } }, byAlice);
const requested = { status: { approval: { specHash: hashSpec(spec) } } };

const PREFIX = 'PodSecurityException.policy.portcullis.dev "e" is invalid: ';

suite('the webhook reviews writes of exceptions:', () => {
  const cases: readonly (readonly [name: string, given: Write, expected: JsonObject | string])[] = [
    ['a proposal records its author', { object: object() }, stored],
    ['an author cannot be forged', { object: object({}, { [AUTHORS]: '["mallory"]' }) }, stored],
    [
      'a proposal is denied if the recording webhook was not called',
      { object: object(), isRecorded: false },
      `${PREFIX}metadata.annotations[${AUTHORS}]: Forbidden: the webhook mutate.objects.portcullis.dev records the authors`,
    ],
    [
      'a proposal in another API version is validated',
      { object: object({ spec: { ...spec, expiresAt: '2027-12-31T00:00:00Z' } }), version: 'v2' },
      `${PREFIX}spec.expiresAt: Invalid value: "2027-12-31T00:00:00Z": must be at most 2160h from now (spec.podSecurity.exceptions.maxDuration of the settings)`,
    ],
    [
      'a proposal that no pod can match causes a message with the reason',
      { object: object({ spec: { ...spec, allow: [{ check: 'privileged' }] } }) },
      'spec.allow[0] has no effect, because privileged checks only fields of containers: set container and image',
    ],
    [
      'a proposal that has expired is denied',
      { object: object({ spec: { ...spec, expiresAt: NOW } }) },
      `${PREFIX}spec.expiresAt: Invalid value: "${NOW}": must be in the future`,
    ],
    [
      'a proposal that would fill the memory of replicas is denied',
      { object: object({ spec: { ...spec, reason: 'x'.repeat(16_384) } }) },
      `${PREFIX}spec: Too long: may not be more than 16384 bytes`,
    ],
    [
      'a proposal that already contains an approval is denied',
      { object: object({ status: { approval } }) },
      `${PREFIX}status.approval: Forbidden: may only be set through the status subresource of podsecurityexceptions`,
    ],
    [
      'each editor becomes an author',
      { user: 'carol', object: object({ spec: { ...spec, reason: 'other' } }, byAlice), old: stored },
      object({ spec: { ...spec, reason: 'other' } }, { [AUTHORS]: '["alice","carol"]' }),
    ],
    [
      'an edit cannot remove the author',
      { user: 'carol', object: object({ spec: { ...spec, reason: 'other' } }), old: stored },
      object({ spec: { ...spec, reason: 'other' } }, { [AUTHORS]: '["alice","carol"]' }),
    ],
    [
      'an edit does not replace a record of authors that cannot be read',
      {
        user: 'carol',
        object: object({ spec: { ...spec, reason: 'other' } }, { [AUTHORS]: '["dave"' }),
        old: object({}, { [AUTHORS]: '["dave"' }),
      },
      object({ spec: { ...spec, reason: 'other' } }, { [AUTHORS]: '["dave"' }),
    ],
    [
      'an edit does not replace a missing record of authors',
      { user: 'carol', object: object({ spec: { ...spec, reason: 'other' } }), old: object() },
      object({ spec: { ...spec, reason: 'other' } }),
    ],
    [
      'a change to the metadata does not add an author',
      { user: 'carol', object: object({}, { ...byAlice, note: 'x' }), old: stored },
      object({}, { ...byAlice, note: 'x' }),
    ],
    [
      'an approval records its approver',
      { user: 'bob', status: true, object: { ...stored, ...requested }, old: stored },
      approved,
    ],
    [
      'an approver cannot be forged',
      {
        user: 'bob',
        status: true,
        object: object({ status: { approval: { ...approval, by: 'carol' } } }, byAlice),
        old: stored,
      },
      approved,
    ],
    [
      'a forged approver is denied if the recording webhook was not called',
      {
        user: 'bob',
        status: true,
        object: object({ status: { approval: { ...approval, by: 'carol' } } }, byAlice),
        old: stored,
        isRecorded: false,
      },
      `${PREFIX}status.approval.by: Invalid value: "carol": must be the requesting user "bob"`,
    ],
    [
      'a forged approval time is denied if the recording webhook was not called',
      {
        user: 'bob',
        status: true,
        object: object({ status: { approval: { ...approval, at: '2027-03-01T00:00:00Z' } } }, byAlice),
        old: stored,
        isRecorded: false,
      },
      `${PREFIX}status.approval.at: Invalid value: "2027-03-01T00:00:00Z": must be the current time`,
    ],
    [
      'an author cannot approve',
      { status: true, object: { ...stored, ...requested }, old: stored },
      `${PREFIX}status.approval: Forbidden: alice is its author and cannot approve it`,
    ],
    [
      'an approval is denied if the spec has changed since the approver read it',
      { user: 'bob', status: true, object: { ...stored, status: { approval: { specHash: 'x' } } }, old: stored },
      `${PREFIX}status.approval.specHash: Invalid value: "x": must be the hash of the current spec (${hashSpec(spec)}): read the spec again before you approve it`,
    ],
    [
      'a user without the approve verb cannot approve',
      { user: 'mallory', status: true, object: { ...stored, ...requested }, old: stored },
      'podsecurityexceptions.policy.portcullis.dev "e" is forbidden: User "mallory" cannot approve resource "podsecurityexceptions" in API group "policy.portcullis.dev" in the namespace "shop"',
    ],
    [
      'a status update that does not change the approval does not require the approve verb',
      { user: 'mallory', status: true, object: { ...approved, status: { approval, uses: 1 } }, old: approved },
      { ...approved, status: { approval, uses: 1 } },
    ],
    [
      'an approval can be withdrawn',
      { user: 'mallory', status: true, object: { ...stored, status: {} }, old: approved },
      { ...stored, status: {} },
    ],
    [
      'an approval without authors is denied',
      { user: 'bob', status: true, object: object(requested), old: object() },
      `${PREFIX}status.approval: Forbidden: its authors are unknown because it was stored without a review. Delete it and create it again`,
    ],
    ['fields that are null are absent', { object: { ...object(), status: null } }, { ...stored, status: null }],
  ];
  for (const [name, change, expected] of cases) {
    test(name, async () => {
      settings = SETTINGS;
      reviewAccess = ({ username = '' }, action) => {
        assert.deepEqual(action, {
          verb: 'approve',
          apiGroup: 'policy.portcullis.dev',
          resource: 'podsecurityexceptions',
          name: 'e',
          namespace: 'shop',
        });
        return Promise.resolve({ allowed: ['alice', 'bob'].includes(username) });
      };
      assert.deepEqual(await write(change), expected);
    });
  }
});

suite('approvals in annotations are recorded or denied:', () => {
  const [BY, PROPOSED, HASH, THROUGH, AT] = [
    'approved-by',
    'proposed-by',
    'approved-spec-hash',
    'approved-through',
    'approved-at',
  ].map((name) => `portcullis.dev/${name}`) as [string, string, string, string, string];
  const FLUX = 'system:serviceaccount:flux-system:exceptions';
  const inGit = { [BY]: 'bob', [PROPOSED]: 'carol', [HASH]: hashSpec(spec) };
  const recorded = { [THROUGH]: FLUX, [AT]: NOW };
  const byFlux = { [AUTHORS]: JSON.stringify([FLUX]) };
  const applied = object({}, { ...inGit, ...byFlux, ...recorded });
  const changed = { ...spec, reason: 'SEC-124' };
  const path = (key: string): string => `${PREFIX}metadata.annotations[${key}]: `;
  const RECORDS = 'Forbidden: the webhook mutate.objects.portcullis.dev records the user and the time of the approval';
  const untrusted = (user: string): string =>
    `${path(BY)}Forbidden: spec.podSecurity.exceptions.trustedApprovers of the settings does not contain "${user}": remove the annotation, and approve with portcullis exception approve`;
  const self = (user: string): string => `${path(BY)}Forbidden: ${user} is its author and cannot approve it`;
  /** Attacks by a tenant who may write exceptions, and mistakes of a deployer. */
  const cases: readonly (readonly [
    name: string,
    given: Write & { readonly trusts?: readonly string[] },
    expected: JsonObject | string,
  ])[] = [
    ['an approval that a trusted deployer applies is recorded', { user: FLUX, object: object({}, inGit) }, applied],
    [
      'a second apply by the deployer keeps the record',
      { user: FLUX, object: object({}, inGit), old: applied },
      applied,
    ],
    [
      'the deployer is denied while the settings trust no deployer',
      { user: FLUX, object: object({}, inGit), trusts: [] },
      untrusted(FLUX),
    ],
    [
      'a tenant who applies an approval is denied',
      { user: 'mallory', object: object({}, inGit) },
      untrusted('mallory'),
    ],
    [
      'a tenant who forges the deployer is denied',
      { user: 'mallory', object: object({}, { ...inGit, ...recorded }) },
      untrusted('mallory'),
    ],
    [
      'a tenant who forges the deployer is denied even if the recording webhook was not called',
      { user: 'mallory', object: object({}, { ...inGit, ...recorded, [AUTHORS]: '["mallory"]' }), isRecorded: false },
      `${path(THROUGH)}${RECORDS}`,
    ],
    [
      'a tenant who copies an approval to another spec is denied',
      { user: 'mallory', object: object({ spec: changed }, { ...inGit, ...recorded }) },
      untrusted('mallory'),
    ],
    [
      'a deployer that a tenant records is removed if there is no approval',
      { user: 'mallory', object: object({}, recorded) },
      object({}, { [AUTHORS]: '["mallory"]' }),
    ],
    [
      'a tenant who changes the approver of an approved exception is denied',
      { user: 'mallory', object: object({}, { ...inGit, ...recorded, [BY]: 'dave' }), old: applied },
      untrusted('mallory'),
    ],
    [
      'a change of the approval time by a tenant is reverted',
      {
        user: 'mallory',
        object: object({}, { ...inGit, ...byFlux, ...recorded, [AT]: '2027-06-01T00:00:00Z' }),
        old: applied,
      },
      applied,
    ],
    [
      'a tenant who extends the time of the approval is denied if the recording webhook was not called',
      {
        ...{ user: 'mallory', isRecorded: false, old: applied },
        object: object({}, { ...inGit, ...byFlux, ...recorded, [AT]: '2027-06-01T00:00:00Z' }),
      },
      `${path(THROUGH)}${RECORDS}`,
    ],
    [
      'a tenant who changes the spec becomes an author, which ends the approval',
      { user: 'mallory', object: object({ spec: changed }, { ...inGit, ...byFlux, ...recorded }), old: applied },
      object({ spec: changed }, { ...inGit, ...recorded, [AUTHORS]: JSON.stringify(['mallory', FLUX]) }),
    ],
    [
      'a tenant may remove the approval',
      { user: 'mallory', object: object({}, byFlux), old: applied },
      object({}, byFlux),
    ],
    [
      'a trusted deployer without the approve verb is denied',
      { user: 'mallory', object: object({}, inGit), trusts: ['mallory'] },
      'podsecurityexceptions.policy.portcullis.dev "e" is forbidden: User "mallory" cannot approve resource "podsecurityexceptions" in API group "policy.portcullis.dev" in the namespace "shop"',
    ],
    [
      'a user whose name begins with the name of a trusted deployer is denied',
      { user: `${FLUX}-2`, object: object({}, inGit) },
      untrusted(`${FLUX}-2`),
    ],
    ['the deployer cannot be the approver', { user: FLUX, object: object({}, { ...inGit, [BY]: FLUX }) }, self(FLUX)],
    [
      'the same person cannot be the proposer and the approver',
      { user: FLUX, object: object({}, { ...inGit, [PROPOSED]: 'bob' }) },
      self('bob'),
    ],
    [
      'an author in the cluster cannot be the approver',
      { user: FLUX, object: object({}, { ...inGit, [BY]: 'alice' }), old: stored },
      self('alice'),
    ],
    [
      'an approval without a proposer is denied',
      { user: FLUX, object: object({}, { [BY]: 'bob', [HASH]: hashSpec(spec) }) },
      `${path(PROPOSED)}Required value: must be the name of the person who proposed the exception, who must not be its approver`,
    ],
    [
      'an approval with the hash of another spec is denied',
      { user: FLUX, object: object({ spec: changed }, inGit) },
      `${path(HASH)}Invalid value: "${hashSpec(spec)}": must be the hash of the spec (${hashSpec(changed)})`,
    ],
    [
      'an approval is denied if the authors are unknown',
      { user: FLUX, object: object({}, inGit), old: object() },
      `${path(BY)}Forbidden: its authors are unknown because it was stored without a review. Delete it and create it again`,
    ],
  ];
  for (const [name, { trusts = [FLUX], ...change }, expected] of cases) {
    test(name, async () => {
      settings = { ...SETTINGS, trustedApprovers: trusts };
      reviewAccess = ({ username = '' }) => Promise.resolve({ allowed: username.startsWith(FLUX) });
      assert.deepEqual(await write(change), expected);
    });
  }
});

suite('the settings limit proposals and approvals:', () => {
  const cases: readonly (readonly [change: Partial<ExceptionSettings>, expected: string | undefined])[] = [
    [{ mode: 'off' }, 'spec.podSecurity.exceptions.mode is off: set it to approved'],
    [{ namespaces: ['other'] }, 'spec.podSecurity.exceptions.namespaces does not contain shop'],
    [
      { forbiddenChecks: ['capabilities_restricted'] },
      'spec.podSecurity.exceptions.forbiddenChecks forbids exceptions from capabilities_baseline',
    ],
    [{ maxDurationMs: 3_600_000 }, undefined],
  ];
  for (const [change, message] of cases) {
    test(JSON.stringify(change), async () => {
      settings = { ...SETTINGS, ...change };
      reviewAccess = () => Promise.resolve({ allowed: true });
      const proposal = await write({ object: object() });
      const approvedByBob = await write({
        user: 'bob',
        status: true,
        object: { ...stored, ...requested },
        old: stored,
      });
      if (message === undefined) {
        assert.equal(
          proposal,
          `${PREFIX}spec.expiresAt: Invalid value: "2027-01-15T00:00:00Z": must be at most 1h from now (spec.podSecurity.exceptions.maxDuration of the settings)`,
        );
        assert.equal(
          approvedByBob,
          `${PREFIX}status.approval: Forbidden: spec.podSecurity.exceptions.maxDuration does not permit an expiry after 2027-01-01T01:00:00Z`,
        );
      } else {
        assert.equal(proposal, `${PREFIX}spec: Forbidden: ${message}`);
        assert.equal(approvedByBob, `${PREFIX}status.approval: Forbidden: ${message}`);
      }
    });
  }

  test('authors may approve if the settings permit it', async () => {
    settings = { ...SETTINGS, selfApproval: true, trustedApprovers: [] };
    reviewAccess = () => Promise.resolve({ allowed: true });
    const written = await write({ status: true, object: { ...stored, ...requested }, old: stored });
    assert.deepEqual(written, { ...stored, status: { approval: { ...approval, by: 'alice' } } });
  });

  test('an approval is denied if the access review fails', async () => {
    settings = SETTINGS;
    reviewAccess = () => Promise.reject(new Error('no connection'));
    assert.equal(
      await write({ user: 'bob', status: true, object: { ...stored, ...requested }, old: stored }),
      'failed to check with the API server whether "bob" may approve podsecurityexceptions.policy.portcullis.dev; try again',
    );
  });
});

test('reviews of approvals are limited for each client address', async () => {
  settings = SETTINGS;
  let sent = 0;
  reviewAccess = () => Promise.resolve({ allowed: ++sent > 0 });
  const approve = () => write({ user: 'bob', status: true, object: { ...stored, ...requested }, old: stored });
  const denial = 'a client may cause at most 200 SubjectAccessReviews per second; try again';
  nowMs += 10_000;
  for (let count = 1; count < LIMITS.accessReviewBurst; count++) assert.equal(takeAccessReview('127.0.0.1'), true);
  assert.notEqual(await approve(), denial);
  assert.equal(await approve(), denial);
  assert.equal(sent, 1);
  assert.equal(takeAccessReview('192.0.2.1'), true);
  nowMs += 5;
  assert.notEqual(await approve(), denial);
  assert.equal(await approve(), denial);
  assert.match(await metrics.expose(), /^portcullis_limits_exceeded_total\{limit="accessReviewsPerSecond"\} 2$/m);
});

test('the review of an exception without an object is denied', async () => {
  assert.equal(await write({ object: null as unknown as JsonObject }), 'the object is not a PodSecurityException');
});

suite('a change to the settings warns if it ends active exceptions:', () => {
  const expiring = { ...spec, expiresAt: '2027-03-20T00:00:00Z' };
  const put = (name: string, change: { readonly spec?: typeof spec; readonly status?: JsonObject } = {}) => {
    const { spec: own = spec, status = {} } = change;
    return {
      ...approved,
      metadata: { name, namespace: 'shop', annotations: byAlice },
      spec: own,
      status: { approval: { ...approval, specHash: hashSpec(own) }, ...status },
    };
  };
  const exceptions = [
    put('a', { status: { workloads: ['StatefulSet/vault', 'Deployment/gateway'] } }),
    put('b', { spec: expiring, status: { workloads: ['StatefulSet/vault'] } }),
    put('expired', { spec: { ...spec, expiresAt: '2026-12-31T00:00:00Z' } }),
    put('proposed', { status: { approval: undefined } }),
    put('own', { status: { approval: { ...approval, by: 'alice' } } }),
    {
      ...approved,
      metadata: {
        name: 'in-git',
        namespace: 'shop',
        annotations: {
          ...byAlice,
          'portcullis.dev/approved-by': 'bob',
          'portcullis.dev/approved-spec-hash': hashSpec(spec),
          'portcullis.dev/approved-through': 'flux',
          'portcullis.dev/approved-at': NOW,
        },
      },
      status: {},
    },
  ];
  const ON = { mode: 'approved' };
  const ALL =
    'ends 2 active exceptions: shop/a, shop/b. It denies new pods of 2 workloads: Deployment shop/gateway, StatefulSet shop/vault';
  const cases: readonly (readonly [name: string, after: unknown, warning: string, ...trusts: string[]])[] = [
    ['off mode, with a warning', { mode: 'off' }, ALL],
    ['removed settings, with a warning', undefined, ALL],
    ['null', null, ALL],
    ['other namespaces, with a warning', { ...ON, namespaces: ['bank'] }, ALL],
    ['the same namespaces, without a warning', { ...ON, namespaces: ['shop'] }, ''],
    [
      'a forbidden check that an exception allows, with a warning',
      { ...ON, forbiddenChecks: ['capabilities_restricted'] },
      ALL,
    ],
    ['a forbidden check that no exception allows, without a warning', { ...ON, forbiddenChecks: ['privileged'] }, ''],
    [
      'a shorter maximum duration, with a warning',
      { ...ON, maxDuration: '720h' },
      'ends 1 active exception: shop/b. It denies new pods of 1 workload: StatefulSet shop/vault',
    ],
    ['equal settings, without a warning', ON, ''],
    [
      'another trusted approver, with a warning',
      { ...ON, trustedApprovers: ['argocd'] },
      'ends 1 active exception: shop/in-git',
      'flux',
    ],
    [
      'invalid settings, without a warning because API servers reject them',
      { mode: 5, namespaces: 'shop', forbiddenChecks: 7 },
      '',
    ],
  ];
  for (const [name, after, warning, ...trustedApprovers] of cases) {
    test(name, async () => {
      const store = createStore();
      for (const exception of exceptions) store.put('PodSecurityException', exception);
      store.markSynced();
      const { readSettings, createFailsClosed } = settingsDeps(store);
      const defaults = readSettings({ spec: {} });
      assert.ok(defaults);
      const reviewer = createSettingsReviewer({
        readSettings,
        createFailsClosed,
        previewRanges: (namespace) => namespace,
        settings: () => ({ ...defaults, exceptions: { ...SETTINGS, trustedApprovers } }),
        date: () => new Date(NOW),
        evaluate: createEvaluations(() => 0),
        discloses: () => true,
      });
      const group = 'config.portcullis.dev';
      const settingsOf = (value: unknown) => ({ spec: { podSecurity: { exceptions: value } } });
      const decision = await reviewer.validate(
        {
          uid: 'u',
          kind: { group, version: 'v1alpha1', kind: 'PortcullisConfiguration' },
          resource: { group, version: 'v1alpha1', resource: 'portcullisconfigurations' },
          operation: 'UPDATE',
          userInfo: {},
          object: settingsOf(after),
          oldObject: settingsOf(ON),
        },
        { store, now: () => 0, deadlineMs: 1e9 },
      );
      assert.equal(decision.allowed, true);
      const expected = warning === '' ? [] : [`the change to spec.podSecurity.exceptions ${warning}`];
      assert.deepEqual(decision.warnings ?? [], expected);
    });
  }
});
