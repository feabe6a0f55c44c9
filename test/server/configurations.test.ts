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
import { defaultSettings, webhookConfigurations } from '../../src/install/index.ts';
import type { AdmissionRequest, Decision } from '../../src/kube/admission.ts';
import { matchesLabelSelector } from '../../src/kube/label-selector.ts';
import type { JsonObject } from '../../src/kube/types.ts';
import { createPodSecurity, DEFAULT_CONFIGURATION } from '../../src/policy/psa/configuration.ts';
import { DEFAULT_LIMITS } from '../../src/policy/psa/input.ts';
import { reviewPodSecurity } from '../../src/policy/psa/review.ts';
import { DEFAULT_EXEMPT_NAMESPACES, type SccMode, sccMode, type SccSettings } from '../../src/policy/scc/mode.ts';
import { readRequest } from '../../src/policy/scc/request.ts';
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

/** Settings that enforce everything, so each webhook has all its tiers. */
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
const configurations = webhookConfigurations(ENFORCING) as unknown as readonly Configuration[];
const hooks = configurations.flatMap(({ webhooks }) => webhooks);
const getPath = (hook: Hook): string => hook.clientConfig.service.path;

/** Returns the webhooks with a path, one for each tier. */
function hooksAt(path: string, among: readonly Hook[] = hooks): readonly Hook[] {
  const matching = among.filter((hook) => getPath(hook) === path);
  assert.notEqual(matching.length, 0, path);
  return matching;
}

/** Returns the fail-closed webhook with a path, for namespaces without the own label. */
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

/** Fail-open webhooks that deny pods. A timeout admits a forbidden pod. */
const UNPROTECTED = /^(?:(?:fail-open|kube-system)\.|psa\.portcullis\.dev$)/;

/** Webhooks that share the path of the webhook for pods. */
const OTHERS: readonly string[] = ['advise.psa.portcullis.dev', 'namespaces.psa.portcullis.dev'];

suite('names and paths', () => {
  test('configured and served webhooks are the same', () => {
    const configured = configurations.flatMap(({ kind, metadata, webhooks }) =>
      webhooks.map(
        (hook) => `${getPath(hook)}: ${hook.name} of ${kind.replace('WebhookConfiguration', '')} ${metadata.name}`,
      ),
    );
    assert.deepEqual(configured.sort(), [
      '/defaults/pods: pods.defaults.portcullis.dev of Mutating defaults.portcullis.dev',
      '/exceptions/record: record.exceptions.portcullis.dev of Mutating exceptions.portcullis.dev',
      '/exceptions/validate: exceptions.psa.portcullis.dev of Validating psa.portcullis.dev',
      '/kubelet/validate-config: nodes.config.openshift.io of Validating psa.portcullis.dev',
      '/kubelet/validate-node: nodes.kubelet.portcullis.dev of Validating psa.portcullis.dev',
      '/kubelet/validate-write: certificates.kubelet.portcullis.dev of Validating psa.portcullis.dev',
      '/kubelet/validate-write: writes.kubelet.portcullis.dev of Validating psa.portcullis.dev',
      '/olm/harden: harden.olm.portcullis.dev of Mutating olm.portcullis.dev',
      '/olm/harden: unlabeled.harden.olm.portcullis.dev of Mutating olm.portcullis.dev',
      '/psa/enforcement: enforcement.psa.portcullis.dev of Validating psa.portcullis.dev',
      '/psa/settings: settings.psa.portcullis.dev of Validating psa.portcullis.dev',
      '/psa/validate: advise.psa.portcullis.dev of Validating psa.portcullis.dev',
      '/psa/validate: fail-open.psa.portcullis.dev of Validating psa.portcullis.dev',
      '/psa/validate: kube-system.psa.portcullis.dev of Validating psa.portcullis.dev',
      '/psa/validate: namespaces.psa.portcullis.dev of Validating psa.portcullis.dev',
      '/psa/validate: own-label.psa.portcullis.dev of Validating psa.portcullis.dev',
      '/psa/validate: psa.portcullis.dev of Validating psa.portcullis.dev',
      '/scc/exec: exec.scc.portcullis.dev of Validating scc.portcullis.dev',
      '/scc/exec: fail-open.exec.scc.portcullis.dev of Validating scc.portcullis.dev',
      '/scc/exec: report.exec.scc.portcullis.dev of Validating scc.portcullis.dev',
      '/scc/mutate: fail-open.mutate.scc.portcullis.dev of Mutating zz.scc.portcullis.dev',
      '/scc/mutate: mutate.scc.portcullis.dev of Mutating zz.scc.portcullis.dev',
      '/scc/mutate: report.mutate.scc.portcullis.dev of Mutating zz.scc.portcullis.dev',
      '/scc/objects/default: objects.scc.portcullis.dev of Mutating objects.scc.portcullis.dev',
      '/scc/objects/validate: objects.scc.portcullis.dev of Validating scc.portcullis.dev',
      '/scc/settings: settings.scc.portcullis.dev of Validating scc.portcullis.dev',
      '/scc/validate: fail-open.validate.scc.portcullis.dev of Validating scc.portcullis.dev',
      '/scc/validate: report.validate.scc.portcullis.dev of Validating scc.portcullis.dev',
      '/scc/validate: validate.scc.portcullis.dev of Validating scc.portcullis.dev',
    ]);
    assert.deepEqual(new Set(webhooks.map(({ path }) => path)), new Set(hooks.map(getPath)));
  });

  test('node write checks are registered only while their settings are enabled', () => {
    const cases: readonly (readonly [admission: JsonObject, names: readonly string[]])[] = [
      [{}, []],
      [{ certificates: true }, ['certificates.kubelet.portcullis.dev']],
      [{ nodeWrites: true }, ['writes.kubelet.portcullis.dev']],
    ];
    for (const [admission, names] of cases) {
      const configured = webhookConfigurations({ ...ENFORCING, policy: { kubelet: { admission } } });
      const webhooks = (configured as unknown as readonly Configuration[]).flatMap((one) => one.webhooks);
      const registered = webhooks.filter((hook) => getPath(hook) === '/kubelet/validate-write');
      assert.deepEqual(
        registered.map(({ name }) => name),
        names,
      );
    }
  });

  test('failurePolicy', () => {
    const open = hooks.filter(({ failurePolicy }) => failurePolicy === 'Ignore').map(({ name }) => name);
    assert.deepEqual(open.sort(), [
      'advise.psa.portcullis.dev',
      'certificates.kubelet.portcullis.dev',
      'enforcement.psa.portcullis.dev',
      'fail-open.exec.scc.portcullis.dev',
      'fail-open.mutate.scc.portcullis.dev',
      'fail-open.psa.portcullis.dev',
      'fail-open.validate.scc.portcullis.dev',
      'harden.olm.portcullis.dev',
      'kube-system.psa.portcullis.dev',
      'namespaces.psa.portcullis.dev',
      'nodes.config.openshift.io',
      'nodes.kubelet.portcullis.dev',
      'pods.defaults.portcullis.dev',
      'report.exec.scc.portcullis.dev',
      'report.mutate.scc.portcullis.dev',
      'report.validate.scc.portcullis.dev',
      'settings.psa.portcullis.dev',
      'settings.scc.portcullis.dev',
      'unlabeled.harden.olm.portcullis.dev',
      'writes.kubelet.portcullis.dev',
    ]);
    for (const { failurePolicy } of hooks) assert.match(failurePolicy, /^(?:Fail|Ignore)$/);
  });

  test('matchPolicy, sideEffects, admissionReviewVersions', () => {
    for (const hook of hooks) {
      const { matchPolicy, sideEffects, admissionReviewVersions } = hook as unknown as JsonObject;
      assert.deepEqual([matchPolicy, sideEffects, admissionReviewVersions], ['Equivalent', 'None', ['v1']]);
    }
  });

  test('tiers differ only in name, namespaceSelector, failurePolicy and timeoutSeconds', () => {
    for (const path of new Set(hooks.map(getPath))) {
      if (path.startsWith('/scc/objects/') || ['/kubelet/validate-write', '/olm/harden'].includes(path)) continue;
      const [first, ...others] = hooksAt(path)
        .filter(({ name }) => !OTHERS.includes(name))
        .map((hook) => ({ ...hook, name: '', namespaceSelector: {}, failurePolicy: '', timeoutSeconds: 0 }));
      for (const other of others) assert.deepEqual(other, first);
    }
  });

  test('timeoutSeconds exceeds the wait of 10 seconds', () => {
    for (const path of ['/scc/mutate', '/scc/validate']) assert.equal(hookAt(path).timeoutSeconds, 15);
    for (const path of ['/scc/exec', '/scc/objects/default', '/scc/objects/validate']) {
      assert.equal(hookAt(path).timeoutSeconds, 10);
    }
    for (const hook of hooks.filter(({ failurePolicy }) => failurePolicy === 'Ignore')) {
      assert.equal(hook.timeoutSeconds, UNPROTECTED.test(hook.name) ? 15 : 5, hook.name);
    }
  });

  test('reinvocationPolicy', () => {
    for (const hook of hooksAt('/scc/mutate')) assert.equal(hook.reinvocationPolicy, 'IfNeeded');
  });

  test('both passes select the same requests', () => {
    const selection = ({ rules, namespaceSelector, matchConditions }: Hook) => [
      rules,
      namespaceSelector,
      matchConditions,
    ];
    assert.deepEqual(selection(hookAt('/scc/mutate')), selection(hookAt('/scc/validate')));
    assert.deepEqual(hookAt('/scc/exec').namespaceSelector, hookAt('/scc/mutate').namespaceSelector);
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
    .filter(({ name }) => !OTHERS.includes(name))
    .filter(({ namespaceSelector }) => matchesLabelSelector(namespaceSelector, labels))
    .map(({ failurePolicy }) => failurePolicy);
}

const SERVICE = { namespace: 'portcullis', name: 'portcullis' };

function buildEnforcement(mode: SccMode, someSccs: boolean, exemptNamespaces = DEFAULT_EXEMPT_NAMESPACES) {
  const features = { podSecurity: false, exceptions: false, rollout: false, olm: false };
  const kubelets = { kubelet: false, kubeletCertificates: false, kubeletNodeWrites: false };
  const { exemptions } = DEFAULT_CONFIGURATION;
  return {
    ...features,
    ...kubelets,
    exemptions,
    scc: { mode, exemptNamespaces },
    someSccs,
    floor: false,
    privileged: false,
    workloads: [],
  };
}

suite('tiers', () => {
  /** True if only replicas enforce a level, so the webhook for pods fails closed. */
  const isOwn = ({ metadata: { name, labels } }: AnyNamespace): boolean =>
    name !== 'kube-system' && labels['portcullis.dev/enforce'] !== undefined;
  const isFailOpen = ({ metadata: { labels } }: AnyNamespace): boolean =>
    labels['portcullis.dev/admission'] === 'fail-open';

  type Cases = readonly (readonly [name: string, enforcement: Parameters<typeof requiredConfigurations>[1]])[];
  const cases: Cases = [
    ['observing', buildEnforcement('report', false)],
    ['some namespaces enforce SCCs', buildEnforcement('report', true)],
    ['SCCs are enforced by default', buildEnforcement('enforce', true)],
    ['other namespaces are exempt', buildEnforcement('enforce', true, ['shop', 'kube-system'])],
    ['only kube-system is exempt', buildEnforcement('report', true, ['kube-system'])],
    ['Pod Security is enforced', { ...buildEnforcement('off', false), podSecurity: true }],
    ['exceptions may apply', { ...buildEnforcement('off', false), exceptions: true }],
  ];
  for (const [name, enforcement] of cases) {
    const required = requiredConfigurations(WEBHOOK_REGISTRATIONS, enforcement, { service: SERVICE });
    const among = required.flatMap((one) => one.webhooks) as unknown as readonly Hook[];

    test(`each namespace is selected once: ${name}`, () => {
      const { scc, someSccs, podSecurity } = enforcement;
      fc.assert(
        fc.property(anyNamespace, (namespace) => {
          const own = namespace.metadata.name === SERVICE.namespace;
          const { mode } = sccMode(namespace, scc);
          const isClosed = someSccs && mode === 'enforce' && !isFailOpen(namespace);
          const selected = own || mode === 'off' ? [] : [isClosed ? 'Fail' : 'Ignore'];
          for (const path of scc.mode === 'off' ? [] : ['/scc/mutate', '/scc/validate', '/scc/exec']) {
            assert.deepEqual(failurePolicies(path, namespace, among), selected, path);
          }
          const isOpen =
            !(podSecurity || isOwn(namespace)) || namespace.metadata.name === 'kube-system' || isFailOpen(namespace);
          assert.deepEqual(failurePolicies('/psa/validate', namespace, among), own ? [] : [isOpen ? 'Ignore' : 'Fail']);
        }),
      );
    });

    test(`no other webhook fails closed: ${name}`, () => {
      const closed = among.filter(({ failurePolicy }) => failurePolicy === 'Fail').map(({ name }) => name);
      const sccs = ['mutate', 'validate', 'exec', 'objects'].map((one) => `${one}.scc.portcullis.dev`);
      const podSecurity = enforcement.podSecurity ? ['psa.portcullis.dev'] : [];
      const exceptions = ['exceptions.psa.portcullis.dev', 'record.exceptions.portcullis.dev'];
      assert.deepEqual(
        new Set(closed),
        new Set([
          'own-label.psa.portcullis.dev',
          ...podSecurity,
          ...(enforcement.exceptions ? exceptions : []),
          ...(enforcement.someSccs ? sccs : []),
        ]),
      );
      for (const { name, failurePolicy, timeoutSeconds } of among) {
        if (failurePolicy === 'Ignore') assert.equal(timeoutSeconds, UNPROTECTED.test(name) ? 15 : 5, name);
      }
    });
  }

  for (const podSecurity of [false, true]) {
    for (const mode of ['enforce', 'report'] as const) {
      const exemptions = { usernames: ['root'], namespaces: ['legacy', 'shop'], runtimeClasses: ['kata'] };
      const enforcement = { ...buildEnforcement(mode, true), podSecurity, floor: true, exemptions };
      const required = requiredConfigurations(WEBHOOK_REGISTRATIONS, enforcement, { service: SERVICE });
      const among = required.flatMap((one) => one.webhooks) as unknown as readonly Hook[];
      const byDefault = podSecurity ? 'baseline' : 'privileged';

      test(`with a floor, default level ${byDefault}, mode ${mode}: webhooks fail open if and only if the floor decides`, () => {
        fc.assert(
          fc.property(anyNamespace, fc.boolean(), (namespace, isExemptPod) => {
            const { name, labels } = namespace.metadata;
            const label = labels[ENFORCE];
            const isExempt = exemptions.namespaces.includes(name) || isExemptPod;
            // Without a default level, a namespace with an invalid label fails closed, although the floor restricts it.
            const isLimited = podSecurity ? label !== 'privileged' : label === 'baseline' || label === 'restricted';
            const own = name === SERVICE.namespace;
            const { mode: actual } = sccMode(namespace, enforcement.scc);
            const isClosed = (hasFloor: boolean): boolean =>
              actual === 'enforce' && !isFailOpen(namespace) && !(hasFloor && isLimited && !isExempt);
            const called = (path: string): readonly string[] => {
              const isCalled = ({ matchConditions = [] }: Hook): boolean =>
                !matchConditions.some((one) => one['name'] === (isExemptPod ? 'not-exempt' : 'exempt'));
              return failurePolicies(path, namespace, among.filter(isCalled));
            };
            const selected = (hasFloor: boolean): readonly string[] =>
              own || actual === 'off' ? [] : [isClosed(hasFloor) ? 'Fail' : 'Ignore'];
            assert.deepEqual(called('/scc/mutate'), selected(true));
            assert.deepEqual(called('/scc/validate'), selected(true));
            assert.deepEqual(called('/scc/exec'), selected(false));
            const isClosedPsa = isOwn(namespace) && !isFailOpen(namespace);
            assert.deepEqual(called('/psa/validate'), own ? [] : [isClosedPsa ? 'Fail' : 'Ignore']);
          }),
        );
      });
    }
  }

  test('webhooks fail closed for pods that Pod Security exempts', () => {
    const conditions = (exemptions: ReturnType<typeof buildEnforcement>['exemptions']): readonly string[] =>
      requiredConfigurations(
        WEBHOOK_REGISTRATIONS,
        { ...buildEnforcement('enforce', true), floor: true, exemptions },
        { service: SERVICE },
      )
        .flatMap((one) => one.webhooks)
        .filter(({ name }) => name.endsWith('.mutate.scc.portcullis.dev'))
        .flatMap(({ name, matchConditions = [] }) => [
          name,
          ...matchConditions.slice(2).map((one) => `${one.name}: ${one.expression}`),
        ]);
    const none = { usernames: [], namespaces: [], runtimeClasses: [] };
    assert.deepEqual(conditions(none), [
      'floor.mutate.scc.portcullis.dev',
      'fail-open.mutate.scc.portcullis.dev',
      'report.mutate.scc.portcullis.dev',
    ]);
    const isKata = 'has(object.spec.runtimeClassName) && object.spec.runtimeClassName in ["kata"]';
    assert.deepEqual(conditions({ ...none, runtimeClasses: ['kata'] }), [
      'floor.mutate.scc.portcullis.dev',
      `not-exempt: !(${isKata})`,
      'exempt.mutate.scc.portcullis.dev',
      `exempt: ${isKata}`,
      'fail-open.mutate.scc.portcullis.dev',
      'report.mutate.scc.portcullis.dev',
    ]);
  });

  test('the timeout in the settings applies to fail-closed webhooks', () => {
    const target = { service: SERVICE, timeoutSeconds: 20 };
    const required = requiredConfigurations(WEBHOOK_REGISTRATIONS, buildEnforcement('enforce', true), target);
    for (const { name, failurePolicy, timeoutSeconds } of required.flatMap((one) => one.webhooks)) {
      assert.equal(timeoutSeconds, failurePolicy === 'Fail' ? 20 : UNPROTECTED.test(name) ? 15 : 5, name);
    }
  });

  test('no mutating webhook selects pods in kube-system or the installation namespace', () => {
    const exemptNothing = {
      scc: { mode: 'enforce', exemptNamespaces: [] },
      defaults: { mode: 'apply', exemptNamespaces: [] },
      olm: { hardening: { mode: 'fill' } },
    };
    const mutating = webhookConfigurations({ ...ENFORCING, policy: exemptNothing }).flatMap(({ kind, webhooks }) =>
      kind === 'MutatingWebhookConfiguration' ? (webhooks as unknown as readonly Hook[]) : [],
    );
    const forPods = mutating.filter((hook) => isCovered(hook, 'CREATE', 'pods'));
    const selects = (hook: Hook, name: string): boolean =>
      matchesLabelSelector(hook.namespaceSelector, {
        'kubernetes.io/metadata.name': name,
        'portcullis.dev/scc': 'report',
      });
    assert.equal(forPods.length, 6);
    for (const hook of forPods) {
      assert.deepEqual([selects(hook, 'kube-system'), selects(hook, 'portcullis')], [false, false], hook.name);
    }
    assert.equal(forPods.filter((hook) => selects(hook, 'kube-public')).length, 4);
  });

  for (const other of OTHERS) {
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
      const enforcement = { ...buildEnforcement('report', true), floor };
      const [off = [], on = []] = [false, true].map((exceptions) =>
        requiredConfigurations(WEBHOOK_REGISTRATIONS, { ...enforcement, exceptions }, { service: SERVICE })
          .flatMap((one) => one.webhooks)
          .filter(({ name }) => !name.includes('exceptions.')),
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

suite('rules', () => {
  test('the advisory webhook selects the workload resources in the settings, and fails open', () => {
    const resources = [
      { group: 'argoproj.io', version: '*', resource: 'rollouts' },
      { group: 'batch.volcano.sh', version: 'v1alpha1', resource: 'jobs', templatePath: 'spec.tasks.*.template' },
    ];
    const changed = webhookConfigurations(ENFORCING, { workloads: resources }).flatMap((one) => one.webhooks ?? []);
    const added = changed.flatMap(({ name, rules = [], failurePolicy }) => {
      const known = hooks.find((hook) => hook.name === name)?.rules ?? [];
      return rules.slice(known.length).map((rule) => ({ name, failurePolicy, ...rule }));
    });
    const common = {
      name: 'advise.psa.portcullis.dev',
      failurePolicy: 'Ignore',
      operations: ['CREATE', 'UPDATE'],
      scope: 'Namespaced',
    };
    assert.deepEqual(added, [
      { ...common, apiGroups: ['argoproj.io'], apiVersions: ['*'], resources: ['rollouts'] },
      { ...common, apiGroups: ['batch.volcano.sh'], apiVersions: ['v1alpha1'], resources: ['jobs'] },
    ]);
  });

  for (const path of ['/scc/mutate', '/scc/validate']) {
    test(`${path} covers exactly the evaluated requests`, () => {
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

  test('/scc/exec covers exec and attach', () => {
    const covered = SUBRESOURCES.filter((name) => isCovered(hookAt('/scc/exec'), 'CONNECT', `pods/${name}`));
    assert.deepEqual(covered, ['attach', 'exec']);
  });

  test('SCC objects are covered on create and update', () => {
    for (const path of ['/scc/objects/default', '/scc/objects/validate']) {
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

suite('matchConditions of SCC webhooks', () => {
  const conditions = hookAt('/scc/mutate').matchConditions ?? [];
  const matches = (operation: string, object: JsonObject, oldObject: JsonObject | null): unknown =>
    matchesConditions(conditions, { operation, object, oldObject });

  const withMetadata = (metadata: JsonObject): JsonObject => ({ ...POD, metadata: { ...POD.metadata, ...metadata } });
  const cases: readonly (readonly [
    name: string,
    object: JsonObject,
    oldObject: JsonObject | null,
    matched: boolean,
  ])[] = [
    ['a new pod', POD, null, true],
    ['a new pod for Linux', { ...POD, spec: { ...POD.spec, os: { name: 'linux' } } }, null, true],
    ['a new pod for Windows', { ...POD, spec: { ...POD.spec, os: { name: 'windows' } } }, null, false],
    ['a changed image', CHANGED, POD, true],
    ['no change', POD, POD, false],
    ['an added label', withMetadata({ labels: { a: 'b' } }), POD, true],
    ['a removed label', POD, withMetadata({ labels: { a: 'b' } }), true],
    ['a changed label', withMetadata({ labels: { a: 'c' } }), withMetadata({ labels: { a: 'b' } }), true],
    ['an added annotation', withMetadata({ annotations: { a: 'b' } }), POD, true],
    ['a removed annotation', POD, withMetadata({ annotations: { a: 'b' } }), true],
    [
      'unchanged labels and annotations',
      withMetadata({ labels: { a: 'b' }, annotations: { c: 'd' } }),
      withMetadata({ labels: { a: 'b' }, annotations: { c: 'd' } }),
      false,
    ],
    ['a removed finalizer', POD, withMetadata({ finalizers: ['f'] }), false],
    ['an added owner', withMetadata({ ownerReferences: [{ uid: 'u' }] }), POD, false],
    ['a changed status', { ...POD, status: { phase: 'Running' } }, POD, false],
  ];
  for (const [name, object, oldObject, matched] of cases) {
    test(name, () => assert.equal(matches(oldObject ? 'UPDATE' : 'CREATE', object, oldObject), matched));
  }

  test('excluded requests would be admitted unchanged', () => {
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
  const kept = fc.subarray(['spec', 'labels', 'annotations', 'finalizers']);
  return fc.tuple(anyObject, anyObject, kept).map(([object, other, fields]) => {
    const keepFields = (after: object, before: object): JsonObject => ({
      ...after,
      ...Object.fromEntries(Object.entries(before).filter(([name]) => fields.includes(name))),
    });
    const metadata = keepFields(other.metadata, object.metadata);
    return [{ ...keepFields(other, object), metadata }, object as unknown as JsonObject] as const;
  });
}

suite('matchConditions of Pod Security', () => {
  const conditions = (resource: string): readonly JsonObject[] =>
    hooksAt('/psa/validate').find((hook) => isCovered(hook, 'CREATE', resource))?.matchConditions ?? [];
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
    ['a new pod', 'pods', POD, null, true],
    ['a pod with a changed image', 'pods', CHANGED, POD, true],
    ['a pod with an added annotation', 'pods', pod({ annotations: { a: 'b' } }), POD, true],
    ['a pod with an added label', 'pods', pod({ labels: { a: 'b' } }), POD, false],
    ['a pod with a removed finalizer', 'pods', POD, pod({ finalizers: ['f'] }), false],
    ['an unchanged pod', 'pods', POD, POD, false],
    ['a new namespace', 'namespaces', namespace({}), null, true],
    ['a namespace with an added label', 'namespaces', namespace({ labels: { a: 'b' } }), namespace({}), true],
    ['a namespace with a removed label', 'namespaces', namespace({}), namespace({ labels: { a: 'b' } }), true],
    ['a namespace with empty labels', 'namespaces', namespace({ labels: {} }), namespace({}), false],
    [
      'a namespace with an added annotation',
      'namespaces',
      namespace({ annotations: { a: 'b' } }),
      namespace({}),
      false,
    ],
    ['a namespace with a removed finalizer', 'namespaces', namespace({}), namespace({ finalizers: ['f'] }), false],
  ];
  for (const [name, resource, object, oldObject, matched] of cases) {
    test(name, () => assert.equal(matches(resource, oldObject ? 'UPDATE' : 'CREATE', object, oldObject), matched));
  }

  test('excluded requests would be allowed without warnings', () => {
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
