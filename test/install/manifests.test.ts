/** Invariants of the manifests for every profile, and of alerts and dashboard panels. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { V1ClusterRole, V1ConfigMap, V1Deployment } from '@kubernetes/client-node';
import { resolveValues } from '../../src/cli/options.ts';
import { serveOptions } from '../../src/cli/serve/options.ts';
import { parseSettings } from '../../src/config/configuration.ts';
import { createDefaultSettings } from '../../src/config/portcullis-configuration.ts';
import definition from '../../src/install/definitions/psaenforcementconfigs.json' with { type: 'json' };
import { ENFORCEMENT_MODES, MAX_VIOLATING_NAMESPACES } from '../../src/kube/psa-enforcement-config.ts';
import { INSTALLATION, PART_OF, PART_OF_LABEL, LABEL_SYNC_MANAGER } from '../../src/kube/well-known.ts';
import { CONTROLLER_NAMES } from '../../src/controllers/index.ts';
import { INSTALLED_CONFIGURATIONS } from '../../src/kube/webhooks.ts';
import { DEFAULT_ROLLOUT } from '../../src/policy/rollout/settings.ts';
import { defaultSettings, buildManifests, type Manifest, type ManifestOf } from '../../src/install/index.ts';
import { type ManifestSettings, PROFILES } from '../../src/install/settings.ts';
import { DEFAULT_CONFIGURATION } from '../../src/policy/psa/configuration.ts';
import { evaluatePod } from '../../src/policy/pss/index.ts';
import alerts from '../../src/install/monitoring/alerts.json' with { type: 'json' };
import dashboard from '../../src/install/monitoring/dashboard.json' with { type: 'json' };
import { createMetrics } from '../../src/telemetry/metrics.ts';

// The manifests match the program, API servers and the Pod Security level of their namespace.

const DEFAULTS = defaultSettings('1.2.3');

/** Every profile, and settings without a profile. */
const INSTALLATIONS: readonly (readonly [name: string, settings: ManifestSettings])[] = [
  ...Object.entries(PROFILES).map(([name, profile]) => [name, { ...DEFAULTS, ...profile }] as const),
  ['another namespace', { ...DEFAULTS, namespace: 'security' }],
  ['enforcing, by access reviews', { ...DEFAULTS, sccMode: 'enforce', authorization: 'sar' }],
  ['enforcement by dry runs', { ...DEFAULTS, rollout: 'Enforce', evaluator: 'DryRun' }],
  ['no controllers of the rollout', { ...DEFAULTS, withoutControllers: CONTROLLER_NAMES }],
  ['a provided certificate', { ...DEFAULTS, certificates: 'others' }],
];

function find<T>(manifests: readonly Manifest[], kind: string, name: string): ManifestOf<T> {
  const found = manifests.find((one) => one.kind === kind && one.metadata.name === name);
  assert.ok(found, `${kind} ${name}`);
  return found as ManifestOf<T>;
}

function buildDeployment(settings: ManifestSettings): ManifestOf<V1Deployment> {
  return find(buildManifests(settings), 'Deployment', INSTALLATION.name);
}

/** Resolves the arguments of the container as `serve` does. */
function getValues(settings: ManifestSettings) {
  const [command, ...args] = buildDeployment(settings).spec?.template.spec?.containers[0]?.args ?? [];
  assert.equal(command, 'serve');
  const typed = args.map((arg) => {
    const [, name = '', value = 'true'] = /^--([^=]+)(?:=(.*))?$/.exec(arg) ?? [];
    assert.ok(name in serveOptions, arg);
    return [name, [value]] as const;
  });
  return resolveValues(serveOptions, { typed: new Map(typed), env: {} });
}

test('the definition of PSAEnforcementConfig uses the constants of the program', () => {
  const [{ schema } = assert.fail()] = definition.spec.versions;
  const { spec, status } = schema.openAPIV3Schema.properties;
  assert.deepEqual(spec.properties.enforcementMode.enum, ENFORCEMENT_MODES);
  assert.deepEqual(status.properties.enforcementMode.enum, ENFORCEMENT_MODES);
  assert.equal(status.properties.violatingNamespaces.maxItems, MAX_VIOLATING_NAMESPACES);
});

test('replicas manage the installed webhook configurations', () => {
  const installed = buildManifests({ ...DEFAULTS, ...PROFILES['static-webhooks'] }).map(({ kind, metadata }) => [
    kind,
    metadata.name,
  ]);
  for (const [kind, names] of Object.entries(INSTALLED_CONFIGURATIONS)) {
    const found = installed.filter(([one]) => one === kind).map(([, name]) => name);
    assert.deepEqual(found.toSorted(), names.toSorted());
  }
});

for (const [name, settings] of INSTALLATIONS) {
  suite(name, () => {
    const manifests = buildManifests(settings);

    test('objects are unique and have the label of Portcullis', () => {
      const keys = manifests.map(({ kind, metadata }) => `${kind} ${metadata.namespace ?? ''}/${metadata.name}`);
      assert.deepEqual(keys, [...new Set(keys)]);
      for (const { metadata } of manifests) assert.equal(metadata.labels?.[PART_OF_LABEL], PART_OF, metadata.name);
    });

    test('webhook configurations are last and have their own label', () => {
      const kinds = manifests.map(({ kind }) => kind.endsWith('WebhookConfiguration'));
      assert.deepEqual(kinds, kinds.toSorted());
      const labels = manifests.map(({ metadata }) => metadata.labels?.['app.kubernetes.io/component'] === 'webhooks');
      assert.deepEqual(labels, kinds);
    });

    test('all namespaced objects are in the namespace of the installation', () => {
      const namespaces = new Set(manifests.map(({ metadata }) => metadata.namespace));
      assert.deepEqual(
        [...namespaces].filter((one) => one !== undefined),
        [settings.namespace],
      );
    });

    test('the replicas comply with the level restricted of their namespace', () => {
      const { template } = buildDeployment(settings).spec ?? {};
      assert.deepEqual(evaluatePod(template ?? {}, { level: 'restricted', version: 'latest' }).violations, []);
      const { metadata } = find(manifests, 'Namespace', settings.namespace);
      assert.equal(metadata.labels?.['pod-security.kubernetes.io/enforce'], 'restricted');
    });

    test('the arguments are options of serve', () => {
      const values = getValues(settings);
      assert.equal(values['in-cluster'], true);
      assert.equal(values['tls-cert-file'] === undefined, settings.certificates === 'self-managed');
    });

    test('no rule contains a wildcard', () => {
      const rules = manifests.flatMap((one) =>
        'rules' in one ? ((one as ManifestOf<V1ClusterRole>).rules ?? []) : [],
      );
      assert.notEqual(rules.length, 0);
      for (const rule of rules) {
        assert.ok(![...rule.verbs, ...(rule.resources ?? []), ...(rule.apiGroups ?? [])].includes('*'));
      }
    });
  });
}

test('the configuration file contains the settings of the installation', () => {
  for (const [name, settings] of INSTALLATIONS) {
    const { data = {} } = find<V1ConfigMap>(buildManifests(settings), 'ConfigMap', 'portcullis-configuration');
    const [file = '', ...others] = Object.keys(data);
    assert.deepEqual(others, []);
    const options = { controllers: CONTROLLER_NAMES, namespace: settings.namespace };
    const defaults = createDefaultSettings(options);
    const { podSecurity, ...rest } = parseSettings({ file, text: data[file] ?? '' }, options);
    assert.deepEqual(podSecurity.configuration, DEFAULT_CONFIGURATION);
    const { rollout: phase, evaluator, sccMode: mode, authorization, withoutControllers } = settings;
    assert.deepEqual(
      rest,
      {
        workloadResources: defaults.workloadResources,
        rollout: { ...defaults.rollout, phase, evaluator },
        scc: { ...defaults.scc, mode, authorization },
        ranges: defaults.ranges,
        disabledControllers: withoutControllers,
        webhooks: { management: settings.webhookManagement },
      },
      name,
    );
    const [mount] = buildDeployment(settings).spec?.template.spec?.containers[0]?.volumeMounts ?? [];
    assert.equal(getValues(settings).config, `${mount?.mountPath ?? ''}/${file}`);
  }
});

const SETTINGS = 'portcullisconfigurations.config.portcullis.dev';

test('without SCCs and the rollout no manifest mentions SCCs', () => {
  const manifests = buildManifests({ ...DEFAULTS, sccMode: 'off', rollout: 'Disabled' });
  // The leader deletes the webhook configurations of features that are off.
  const others = ['portcullis-webhook-configurations', SETTINGS];
  const named = ['Deployment', 'ConfigMap'];
  const text = JSON.stringify(
    manifests.filter(({ kind, metadata }) => !named.includes(kind) && !others.includes(metadata.name)),
  );
  assert.doesNotMatch(text, /scc|securitycontextconstraints|rangeallocations/i);
});

suite('the roles of the replicas', () => {
  const core = ['portcullis'];
  const base = [...core, 'portcullis-settings-status'];
  const scc = ['portcullis-scc', 'portcullis-view'];
  const rollout = ['portcullis-rollout'];
  const view = ['portcullis-view-enforcement'];
  const certificate = ['portcullis-serving-certificate', 'portcullis-serving-certificate-scc'];
  const webhooks = ['portcullis-webhook-configurations'];
  const replica = ['portcullis-replica-certificate', ...webhooks];
  const sccControllers = ['portcullis-uid-range-allocator', 'portcullis-standard-sccs'];
  const labelers = ['portcullis-label-syncer', 'portcullis-run-level-zero-labeler'];
  const readiness = ['portcullis-config-observer', 'portcullis-readiness'];
  const cases: readonly (readonly [string, Partial<ManifestSettings>, readonly string[]])[] = [
    [
      'by default',
      {},
      [...base, ...scc, ...rollout, ...certificate, ...replica, ...sccControllers, ...labelers, ...readiness, ...view],
    ],
    [
      'rollout disabled',
      { rollout: 'Disabled' },
      [...base, ...scc, ...certificate, ...replica, ...sccControllers, ...view],
    ],
    [
      'SCC admission off',
      { sccMode: 'off' },
      [...base, ...rollout, 'portcullis-serving-certificate', ...replica, ...readiness, ...view],
    ],
    ['on OpenShift', PROFILES.openshift, [...base, 'portcullis-serving-certificate', ...replica, ...view]],
    [
      'dry runs',
      { evaluator: 'DryRun', sccMode: 'off', certificates: 'others' },
      [...base, ...rollout, ...readiness, ...webhooks, 'portcullis-readiness-dry-run', ...view],
    ],
    [
      'static webhooks',
      { ...PROFILES['static-webhooks'], ...PROFILES.openshift, certificates: 'others' },
      [...base, ...view],
    ],
    ['without controllers', { withoutControllers: CONTROLLER_NAMES }, [...core, ...scc, ...rollout, ...view]],
    [
      'without some controllers',
      {
        withoutControllers: ['pod-security-config-observer', LABEL_SYNC_MANAGER],
        certificates: 'others',
        authorization: 'sar',
      },
      [
        ...base,
        ...scc,
        ...rollout,
        ...webhooks,
        ...sccControllers,
        'portcullis-run-level-zero-labeler',
        'portcullis-readiness',
        ...view,
        'portcullis-access-reviews',
      ],
    ],
  ];
  for (const [name, settings, roles] of cases) {
    test(name, () => {
      const manifests = buildManifests({ ...DEFAULTS, ...settings });
      const found = manifests.filter(({ kind }) => kind === 'Role' || kind === 'ClusterRole');
      assert.deepEqual([...new Set(found.map(({ metadata }) => metadata.name))].toSorted(), roles.toSorted());
    });
  }
});

test('aggregated roles grant read access only', () => {
  const aggregated = buildManifests(DEFAULTS).filter(({ metadata }) =>
    Object.keys(metadata.labels ?? {}).some((label) => label.includes('aggregate-to-')),
  ) as readonly ManifestOf<V1ClusterRole>[];
  assert.deepEqual(
    aggregated.map(({ metadata: { labels = {} } }) => labels['rbac.authorization.k8s.io/aggregate-to-view']),
    aggregated.map(() => 'true'),
  );
  const rules = aggregated.flatMap(({ rules = [] }) => rules ?? []);
  assert.deepEqual(
    rules.map(({ resources, verbs }) => `${String(resources)}: ${verbs.join()}`),
    ['securitycontextconstraints: get,list,watch', 'psaenforcementconfigs: get,list,watch'],
  );
});

/** Metrics of Prometheus and of API servers. */
const FOREIGN_METRICS = [
  'up',
  'apiserver_admission_webhook_fail_open_count',
  'apiserver_admission_webhook_rejection_count',
  'process_resident_memory_bytes',
  'process_cpu_seconds_total',
];

const described = await createMetrics({ version: '0.0.0' }).describe();
const known = new Set([...FOREIGN_METRICS, ...described.map(({ name }) => name)]);

/** The metrics in an expression: the names before selectors. */
function metricsIn(expression: string): readonly string[] {
  return [...expression.matchAll(/([a-z_:][a-z0-9_:]*)\{/g)].map(([, name = '']) => name.replace(/_bucket$/, ''));
}

test('expressions use existing metrics', () => {
  const queries = dashboard.panels.flatMap(({ targets }) => targets);
  for (const { expr } of [...alerts, ...queries]) {
    const metrics = metricsIn(expr);
    assert.notEqual(metrics.length, 0, expr);
    assert.deepEqual([expr, metrics.filter((one) => !known.has(one))], [expr, []]);
  }
});

test('an evaluation is old after twice the default interval between evaluations', () => {
  const { expr = '' } = alerts.find(({ alert }) => alert === 'PodSecurityEvaluationOld') ?? {};
  assert.equal(expr.split(' > ').at(-1), String((2 * DEFAULT_ROLLOUT.evaluationIntervalMs) / 1000));
});

test('each alert links to its section of the runbook', () => {
  const rule = find<object>(buildManifests({ ...DEFAULTS, ...PROFILES.monitoring }), 'PrometheusRule', 'portcullis');
  const urls = [...JSON.stringify(rule).matchAll(/"runbook_url":"([^"]*)"/g)].map(([, url]) => url);
  assert.deepEqual(
    urls,
    alerts.map(({ alert }) => `https://portcullis.dev/docs/runbook.md#${alert.toLowerCase()}`),
  );
});
