/** What API servers are told about the webhooks agrees with the webhooks. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { matchesConditions } from '../../src/dev-cluster/match-conditions.ts';
import { matchesLabelSelector } from '../../src/kube/webhooks.ts';
import type { AdmissionRequest, Decision } from '../../src/kube/admission.ts';
import type { JsonObject } from '../../src/kube/types.ts';
import { defaultSettings, webhookConfigurations } from '../../src/install/index.ts';
import { DEFAULT_CONFIGURATION } from '../../src/policy/psa/configuration.ts';
import { reviewPodSecurity, DEFAULT_LIMITS } from '../../src/policy/psa/review.ts';
import { createPodSecurity } from '../../src/policy/psa/configuration.ts';
import { DEFAULT_EXEMPT_NAMESPACES, sccMode, type SccSettings } from '../../src/policy/scc/mode.ts';
import { readRequest } from '../../src/policy/scc/request.ts';
import { createLogger } from '../../src/telemetry/logger.ts';
import { createMetrics } from '../../src/telemetry/metrics.ts';
import { createWebhooks } from '../../src/server/webhooks/index.ts';

interface Rule {
  readonly apiGroups: readonly string[];
  readonly apiVersions: readonly string[];
  readonly operations: readonly string[];
  readonly resources: readonly string[];
  readonly scope: string;
}

interface Hook {
  readonly name: string;
  readonly clientConfig: { readonly service: { readonly path: string } };
  readonly rules: readonly Rule[];
  readonly namespaceSelector?: JsonObject;
  readonly matchConditions?: readonly JsonObject[];
  readonly timeoutSeconds: number;
  readonly failurePolicy: string;
  readonly reinvocationPolicy?: string;
}

interface Configuration {
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly webhooks: readonly Hook[];
}

const configurations = webhookConfigurations(defaultSettings('0.0.0')) as unknown as readonly Configuration[];
const hooks = configurations.flatMap(({ webhooks }) => webhooks);
const pathOf = (hook: Hook): string => hook.clientConfig.service.path;

/** The webhooks of a path; of each tier one. */
function hooksAt(path: string): readonly Hook[] {
  const found = hooks.filter((one) => pathOf(one) === path);
  assert.notEqual(found.length, 0, path);
  return found;
}

/** The webhook of a path that fails closed. */
function hookAt(path: string): Hook {
  const [hook, ...others] = hooksAt(path).filter(({ failurePolicy }) => failurePolicy === 'Fail');
  assert.ok(hook, path);
  assert.deepEqual(others, []);
  return hook;
}

const SETTINGS: SccSettings = {
  mode: 'report',
  exemptNamespaces: DEFAULT_EXEMPT_NAMESPACES,
  compatibility: {},
  preferUserNamespaces: false,
};

const never = (): Promise<never> => Promise.reject(new Error('not in this test'));

/** The webhooks of the server. */
const webhooks = createWebhooks({
  podSecurity: () => createPodSecurity(DEFAULT_CONFIGURATION),
  scc: SETTINGS,
  authorization: 'rbac',
  cluster: { get: never, reviewAccess: never },
  logger: createLogger({ level: 'silent', format: 'json' }).logger,
  metrics: createMetrics({ version: '0.0.0' }),
  now: () => 0,
});

suite('names and paths', () => {
  test('each webhook of the server is configured, and each configured one is served', () => {
    const configured = configurations.flatMap(({ kind, metadata, webhooks }) =>
      webhooks.map(
        (hook) => `${pathOf(hook)}: ${hook.name} of ${kind.replace('WebhookConfiguration', '')} ${metadata.name}`,
      ),
    );
    assert.deepEqual(configured.sort(), [
      '/psa/enforcement: enforcement.psa.portcullis.dev of Validating psa.portcullis.dev',
      '/psa/validate: advise.psa.portcullis.dev of Validating psa.portcullis.dev',
      '/psa/validate: fail-open.psa.portcullis.dev of Validating psa.portcullis.dev',
      '/psa/validate: kube-system.psa.portcullis.dev of Validating psa.portcullis.dev',
      '/psa/validate: psa.portcullis.dev of Validating psa.portcullis.dev',
      '/scc/exec: exec.scc.portcullis.dev of Validating scc.portcullis.dev',
      '/scc/exec: fail-open.exec.scc.portcullis.dev of Validating scc.portcullis.dev',
      '/scc/mutate: fail-open.mutate.scc.portcullis.dev of Mutating zz.scc.portcullis.dev',
      '/scc/mutate: mutate.scc.portcullis.dev of Mutating zz.scc.portcullis.dev',
      '/scc/objects/default: objects.scc.portcullis.dev of Mutating objects.scc.portcullis.dev',
      '/scc/objects/validate: objects.scc.portcullis.dev of Validating scc.portcullis.dev',
      '/scc/validate: fail-open.validate.scc.portcullis.dev of Validating scc.portcullis.dev',
      '/scc/validate: validate.scc.portcullis.dev of Validating scc.portcullis.dev',
    ]);
    assert.deepEqual(new Set(webhooks.map(({ path }) => path)), new Set(hooks.map(pathOf)));
  });

  test('what enforces fails closed but in the tier that fails open, what advises never does', () => {
    const open = hooks.filter(({ failurePolicy }) => failurePolicy === 'Ignore').map(({ name }) => name);
    assert.deepEqual(open.sort(), [
      'advise.psa.portcullis.dev',
      'enforcement.psa.portcullis.dev',
      'fail-open.exec.scc.portcullis.dev',
      'fail-open.mutate.scc.portcullis.dev',
      'fail-open.psa.portcullis.dev',
      'fail-open.validate.scc.portcullis.dev',
      'kube-system.psa.portcullis.dev',
    ]);
    for (const { failurePolicy } of hooks) assert.match(failurePolicy, /^(?:Fail|Ignore)$/);
  });

  test('webhooks have no side effects, and are asked about every version', () => {
    for (const hook of hooks) {
      const { matchPolicy, sideEffects, admissionReviewVersions } = hook as unknown as JsonObject;
      assert.deepEqual([matchPolicy, sideEffects, admissionReviewVersions], ['Equivalent', 'None', ['v1']]);
    }
  });

  test('tiers differ in nothing but their namespaces, what becomes of failures, and patience', () => {
    for (const path of new Set(hooks.map(pathOf))) {
      if (path.startsWith('/scc/objects/')) continue;
      const [first, ...others] = hooksAt(path)
        .filter(({ name }) => name !== 'advise.psa.portcullis.dev')
        .map((hook) => ({ ...hook, name: '', namespaceSelector: {}, failurePolicy: '', timeoutSeconds: 0 }));
      for (const other of others) assert.deepEqual(other, first);
    }
  });

  test('a wait of 10 seconds ends before the API server gives up', () => {
    for (const path of ['/scc/mutate', '/scc/validate']) assert.equal(hookAt(path).timeoutSeconds, 15);
    for (const path of ['/scc/exec', '/scc/objects/default', '/scc/objects/validate']) {
      assert.equal(hookAt(path).timeoutSeconds, 10);
    }
    for (const hook of hooks.filter(({ failurePolicy }) => failurePolicy === 'Ignore')) {
      assert.equal(hook.timeoutSeconds, 5, hook.name);
    }
  });

  test('what changes pods is asked again when others change them', () => {
    for (const hook of hooksAt('/scc/mutate')) assert.equal(hook.reinvocationPolicy, 'IfNeeded');
  });

  test('both passes are asked about the same requests', () => {
    const selection = ({ rules, namespaceSelector, matchConditions }: Hook) => [
      rules,
      namespaceSelector,
      matchConditions,
    ];
    assert.deepEqual(selection(hookAt('/scc/mutate')), selection(hookAt('/scc/validate')));
    assert.deepEqual(hookAt('/scc/exec').namespaceSelector, hookAt('/scc/mutate').namespaceSelector);
  });
});

/** Names and labels that matter, and others. */
const anyNamespace = fc
  .record({
    name: fc.constantFrom('default', 'kube-node-lease', 'shop', ...DEFAULT_EXEMPT_NAMESPACES),
    labels: fc.record(
      {
        'openshift.io/run-level': fc.constantFrom('0', '1', '2', '01', ''),
        'security.openshift.io/disable-securitycontextconstraints': fc.constantFrom('true', 'false', 'TRUE', ''),
        'portcullis.dev/scc': fc.constantFrom('enforce', 'report', 'off', 'OFF', 'Off', '', 'none'),
        'portcullis.dev/admission': fc.constantFrom('fail-open', 'fail-closed', ''),
        team: fc.constantFrom('a', 'b'),
      },
      { requiredKeys: [] },
    ),
  })
  // The API server sets that label.
  .map(({ name, labels }) => ({ metadata: { name, labels: { ...labels, 'kubernetes.io/metadata.name': name } } }));

type AnyNamespace = typeof anyNamespace extends fc.Arbitrary<infer T> ? T : never;

/** What becomes of the requests of a namespace while nobody answers, for each webhook of the path that is asked. */
function policiesFor(path: string, { metadata: { labels } }: AnyNamespace): readonly string[] {
  return hooksAt(path)
    .filter(({ name }) => name !== 'advise.psa.portcullis.dev')
    .filter(({ namespaceSelector }) => matchesLabelSelector(namespaceSelector, labels))
    .map(({ failurePolicy }) => failurePolicy);
}

suite('tiers', () => {
  const isFailOpen = ({ metadata: { labels } }: AnyNamespace): boolean =>
    labels['portcullis.dev/admission'] === 'fail-open';

  test('SCC selectors leave out just the namespaces in which SCCs are off; of the others each is in one tier', () => {
    for (const path of ['/scc/mutate', '/scc/validate', '/scc/exec']) {
      fc.assert(
        fc.property(anyNamespace, (namespace) => {
          const isOff = sccMode(namespace, SETTINGS).mode === 'off';
          const expected = isOff ? [] : [isFailOpen(namespace) ? 'Ignore' : 'Fail'];
          assert.deepEqual(policiesFor(path, namespace), expected);
        }),
      );
    }
  });

  test('Pod Security counts everywhere but in the installation itself', () => {
    fc.assert(
      fc.property(anyNamespace, (namespace) => {
        const { name } = namespace.metadata;
        const tier = name === 'kube-system' || isFailOpen(namespace) ? 'Ignore' : 'Fail';
        assert.deepEqual(policiesFor('/psa/validate', namespace), name === 'portcullis' ? [] : [tier]);
      }),
    );
  });

  test('what only advises is left out of the installation alone', () => {
    const advice = hooks.find(({ name }) => name === 'advise.psa.portcullis.dev');
    fc.assert(
      fc.property(anyNamespace, ({ metadata: { name, labels } }) => {
        assert.equal(matchesLabelSelector(advice?.namespaceSelector, labels), name !== 'portcullis');
      }),
    );
  });
});

const SUBRESOURCES = 'attach binding ephemeralcontainers eviction exec log portforward proxy resize status'.split(' ');
const POD = { metadata: { name: 'p' }, spec: { containers: [{ name: 'c', image: 'a' }] } };
const CHANGED = { ...POD, spec: { containers: [{ name: 'c', image: 'b' }] } };

function isCovered({ rules }: Hook, operation: string, resource: string, group = ''): boolean {
  return rules.some(
    (rule) =>
      rule.apiGroups.includes(group) &&
      rule.apiVersions.includes('v1') &&
      rule.operations.includes(operation) &&
      rule.resources.includes(resource),
  );
}

suite('rules', () => {
  for (const path of ['/scc/mutate', '/scc/validate']) {
    test(`${path} hears of all that is judged, and of nothing else`, () => {
      const isJudged = (operation: 'CREATE' | 'UPDATE', subResource?: string): boolean =>
        readRequest({ operation, subResource, object: CHANGED, oldObject: POD } as never).verdict === 'judge';
      for (const operation of ['CREATE', 'UPDATE'] as const) {
        assert.equal(isCovered(hookAt(path), operation, 'pods'), isJudged(operation));
      }
      for (const subresource of SUBRESOURCES) {
        assert.equal(
          isCovered(hookAt(path), 'UPDATE', `pods/${subresource}`),
          isJudged('UPDATE', subresource),
          subresource,
        );
      }
      for (const operation of ['DELETE', 'CONNECT']) assert.equal(isCovered(hookAt(path), operation, 'pods'), false);
    });
  }

  test('/scc/exec hears of what runs in containers', () => {
    const covered = SUBRESOURCES.filter((one) => isCovered(hookAt('/scc/exec'), 'CONNECT', `pods/${one}`));
    assert.deepEqual(covered, ['attach', 'exec']);
  });

  test('SCCs are completed and judged whenever they are written', () => {
    for (const path of ['/scc/objects/default', '/scc/objects/validate']) {
      const covers = (operation: string): boolean =>
        isCovered(hookAt(path), operation, 'securitycontextconstraints', 'security.openshift.io');
      assert.deepEqual(['CREATE', 'UPDATE', 'DELETE'].filter(covers), ['CREATE', 'UPDATE']);
    }
  });
});

const someMap = fc.dictionary(fc.constantFrom('a', 'b', 'openshift.io/required-scc'), fc.constantFrom('x', 'y'), {
  maxKeys: 2,
});
const anyPod = fc.record({
  metadata: fc.record(
    {
      name: fc.constant('p'),
      labels: someMap,
      annotations: someMap,
      finalizers: fc.subarray(['f', 'g'], { minLength: 1 }),
      ownerReferences: fc.subarray([{ uid: 'u' }], { minLength: 1 }),
    },
    { requiredKeys: ['name'] },
  ),
  spec: fc.record(
    {
      containers: fc.constantFrom([{ name: 'c', image: 'a' }], [{ name: 'c', image: 'b' }]),
      schedulingGates: fc.constantFrom([{ name: 'gate' }]),
      os: fc.constantFrom({ name: 'linux' }, { name: 'windows' }),
      hostUsers: fc.boolean(),
    },
    { requiredKeys: ['containers'] },
  ),
});

suite('conditions of SCCs', () => {
  const conditions = hookAt('/scc/mutate').matchConditions ?? [];
  const isAsked = (operation: string, object: JsonObject, oldObject: JsonObject | null): unknown =>
    matchesConditions(conditions, { operation, object, oldObject });

  const withMetadata = (metadata: JsonObject): JsonObject => ({ ...POD, metadata: { ...POD.metadata, ...metadata } });
  const cases: readonly (readonly [name: string, object: JsonObject, oldObject: JsonObject | null, asked: boolean])[] =
    [
      ['a new pod', POD, null, true],
      ['a new pod for Linux', { ...POD, spec: { ...POD.spec, os: { name: 'linux' } } }, null, true],
      ['a new pod for Windows', { ...POD, spec: { ...POD.spec, os: { name: 'windows' } } }, null, false],
      ['another image', CHANGED, POD, true],
      ['nothing new', POD, POD, false],
      ['a label', withMetadata({ labels: { a: 'b' } }), POD, true],
      ['a label less', POD, withMetadata({ labels: { a: 'b' } }), true],
      ['another label', withMetadata({ labels: { a: 'c' } }), withMetadata({ labels: { a: 'b' } }), true],
      ['an annotation', withMetadata({ annotations: { a: 'b' } }), POD, true],
      ['an annotation less', POD, withMetadata({ annotations: { a: 'b' } }), true],
      [
        'the same labels and annotations',
        withMetadata({ labels: { a: 'b' }, annotations: { c: 'd' } }),
        withMetadata({ labels: { a: 'b' }, annotations: { c: 'd' } }),
        false,
      ],
      ['a finalizer less', POD, withMetadata({ finalizers: ['f'] }), false],
      ['an owner', withMetadata({ ownerReferences: [{ uid: 'u' }] }), POD, false],
      ['a status', { ...POD, status: { phase: 'Running' } }, POD, false],
    ];
  for (const [name, object, oldObject, asked] of cases) {
    test(name, () => assert.equal(isAsked(oldObject ? 'UPDATE' : 'CREATE', object, oldObject), asked));
  }

  test('what is not asked about would be let through as it is', () => {
    fc.assert(
      fc.property(anyPod, anyPod, fc.constantFrom('CREATE', 'UPDATE'), (object, oldObject, operation) => {
        const asked = isAsked(operation, object, operation === 'UPDATE' ? oldObject : null);
        assert.equal(typeof asked, 'boolean');
        const { verdict } = readRequest({ operation, object, oldObject } as never);
        if (asked === false) assert.equal(verdict, 'ignore');
      }),
      { numRuns: 2000 },
    );
  });
});

const anyLabels = fc.record(
  {
    'pod-security.kubernetes.io/enforce': fc.constantFrom('privileged', 'baseline', 'restricted', 'wrong'),
    'pod-security.kubernetes.io/enforce-version': fc.constantFrom('v1.24', 'latest', 'v0'),
    'pod-security.kubernetes.io/warn': fc.constantFrom('baseline', 'restricted'),
    team: fc.constantFrom('a', 'b'),
  },
  { requiredKeys: [] },
);
const anyNamespaceObject = fc.record({
  apiVersion: fc.constant('v1'),
  kind: fc.constant('Namespace'),
  metadata: fc.record(
    { name: fc.constant('n'), labels: anyLabels, annotations: someMap, finalizers: fc.constant(['f']) },
    { requiredKeys: ['name'] },
  ),
});

interface Changeable {
  readonly metadata: object;
}

/** An object and what it was before: in some parts something else. */
function anyChange<T extends Changeable>(anyObject: fc.Arbitrary<T>): fc.Arbitrary<readonly [JsonObject, JsonObject]> {
  const kept = fc.subarray(['spec', 'labels', 'annotations', 'finalizers']);
  return fc.tuple(anyObject, anyObject, kept).map(([object, other, fields]) => {
    const keep = (after: object, before: object): JsonObject => ({
      ...after,
      ...Object.fromEntries(Object.entries(before).filter(([name]) => fields.includes(name))),
    });
    const metadata = keep(other.metadata, object.metadata);
    return [{ ...keep(other, object), metadata }, object as unknown as JsonObject] as const;
  });
}

suite('conditions of Pod Security', () => {
  const [{ matchConditions = [] } = {}] = hooksAt('/psa/validate');
  const podSecurity = createPodSecurity({
    ...DEFAULT_CONFIGURATION,
    defaults: { ...DEFAULT_CONFIGURATION.defaults, enforce: 'restricted', audit: 'restricted', warn: 'restricted' },
  });
  const requestOf = (resource: string, operation: string, object: JsonObject, oldObject: JsonObject | null) => ({
    operation,
    resource: { group: '', version: 'v1', resource },
    object,
    oldObject,
  });
  const isAsked = (...request: Parameters<typeof requestOf>): unknown =>
    matchesConditions(matchConditions, requestOf(...request));
  const decide = (...request: Parameters<typeof requestOf>): Decision =>
    reviewPodSecurity({
      request: {
        ...requestOf(...request),
        kind: { group: '', version: 'v1', kind: request[0] === 'pods' ? 'Pod' : 'Namespace' },
        namespace: 'n',
        name: 'x',
      } as unknown as AdmissionRequest,
      podSecurity,
      findNamespace: (name) => ({ metadata: { name, labels: {} } }),
      listPods: () => [{ metadata: { name: 'p' }, spec: POD.spec }],
      limits: DEFAULT_LIMITS,
      now: () => 0,
    }).decision;

  const namespace = (metadata: JsonObject): JsonObject => ({ metadata: { name: 'n', ...metadata } });
  const pod = (metadata: JsonObject): JsonObject => ({ ...POD, metadata: { ...POD.metadata, ...metadata } });
  const cases: readonly (readonly [
    name: string,
    resource: string,
    object: JsonObject,
    oldObject: JsonObject | null,
    asked: boolean,
  ])[] = [
    ['a new pod', 'pods', POD, null, true],
    ['a pod with another image', 'pods', CHANGED, POD, true],
    ['a pod with an annotation more', 'pods', pod({ annotations: { a: 'b' } }), POD, true],
    ['a pod with a label more', 'pods', pod({ labels: { a: 'b' } }), POD, false],
    ['a pod with a finalizer less', 'pods', POD, pod({ finalizers: ['f'] }), false],
    ['a pod as it was', 'pods', POD, POD, false],
    ['a new namespace', 'namespaces', namespace({}), null, true],
    ['a namespace with a label more', 'namespaces', namespace({ labels: { a: 'b' } }), namespace({}), true],
    ['a namespace with a label less', 'namespaces', namespace({}), namespace({ labels: { a: 'b' } }), true],
    ['a namespace with empty labels', 'namespaces', namespace({ labels: {} }), namespace({}), false],
    ['a namespace with an annotation more', 'namespaces', namespace({ annotations: { a: 'b' } }), namespace({}), false],
    ['a namespace with a finalizer less', 'namespaces', namespace({}), namespace({ finalizers: ['f'] }), false],
  ];
  for (const [name, resource, object, oldObject, asked] of cases) {
    test(name, () => assert.equal(isAsked(resource, oldObject ? 'UPDATE' : 'CREATE', object, oldObject), asked));
  }

  test('of what is not asked about, nothing would be refused and nothing said', () => {
    const typedPod = anyPod.map((one) => ({ apiVersion: 'v1', kind: 'Pod', ...one }));
    const anyPair = fc.oneof(
      anyChange(typedPod).map((pair) => ['pods', ...pair] as const),
      anyChange(anyNamespaceObject).map((pair) => ['namespaces', ...pair] as const),
    );
    let unasked = 0;
    fc.assert(
      fc.property(anyPair, fc.constantFrom('CREATE', 'UPDATE'), ([resource, object, oldObject], operation) => {
        const request = [resource, operation, object, operation === 'UPDATE' ? oldObject : null] as const;
        const asked = isAsked(...request);
        assert.equal(typeof asked, 'boolean');
        if (asked === true) return;
        unasked++;
        assert.deepEqual(decide(...request), { allowed: true });
      }),
      { numRuns: 2000 },
    );
    assert.ok(unasked > 200, `${unasked}`);
  });
});
