/** What is installed keeps to what the program, clusters and our own policies ask for. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { V1ClusterRole, V1ConfigMap, V1Deployment } from '@kubernetes/client-node';
import { readArguments } from '../../src/cli/arguments.ts';
import { resolveValues } from '../../src/cli/options.ts';
import { serveOptions } from '../../src/cli/serve/options.ts';
import { parseConfiguration } from '../../src/config/configuration.ts';
import { INSTALLATION, PART_OF, PART_OF_LABEL } from '../../src/kube/installation.ts';
import { defaultSettings, manifestsOf, type Manifest, type ManifestOf } from '../../src/manifests/index.ts';
import type { ManifestSettings } from '../../src/manifests/settings.ts';
import { PROFILES } from '../../src/manifests/profiles.ts';
import { DEFAULT_CONFIGURATION } from '../../src/policy/psa/configuration.ts';
import { DEFAULT_EXEMPT_NAMESPACES } from '../../src/policy/scc/mode.ts';
import { evaluatePod } from '../../src/policy/pss/index.ts';

const DEFAULTS = defaultSettings('1.2.3');

/** Every profile, and what no profile does. */
const INSTALLATIONS: readonly (readonly [name: string, settings: ManifestSettings])[] = [
  ...Object.entries(PROFILES).map(([name, profile]) => [name, { ...DEFAULTS, ...profile }] as const),
  ['another namespace', { ...DEFAULTS, namespace: 'security' }],
  ['enforcing, by access reviews', { ...DEFAULTS, sccMode: 'enforce', authorization: 'sar' }],
  ['a certificate of others', { ...DEFAULTS, certificates: 'others' }],
];

function find<T>(manifests: readonly Manifest[], kind: string, name: string): ManifestOf<T> {
  const found = manifests.find((one) => one.kind === kind && one.metadata.name === name);
  assert.ok(found, `${kind} ${name}`);
  return found as ManifestOf<T>;
}

function deploymentOf(settings: ManifestSettings): ManifestOf<V1Deployment> {
  return find(manifestsOf(settings), 'Deployment', INSTALLATION.name);
}

/** What `serve` makes of its arguments. */
function valuesOf(settings: ManifestSettings) {
  const [command, ...args] = deploymentOf(settings).spec?.template.spec?.containers[0]?.args ?? [];
  assert.equal(command, 'serve');
  const { typed, operands } = readArguments(args, serveOptions);
  assert.deepEqual(operands, []);
  return resolveValues(serveOptions, { typed, env: {} });
}

for (const [name, settings] of INSTALLATIONS) {
  suite(name, () => {
    const manifests = manifestsOf(settings);

    test('each object is there once, and found by its label', () => {
      const keys = manifests.map(({ kind, metadata }) => `${kind} ${metadata.namespace ?? ''}/${metadata.name}`);
      assert.deepEqual(keys, [...new Set(keys)]);
      for (const { metadata } of manifests) assert.equal(metadata.labels?.[PART_OF_LABEL], PART_OF, metadata.name);
    });

    test('webhooks come last, and can be told from the rest', () => {
      const kinds = manifests.map(({ kind }) => kind.endsWith('WebhookConfiguration'));
      assert.deepEqual(kinds, kinds.toSorted());
      const labels = manifests.map(({ metadata }) => metadata.labels?.['app.kubernetes.io/component'] === 'webhooks');
      assert.deepEqual(labels, kinds);
    });

    test('nothing lies in other namespaces', () => {
      const namespaces = new Set(manifests.map(({ metadata }) => metadata.namespace));
      assert.deepEqual(
        [...namespaces].filter((one) => one !== undefined),
        [settings.namespace],
      );
    });

    test('the replicas are restricted, as their namespace asks', () => {
      const { template } = deploymentOf(settings).spec ?? {};
      assert.deepEqual(evaluatePod(template ?? {}, { level: 'restricted', version: 'latest' }).violations, []);
      const { metadata } = find(manifests, 'Namespace', settings.namespace);
      assert.equal(metadata.labels?.['pod-security.kubernetes.io/enforce'], 'restricted');
    });

    test('the arguments are options of serve', () => {
      const values = valuesOf(settings);
      assert.equal(values['in-cluster'], true);
      assert.equal(values['scc-mode'], settings.sccMode);
      assert.equal(values.authorization, settings.authorization);
      assert.equal(values['tls-cert-file'] === undefined, settings.certificates === 'self-managed');
      const exempt = DEFAULT_EXEMPT_NAMESPACES.filter((one) => one !== 'portcullis');
      assert.deepEqual(values['scc-exempt-namespaces'], [...exempt, settings.namespace]);
    });

    test('the replicas may do nothing with everything', () => {
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

test('the configuration is what holds without one', () => {
  const { data = {} } = find<V1ConfigMap>(manifestsOf(DEFAULTS), 'ConfigMap', 'portcullis-configuration');
  const [file = '', ...others] = Object.keys(data);
  assert.deepEqual(others, []);
  const configuration = parseConfiguration({ file, text: data[file] ?? '' }, []);
  assert.deepEqual(configuration.podSecurity.configuration, DEFAULT_CONFIGURATION);
  const [mount] = deploymentOf(DEFAULTS).spec?.template.spec?.containers[0]?.volumeMounts ?? [];
  assert.equal(valuesOf(DEFAULTS).config, `${mount?.mountPath ?? ''}/${file}`);
});

test('without SCCs nothing is said of them', () => {
  const text = JSON.stringify(manifestsOf({ ...DEFAULTS, sccMode: 'off' }).filter(({ kind }) => kind !== 'Deployment'));
  assert.doesNotMatch(text, /scc|securitycontextconstraints|rangeallocations/i);
});
