/**
 * Tests that the paths, tiers, rules and match conditions in the webhook configurations match the webhooks of the
 * server.
 */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { createStore } from '../../src/cluster/store.ts';
import { createDefaultSettings } from '../../src/config/portcullis-configuration.ts';
import { requiredConfigurations } from '../../src/controllers/required-webhooks.ts';
import { matchesConditions } from '../../src/dev-cluster/match-conditions.ts';
import { defaultSettings, staticWebhookConfigurations } from '../../src/install/index.ts';
import type { AdmissionRequest, Decision } from '../../src/kube/admission.ts';
import { matchesLabelSelector } from '../../src/kube/label-selector.ts';
import type { JsonObject } from '../../src/kube/types.ts';
import {
  createPodSecurity,
  DEFAULT_CONFIGURATION,
  DEFAULT_LIMITS,
  reviewPodSecurity,
} from '../../src/policy/psa/index.ts';
import {
  DEFAULT_EXEMPT_NAMESPACES,
  readRequest,
  type SccMode,
  sccMode,
  type SccSettings,
} from '../../src/policy/scc/index.ts';
import { createWebhooks, WEBHOOK_REGISTRATIONS } from '../../src/server/webhooks/index.ts';
import { createLogger } from '../../src/telemetry/logger.ts';
import { createMetrics } from '../../src/telemetry/metrics.ts';
import { settingsDeps } from '../support/scc-webhooks.ts';

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

/** Settings with which everything is enforced, so each webhook has all its tiers. */
const ENFORCING = {
  ...defaultSettings('0.0.0'),
  features: { scc: true, rollout: true, kubelet: true, olm: true },
  policy: {
    scc: { mode: 'enforce' },
    kubelet: { admission: { certificates: true, nodeWrites: true } },
    rollout: { phase: 'Enforce' },
    olm: { hardening: { mode: 'fill' } },
    defaults: { mode: 'apply', namespaceSelector: { matchLabels: { team: 'a' } } },
    podSecurity: { exceptions: { mode: 'approved' } },
  },
};
const configurations = staticWebhookConfigurations(ENFORCING) as unknown as readonly Configuration[];
const hooks = configurations.flatMap(({ webhooks }) => webhooks);
const getPath = (hook: Hook): string => hook.clientConfig.service.path;

/** Returns the webhooks with a path, one for each tier. */
function hooksAt(path: string, among: readonly Hook[] = hooks): readonly Hook[] {
  const matching = among.filter((hook) => getPath(hook) === path);
  assert.notEqual(matching.length, 0, path);
  return matching;
}

/** Returns the fail-closed webhook with a path that selects namespaces without the Portcullis label. */
function hookAt(path: string): Hook {
  const [hook, ...others] = hooksAt(path).filter(
    ({ name, failurePolicy }) => failurePolicy === 'Fail' && !name.startsWith('own-label.'),
  );
  assert.ok(hook, path);
  assert.deepEqual(others, []);
  return hook;
}

const SETTINGS: SccSettings = {
  mode: 'enforce',
  exemptNamespaces: DEFAULT_EXEMPT_NAMESPACES,
  compatibility: 'portcullis',
  preferUserNamespaces: false,
};

const never = (): Promise<never> => Promise.reject(new Error('not used in this test'));

const DEFAULT_SETTINGS = createDefaultSettings({ controllers: [], namespace: 'portcullis' });

const webhooks = createWebhooks({
  settings: () => ({ ...DEFAULT_SETTINGS, scc: { ...DEFAULT_SETTINGS.scc, ...SETTINGS } }),
  podSecurity: () => createPodSecurity(DEFAULT_CONFIGURATION),
  ...settingsDeps(createStore()),
  installation: { namespace: 'portcullis', version: '0.0.0' },
  restoresStandardSccs: () => false,
  cluster: { get: never, reviewAccess: never },
  logger: createLogger({ level: 'silent', format: 'json' }).logger,
  metrics: createMetrics({ version: '0.0.0' }),
  areClientsKnown: false,
  now: () => 0,
});

/** Matches the names of webhooks that may deny pods but fail open, so a timeout admits a forbidden pod. */
const UNPROTECTED =
  /^(?:(?:fail-open\.(?:connect|mutate|validate)|(?:exempt|kube-system|report|unlabeled)\.validate)\.pods|validate\.pods)\.portcullis\.dev$/;

suite('the webhook configurations', () => {
  const describe = ({ kind, metadata, webhooks }: Configuration): readonly string[] =>
    webhooks.map(
      (hook) => `${kind.replace('WebhookConfiguration', '')} ${metadata.name}: ${getPath(hook)} ${hook.name}`,
    );

  test('contain exactly the paths that the server serves', () => {
    assert.deepEqual(new Set(webhooks.map(({ path }) => path)), new Set(hooks.map(getPath)));
  });

  test('have one webhook for a pod and one for a namespace if SCCs and other features are off', () => {
    const policy = { scc: { mode: 'off' } };
    const configured = staticWebhookConfigurations({ ...defaultSettings('0.0.0'), policy });
    assert.deepEqual((configured as unknown as readonly Configuration[]).flatMap(describe), [
      'Validating portcullis.dev: /validate/pods validate.pods.portcullis.dev',
      'Validating portcullis.dev: /validate/pods own-label.validate.pods.portcullis.dev',
      'Validating portcullis.dev: /validate/pods fail-open.validate.pods.portcullis.dev',
      'Validating portcullis.dev: /validate/pods kube-system.validate.pods.portcullis.dev',
      'Validating portcullis.dev: /validate/namespaces namespaces.portcullis.dev',
      'Validating portcullis.dev: /validate/workloads workloads.portcullis.dev',
      'Validating portcullis.dev: /validate/objects fail-open.objects.portcullis.dev',
    ]);
  });

  test('include webhooks for node writes only while the settings enable them', () => {
    const cases: readonly (readonly [admission: JsonObject, resources: readonly string[]])[] = [
      [{}, []],
      [{ certificates: true }, ['certificatesigningrequests']],
      [{ nodeWrites: true }, ['leases']],
    ];
    for (const [admission, resources] of cases) {
      const configured = staticWebhookConfigurations({ ...ENFORCING, policy: { kubelet: { admission } } });
      const webhooks = (configured as unknown as readonly Configuration[]).flatMap(({ webhooks }) => webhooks);
      const [hook] = webhooks.filter((webhook) => getPath(webhook) === '/validate/nodes');
      assert.deepEqual(
        hook?.rules.flatMap(({ resources }) => resources),
        ['nodes', 'nodes/status', ...resources],
      );
    }
  });

  test('match equivalent versions, have no side effects, and accept v1', () => {
    for (const hook of hooks) {
      const { matchPolicy, sideEffects, admissionReviewVersions } = hook as unknown as JsonObject;
      assert.deepEqual([matchPolicy, sideEffects, admissionReviewVersions], ['Equivalent', 'None', ['v1']]);
    }
  });

  test('have tiers that differ only in name, namespaceSelector, failurePolicy and timeoutSeconds', () => {
    for (const path of ['/validate/pods', '/connect/pods', '/mutate/pods']) {
      const [first, ...others] = hooksAt(path)
        .filter(({ name }) => !/^(?:olm|defaults)\./.test(name))
        .map((hook) => ({ ...hook, name: '', namespaceSelector: {}, failurePolicy: '', timeoutSeconds: 0 }));
      assert.notEqual(others.length, 0);
      for (const other of others) assert.deepEqual(other, first);
    }
  });

  test('have a timeoutSeconds that exceeds the wait of 10 seconds', () => {
    for (const path of ['/mutate/pods', '/validate/pods']) assert.equal(hookAt(path).timeoutSeconds, 15);
    for (const path of ['/connect/pods', '/mutate/objects', '/validate/objects']) {
      assert.equal(hookAt(path).timeoutSeconds, 10);
    }
    for (const hook of hooks.filter(({ failurePolicy }) => failurePolicy === 'Ignore')) {
      assert.equal(hook.timeoutSeconds, UNPROTECTED.test(hook.name) ? 15 : 5, hook.name);
    }
  });

  test('let mutating webhooks be invoked again after other changes', () => {
    for (const hook of hooksAt('/mutate/pods')) assert.equal(hook.reinvocationPolicy, 'IfNeeded');
  });

  test('send every pod that a validating webhook for SCCs reviews to the mutating webhook first', () => {
    const [mutate, validate] = [hookAt('/mutate/pods'), hookAt('/validate/pods')];
    const requests = ({ rules }: Hook): readonly string[] =>
      rules
        .flatMap(({ operations, resources }) =>
          operations.flatMap((operation) => resources.map((name) => `${operation} ${name}`)),
        )
        // Ephemeral containers are not created but updated.
        .filter((text) => text !== 'CREATE pods/ephemeralcontainers')
        .toSorted();
    assert.deepEqual(requests(mutate), requests(validate));
    assert.deepEqual(mutate.matchConditions, validate.matchConditions);
    assert.deepEqual(hookAt('/connect/pods').namespaceSelector, mutate.namespaceSelector);
  });
});

const ENFORCE = 'pod-security.kubernetes.io/enforce';

const anyNamespace = fc
  .record({
    name: fc.constantFrom('default', 'kube-node-lease', 'shop', ...DEFAULT_EXEMPT_NAMESPACES),
    labels: fc.record(
      {
        'openshift.io/run-level': fc.constantFrom('0', '1', '2', '01', ''),
        'security.openshift.io/disable-securitycontextconstraints': fc.constantFrom('true', 'false', 'TRUE', ''),
        'portcullis.dev/scc': fc.constantFrom('enforce', 'report', 'off', 'OFF', 'Off', '', 'none'),
        'portcullis.dev/admission': fc.constantFrom('fail-open', 'fail-closed', ''),
        [ENFORCE]: fc.constantFrom('privileged', 'baseline', 'restricted', 'Baseline'),
        'portcullis.dev/enforce': fc.constantFrom('privileged', 'baseline', 'restricted', 'Baseline'),
        team: fc.constantFrom('a', 'b'),
      },
      { requiredKeys: [] },
    ),
  })
  // The API server sets the label kubernetes.io/metadata.name.
  .map(({ name, labels }) => ({ metadata: { name, labels: { ...labels, 'kubernetes.io/metadata.name': name } } }));

type AnyNamespace = typeof anyNamespace extends fc.Arbitrary<infer T> ? T : never;

/** Returns the failure policies of the webhooks with a path that select the namespace. */
function failurePolicies(
  path: string,
  { metadata: { labels } }: AnyNamespace,
  among: readonly Hook[] = hooks,
): readonly string[] {
  return hooksAt(path, among)
    .filter(({ name }) => !/^(?:olm|defaults)\./.test(name))
    .filter(({ namespaceSelector }) => matchesLabelSelector(namespaceSelector, labels))
    .map(({ failurePolicy }) => failurePolicy);
}

const SERVICE = { namespace: 'portcullis', name: 'portcullis' };

function buildEnforcement(mode: SccMode, exemptNamespaces = DEFAULT_EXEMPT_NAMESPACES) {
  const features = { defaultLevel: false, exceptions: false, rollout: false, olm: false };
  const kubelets = { kubelet: false, kubeletCertificates: false, kubeletNodeWrites: false };
  const { exemptions } = DEFAULT_CONFIGURATION;
  return {
    ...features,
    ...kubelets,
    exemptions,
    scc: { mode, exemptNamespaces },
    floor: false,
    privilegedStreams: false,
    workloads: [],
  };
}

suite('in the tiers of a webhook,', () => {
  /** Returns true if only replicas enforce a level in the namespace, so the webhook for pods fails closed. */
  const isOwn = ({ metadata: { name, labels } }: AnyNamespace): boolean =>
    name !== 'kube-system' && labels['portcullis.dev/enforce'] !== undefined;
  const isFailOpen = ({ metadata: { labels } }: AnyNamespace): boolean =>
    labels['portcullis.dev/admission'] === 'fail-open';

  /** Returns true if webhooks that validate pods fail closed because of the SCC mode, regardless of other labels. */
  const hasClosedMode = (
    { metadata: { name, labels } }: AnyNamespace,
    scc: Pick<SccSettings, 'mode' | 'exemptNamespaces'>,
  ): boolean => {
    const label = labels['portcullis.dev/scc'];
    if (scc.mode === 'off' || label === 'off' || label === 'report') return false;
    return scc.mode === 'enforce' ? !scc.exemptNamespaces.includes(name) : label !== undefined;
  };

  type Cases = readonly (readonly [name: string, enforcement: Parameters<typeof requiredConfigurations>[1]])[];
  const cases: Cases = [
    ['SCCs are in off mode', buildEnforcement('off')],
    ['SCCs are in report mode by default', buildEnforcement('report')],
    ['SCCs are in enforce mode by default', buildEnforcement('enforce')],
    ['shop and kube-system are exempt from SCCs', buildEnforcement('enforce', ['shop', 'kube-system'])],
    ['only kube-system is exempt from SCCs', buildEnforcement('report', ['kube-system'])],
    ['a default level is enforced', { ...buildEnforcement('off'), defaultLevel: true }],
    ['a default level and SCCs are enforced', { ...buildEnforcement('enforce'), defaultLevel: true }],
    ['exceptions are enabled', { ...buildEnforcement('off'), exceptions: true }],
  ];
  for (const [name, enforcement] of cases) {
    const required = requiredConfigurations(WEBHOOK_REGISTRATIONS, enforcement, { service: SERVICE });
    const among = required.flatMap(({ webhooks }) => webhooks) as unknown as readonly Hook[];

    test(`each namespace is selected once if ${name}`, () => {
      const { scc, defaultLevel } = enforcement;
      fc.assert(
        fc.property(anyNamespace, (namespace) => {
          const isInstallation = namespace.metadata.name === SERVICE.namespace;
          const { mode } = sccMode(namespace, scc);
          const failure = isFailOpen(namespace) ? 'Ignore' : 'Fail';
          const isChanged = !isInstallation && mode === 'enforce';
          if (scc.mode !== 'off') {
            assert.deepEqual(failurePolicies('/mutate/pods', namespace, among), isChanged ? [failure] : []);
            const streams = mode === 'off' || isInstallation ? [] : [mode === 'report' ? 'Ignore' : failure];
            assert.deepEqual(failurePolicies('/connect/pods', namespace, among), streams);
          }
          const isClosed =
            (defaultLevel || isOwn(namespace) || hasClosedMode(namespace, scc)) &&
            namespace.metadata.name !== 'kube-system' &&
            !isFailOpen(namespace);
          const expected = isInstallation ? [] : [isClosed ? 'Fail' : 'Ignore'];
          assert.deepEqual(failurePolicies('/validate/pods', namespace, among), expected);
        }),
      );
    });

    test(`no other webhook fails closed if ${name}`, () => {
      const closed = among.filter(({ failurePolicy }) => failurePolicy === 'Fail').map(({ name }) => name);
      const { scc, defaultLevel, exceptions } = enforcement;
      const hasSccs = scc.mode !== 'off';
      assert.deepEqual(
        new Set(closed),
        new Set([
          'own-label.validate.pods.portcullis.dev',
          ...(defaultLevel || hasSccs ? ['validate.pods.portcullis.dev'] : []),
          ...(exceptions || hasSccs ? ['objects.portcullis.dev', 'mutate.objects.portcullis.dev'] : []),
          ...(hasSccs ? ['mutate.pods.portcullis.dev', 'connect.pods.portcullis.dev'] : []),
        ]),
      );
      for (const { name, failurePolicy, timeoutSeconds } of among) {
        if (failurePolicy === 'Ignore') assert.equal(timeoutSeconds, UNPROTECTED.test(name) ? 15 : 5, name);
      }
    });
  }

  for (const defaultLevel of [false, true]) {
    for (const mode of ['enforce', 'report'] as const) {
      const exemptions = { usernames: [], namespaces: ['legacy', 'shop'], runtimeClasses: [] };
      const enforcement = { ...buildEnforcement(mode), defaultLevel, floor: true, exemptions };
      const required = requiredConfigurations(WEBHOOK_REGISTRATIONS, enforcement, { service: SERVICE });
      const among = required.flatMap(({ webhooks }) => webhooks) as unknown as readonly Hook[];
      const byDefault = defaultLevel ? 'baseline' : 'privileged';

      test(`webhooks fail open exactly if the floor decides, with default level ${byDefault} and SCC mode ${mode}`, () => {
        fc.assert(
          fc.property(anyNamespace, (namespace) => {
            const { name, labels } = namespace.metadata;
            const label = labels[ENFORCE];
            // Without a default level, a namespace with an invalid label fails closed, although the floor restricts it.
            const isLevelEnforced =
              !exemptions.namespaces.includes(name) &&
              (defaultLevel ? label !== 'privileged' : label === 'baseline' || label === 'restricted');
            const isInstallation = name === SERVICE.namespace;
            const isSplit = (isClosed: boolean): string => (isClosed && !isFailOpen(namespace) ? 'Fail' : 'Ignore');
            const { mode: actual } = sccMode(namespace, enforcement.scc);
            const isChanged = !isInstallation && actual === 'enforce';
            assert.deepEqual(
              failurePolicies('/mutate/pods', namespace, among),
              isChanged ? [isSplit(!isLevelEnforced)] : [],
            );
            const streams = isInstallation || actual === 'off' ? [] : [isSplit(actual === 'enforce')];
            assert.deepEqual(failurePolicies('/connect/pods', namespace, among), streams);
            const isClosed = isOwn(namespace) || (hasClosedMode(namespace, enforcement.scc) && !isLevelEnforced);
            const expected = isInstallation ? [] : [name === 'kube-system' ? 'Ignore' : isSplit(isClosed)];
            assert.deepEqual(failurePolicies('/validate/pods', namespace, among), expected);
          }),
        );
      });
    }
  }

  test('webhooks fail closed where SCCs are enforced, despite a floor, if users or runtime classes are exempt', () => {
    const names = (exemptions: Partial<ReturnType<typeof buildEnforcement>['exemptions']>): readonly string[] =>
      requiredConfigurations(
        WEBHOOK_REGISTRATIONS,
        {
          ...buildEnforcement('enforce', []),
          floor: true,
          exemptions: { usernames: [], namespaces: [], runtimeClasses: [], ...exemptions },
        },
        { service: SERVICE },
      )
        .flatMap(({ webhooks }) => webhooks)
        .filter(({ clientConfig }) => clientConfig.service?.path === '/mutate/pods')
        .map(({ name, failurePolicy }) => `${name}: ${failurePolicy}`);
    const [closed, floor, exempt, open] = [
      'mutate.pods.portcullis.dev: Fail',
      'floor.mutate.pods.portcullis.dev: Ignore',
      'floor-exempt.mutate.pods.portcullis.dev: Fail',
      'fail-open.mutate.pods.portcullis.dev: Ignore',
    ];
    assert.deepEqual(names({}), [closed, floor, open]);
    assert.deepEqual(names({ namespaces: ['legacy'] }), [closed, floor, exempt, open]);
    assert.deepEqual(names({ usernames: ['root'] }), [closed, open]);
    assert.deepEqual(names({ runtimeClasses: ['kata'] }), [closed, open]);
  });

  test('a registration that always fails open has one tier', () => {
    for (const registration of WEBHOOK_REGISTRATIONS.filter(({ rules }) =>
      rules.some(({ feature }) => feature === 'scc'),
    )) {
      const open = { ...registration, failure: 'open', namespaces: 'sccs' } as const;
      const required = requiredConfigurations([open], buildEnforcement('enforce'), { service: SERVICE });
      assert.deepEqual(
        required.flatMap(({ webhooks }) => webhooks.map(({ name, failurePolicy }) => [name, failurePolicy])),
        [[registration.name, 'Ignore']],
      );
    }
  });

  test('the timeout in the settings applies to webhooks that fail closed', () => {
    const target = { service: SERVICE, timeoutSeconds: 20 };
    const required = requiredConfigurations(WEBHOOK_REGISTRATIONS, buildEnforcement('enforce'), target);
    for (const { name, failurePolicy, timeoutSeconds } of required.flatMap(({ webhooks }) => webhooks)) {
      assert.equal(timeoutSeconds, failurePolicy === 'Fail' ? 20 : UNPROTECTED.test(name) ? 15 : 5, name);
    }
  });

  test('no mutating webhook selects pods in kube-system or the installation namespace', () => {
    const exemptNothing = {
      scc: { mode: 'enforce', exemptNamespaces: [] },
      defaults: { mode: 'apply' },
      olm: { hardening: { mode: 'fill' } },
    };
    const mutating = staticWebhookConfigurations({ ...ENFORCING, policy: exemptNothing }).flatMap(
      ({ kind, webhooks }) => (kind === 'MutatingWebhookConfiguration' ? (webhooks as unknown as readonly Hook[]) : []),
    );
    const forPods = mutating.filter((hook) => isCovered(hook, 'CREATE', 'pods'));
    const selects = (hook: Hook, name: string): boolean =>
      matchesLabelSelector(hook.namespaceSelector, {
        'kubernetes.io/metadata.name': name,
        'portcullis.dev/scc': 'report',
      });
    assert.equal(forPods.length, 4);
    for (const hook of forPods) {
      assert.deepEqual([selects(hook, 'kube-system'), selects(hook, 'portcullis')], [false, false], hook.name);
    }
    assert.equal(forPods.filter((hook) => selects(hook, 'kube-public')).length, 2);
  });

  for (const other of ['namespaces.portcullis.dev', 'workloads.portcullis.dev']) {
    test(`${other} selects all namespaces except the installation namespace, and fails open`, () => {
      const [hook, ...more] = hooks.filter(({ name }) => name === other);
      assert.deepEqual([hook?.failurePolicy, hook?.timeoutSeconds, more], ['Ignore', 5, []]);
      fc.assert(
        fc.property(anyNamespace, ({ metadata: { name, labels } }) => {
          assert.equal(matchesLabelSelector(hook?.namespaceSelector, labels), name !== 'portcullis');
        }),
      );
    });
  }

  test('exceptions do not change the failure policy of other webhooks', () => {
    for (const floor of [false, true]) {
      const enforcement = { ...buildEnforcement('report'), floor };
      const [off = [], on = []] = [false, true].map((exceptions) =>
        requiredConfigurations(WEBHOOK_REGISTRATIONS, { ...enforcement, exceptions }, { service: SERVICE })
          .flatMap(({ webhooks }) => webhooks)
          .filter(({ name }) => !/^(?:mutate\.)?objects\./.test(name)),
      );
      assert.deepEqual(on, off);
    }
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

suite('the rules of the webhooks', () => {
  test('include the resources in the settings for workloads, and fail open', () => {
    const resources = [
      { group: 'argoproj.io', version: '*', resource: 'rollouts' },
      { group: 'batch.volcano.sh', version: 'v1alpha1', resource: 'jobs', templatePath: 'spec.tasks.*.template' },
    ];
    const changed = staticWebhookConfigurations(ENFORCING, { workloads: resources }).flatMap(
      ({ webhooks }) => webhooks ?? [],
    );
    const added = changed.flatMap(({ name, rules = [], failurePolicy }) => {
      const known = hooks.find((hook) => hook.name === name)?.rules ?? [];
      return rules.slice(known.length).map((rule) => ({ name, failurePolicy, ...rule }));
    });
    const common = {
      name: 'workloads.portcullis.dev',
      failurePolicy: 'Ignore',
      operations: ['CREATE', 'UPDATE'],
      scope: 'Namespaced',
    };
    assert.deepEqual(added, [
      { ...common, apiGroups: ['argoproj.io'], apiVersions: ['*'], resources: ['rollouts'] },
      { ...common, apiGroups: ['batch.volcano.sh'], apiVersions: ['v1alpha1'], resources: ['jobs'] },
    ]);
  });

  for (const path of ['/mutate/pods']) {
    test(`cover exactly the requests that ${path} evaluates`, () => {
      const isEvaluated = (operation: 'CREATE' | 'UPDATE', subResource?: string): boolean =>
        readRequest({ operation, subResource, object: CHANGED, oldObject: POD } as never).verdict === 'evaluate';
      for (const operation of ['CREATE', 'UPDATE'] as const) {
        assert.equal(isCovered(hookAt(path), operation, 'pods'), isEvaluated(operation));
      }
      for (const subresource of SUBRESOURCES) {
        assert.equal(
          isCovered(hookAt(path), 'UPDATE', `pods/${subresource}`),
          isEvaluated('UPDATE', subresource),
          subresource,
        );
      }
      for (const operation of ['DELETE', 'CONNECT']) assert.equal(isCovered(hookAt(path), operation, 'pods'), false);
    });
  }

  test('cover exec and attach for /connect/pods', () => {
    const covered = SUBRESOURCES.filter((name) => isCovered(hookAt('/connect/pods'), 'CONNECT', `pods/${name}`));
    assert.deepEqual(covered, ['attach', 'exec']);
  });

  test('cover create and update for SCCs', () => {
    for (const path of ['/mutate/objects', '/validate/objects']) {
      const covers = (operation: string): boolean =>
        isCovered(hookAt(path), operation, 'securitycontextconstraints', 'security.openshift.io');
      assert.deepEqual(['CREATE', 'UPDATE', 'DELETE'].filter(covers), ['CREATE', 'UPDATE']);
    }
  });
});

const anyMap = fc.dictionary(fc.constantFrom('a', 'b', 'openshift.io/required-scc'), fc.constantFrom('x', 'y'), {
  maxKeys: 2,
});
const anyPod = fc.record({
  metadata: fc.record(
    {
      name: fc.constant('p'),
      labels: anyMap,
      annotations: anyMap,
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

suite('the matchConditions of SCC webhooks send or exclude requests:', () => {
  const conditions = hookAt('/mutate/pods').matchConditions ?? [];
  const matches = (operation: string, object: JsonObject, oldObject: JsonObject | null): unknown =>
    matchesConditions(conditions, { operation, object, oldObject });

  const withMetadata = (metadata: JsonObject): JsonObject => ({ ...POD, metadata: { ...POD.metadata, ...metadata } });
  const cases: readonly (readonly [
    name: string,
    object: JsonObject,
    oldObject: JsonObject | null,
    matched: boolean,
  ])[] = [
    ['creation of a pod', POD, null, true],
    ['creation of a pod for Linux', { ...POD, spec: { ...POD.spec, os: { name: 'linux' } } }, null, true],
    ['creation of a pod for Windows', { ...POD, spec: { ...POD.spec, os: { name: 'windows' } } }, null, true],
    ['an update of an image', CHANGED, POD, true],
    ['an update without changes', POD, POD, false],
    ['an update that adds a label', withMetadata({ labels: { a: 'b' } }), POD, true],
    ['an update that removes a label', POD, withMetadata({ labels: { a: 'b' } }), true],
    [
      'an update that changes a label',
      withMetadata({ labels: { a: 'c' } }),
      withMetadata({ labels: { a: 'b' } }),
      true,
    ],
    ['an update that adds an annotation', withMetadata({ annotations: { a: 'b' } }), POD, true],
    ['an update that removes an annotation', POD, withMetadata({ annotations: { a: 'b' } }), true],
    [
      'an update that keeps labels and annotations',
      withMetadata({ labels: { a: 'b' }, annotations: { c: 'd' } }),
      withMetadata({ labels: { a: 'b' }, annotations: { c: 'd' } }),
      false,
    ],
    ['an update that removes a finalizer', POD, withMetadata({ finalizers: ['f'] }), false],
    ['an update that adds an owner', withMetadata({ ownerReferences: [{ uid: 'u' }] }), POD, false],
    ['an update of the status', { ...POD, status: { phase: 'Running' } }, POD, false],
  ];
  for (const [name, object, oldObject, matched] of cases) {
    test(`${name}: ${matched ? 'sent' : 'excluded'}`, () =>
      assert.equal(matches(oldObject ? 'UPDATE' : 'CREATE', object, oldObject), matched));
  }

  test('requests that they exclude would be admitted unchanged', () => {
    fc.assert(
      fc.property(anyPod, anyPod, fc.constantFrom('CREATE', 'UPDATE'), (object, oldObject, operation) => {
        const matched = matches(operation, object, operation === 'UPDATE' ? oldObject : null);
        assert.equal(typeof matched, 'boolean');
        const { verdict } = readRequest({ operation, object, oldObject } as never);
        if (matched === false) assert.equal(verdict, 'ignore');
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
    { name: fc.constant('n'), labels: anyLabels, annotations: anyMap, finalizers: fc.constant(['f']) },
    { requiredKeys: ['name'] },
  ),
});

interface Changeable {
  readonly metadata: object;
}

/** Generates pairs of a changed object and its old version. */
function anyChange<T extends Changeable>(anyObject: fc.Arbitrary<T>): fc.Arbitrary<readonly [JsonObject, JsonObject]> {
  const unchanged = fc.subarray(['spec', 'labels', 'annotations', 'finalizers']);
  return fc.tuple(anyObject, anyObject, unchanged).map(([object, other, fields]) => {
    const keepFields = (after: object, before: object): JsonObject => ({
      ...after,
      ...Object.fromEntries(Object.entries(before).filter(([name]) => fields.includes(name))),
    });
    const metadata = keepFields(other.metadata, object.metadata);
    return [{ ...keepFields(other, object), metadata }, object as unknown as JsonObject] as const;
  });
}

suite('the matchConditions of Pod Security webhooks send or exclude requests:', () => {
  const withoutSccs = staticWebhookConfigurations({ ...ENFORCING, policy: { scc: { mode: 'off' } } });
  const podHooks = (withoutSccs as unknown as readonly Configuration[]).flatMap(({ webhooks }) => webhooks);
  const conditions = (resource: string): readonly JsonObject[] =>
    podHooks.find((hook) => isCovered(hook, 'CREATE', resource))?.matchConditions ?? [];
  const podSecurity = createPodSecurity({
    ...DEFAULT_CONFIGURATION,
    defaults: { ...DEFAULT_CONFIGURATION.defaults, enforce: 'restricted', audit: 'restricted', warn: 'restricted' },
  });
  const buildRequest = (resource: string, operation: string, object: JsonObject, oldObject: JsonObject | null) => ({
    operation,
    resource: { group: '', version: 'v1', resource },
    object,
    oldObject,
  });
  const matches = (...request: Parameters<typeof buildRequest>): unknown =>
    matchesConditions(conditions(request[0]), buildRequest(...request));
  const decide = (...request: Parameters<typeof buildRequest>): Decision =>
    reviewPodSecurity({
      request: {
        ...buildRequest(...request),
        kind: { group: '', version: 'v1', kind: request[0] === 'pods' ? 'Pod' : 'Namespace' },
        namespace: 'n',
        name: 'x',
        userInfo: {},
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
    matched: boolean,
  ])[] = [
    ['creation of a pod', 'pods', POD, null, true],
    ['an update of a pod that changes an image', 'pods', CHANGED, POD, true],
    ['an update of a pod that adds an annotation', 'pods', pod({ annotations: { a: 'b' } }), POD, true],
    ['an update of a pod that adds a label', 'pods', pod({ labels: { a: 'b' } }), POD, false],
    ['an update of a pod that removes a finalizer', 'pods', POD, pod({ finalizers: ['f'] }), false],
    ['an update of a pod without changes', 'pods', POD, POD, false],
    ['creation of a namespace', 'namespaces', namespace({}), null, true],
    [
      'an update of a namespace that adds a label',
      'namespaces',
      namespace({ labels: { a: 'b' } }),
      namespace({}),
      true,
    ],
    [
      'an update of a namespace that removes a label',
      'namespaces',
      namespace({}),
      namespace({ labels: { a: 'b' } }),
      true,
    ],
    ['an update of a namespace with empty labels', 'namespaces', namespace({ labels: {} }), namespace({}), false],
    [
      'an update of a namespace that adds an annotation',
      'namespaces',
      namespace({ annotations: { a: 'b' } }),
      namespace({}),
      false,
    ],
    [
      'an update of a namespace that removes a finalizer',
      'namespaces',
      namespace({}),
      namespace({ finalizers: ['f'] }),
      false,
    ],
  ];
  for (const [name, resource, object, oldObject, matched] of cases) {
    test(`${name}: ${matched ? 'sent' : 'excluded'}`, () =>
      assert.equal(matches(resource, oldObject ? 'UPDATE' : 'CREATE', object, oldObject), matched));
  }

  test('requests that they exclude would be allowed without warnings', () => {
    const typedPod = anyPod.map((fields) => ({ apiVersion: 'v1', kind: 'Pod', ...fields }));
    const anyPair = fc.oneof(
      anyChange(typedPod).map((pair) => ['pods', ...pair] as const),
      anyChange(anyNamespaceObject).map((pair) => ['namespaces', ...pair] as const),
    );
    let excluded = 0;
    fc.assert(
      fc.property(anyPair, fc.constantFrom('CREATE', 'UPDATE'), ([resource, object, oldObject], operation) => {
        const request = [resource, operation, object, operation === 'UPDATE' ? oldObject : null] as const;
        const matched = matches(...request);
        assert.equal(typeof matched, 'boolean');
        if (matched === true) return;
        excluded++;
        assert.deepEqual(decide(...request), { allowed: true });
      }),
      { numRuns: 2000 },
    );
    assert.ok(excluded > 200, `${excluded}`);
  });
});
