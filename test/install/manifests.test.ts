/** Tests invariants of the manifests for every profile, and of alerts and dashboard panels. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { suite, test } from 'node:test';
import type { V1ClusterRole, V1Deployment, V1ValidatingAdmissionPolicy } from '@kubernetes/client-node';
import { INSTALLATION, OPTIONAL_FEATURES, PART_OF, PART_OF_LABEL } from '../../src/api/names.ts';
import { CONFIGURATION_NAMES } from '../../src/api/webhooks.ts';
import { resolveValues } from '../../src/cli/options.ts';
import { serveOptions } from '../../src/cli/serve-options.ts';
import alerts from '../../src/install/alerts.json' with { type: 'json' };
import definition from '../../src/install/definitions/psaenforcementconfigs.json' with { type: 'json' };
import {
  ALL_FEATURES,
  buildManifests,
  CRDS,
  defaultSettings,
  type Manifest,
  type ManifestOf,
} from '../../src/install/index.ts';
import { DASHBOARDS, RECORDING_RULES } from '../../src/install/monitoring.ts';
import { type ManifestSettings, parseFeatures, PROFILES } from '../../src/install/settings.ts';
import { ENFORCEMENT_MODES, MAX_VIOLATING_NAMESPACES } from '../../src/kube/psa-enforcement-config.ts';
import { evaluatePod } from '../../src/policy/pss/index.ts';
import { DEFAULT_ROLLOUT } from '../../src/policy/rollout/index.ts';
import { WEBHOOK_REGISTRATIONS } from '../../src/server/webhooks/index.ts';
import { createMetrics } from '../../src/telemetry/metrics.ts';
import { compilePolicy } from '../support/cel.ts';

// The manifests must match the program, API servers, and the Pod Security level of their namespace.

const DEFAULTS = defaultSettings('1.2.3');
const STATIC: Partial<ManifestSettings> = { policy: { webhooks: { management: 'static' } } };

/** Every profile, and settings without a profile. */
const INSTALLATIONS: readonly (readonly [name: string, settings: ManifestSettings])[] = [
  ...Object.entries(PROFILES).map(([name, profile]) => [name, { ...DEFAULTS, ...profile }] as const),
  ['another namespace', { ...DEFAULTS, namespace: 'security' }],
  [
    'enforcement',
    { ...DEFAULTS, ...PROFILES.scc, policy: { scc: { mode: 'enforce' }, rollout: { phase: 'Enforce' } } },
  ],
  ['a provided certificate', { ...DEFAULTS, certificates: 'others' }],
  ['static webhooks', { ...DEFAULTS, ...STATIC }],
];

function find<T>(manifests: readonly Manifest[], kind: string, name: string): ManifestOf<T> {
  const found = manifests.find((one) => one.kind === kind && one.metadata.name === name);
  assert.ok(found, `${kind} ${name}`);
  return found as ManifestOf<T>;
}

function buildDeployment(settings: ManifestSettings): ManifestOf<V1Deployment> {
  return find(buildManifests(settings), 'Deployment', INSTALLATION.name);
}

/** Parses the arguments of the container as `serve` does. */
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

test('the PSAEnforcementConfig CRD contains the constants in the source code', () => {
  const [{ schema } = assert.fail()] = definition.spec.versions;
  const { spec, status } = schema.openAPIV3Schema.properties;
  assert.deepEqual(spec.properties.enforcementMode.enum, ENFORCEMENT_MODES);
  assert.deepEqual(status.properties.enforcementMode.enum, ENFORCEMENT_MODES);
  assert.equal(status.properties.violatingNamespaces.maxItems, MAX_VIOLATING_NAMESPACES);
});

test('replicas manage exactly the webhook configurations that the manifests install', () => {
  const features = { scc: true, rollout: true, kubelet: true, olm: true };
  const policy = {
    ...STATIC.policy,
    olm: { hardening: { mode: 'force' } },
    defaults: { mode: 'apply' },
    podSecurity: { exceptions: { mode: 'approved' } },
  };
  const manifests = buildManifests({ ...DEFAULTS, features, policy });
  const installed = manifests.map(({ kind, metadata }) => [kind, metadata.name]);
  for (const [kind, name] of Object.entries(CONFIGURATION_NAMES)) {
    const found = installed.filter(([one]) => one === kind).map(([, name]) => name);
    assert.deepEqual(found, [name]);
  }
});

for (const [name, settings] of INSTALLATIONS) {
  suite(`with ${name}, the manifests are valid:`, () => {
    const manifests = buildManifests(settings);

    test('objects are unique and have the Portcullis label', () => {
      const keys = manifests.map(({ kind, metadata }) => `${kind} ${metadata.namespace ?? ''}/${metadata.name}`);
      assert.deepEqual(keys, [...new Set(keys)]);
      for (const { metadata } of manifests) assert.equal(metadata.labels?.[PART_OF_LABEL], PART_OF, metadata.name);
    });

    test('webhook configurations come last and have a separate label', () => {
      const kinds = manifests.map(({ kind }) => kind.endsWith('WebhookConfiguration'));
      assert.deepEqual(kinds, kinds.toSorted());
      const labels = manifests.map(({ metadata }) => metadata.labels?.['app.kubernetes.io/component'] === 'webhooks');
      assert.deepEqual(labels, kinds);
    });

    test('all namespaced objects are in the installation namespace', () => {
      const namespaces = new Set(manifests.map(({ metadata }) => metadata.namespace));
      assert.deepEqual(
        [...namespaces].filter((one) => one !== undefined),
        [settings.namespace],
      );
    });

    const skip = settings.hasPods ? false : 'the replicas have no pods';

    test('the replicas comply with the restricted level of their namespace', { skip }, () => {
      const { template } = buildDeployment(settings).spec ?? {};
      assert.deepEqual(evaluatePod(template ?? {}, { level: 'restricted', version: 'latest' }).violations, []);
      const { metadata } = find(manifests, 'Namespace', settings.namespace);
      assert.equal(metadata.labels?.['pod-security.kubernetes.io/enforce'], 'restricted');
    });

    test('the arguments are valid serve options', { skip }, () => {
      const values = getValues(settings);
      assert.equal(values['in-cluster'], true);
      assert.equal(values['tls-cert-file'] === undefined, settings.certificates !== 'cert-manager');
    });

    test('no RBAC rule contains a wildcard', () => {
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

test('the leader creates the settings object of the installation', () => {
  for (const [name, settings] of INSTALLATIONS.filter(([, { hasPods }]) => hasPods)) {
    const initial = buildDeployment(settings).spec?.template.spec?.containers[0]?.env?.find(
      (variable) => variable.name === 'PORTCULLIS_INITIAL_SETTINGS',
    );
    assert.deepEqual(JSON.parse(initial?.value ?? '{}'), settings.policy, name);
  }
});

const SETTINGS = 'portcullisconfigurations.config.portcullis.dev';

test('without the SCC feature, no manifest refers to SCCs', () => {
  const manifests = buildManifests(DEFAULTS);
  // These objects refer to SCCs even if the features are off. The leader must be able to delete the webhook
  // configurations and policies of disabled features, and the service account policy covers all features.
  const others = [
    ...['portcullis-webhook-configurations', 'portcullis-serving-certificate', 'portcullis-admission-policies'],
    'portcullis-service-account',
    SETTINGS,
  ];
  const named = ['Deployment', 'ConfigMap'];
  const text = JSON.stringify(
    manifests.filter(({ kind, metadata }) => !named.includes(kind) && !others.includes(metadata.name)),
  );
  assert.doesNotMatch(text, /scc|securitycontextconstraints|rangeallocations/i);
});

/** The files in webhook-config contain the roles of the default settings and of each profile. */
suite('the settings determine the roles of the replicas:', () => {
  const findRoles = (settings: Partial<ManifestSettings>): ReadonlySet<string> =>
    new Set(
      buildManifests({ ...DEFAULTS, ...settings })
        .filter(({ kind }) => kind === 'Role' || kind === 'ClusterRole')
        .map(({ metadata }) => metadata.name.replace(/^portcullis-/, '')),
    );
  const rollout = ['rollout', 'view-enforcement', 'config-observer', 'policy-reports', 'readiness'];
  const webhooks = ['webhook-configurations', 'serving-certificate', 'replica-certificate'];
  interface Case {
    readonly from?: Partial<ManifestSettings>;
    readonly to: Partial<ManifestSettings>;
    readonly added?: readonly string[];
    readonly removed?: readonly string[];
  }
  const cases: Readonly<Record<string, Case>> = {
    'without the rollout': { to: PROFILES['without-rollout'], removed: rollout },
    'SCCs without the rollout': {
      from: PROFILES.scc,
      to: { features: { ...PROFILES.scc.features, rollout: false } },
      removed: [...rollout, 'label-syncer', 'run-level-zero-labeler'],
    },
    'a taint': {
      from: PROFILES.kubelet,
      to: { ...PROFILES.kubelet, policy: { kubelet: { taint: true } } },
      added: ['kubelet-taint'],
    },
    'pod defaults': { to: { policy: { defaults: { mode: 'apply' } } }, added: ['admission-policies-defaults'] },
    'static webhooks': { to: { ...STATIC, certificates: 'others' }, removed: webhooks },
  };
  for (const [name, { from = {}, to, added = [], removed = [] }] of Object.entries(cases)) {
    test(name, () => {
      const [before, after] = [findRoles(from), findRoles(to)];
      assert.deepEqual([...after.difference(before)].toSorted(), added.toSorted());
      assert.deepEqual([...before.difference(after)].toSorted(), removed.toSorted());
    });
  }
});

test('the local profile differs only in the URL of the webhooks, and has no objects for running replicas', () => {
  const url = 'https://127.0.0.1:8443';
  const client = 'webhook.clientConfig';
  const service = `has(${client}.service) && ${client}.service.name == "portcullis" && ${client}.service.namespace == "portcullis"`;
  const address = `has(${client}.url) && ${client}.url.startsWith("${url}/")`;
  const quoted = (expression: string): string => JSON.stringify(expression).slice(1, -1);
  const text = JSON.stringify(buildManifests(DEFAULTS))
    .replace(quoted(service), quoted(address))
    // The replicas do not read the endpoints of the Service.
    .replace(',{"apiGroups":["discovery.k8s.io"],"resources":["endpointslices"],"verbs":["list","watch"]}', '');
  const forPods = ['Deployment', 'Service', 'NetworkPolicy', 'PodDisruptionBudget'];
  const expected = (JSON.parse(text) as readonly Manifest[]).filter(({ kind }) => !forPods.includes(kind));
  assert.deepEqual(buildManifests({ ...DEFAULTS, ...PROFILES.local }), expected);
});

test('the policy for the service account selects only requests of this service account', () => {
  const policies = buildManifests({ ...DEFAULTS, namespace: 'admission' }).filter(
    ({ metadata }) => metadata.name === 'portcullis-service-account',
  );
  assert.partialDeepStrictEqual(policies, [
    {
      kind: 'ValidatingAdmissionPolicy',
      spec: {
        failurePolicy: 'Fail',
        matchConditions: [
          { expression: "request.userInfo.username == 'system:serviceaccount:admission:portcullis'", name: 'replicas' },
        ],
      },
    },
    {
      kind: 'ValidatingAdmissionPolicyBinding',
      spec: { policyName: 'portcullis-service-account', validationActions: ['Deny'] },
    },
  ]);
});

interface Schema {
  readonly type?: string;
  readonly description?: string;
  readonly 'x-kubernetes-list-type'?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
  readonly additionalProperties?: Schema;
}

/** Returns the arrays without a list type and the fields without a description, except the metadata. */
function schemaGaps(schema: Schema, path: string): readonly string[] {
  const { type, properties = {}, items, additionalProperties } = schema;
  return [
    ...(type === 'array' && schema['x-kubernetes-list-type'] === undefined ? [`${path}: no list type`] : []),
    ...Object.entries(properties).flatMap(([name, field]) => [
      // API servers reject a description of the `metadata` field.
      ...((field.description === undefined) === (name === 'metadata') ? [] : [`${path}.${name}: description`]),
      ...schemaGaps(field, `${path}.${name}`),
    ]),
    ...(items === undefined ? [] : schemaGaps(items, `${path}[]`)),
    ...(typeof additionalProperties === 'object' ? schemaGaps(additionalProperties, `${path}.*`) : []),
  ];
}

suite('the policy for exceptions verifies that the list of authors contains the user:', () => {
  const policy = find<V1ValidatingAdmissionPolicy>(
    buildManifests(DEFAULTS),
    'ValidatingAdmissionPolicy',
    'portcullis-exceptions',
  );
  const evaluate = compilePolicy({ spec: { matchConstraints: {}, ...policy.spec } });
  const DENIED =
    'the author is not recorded: spec.podSecurity.exceptions.mode in the settings is off (to accept exceptions, set it to approved), or the webhook mutate.objects.portcullis.dev is not called';
  const CASES: readonly (readonly [username: string, authors: string | undefined, message?: string])[] = [
    ['alice', '["alice"]'],
    ['alice', '["alice","bob"]'],
    ['alice', undefined, DENIED],
    ['alice', '["bob"]', DENIED],
    ['alice', String.raw`["x\"alice"]`, DENIED],
    ['alice', String.raw`["\u0061lice","alice\u0062"]`, DENIED],
    ['","', '["a","b"]', DENIED],
    [String.raw`CORP\alice`, JSON.stringify([String.raw`CORP\alice`])],
    [String.raw`CORP\alice`, String.raw`["CORP\alice"]`, DENIED],
    [String.raw`CORP\alice`, String.raw`["\u0043ORP\\alice"]`, DENIED],
  ];
  for (const [username, authors, message] of CASES) {
    test(`${username} in ${authors}`, () => {
      const annotations = authors === undefined ? {} : { 'portcullis.dev/authors': authors };
      const object = { metadata: { name: 'a', annotations }, spec: { reason: 'SEC-123' } };
      assert.equal(evaluate({ object, request: { userInfo: { username } } }).message, message);
    });
  }
});

test('every CRD has a category and a short name, each array a list type, and each field a description', () => {
  const gaps = CRDS.flatMap(({ metadata, spec }) => {
    const { names, versions } = spec as unknown as {
      readonly names: { readonly categories?: readonly string[]; readonly shortNames?: readonly string[] };
      readonly versions: readonly { readonly schema: { readonly openAPIV3Schema: Schema } }[];
    };
    return [
      ...(names.categories?.length && names.shortNames?.length ? [] : [`${metadata.name}: no category or short name`]),
      ...versions.flatMap(({ schema }) => schemaGaps(schema.openAPIV3Schema, metadata.name)),
    ];
  });
  assert.deepEqual(gaps, []);
});

test('no manifest binds the roles for exceptions', () => {
  const names = ['portcullis-propose-exceptions', 'portcullis-approve-exceptions'];
  const kinds = buildManifests(DEFAULTS).flatMap(({ kind, metadata }) => (names.includes(metadata.name) ? kind : []));
  assert.deepEqual(kinds, ['ClusterRole', 'ClusterRole']);
});

test('aggregated roles grant only read access', () => {
  const aggregated = buildManifests({ ...DEFAULTS, ...PROFILES.scc }).filter(({ metadata }) =>
    Object.keys(metadata.labels ?? {}).some((label) => label.includes('aggregate-to-')),
  ) as readonly ManifestOf<V1ClusterRole>[];
  assert.deepEqual(
    aggregated.map(({ metadata: { labels = {} } }) => labels['rbac.authorization.k8s.io/aggregate-to-view']),
    aggregated.map(() => 'true'),
  );
  const rules = aggregated.flatMap(({ rules = [] }) => rules ?? []);
  assert.deepEqual(
    rules.map(({ resources, verbs }) => `${String(resources)}: ${verbs.join()}`),
    [
      'portcullisconfigurations: get,list,watch',
      'podsecurityexceptions: get,list,watch',
      'psaenforcementconfigs: get,list,watch',
      'securitycontextconstraints: get,list,watch',
    ],
  );
});

/** Matches metrics that Prometheus and API servers provide. */
const FOREIGN_METRICS = [
  'up',
  'apiserver_admission_webhook_fail_open_count',
  'apiserver_admission_webhook_rejection_count',
  'process_resident_memory_bytes',
  'process_cpu_seconds_total',
];

const described = await createMetrics({ version: '0.0.0' }).describe();
const known = new Set([
  ...FOREIGN_METRICS,
  ...described.map(({ name }) => name),
  ...RECORDING_RULES.map(({ record }) => record),
]);

/** Returns the metrics in an expression, which are the names that precede selectors. */
function metricsIn(expression: string): readonly string[] {
  return [...expression.matchAll(/([a-z_:][a-z0-9_:]*)\{/g)].map(([, name = '']) => name.replace(/_bucket$/, ''));
}

test('expressions in alerts and dashboards use existing metrics', () => {
  const queries = DASHBOARDS.flatMap(({ rows }) => Object.values(rows).flat())
    .flatMap(([, , ...targets]) => targets)
    .map(([expr]) => expr);
  const documented = [...readFileSync('docs/how-to/fleet-metrics.md', 'utf8').matchAll(/```promql\n([^]*?)```/g)];
  assert.equal(documented.length, 5);
  const rules = [...alerts, ...RECORDING_RULES].map(({ expr }) => expr);
  for (const expr of [...rules, ...queries, ...documented.map(([, text = '']) => text)]) {
    const metrics = metricsIn(expr);
    assert.notEqual(metrics.length, 0, expr);
    assert.deepEqual([expr, metrics.filter((one) => !known.has(one))], [expr, []]);
  }
});

test('alerts and dashboards of a feature exist only with the feature', () => {
  const monitoring = (features: readonly string[]) => {
    const settings = { ...DEFAULTS, ...PROFILES.monitoring, features: parseFeatures(['rollout', ...features]) };
    const manifests = buildManifests(settings);
    const { spec } = find<{ readonly spec: { readonly groups: readonly { readonly name: string }[] } }>(
      ...([manifests, 'PrometheusRule', 'portcullis'] as const),
    );
    const { data = {} } = find<{ readonly data?: Record<string, string> }>(
      manifests,
      'ConfigMap',
      'portcullis-dashboard',
    );
    return {
      names: [...spec.groups.map(({ name }) => name), ...Object.keys(data)],
      text: JSON.stringify([spec, data]),
    };
  };
  const always = ['portcullis', 'portcullis-clusters'];
  const files = ['portcullis.json', 'portcullis-clusters.json'];
  assert.deepEqual(monitoring([]).names, [...always, ...files]);
  assert.doesNotMatch(monitoring([]).text, /portcullis_(scc|kubelet|olm)_|SCCs?\b|range/);
  for (const feature of ['scc', 'kubelet', 'olm']) {
    const dashboards = feature === 'scc' ? [...files, 'portcullis-scc.json'] : files;
    const { names, text } = monitoring([feature]);
    assert.deepEqual(names, [...always, `portcullis-${feature}`, ...dashboards]);
    assert.match(text, new RegExp(`portcullis_${feature}_`));
  }
});

test('the alerts about calls by API servers select every webhook', () => {
  const selectors = alerts.flatMap(({ alert, expr }) => {
    const [, pattern] = /apiserver_admission_webhook_\w+\{name=~"([^"]+)"/.exec(expr) ?? [];
    return pattern === undefined ? [] : [{ alert, regex: new RegExp(`^(?:${pattern})$`) }];
  });
  assert.deepEqual(
    selectors.map(({ alert }) => alert),
    ['PortcullisCallsFail', 'PortcullisFailsOpen'],
  );
  const names = WEBHOOK_REGISTRATIONS.flatMap(({ name }) => [name, `report.${name}`]);
  for (const { regex } of selectors)
    assert.deepEqual(
      names.filter((name) => !regex.test(name)),
      [],
    );
});

test('alerts treat an evaluation as outdated after twice the default interval', () => {
  const { expr = '' } = alerts.find(({ alert }) => alert === 'PodSecurityEvaluationOld') ?? {};
  assert.equal(expr.split(' > ').at(-1), String((2 * DEFAULT_ROLLOUT.evaluationIntervalMs) / 1000));
});

test('each alert refers to its runbook section, and links to it if the runbook has a URL', () => {
  const linksTo = (annotation: string, settings: Partial<ManifestSettings>): readonly unknown[] => {
    const manifests = buildManifests({ ...DEFAULTS, ...PROFILES.monitoring, features: ALL_FEATURES, ...settings });
    const rule = find<object>(manifests, 'PrometheusRule', 'portcullis');
    return [...JSON.stringify(rule).matchAll(new RegExp(`"${annotation}":"([^"]*)"`, 'g'))].map(([, link]) => link);
  };
  const groups = [undefined, ...OPTIONAL_FEATURES];
  const sections = groups
    .flatMap((group) => alerts.filter(({ feature }) => feature === group))
    .map(({ alert }) => alert.toLowerCase());
  const inRepository = sections.map((section) => `docs/how-to/runbook.md#${section}`);
  assert.ok(existsSync('docs/how-to/runbook.md'));
  assert.deepEqual([linksTo('runbook', {}), linksTo('runbook_url', {})], [inRepository, []]);
  const url = 'https://wiki.example.com/runbook';
  assert.deepEqual(
    linksTo('runbook_url', { runbook: url }),
    sections.map((section) => `${url}#${section}`),
  );
});
