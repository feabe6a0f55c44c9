import packageJson from '../../package.json' with { type: 'json' };
import { KUBERNETES_VERSION } from '../../src/dev-cluster/index.ts';
import { MINIMUM_MINOR } from '../../src/install/index.ts';
import { RESOURCES } from '../../src/kube/resources.ts';
import { MIN_DEFAULTS_MINOR, MIN_POLICY_MINOR } from '../../src/policy/psa/index.ts';
import { newestVersion } from '../../src/policy/pss/index.ts';
import { type FileResult, readResults, type VersionResult } from '../../test/e2e/results.ts';
import { TOOLS, type ToolName } from '../../test/tools/index.ts';
import { formatMarkdownTable } from './markdown.ts';

/** The features that the files of end-to-end tests cover. */
const FEATURES: Readonly<Record<string, string>> = {
  installation: 'Pod Security and SCC admission',
  scenarios: 'responses to kubectl, with the PodSecurity plugin',
  'scc-objects': 'SCC objects',
  exec: 'SCC admission of exec and attach',
  rollout: 'rollout of enforcement',
  floor: 'floor',
  policies: 'policies without a server',
  'static-policies': 'policies in files of API servers',
  defaults: 'defaults of pods',
  'break-glass': 'break-glass',
  settings: 'validation of settings by the CRD',
  'service-account': 'limits of the service account',
  'process-credentials': 'credentials of the replicas',
  webhooks: 'webhooks of the leader',
  'leader-loss': 'loss of the leader',
  'doctor-fixes': '`doctor` and its fixes',
  reinstall: 'changes to an installation',
  'helm-kustomize': 'Helm and kustomize',
  upgrade: 'upgrade',
  uninstall: 'uninstallation',
  'kubelet-minimum': 'minimum kubelet version',
  'kubelet-authorizer': 'authorization by kubelet version',
  exceptions: 'PodSecurityExceptions',
  olm: 'namespaces of operators',
  'olm-hardening': 'pods of operators',
  'scc-switch': 'adding and removing SCCs',
  authority: 'temporary grants of SCCs',
  agreement: 'commands that predict decisions of the API server',
  'field-types': 'types of fields in manifests',
  fixes: 'fixes of manifests',
  'field-managers': 'server-side apply by several tools',
  guard: 'guard of labels',
  'policy-costs': 'costs of policies',
};

/** Behavior of Portcullis if an API server lacks an API. */
const REQUIREMENTS = [
  [
    '`spec.defaults` by a policy',
    `MutatingAdmissionPolicy v1: 1.${MIN_DEFAULTS_MINOR}`,
    'the webhook sets the defaults, which `doctor` reports. `install --without-server` rejects the setting',
  ],
  [
    '`spec.floor`, `install --without-server`',
    `the CEL functions flatten, distinct and sort: 1.${MIN_POLICY_MINOR}`,
    '`spec.floor` has no effect, which `doctor` and the event `FloorNotEnforced` report, and webhooks fail closed. `install --without-server` prints an error',
  ],
  [
    'pods with `hostUsers: false`, SCC `restricted-v3`',
    'the feature UserNamespacesSupport: 1.33 by default',
    'the API server drops the field, so pods run in the host user namespace, and `restricted-v3` denies them',
  ],
] as const;

function formatCell(result: FileResult | undefined): string {
  if (result === undefined) return 'not run';
  const skipped = Object.keys(result.skipped).length;
  return `${result.passed} passed${skipped === 0 ? '' : `, ${skipped} skipped`}`;
}

function formatSkips([minor, { files }]: readonly [string, VersionResult]): string {
  return Object.values(files)
    .flatMap(({ skipped }) => Object.entries(skipped))
    .map(([name, reason]) => `- ${minor}: ${name}: ${reason}\n`)
    .join('');
}

function formatMatrix(): string {
  const results = Object.entries(readResults());
  const versions = results.map(([, { version, date }]) => `${version}, ${date}`);
  const unknown = results.flatMap(([, { files }]) => Object.keys(files)).find((file) => FEATURES[file] === undefined);
  if (unknown !== undefined) throw new Error(`scripts/docs/support.ts has no feature for ${unknown}.test.ts`);
  const rows = Object.entries(FEATURES).map(([file, feature]) => [
    feature,
    ...results.map(([, { files }]) => formatCell(files[file])),
  ]);
  return `## Versions of Kubernetes

The table lists the results of the end-to-end tests with kube-apiserver and etcd, and the date of the last run:

${formatMarkdownTable(['feature', ...versions], rows)}
Some features work differently if the API server lacks an API:

${formatMarkdownTable(['feature', 'requires', 'without it'], REQUIREMENTS)}
The following tests were skipped:

${results.map(formatSkips).join('')}
No test runs a kubelet, a container runtime, a network plugin, a managed control plane of a cloud, or OpenShift itself.

`;
}

/** Formats the page of supported and tested versions. */
export function formatSupportReference(): string {
  const groups = new Set(Object.values(RESOURCES).map(({ group, version }) => `${group || 'core'}/${version}`));
  const versions = (...names: readonly ToolName[]): string => names.map((name) => TOOLS[name].version).join(', ');
  const rows = [
    [
      'Kubernetes',
      `1.${MINIMUM_MINOR} or newer`,
      `development cluster: ${KUBERNETES_VERSION}; kube-apiserver: [the versions below](#versions-of-kubernetes)`,
    ],
    [
      'Versions of Pod Security policies',
      `v1.0 to ${newestVersion}; newer versions are evaluated as ${newestVersion}`,
      'all',
    ],
    ['kubectl', 'any version that supports the cluster', versions('kubectl-1.32', 'kubectl')],
    ['Node', `${packageJson.engines.node}; the image and the executable contain it`, packageJson.devDependencies.node],
    ['Helm', '3 or newer', versions('helm-3', 'helm-4')],
  ];
  return `# Supported versions

Portcullis supports Kubernetes 1.${MINIMUM_MINOR} and newer. The tables list the versions with which the tests run. Other versions are supported, but not tested. \`npm run docs\` generates this page.

${formatMarkdownTable(['', 'supported', 'tested'], rows)}
${formatMatrix()}## API groups

Portcullis reads or writes objects in these API versions. If a cluster does not serve an API group, only the features that require it are disabled:

${[...groups]
  .sort()
  .map((one) => `- \`${one}\`\n`)
  .join('')}`;
}
