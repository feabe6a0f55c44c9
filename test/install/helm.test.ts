/** The files in `webhook-config/` and the Helm chart equal the manifests of the sources. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { join, relative } from 'node:path';
import { suite, test } from 'node:test';
import { Ajv } from 'ajv';
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import packageJson from '../../package.json' with { type: 'json' };
import { readDocuments } from '../../src/config/yaml.ts';
import { isObject, type JsonObject } from '../../src/kube/types.ts';
import { deployment } from '../../src/install/deployment.ts';
import type { Feature } from '../../src/kube/well-known.ts';
import { defaultSettings, buildManifests, type Manifest } from '../../src/install/index.ts';
import { type ManifestSettings, PROFILES, type Profile } from '../../src/install/settings.ts';
import { manifestFiles } from '../../src/install/kustomize.ts';
import { readFixture } from '../support/fixtures.ts';
import { CHART, runHelm, withoutHelm } from '../support/helm.ts';
import { hasKubectl } from '../support/kubectl.ts';

// The rendered chart equals the manifests for the corresponding settings.

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

const files = new Map(manifestFiles(packageJson));
const chartFile = (path: string): string => files.get(`helm/portcullis/${path}`) ?? assert.fail(path);
const schema = JSON.parse(chartFile('values.schema.json')) as {
  readonly properties: JsonObject;
};
const [values] = objectsIn(chartFile('values.yaml')) as readonly JsonObject[];

test('templates are balanced and use existing values', () => {
  for (const [path, text] of files) {
    if (!path.startsWith('helm/portcullis/templates/')) continue;
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

const FOLDER = join(import.meta.dirname, '../../webhook-config');

function getSettings(profile: Profile) {
  return { ...defaultSettings(version), ...PROFILES[profile] };
}

/** Objects in the order of their kinds and names. */
function sorted(objects: readonly unknown[]): readonly unknown[] {
  const getKey = (one: unknown): string => `${(one as Manifest).kind} ${(one as Manifest).metadata.name}`;
  return objects.toSorted((a, b) => (getKey(a) < getKey(b) ? -1 : 1));
}

/** Sorts command-line arguments, whose order has no effect, with one argument for each feature. */
function anyOrder(objects: readonly unknown[]): unknown {
  const split = (argument: unknown): readonly string[] => {
    const [name, value = ''] = String(argument).split('=');
    return name === '--features'
      ? value.split(',').flatMap((one) => (one === '' ? [] : `${name}=${one}`))
      : [String(argument)];
  };
  const sortArguments = (key: string, value: unknown): unknown =>
    key === 'args' && Array.isArray(value) ? value.flatMap(split).toSorted() : value;
  return JSON.parse(JSON.stringify(objects, sortArguments));
}

function objectsIn(text: string): readonly unknown[] {
  const { documents, errors } = readDocuments(text, 'rendered');
  assert.deepEqual(errors, []);
  return documents.map(({ value }) => value);
}

test('the files are those that `npm run manifests` writes', () => {
  const found = readdirSync(FOLDER, { recursive: true, encoding: 'utf8' }).filter((path) =>
    statSync(join(FOLDER, path)).isFile(),
  );
  assert.deepEqual(found.sort(), [...files.keys()].sort());
  for (const [path, text] of files) {
    assert.equal(readFileSync(join(FOLDER, path), 'utf8'), text, `${path}: run \`npm run manifests\``);
  }
});

test('install.yaml equals a default installation', () => {
  const expected = buildManifests(getSettings('default'));
  assert.deepEqual(objectsIn(files.get('install.yaml') ?? ''), expected);
});

test('the profile local differs only in the URL of the webhooks', () => {
  const url = 'https://127.0.0.1:8443';
  const client = 'webhook.clientConfig';
  const service = `has(${client}.service) && ${client}.service.name == "portcullis" && ${client}.service.namespace == "portcullis"`;
  const address = `has(${client}.url) && ${client}.url.startsWith("${url}/")`;
  const quoted = (expression: string): string => JSON.stringify(expression).slice(1, -1);
  const text = JSON.stringify(buildManifests(getSettings('default')))
    .replace(quoted(service), quoted(address))
    .replace('"--features=scc,rollout"', (argument) => `${argument},"--webhook-url=${url}"`)
    // The replicas do not read the endpoints of the service.
    .replace(',{"apiGroups":["discovery.k8s.io"],"resources":["endpointslices"],"verbs":["list","watch"]}', '');
  assert.deepEqual(buildManifests(getSettings('local')), JSON.parse(text));
});

suite('kustomize', { skip: hasKubectl ? false : 'kubectl is not installed' }, () => {
  const kustomize = (folder: string): readonly unknown[] => {
    const { status, stdout, stderr } = spawnSync('kubectl', ['kustomize', folder], {
      encoding: 'utf8',
      timeout: 30_000,
    });
    assert.equal(status, 0, stderr);
    assert.equal(stderr, '');
    return objectsIn(stdout);
  };

  for (const profile of Object.keys(PROFILES) as Profile[]) {
    test(`the overlay ${profile} renders to the manifests of the profile`, () => {
      assert.deepEqual(
        anyOrder(sorted(kustomize(join(FOLDER, 'overlays', profile)))),
        anyOrder(sorted(buildManifests(getSettings(profile)))),
      );
    });
  }

  const joined: readonly (readonly Profile[])[] = [
    ['openshift', 'cert-manager', 'monitoring'],
    ['cert-manager', 'openshift'],
    ['monitoring', 'high-availability', 'local'],
    ['without-rollout', 'static-webhooks', 'high-availability'],
    ['kubelet', 'olm'],
    ['olm', 'openshift', 'kubelet'],
  ];
  for (const profiles of joined) {
    test(`components combine: ${profiles.join(', ')}`, (t) => {
      const folder = mkdtempSync(join(tmpdir(), 'portcullis-'));
      t.after(() => rmSync(folder, { recursive: true }));
      const to = (path: string): string => relative(folder, join(FOLDER, path));
      const content = {
        apiVersion: 'kustomize.config.k8s.io/v1beta1',
        kind: 'Kustomization',
        resources: [to('base')],
        components: profiles.map((profile) => to(`components/${profile}`)),
      };
      writeFileSync(join(folder, 'kustomization.yaml'), JSON.stringify(content));
      const base = defaultSettings(version);
      const changes: readonly Partial<ManifestSettings>[] = profiles.map((profile) => PROFILES[profile]);
      const settings = changes.reduce<ManifestSettings>((all, change) => {
        const changed = Object.entries(change.features ?? {}).filter(
          ([name, value]) => value !== base.features[name as Feature],
        );
        return { ...all, ...change, features: { ...all.features, ...Object.fromEntries(changed) } };
      }, base);
      assert.deepEqual(anyOrder(sorted(kustomize(folder))), anyOrder(sorted(buildManifests(settings))));
    });
  }
});
