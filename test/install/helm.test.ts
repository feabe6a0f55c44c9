/** The chart makes of its values what the sources make of the settings. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import packageJson from '../../package.json' with { type: 'json' };
import { readDocuments } from '../../src/config/yaml.ts';
import { isObject, type PodLike } from '../../src/kube/types.ts';
import { LABEL_SYNC_MANAGER, RUN_LEVEL_ZERO_MANAGER } from '../../src/kube/well-known.ts';
import { chartFiles } from '../../src/install/helm.ts';
import { defaultSettings, buildManifests, type Manifest } from '../../src/install/index.ts';
import type { ManifestSettings } from '../../src/install/settings.ts';
import { evaluatePod } from '../../src/policy/pss/index.ts';
import { hasHelm } from '../support/helm.ts';

const CHART = join(import.meta.dirname, '../../webhook-config/helm/portcullis');
const DEFAULTS = { ...defaultSettings(packageJson.version), namespace: 'security' };

function render(values: readonly string[]) {
  const args = ['template', 'any', CHART, '--namespace=security', '--kube-version=1.36.0', '--no-hooks'];
  return spawnSync('helm', [...args, ...values.map((value) => `--set=${value}`)], {
    encoding: 'utf8',
    timeout: 30_000,
  });
}

function rendered(values: readonly string[]): readonly unknown[] {
  const { status, stdout, stderr } = render(values);
  assert.equal(status, 0, stderr);
  const { documents, errors } = readDocuments(stdout, 'rendered');
  assert.deepEqual(errors, []);
  return sorted(documents.map(({ value }) => comparable(value as Manifest)));
}

function expected(settings: Partial<ManifestSettings>): readonly unknown[] {
  const manifests = buildManifests({ ...DEFAULTS, ...settings });
  return sorted(manifests.filter(({ kind }) => kind !== 'Namespace').map((one) => comparable(one)));
}

const OF_CHARTS = ['app.kubernetes.io/managed-by', 'helm.sh/chart', 'helm.sh/resource-policy'];

/** Without what only charts add; the texts of configurations by what they say. */
function comparable({ metadata, ...rest }: Manifest): Manifest {
  const { labels, annotations, ...others } = metadata;
  const kept = { labels: withoutThoseOfCharts(labels), annotations: withoutThoseOfCharts(annotations) };
  const data = 'data' in rest && isObject(rest.data) ? { data: Object.entries(rest.data).map(parsed) } : {};
  return { ...rest, ...data, metadata: { ...others, ...kept } };
}

function withoutThoseOfCharts(entries: Readonly<Record<string, string>> = {}): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(entries).filter(([name]) => !OF_CHARTS.includes(name)));
}

function parsed([file, text]: readonly [string, unknown]): unknown {
  return [file, ...readDocuments(String(text), file).documents.map(({ value }) => value)];
}

function sorted(objects: readonly Manifest[]): readonly Manifest[] {
  const keyOf = ({ kind, metadata: { name } }: Manifest): string => `${kind} ${name}`;
  return objects.toSorted((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1));
}

suite('templates', () => {
  const files = chartFiles(packageJson.version);
  const { documents } = readDocuments(new Map(files).get('values.yaml') ?? '', 'values.yaml');
  const values = documents[0]?.value;

  for (const [path, text] of files.filter(([path]) => path.startsWith('templates/'))) {
    test(path, () => {
      const actions = [...text.matchAll(/\{\{-? *(if|with|define|end|else|[^ ]+)[^}]*\}\}/g)].map(
        ([, word = '']) => word,
      );
      const opened = actions.filter((word) => ['if', 'with', 'define'].includes(word));
      assert.equal(actions.filter((word) => word === 'end').length, opened.length, 'what is opened ends');
      assert.doesNotMatch(text, /[«»]/);
      for (const [, name = ''] of text.matchAll(/\.Values\.([\w.]+)/g)) {
        const value = name.split('.').reduce<unknown>((all, key) => (isObject(all) ? all[key] : undefined), values);
        assert.notEqual(value, undefined, `values.yaml has no ${name}`);
      }
    });
  }
});

suite('helm', { skip: hasHelm ? false : 'helm is not installed' }, () => {
  const cases: readonly (readonly [name: string, values: readonly string[], settings: Partial<ManifestSettings>])[] = [
    ['nothing said', [], {}],
    ['replicas', ['replicaCount=5'], { replicas: 5 }],
    ['image', ['image.registry=r.example.com', 'image.tag=v9'], { image: 'r.example.com/portcullis:v9' }],
    [
      'image by its digest',
      [`image.digest=sha256:${'0'.repeat(64)}`],
      { image: `portcullis@sha256:${'0'.repeat(64)}` },
    ],
    ['SCCs enforced', ['scc.mode=enforce'], { sccMode: 'enforce' }],
    ['access reviews', ['authorization=sar'], { authorization: 'sar' }],
    ['the rollout left out', ['rollout.phase=Disabled'], { rollout: 'Disabled' }],
    ['enforcement', ['rollout.phase=Enforce'], { rollout: 'Enforce' }],
    ['dry runs', ['rollout.evaluator=DryRun'], { evaluator: 'DryRun' }],
    [
      'controllers left out',
      [`withoutControllers={${LABEL_SYNC_MANAGER},${RUN_LEVEL_ZERO_MANAGER}}`],
      { withoutControllers: [LABEL_SYNC_MANAGER, RUN_LEVEL_ZERO_MANAGER] },
    ],
    ['cert-manager', ['certManager.enabled=true'], { certificates: 'cert-manager' }],
    [
      'monitoring',
      ['serviceMonitor.enabled=true', 'prometheusRule.enabled=true', 'grafana.enabled=true'],
      { monitoring: 'prometheus-operator' },
    ],
    [
      'a runbook of your own',
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
    // The role may also patch the configurations that are not there.
    const others = ({ metadata: { name } }: Manifest): boolean => name !== 'portcullis-serving-certificate';
    const without = (objects: readonly unknown[]) => (objects as readonly Manifest[]).filter(others);
    assert.deepEqual(without(rendered(['scc.mode=off'])), without(expected({ sccMode: 'off' })));
  });

  test('what is put beside what is there', () => {
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

  test('before it is removed, the webhooks are switched off by a pod that is restricted, too', () => {
    const { stdout } = spawnSync('helm', ['template', 'any', CHART, '--kube-version=1.36.0'], { encoding: 'utf8' });
    const { documents } = readDocuments(stdout, 'rendered');
    const job = documents.map(({ value }) => value as Manifest).find(({ kind }) => kind === 'Job') as Manifest & {
      readonly spec: { readonly template: PodLike };
    };
    assert.equal(job.metadata.annotations?.['helm.sh/hook'], 'pre-delete');
    const { template } = job.spec;
    assert.deepEqual(template.spec?.containers[0]?.args, ['break-glass', 'on', '--reason=helm uninstall']);
    assert.deepEqual(evaluatePod(template, { level: 'restricted', version: 'latest' }).violations, []);
  });

  test('a cluster that is new asks for enforcement when it is installed, and never again', () => {
    const args = ['template', 'any', CHART, '--kube-version=1.36.0', '--set=enforcementMode=Restricted'];
    const { stdout } = spawnSync('helm', args, { encoding: 'utf8' });
    const { documents } = readDocuments(stdout, 'rendered');
    const [asked] = documents
      .map(({ value }) => value as Manifest)
      .filter(({ kind }) => kind === 'PSAEnforcementConfig');
    assert.equal(asked?.metadata.annotations?.['helm.sh/hook'], 'post-install');
    assert.deepEqual((asked as { readonly spec?: unknown }).spec, { enforcementMode: 'Restricted' });
    assert.doesNotMatch(render([]).stdout, /^kind: PSAEnforcementConfig$/m);
  });

  const refused: readonly (readonly [value: string, message: RegExp])[] = [
    ['replicaCout=3', /additional properties 'replicaCout' not allowed/],
    ['replicaCount=0', /at '\/replicaCount': minimum: got 0, want 1/],
    ['scc.mode=on', /at '\/scc\/mode': value must be one of 'enforce', 'report', 'off'/],
    ['rollout.phase=Restricted', /at '\/rollout\/phase': value must be one of 'Disabled', 'Evaluate', 'Enforce'/],
    ['webhook.failurePolicy=Open', /at '\/webhook\/failurePolicy': value must be one of 'Fail', 'Ignore'/],
    ['image.digest=abc', /at '\/image\/digest': 'abc' does not match pattern/],
  ];
  for (const [value, message] of refused) {
    test(`${value} is refused`, () => {
      const { status, stderr } = render([value]);
      assert.equal(status, 1);
      assert.match(stderr, message);
    });
  }
});
