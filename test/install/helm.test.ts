/**
 * Tests the Helm chart. If helm is available, the rendered objects are compared with the manifests of `portcullis
 * install`. Otherwise, the files of the chart are only checked for the same object names.
 */
import assert from 'node:assert/strict';
import { globSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { Ajv } from 'ajv';
import { FEATURES } from '../../src/api/names.ts';
import { CONFIGURATION_NAMES } from '../../src/api/webhooks.ts';
import { VERSION } from '../../src/cli/command.ts';
import { readDocuments } from '../../src/config/yaml.ts';
import { deployment } from '../../src/install/deployment.ts';
import { buildManifests, CRDS, defaultSettings, type Manifest, MINIMUM_MINOR } from '../../src/install/index.ts';
import { type ManifestSettings, PROFILES } from '../../src/install/settings.ts';
import { isObject, type JsonObject } from '../../src/kube/types.ts';
import { readFixture } from '../support/fixtures.ts';
import { CHART, runHelm, withoutHelm } from '../support/helm.ts';

const DEFAULTS = { ...defaultSettings(VERSION), namespace: 'security' };

function chartFile(...path: readonly string[]): string {
  return readFileSync(join(CHART, ...path), 'utf8');
}

function objectsIn(text: string): readonly Manifest[] {
  const { documents, errors } = readDocuments(text, 'rendered');
  assert.deepEqual(errors, []);
  return documents.map(({ value }) => value as Manifest);
}

const [values] = objectsIn(chartFile('values.yaml')) as unknown as readonly [JsonObject];

/** Returns the names in a template that match an expression with one group. */
function namesIn(template: string, expression: RegExp): readonly string[] {
  return [...new Set([...chartFile('templates', template).matchAll(expression)].map(([, name = '']) => name))].sort();
}

test('the chart templates cover every CRD, every webhook configuration and every condition for installing a role', () => {
  const crds = CRDS.map(({ metadata }) => metadata.name);
  assert.deepEqual(namesIn('_helpers.tpl', /^- ([\w.]+)$/gm), crds.toSorted());
  const [roles] = objectsIn(chartFile('files/roles.yaml')) as unknown as [readonly { requires: readonly string[] }[]];
  const conditions = [...namesIn('rbac.yaml', /^ {2}"(\w+)" /gm), ...FEATURES];
  assert.deepEqual([...new Set(roles.flatMap(({ requires }) => requires))].toSorted(), conditions.toSorted());
  const configurations = Object.entries(CONFIGURATION_NAMES).map(([kind, name]) => `"${name}" "${kind}"`);
  assert.deepEqual(namesIn('pre-delete-hook.yaml', /^ {2}(".*")$/gm), configurations.toSorted());
});

test('templates set defaults for values, and use only existing values', () => {
  for (const template of globSync('**/*.*', { cwd: join(CHART, 'templates') })) {
    const text = chartFile('templates', template);
    for (const [, name = ''] of text.matchAll(/\.Values\.([\w.]+)/g)) {
      const value = name.split('.').reduce<unknown>((all, key) => (isObject(all) ? all[key] : undefined), values);
      assert.notEqual(value, undefined, `values.yaml has no ${name}`);
    }
    const usesValues = text.includes('.Values.') && template !== '_helpers.tpl';
    assert.ok(!usesValues || text.startsWith('{{- include "portcullis.setDefaults" . '), template);
  }
});

test('Chart.yaml lists the supported Kubernetes version, the image and the CRDs', () => {
  const [chart] = objectsIn(chartFile('Chart.yaml')) as unknown as readonly {
    readonly kubeVersion: string;
    readonly annotations: Readonly<Record<string, string>>;
  }[];
  assert.equal(chart?.kubeVersion, `>= 1.${MINIMUM_MINOR}.0-0`);
  assert.match(chart.annotations['artifacthub.io/images'] ?? '', new RegExp(`image: portcullis:${VERSION}\n`));
  const described = [...(chart.annotations['artifacthub.io/crds'] ?? '').matchAll(/^ {2}name: (.*)$/gm)];
  const crds = readdirSync(join(CHART, 'files/crds')).map((file) => file.replace(/\.yaml$/, ''));
  assert.deepEqual(described.map(([, name]) => name).toSorted(), crds.toSorted());
});

test("the chart's default values match the defaults of `portcullis install` and the values schema", () => {
  const pod = deployment(DEFAULTS).spec?.template.spec;
  const [container] = pod?.containers ?? [];
  const { replicas, runbook } = DEFAULTS;
  assert.partialDeepStrictEqual(values, {
    replicaCount: replicas,
    revisionHistoryLimit: deployment(DEFAULTS).spec?.revisionHistoryLimit,
    features: DEFAULTS.features,
    settings: DEFAULTS.policy,
    image: { repository: 'portcullis', pullPolicy: container?.imagePullPolicy },
    securityContext: container?.securityContext,
    resources: container?.resources,
    podSecurityContext: pod?.securityContext,
    nodeSelector: pod?.nodeSelector,
    affinity: pod?.affinity,
    topologySpreadConstraints: pod?.topologySpreadConstraints,
    priorityClassName: pod?.priorityClassName,
    terminationGracePeriodSeconds: pod?.terminationGracePeriodSeconds,
    prometheusRule: { runbookUrl: runbook },
  });
  const schema = JSON.parse(chartFile('values.schema.json')) as { readonly properties: JsonObject };
  const names = Object.keys(schema.properties).filter((name) => name !== 'global');
  assert.deepEqual(names, Object.keys(values));
  const validate = new Ajv({ strict: false }).compile(schema);
  assert.ok(validate(values), JSON.stringify(validate.errors));
  assert.equal(validate({ ...values, settings: { scc: { mode: 'on' } } }), false);
});

function render(values: JsonObject) {
  const set = Object.entries(values).map(([name, value]) => `--set-json=${name}=${JSON.stringify(value)}`);
  return runHelm(['template', 'any', CHART, '--namespace=security', '--kube-version=1.36.0', ...set]);
}

function renderedObjects(values: JsonObject): readonly Manifest[] {
  const { status, stdout, stderr } = render(values);
  assert.deepEqual([status, stderr], [0, '']);
  return objectsIn(stdout);
}

/** Returns objects without the labels and annotations that only charts set, sorted by kind and name. */
function comparable(objects: readonly Manifest[]): readonly unknown[] {
  const key = ({ kind, metadata: { name } }: Manifest): string => `${kind} ${name}`;
  const sorted = objects.map(withoutChartEntries).toSorted((a, b) => (key(a) < key(b) ? -1 : 1));
  // Helm renders an empty list as null, and sorts the initial settings.
  const text = JSON.stringify(sorted, (name, value: unknown) => {
    if (name === 'volumes' || name === 'volumeMounts') return value ?? [];
    // The initial settings are the value of a variable.
    const isJson = name.endsWith('.json') || (name === 'value' && String(value).startsWith('{'));
    return isJson && typeof value === 'string' ? (JSON.parse(value) as unknown) : value;
  });
  return JSON.parse(text) as readonly unknown[];
}

const CHART_ENTRIES = ['app.kubernetes.io/managed-by', 'helm.sh/chart', 'helm.sh/resource-policy'];

function withoutChartEntries({ metadata, ...rest }: Manifest): Manifest {
  const others = (entries: object = {}) =>
    Object.fromEntries(Object.entries(entries).filter(([name]) => !CHART_ENTRIES.includes(name)));
  const { labels, annotations } = metadata;
  return { ...rest, metadata: { ...metadata, labels: others(labels), annotations: others(annotations) } };
}

/** Chart values, and the corresponding settings of `portcullis install`. */
interface Choice {
  readonly values: JsonObject;
  readonly settings: Partial<ManifestSettings>;
}

const MONITORING = { serviceMonitor: { enabled: true }, grafana: { enabled: true } };
const RUNBOOK = 'https://wiki.example.com/runbook';
const DIGEST = `sha256:${'0'.repeat(64)}`;

/** Lists of independent choices. The lengths of the lists are coprime, so every case has a different combination. */
const CHOICES: readonly (readonly Choice[])[] = [
  [
    { values: {}, settings: {} },
    { values: { certManager: { enabled: true } }, settings: { certificates: 'cert-manager' } },
  ],
  [
    { values: {}, settings: {} },
    { values: { ...MONITORING, prometheusRule: { enabled: true } }, settings: PROFILES.monitoring },
    {
      values: { ...MONITORING, prometheusRule: { enabled: true, runbookUrl: RUNBOOK } },
      settings: { ...PROFILES.monitoring, runbook: RUNBOOK },
    },
  ],
  [
    { values: { image: { registry: 'r.example.com' } }, settings: { image: `r.example.com/portcullis:${VERSION}` } },
    { values: { image: { tag: 'v9' }, replicaCount: 5 }, settings: { image: 'portcullis:v9', replicas: 5 } },
    { values: { image: { digest: DIGEST } }, settings: { image: `portcullis@${DIGEST}` } },
    {
      values: { image: { repository: 'r/p' }, crds: { nodesConfig: true } },
      settings: { image: `r/p:${VERSION}`, nodesConfig: true },
    },
    { values: { image: { tag: 'v9', digest: DIGEST } }, settings: { image: `portcullis@${DIGEST}` } },
  ],
  [
    {},
    { scc: { mode: 'enforce' } },
    { rollout: { phase: 'Enforce' }, scc: { authorization: 'sar' } },
    { defaults: { mode: 'apply' } },
    { defaults: { mode: 'off' }, kubelet: { taint: true } },
    { podSecurity: { defaults: { enforce: 'baseline' } }, kubelet: { taint: false } },
    { webhooks: { management: 'managed', timeoutSeconds: 8 }, scc: { mode: 'report', exemptNamespaces: ['build'] } },
  ].map((policy) => ({ values: { settings: policy }, settings: { policy } })),
];

/** Combines the features that the bits of a number select with one choice from each list. */
function combine(bits: number, index: number): Choice {
  const features = Object.fromEntries(FEATURES.map((name, bit) => [name, (bits & (1 << bit)) !== 0]));
  const all = CHOICES.map((choices) => choices[index % choices.length] ?? assert.fail());
  return {
    values: Object.assign({ features }, ...all.map((one) => one.values)) as JsonObject,
    settings: Object.assign({ features }, ...all.map((one) => one.settings)) as ManifestSettings,
  };
}

/** Values of the chart, and the expected fields of the rendered objects. */
interface ValuesCase {
  readonly name: string;
  readonly values: JsonObject;
  /** Objects that the chart must contain, with some of their fields. */
  readonly objects?: readonly Manifest[];
  /** Objects that the chart must not contain. */
  readonly absent?: readonly string[];
  /** The end of the expected error message. */
  readonly error?: string;
}

/** Values whose defaults `null` removes. */
const REMOVABLE = [
  'podSecurityContext',
  'securityContext',
  'resources',
  'nodeSelector',
  'affinity',
  'topologySpreadConstraints',
];

suite('helm template', { skip: withoutHelm }, () => {
  const equals = ({ values, settings }: Choice): void => {
    const expected = buildManifests({ ...DEFAULTS, ...settings }).filter(({ kind }) => kind !== 'Namespace');
    assert.deepEqual(comparable(renderedObjects(values)), comparable(expected));
  };

  test('renders the default values to a default installation', () => equals({ values: {}, settings: {} }));

  // Each combination of features is tested with each source of the certificate.
  for (let number = 0; number < 32; number += 1) {
    const one = combine(number % 16, number + Math.floor(number / 16));
    test(`renders the output of install for ${JSON.stringify(one.values)}`, () => equals(one));
  }

  for (const { name, values, objects = [], absent = [], error } of readFixture<ValuesCase[]>('helm-values.yaml')) {
    test(`${error === undefined ? 'renders' : 'rejects'} ${name}`, () => {
      const { stdout, stderr } = render(values);
      if (error !== undefined) {
        const message = stderr.replace(/\s*Use --debug flag.*\n/, '').trimEnd();
        assert.ok(message.endsWith(error.trimEnd()), stderr);
        return;
      }
      assert.equal(stderr, '');
      const identify = ({ kind, metadata }: Manifest): string => `${kind} ${metadata.name}`;
      const found = new Map(objectsIn(stdout).map((object) => [identify(object), object]));
      for (const object of objects) assert.partialDeepStrictEqual(found.get(identify(object)), object);
      for (const key of absent) assert.ok(!found.has(key), key);
    });
  }

  test('the chart passes the strict linter', () => {
    const { status, stdout } = runHelm(['lint', CHART, '--strict', '--set=image.registry=registry.example.com']);
    assert.equal(status, 0, stdout);
  });

  test('accepts values without those that a new version adds, as in helm upgrade --reuse-values', () => {
    const absent = (names: readonly string[]): JsonObject => Object.fromEntries(names.map((name) => [name, null]));
    const added = Object.keys(values).filter((name) => !REMOVABLE.includes(name));
    assert.deepEqual(renderedObjects(absent(added)), renderedObjects({}));
    const found = JSON.stringify(renderedObjects(absent(REMOVABLE)).find(({ kind }) => kind === 'Deployment'));
    assert.doesNotMatch(found, /securityContext|resources|nodeSelector|ffinity|topologySpread/);
  });

  test('sets the commonLabels and commonAnnotations on all objects', () => {
    const objects = renderedObjects({
      ...{ ...MONITORING, certManager: { enabled: true }, prometheusRule: { enabled: true }, crds: { keep: false } },
      ...{ commonLabels: { team: 'a' }, commonAnnotations: { note: 'b' }, podLabels: { team: 'c' } },
    });
    const without = objects.filter(({ metadata }) => metadata.labels?.['team'] !== 'a');
    assert.deepEqual([objects.length > 40, without], [true, []]);
    assert.ok(objects.every(({ metadata }) => metadata.annotations?.['note'] === 'b'));
    assert.match(JSON.stringify(objects.find(({ kind }) => kind === 'Deployment')), /"team":"c"/);
  });

  test('renders no hooks, which kubectl and Argo CD would apply as objects', () => {
    assert.ok(renderedObjects({}).every(({ metadata }) => metadata.annotations?.['helm.sh/hook'] === undefined));
  });
});
