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
import { isObject, type JsonObject, type PodLike } from '../../src/kube/types.ts';
import { ENFORCEMENT_MODES } from '../../src/kube/psa-enforcement-config.ts';
import { LABEL_SYNC_MANAGER, RUN_LEVEL_ZERO_MANAGER } from '../../src/kube/well-known.ts';
import { policySettings, deployment } from '../../src/install/deployment.ts';
import { defaultSettings, buildManifests, type Manifest } from '../../src/install/index.ts';
import { type ManifestSettings, PROFILES, type Profile } from '../../src/install/settings.ts';
import { evaluatePod } from '../../src/policy/pss/index.ts';
import { manifestFiles } from '../../src/install/kustomize.ts';
import { hasKubectl } from '../support/kubectl.ts';

// The rendered chart equals the manifests for the corresponding settings.

const CHART = join(import.meta.dirname, '../../webhook-config/helm/portcullis');
const { version } = packageJson;
const DEFAULTS = { ...defaultSettings(version), namespace: 'security' };

function render(values: readonly string[], ...flags: readonly string[]) {
  const args = ['template', 'any', CHART, '--namespace=security', '--kube-version=1.36.0', ...flags];
  return spawnSync('helm', [...args, ...values.map((value) => `--set=${value}`)], {
    encoding: 'utf8',
    timeout: 30_000,
  });
}

function renderedObjects(values: readonly string[], ...flags: readonly string[]): readonly Manifest[] {
  const { status, stdout, stderr } = render(values, ...flags);
  assert.equal(status, 0, stderr);
  return objectsIn(stdout) as readonly Manifest[];
}

function rendered(values: readonly string[]): readonly unknown[] {
  return sorted(renderedObjects(values, '--no-hooks').map(comparable));
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

const files = new Map(manifestFiles(version));
const chartFile = (path: string): string => files.get(`helm/portcullis/${path}`) ?? assert.fail(path);
const schema = JSON.parse(chartFile('values.schema.json')) as {
  readonly properties: Readonly<Record<string, { readonly enum?: readonly string[] }>>;
};
const [values] = objectsIn(chartFile('values.yaml')) as readonly JsonObject[];

test('templates are balanced and use existing values', () => {
  for (const [path, text] of files) {
    if (!path.startsWith('helm/portcullis/templates/')) continue;
    const actions = [...text.matchAll(/\{\{-? *(if|with|define|end)\b/g)].map(([, word]) => word);
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
    settings: policySettings(DEFAULTS),
    image: { repository: 'portcullis', pullPolicy: container?.imagePullPolicy },
    securityContext: container?.securityContext,
    resources: container?.resources,
    podSecurityContext: pod?.securityContext,
    nodeSelector: pod?.nodeSelector,
    topologySpreadConstraints: pod?.topologySpreadConstraints,
    priorityClassName: pod?.priorityClassName,
    prometheusRule: { runbookUrl: runbook },
  });
  const names = Object.keys(schema.properties).filter((name) => name !== 'global');
  assert.deepEqual(names, Object.keys(values ?? {}));
  const validate = new Ajv({ strict: false }).compile(schema);
  assert.ok(validate(values), JSON.stringify(validate.errors));
  assert.deepEqual(schema.properties['enforcementMode']?.enum, ENFORCEMENT_MODES);
  assert.equal(validate({ ...values, settings: { scc: { mode: 'on' } } }), false);
});

const hasHelm = spawnSync('helm', ['version'], { stdio: 'ignore' }).status === 0;

suite('helm', { skip: hasHelm ? false : 'helm is not installed' }, () => {
  const cases: readonly (readonly [name: string, values: readonly string[], settings: Partial<ManifestSettings>])[] = [
    ['defaults', [], {}],
    ['replicas', ['replicaCount=5'], { replicas: 5 }],
    ['image', ['image.registry=r.example.com', 'image.tag=v9'], { image: 'r.example.com/portcullis:v9' }],
    ['image by digest', [`image.digest=sha256:${'0'.repeat(64)}`], { image: `portcullis@sha256:${'0'.repeat(64)}` }],
    ['SCCs enforced', ['settings.scc.mode=enforce'], { sccMode: 'enforce' }],
    ['access reviews', ['settings.scc.authorization=sar'], { authorization: 'sar' }],
    ['without the rollout', ['settings.rollout.phase=Disabled'], { rollout: 'Disabled' }],
    ['enforcement', ['settings.rollout.phase=Enforce'], { rollout: 'Enforce' }],
    ['dry runs', ['settings.rollout.evaluator=DryRun'], { evaluator: 'DryRun' }],
    [
      'without some controllers',
      [`settings.controllers.disabled={${LABEL_SYNC_MANAGER},${RUN_LEVEL_ZERO_MANAGER}}`],
      { withoutControllers: [LABEL_SYNC_MANAGER, RUN_LEVEL_ZERO_MANAGER] },
    ],
    ['cert-manager', ['certManager.enabled=true'], { certificates: 'cert-manager' }],
    [
      'monitoring',
      ['serviceMonitor.enabled=true', 'prometheusRule.enabled=true', 'grafana.enabled=true'],
      { monitoring: 'prometheus-operator' },
    ],
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

  test('SCCs off', () => {
    // The role of the chart also permits patches of the absent configurations.
    const others = ({ metadata: { name } }: Manifest): boolean => name !== 'portcullis-serving-certificate';
    const without = (objects: readonly unknown[]) => (objects as readonly Manifest[]).filter(others);
    assert.deepEqual(without(rendered(['scc.mode=off'])), without(expected({ sccMode: 'off' })));
  });

  test('additional values are appended', () => {
    const values = [
      'extraArgs={--log-level=debug}',
      'extraEnv[0].name=A',
      'extraEnv[0].value=b',
      'podLabels.team=a',
      'podAnnotations.note=b',
      'extraVolumes[0].name=v',
      'extraVolumeMounts[0].name=v',
      'webhook.annotations.note=c',
      'serviceMonitor.enabled=true',
      'serviceMonitor.labels.release=d',
      'imagePullSecrets[0].name=s',
      'tolerations[0].operator=Exists',
    ];
    const text = JSON.stringify(rendered(values));
    for (const part of [
      '"--log-level=debug"]',
      '"env":[{"name":"A","value":"b"}]',
      '"team":"a"',
      '"note":"b"',
      '{"name":"configuration","configMap":{"name":"portcullis-configuration"}},{"name":"v"}]',
      '"note":"c"',
      '"release":"d"',
      '"imagePullSecrets":[{"name":"s"}]',
      '"tolerations":[{"operator":"Exists"}]',
    ]) {
      assert.ok(text.includes(part), part);
    }
  });

  test('a restricted pod turns break-glass on before an uninstall', () => {
    const job = renderedObjects([]).find(({ kind }) => kind === 'Job') as Manifest & {
      readonly spec: { readonly template: PodLike };
    };
    assert.equal(job.metadata.annotations?.['helm.sh/hook'], 'pre-delete');
    const { template } = job.spec;
    assert.deepEqual(template.spec?.containers[0]?.args, ['break-glass', 'on', '--reason=helm uninstall']);
    assert.deepEqual(evaluatePod(template, { level: 'restricted', version: 'latest' }).violations, []);
  });

  test('the first installation requests enforcement; upgrades do not', () => {
    const find = (values: readonly string[]) =>
      renderedObjects(values).find(({ kind }) => kind === 'PSAEnforcementConfig');
    const object = find(['enforcementMode=Restricted']);
    assert.equal(object?.metadata.annotations?.['helm.sh/hook'], 'post-install');
    assert.deepEqual((object as { readonly spec?: unknown }).spec, { enforcementMode: 'Restricted' });
    assert.equal(find([]), undefined);
  });

  const refused: readonly (readonly [value: string, message: RegExp])[] = [
    ['replicaCout=3', /additional properties 'replicaCout' not allowed/],
    ['replicaCount=0', /at '\/replicaCount': minimum: got 0, want 1/],
    ['scc.mode=on', /at '\/scc\/mode': value must be one of 'enforce', 'report', 'off'/],
    [
      'settings.rollout.phase=Restricted',
      /at '\/rollout\/phase': value must be one of 'Disabled', 'Evaluate', 'Enforce'/,
    ],
    ['webhook.failurePolicy=Open', /at '\/webhook\/failurePolicy': value must be one of 'Fail', 'Ignore'/],
    ['image.digest=abc', /at '\/image\/digest': 'abc' does not match pattern/],
  ];
  for (const [value, message] of refused) {
    test(`${value} is rejected`, () => {
      const { status, stderr } = render([value]);
      assert.equal(status, 1);
      assert.match(stderr, message);
    });
  }
});

const FOLDER = join(import.meta.dirname, '../../webhook-config');

function getSettings(profile: Profile) {
  return { ...defaultSettings(version), ...PROFILES[profile] };
}

/** Objects in the order of their kinds and names. */
function sorted(objects: readonly unknown[]): readonly unknown[] {
  const getKey = (one: unknown): string => `${(one as Manifest).kind} ${(one as Manifest).metadata.name}`;
  return objects.toSorted((a, b) => (getKey(a) < getKey(b) ? -1 : 1));
}

/** Sorts command-line arguments, whose order has no effect. */
function anyOrder(objects: readonly unknown[]): unknown {
  const sortArguments = (key: string, value: unknown): unknown =>
    key === 'args' && Array.isArray(value) ? value.toSorted() : value;
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

test('the profile local differs only in the URLs of webhooks', () => {
  const expected: unknown = JSON.parse(
    JSON.stringify(buildManifests(getSettings('default'))),
    (key, value: unknown) => {
      if (key !== 'clientConfig') return value;
      return { url: `https://127.0.0.1:8443${(value as { service: { path: string } }).service.path}` };
    },
  );
  assert.deepEqual(buildManifests(getSettings('local')), expected);
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
        sorted(kustomize(join(FOLDER, 'overlays', profile))),
        sorted(buildManifests(getSettings(profile))),
      );
    });
  }

  const joined: readonly (readonly Profile[])[] = [
    ['openshift', 'cert-manager', 'monitoring'],
    ['cert-manager', 'openshift'],
    ['monitoring', 'high-availability', 'local'],
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
      const settings = profiles.reduce((all, profile) => ({ ...all, ...PROFILES[profile] }), defaultSettings(version));
      assert.deepEqual(anyOrder(sorted(kustomize(folder))), anyOrder(sorted(buildManifests(settings))));
    });
  }
});
