/** The rendered Helm chart equals the manifests for the corresponding settings. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { Ajv } from 'ajv';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import packageJson from '../../package.json' with { type: 'json' };
import { readDocuments } from '../../src/config/yaml.ts';
import { isObject, type JsonObject } from '../../src/kube/types.ts';
import { deployment } from '../../src/install/deployment.ts';
import { defaultSettings, buildManifests, type Manifest } from '../../src/install/index.ts';
import { type ManifestSettings, PROFILES } from '../../src/install/settings.ts';
import { readFixture } from '../support/fixtures.ts';
import { CHART, runHelm, withoutHelm } from '../support/helm.ts';

const { version } = packageJson;
const DEFAULTS = { ...defaultSettings(version), namespace: 'security' };

function render(values: readonly string[], ...flags: readonly string[]) {
  const args = ['template', 'any', CHART, '--namespace=security', '--kube-version=1.36.0', ...flags];
  return runHelm([...args, ...values.map((value) => `--set=${value}`)]);
}

function renderedObjects(values: readonly string[], ...flags: readonly string[]): readonly Manifest[] {
  const { status, stdout, stderr } = render(values, ...flags);
  assert.equal(status, 0, stderr);
  return objectsIn(stdout) as readonly Manifest[];
}

function rendered(values: readonly string[]): readonly unknown[] {
  // Helm renders an empty list as null.
  const isList = (key: string): boolean => ['volumes', 'volumeMounts'].includes(key);
  const text = JSON.stringify(renderedObjects(values), (key, value: unknown) => (isList(key) ? (value ?? []) : value));
  return sorted((JSON.parse(text) as readonly Manifest[]).map(comparable));
}

function expected(settings: Partial<ManifestSettings>): readonly unknown[] {
  const manifests = buildManifests({ ...DEFAULTS, ...settings });
  return sorted(manifests.filter(({ kind }) => kind !== 'Namespace').map(comparable));
}

const CHART_ENTRIES = ['app.kubernetes.io/managed-by', 'helm.sh/chart', 'helm.sh/resource-policy'];

/** Removes the labels and annotations of charts, and parses configuration files. */
function comparable({ metadata, ...rest }: Manifest): Manifest {
  const { labels, annotations, ...others } = metadata;
  const kept = { labels: withoutChartEntries(labels), annotations: withoutChartEntries(annotations) };
  const data = 'data' in rest && isObject(rest.data) ? { data: Object.entries(rest.data).map(parsed) } : {};
  return { ...rest, ...data, metadata: { ...others, ...kept } };
}

function withoutChartEntries(entries: Readonly<Record<string, string>> = {}): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(entries).filter(([name]) => !CHART_ENTRIES.includes(name)));
}

function parsed([file, text]: readonly [string, unknown]): unknown {
  return [file, ...readDocuments(String(text), file).documents.map(({ value }) => value)];
}

const chartFile = (path: string): string => readFileSync(join(CHART, path), 'utf8');
const schema = JSON.parse(chartFile('values.schema.json')) as {
  readonly properties: JsonObject;
};
const [values] = objectsIn(chartFile('values.yaml')) as readonly JsonObject[];

test('templates are balanced and use existing values', () => {
  for (const path of readdirSync(join(CHART, 'templates'))) {
    const text = chartFile(join('templates', path));
    const actions = [...text.matchAll(/\{\{-? *(if|with|range|define|end)\b/g)].map(([, word]) => word);
    const ends = actions.filter((word) => word === 'end').length;
    assert.equal(ends, actions.length - ends, path);
    assert.doesNotMatch(text, /[«»]/);
    for (const [, name = ''] of text.matchAll(/\.Values\.([\w.]+)/g)) {
      const value = name.split('.').reduce<unknown>((all, key) => (isObject(all) ? all[key] : undefined), values);
      assert.notEqual(value, undefined, `values.yaml has no ${name}`);
    }
  }
});

test('the default values are those of the manifests, and match the schema', () => {
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
    topologySpreadConstraints: pod?.topologySpreadConstraints,
    priorityClassName: pod?.priorityClassName,
    terminationGracePeriodSeconds: pod?.terminationGracePeriodSeconds,
    prometheusRule: { runbookUrl: runbook },
  });
  const names = Object.keys(schema.properties).filter((name) => name !== 'global');
  assert.deepEqual(names, Object.keys(values ?? {}));
  const validate = new Ajv({ strict: false }).compile(schema);
  assert.ok(validate(values), JSON.stringify(validate.errors));
  assert.equal(validate({ ...values, settings: { scc: { mode: 'on' } } }), false);
});

/** A case of the chart: values, and fields of rendered objects. */
interface ValuesCase {
  readonly name: string;
  readonly values: JsonObject;
  /** The objects that the chart contains, with some of their fields. */
  readonly objects?: readonly Manifest[];
  /** The objects that the chart does not contain. */
  readonly absent?: readonly string[];
  /** The end of the error message. */
  readonly error?: string;
}

/** Renders the chart with values of a file. */
function renderCase(values: JsonObject) {
  const folder = mkdtempSync(join(tmpdir(), 'portcullis-'));
  try {
    const file = join(folder, 'values.yaml');
    writeFileSync(file, JSON.stringify(values));
    return render([], `--values=${file}`);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

suite('helm', { skip: withoutHelm }, () => {
  const cases: readonly (readonly [name: string, values: readonly string[], settings: Partial<ManifestSettings>])[] = [
    ['defaults', [], {}],
    ['replicas', ['replicaCount=5'], { replicas: 5 }],
    ['image', ['image.registry=r.example.com', 'image.tag=v9'], { image: 'r.example.com/portcullis:v9' }],
    ['image by digest', [`image.digest=sha256:${'0'.repeat(64)}`], { image: `portcullis@sha256:${'0'.repeat(64)}` }],
    [
      'SCCs enforced',
      ['settings.scc.mode=enforce', 'image.tag=v9'],
      { policy: { scc: { mode: 'enforce' } }, image: 'portcullis:v9' },
    ],
    ['access reviews', ['settings.scc.authorization=sar'], { policy: { scc: { authorization: 'sar' } } }],
    ['without the rollout', ['features.rollout=false'], PROFILES['without-rollout']],
    [
      'all features',
      ['features.kubelet=true', 'features.olm=true', 'crds.nodesConfig=true'],
      { features: { scc: true, rollout: true, kubelet: true, olm: true }, nodesConfig: true },
    ],
    ['Pod Security alone', ['features.rollout=false', 'features.scc=false'], PROFILES.openshift],
    [
      'enforcement',
      ['settings.rollout.phase=Enforce', 'image.repository=r.example.com/p', 'image.tag=v9'],
      { policy: { rollout: { phase: 'Enforce' } }, image: 'r.example.com/p:v9' },
    ],
    ['cert-manager', ['certManager.enabled=true'], { certificates: 'cert-manager' }],
    [
      'monitoring',
      ['serviceMonitor.enabled=true', 'prometheusRule.enabled=true', 'grafana.enabled=true'],
      { monitoring: 'prometheus-operator' },
    ],
    ['defaults', ['settings.defaults.mode=apply'], { policy: { defaults: { mode: 'apply' } } }],
    [
      'another runbook',
      [
        'serviceMonitor.enabled=true',
        'grafana.enabled=true',
        'prometheusRule.enabled=true',
        'prometheusRule.runbookUrl=https://wiki.example.com/runbook',
      ],
      { monitoring: 'prometheus-operator', runbook: 'https://wiki.example.com/runbook' },
    ],
  ];
  for (const [name, values, settings] of cases) {
    test(name, () => assert.deepEqual(rendered(values), expected(settings)));
  }

  for (const { name, values, objects = [], absent = [], error } of readFixture<ValuesCase[]>('helm-values.yaml')) {
    test(name, () => {
      const { stdout, stderr } = renderCase(values);
      if (error !== undefined) {
        assert.ok(
          stderr
            .replace(/\s*Use --debug flag.*\n/, '')
            .trimEnd()
            .endsWith(error.trimEnd()),
          stderr,
        );
        return;
      }
      assert.equal(stderr, '');
      const found = new Map(objectsIn(stdout).map((object) => [identify(object as Manifest), object]));
      for (const object of objects) assert.partialDeepStrictEqual(found.get(identify(object)), object);
      for (const key of absent) assert.ok(!found.has(key), key);
    });
  }

  test('the chart passes the strict linter', () => {
    const { status, stdout } = runHelm(['lint', CHART, '--strict', '--set=image.registry=registry.example.com']);
    assert.equal(status, 0, stdout);
  });

  test('values that a new version adds may be absent, as after helm upgrade --reuse-values', () => {
    const removed = Object.keys(values ?? {}).filter((name) => !OWN_DEFAULTS.includes(name));
    assert.deepEqual(rendered(removed.map((name) => `${name}=null`)), rendered([]));
    const objects = renderedObjects(OWN_DEFAULTS.map((name) => `${name}=null`));
    const found = JSON.stringify(objects.find(({ kind }) => kind === 'Deployment'));
    assert.doesNotMatch(found, /securityContext|resources|nodeSelector|topologySpread/);
  });

  test('commonLabels and commonAnnotations are on all objects', () => {
    const every = [
      'certManager.enabled=true',
      'serviceMonitor.enabled=true',
      'prometheusRule.enabled=true',
      'grafana.enabled=true',
    ];
    const labels = ['commonLabels.team=a', 'commonAnnotations.note=b', 'podLabels.team=c', 'crds.keep=false'];
    const objects = renderedObjects([...every, ...labels]);
    const without = objects.filter(({ metadata }) => metadata.labels?.['team'] !== 'a');
    assert.deepEqual([objects.length > 40, without], [true, []]);
    assert.ok(objects.every(({ metadata }) => metadata.annotations?.['note'] === 'b'));
    const found = objects.find(({ kind }) => kind === 'Deployment') as ReturnType<typeof deployment> | undefined;
    assert.equal(found?.spec?.template.metadata?.labels?.['team'], 'c');
  });

  test('rendered manifests contain no hook, which kubectl and Argo CD would apply as an object', () => {
    assert.ok(renderedObjects([]).every(({ metadata }) => metadata.annotations?.['helm.sh/hook'] === undefined));
  });
});

/** Values with defaults that `null` removes. */
const OWN_DEFAULTS = [
  'podSecurityContext',
  'securityContext',
  'resources',
  'nodeSelector',
  'topologySpreadConstraints',
];

function identify({ kind, metadata: { name } }: Manifest): string {
  return `${kind} ${name}`;
}

/** Objects in the order of their kinds and names. */
function sorted(objects: readonly unknown[]): readonly unknown[] {
  const getKey = (one: unknown): string => `${(one as Manifest).kind} ${(one as Manifest).metadata.name}`;
  return objects.toSorted((a, b) => (getKey(a) < getKey(b) ? -1 : 1));
}

function objectsIn(text: string): readonly unknown[] {
  const { documents, errors } = readDocuments(text, 'rendered');
  assert.deepEqual(errors, []);
  return documents.map(({ value }) => value);
}
