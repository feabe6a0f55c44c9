/** What API servers are told about the webhooks agrees with the webhooks. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { matchesConditions } from '../../src/cluster/embedded/objects/cel/match-conditions.ts';
import { readManifests } from '../../src/config/manifests.ts';
import { matchesLabelSelector } from '../../src/kube/label-selector.ts';
import type { JsonObject } from '../../src/kube/types.ts';
import { DEFAULT_CONFIGURATION } from '../../src/policy/psa/configuration.ts';
import { createPodSecurity } from '../../src/policy/psa/pod-security.ts';
import { DEFAULT_EXEMPT_NAMESPACES, sccModeOf, type SccSettings } from '../../src/policy/scc/mode.ts';
import { readRequest } from '../../src/policy/scc/request.ts';
import { createLogger } from '../../src/telemetry/logger.ts';
import { createMetrics } from '../../src/telemetry/metrics.ts';
import { createWebhooks } from '../../src/webhook/index.ts';

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
  readonly reinvocationPolicy?: string;
}

interface Configuration {
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly webhooks: readonly Hook[];
}

const FOLDER = join(import.meta.dirname, '../../webhook-config');
const { objects, errors } = await readManifests([join(FOLDER, 'psa.yaml'), join(FOLDER, 'scc.yaml')], {
  stdin: (async function* () {})(),
});
const configurations = objects.map(({ value }) => value as unknown as Configuration);
const hooks = configurations.flatMap(({ webhooks }) => webhooks);
const pathOf = (hook: Hook): string => hook.clientConfig.service.path;

function hookAt(path: string): Hook {
  const hook = hooks.find((one) => pathOf(one) === path);
  assert.ok(hook, path);
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
  test('the files can be read', () => assert.deepEqual(errors, []));

  test('each webhook of the server is configured, and each configured one is served', () => {
    const configured = configurations.flatMap(({ kind, metadata, webhooks }) =>
      webhooks.map(
        (hook) => `${pathOf(hook)}: ${hook.name} of ${kind.replace('WebhookConfiguration', '')} ${metadata.name}`,
      ),
    );
    assert.deepEqual(configured.sort(), [
      '/psa/validate: advise.psa.portcullis.dev of Validating psa.portcullis.dev',
      '/psa/validate: psa.portcullis.dev of Validating psa.portcullis.dev',
      '/scc/exec: exec.scc.portcullis.dev of Validating scc.portcullis.dev',
      '/scc/mutate: mutate.scc.portcullis.dev of Mutating zz.scc.portcullis.dev',
      '/scc/objects/default: objects.scc.portcullis.dev of Mutating objects.scc.portcullis.dev',
      '/scc/objects/validate: objects.scc.portcullis.dev of Validating scc.portcullis.dev',
      '/scc/validate: validate.scc.portcullis.dev of Validating scc.portcullis.dev',
    ]);
    assert.deepEqual(new Set(webhooks.map(({ path }) => path)), new Set(hooks.map(pathOf)));
  });

  test('SCC webhooks fail closed, say that they have no side effects, and are asked about every version', () => {
    for (const hook of hooks.filter(({ name }) => name.includes('scc'))) {
      const { failurePolicy, matchPolicy, sideEffects, admissionReviewVersions } = hook as unknown as JsonObject;
      const expected = ['Fail', 'Equivalent', 'None', 'v1'];
      assert.deepEqual([failurePolicy, matchPolicy, sideEffects, ...(admissionReviewVersions as string[])], expected);
    }
  });

  test('a wait of 10 seconds ends before the API server gives up', () => {
    for (const path of ['/scc/mutate', '/scc/validate']) assert.equal(hookAt(path).timeoutSeconds, 15);
    for (const path of ['/scc/exec', '/scc/objects/default', '/scc/objects/validate']) {
      assert.equal(hookAt(path).timeoutSeconds, 10);
    }
  });

  test('what changes pods is asked again when others change them', () => {
    assert.equal(hookAt('/scc/mutate').reinvocationPolicy, 'IfNeeded');
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
        team: fc.constantFrom('a', 'b'),
      },
      { requiredKeys: [] },
    ),
  })
  // The API server sets that label.
  .map(({ name, labels }) => ({ metadata: { name, labels: { ...labels, 'kubernetes.io/metadata.name': name } } }));

test('selectors leave out just the namespaces in which SCCs are off', () => {
  for (const path of ['/scc/mutate', '/scc/validate', '/scc/exec']) {
    fc.assert(
      fc.property(anyNamespace, (namespace) => {
        const isSelected = matchesLabelSelector(hookAt(path).namespaceSelector, namespace.metadata.labels);
        assert.equal(isSelected, sccModeOf(namespace, SETTINGS).mode !== 'off');
      }),
    );
  }
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

suite('conditions', () => {
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
