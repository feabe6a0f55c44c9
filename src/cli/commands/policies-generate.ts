import { UserError } from '../../config/files.ts';
import { loadSettings, type Settings } from '../../config/settings.ts';
import { printYaml } from '../../config/yaml.ts';
import { CONTROLLER_NAMES } from '../../controllers/index.ts';
import { INSTALLATION, POD_SECURITY_LABELS } from '../../kube/well-known.ts';
import {
  generatePolicies,
  LIST_FUNCTIONS_MINOR,
  MAX_POLICY_ITEMS,
  MIN_POLICY_MINOR,
  type PolicyOptions,
} from '../../policy/psa/admission-policies.ts';
import { generateDefaultsPolicy, MIN_DEFAULTS_MINOR } from '../../policy/psa/defaults.ts';
import { MODES } from '../../policy/psa/policy.ts';
import { newestVersion, type Level } from '../../policy/pss/index.ts';
import { defineCommand, EXIT, PROGRAM, VERSION } from '../command.ts';
import { flag, list, oneOf, option, policyVersion, text, UsageError } from '../options.ts';
import { POLICY_SELECTOR, servedKinds } from '../serverless.ts';

const NEWEST = newestVersion.slice(1);

const WITHOUT_DEFAULTS = `MutatingAdmissionPolicies require Kubernetes 1.${MIN_DEFAULTS_MINOR}, and cannot be static`;

const DETAILS = `
Prints ValidatingAdmissionPolicies and bindings that enforce the Pod Security Standards in the API server,
without a server or the plugin PodSecurity. Verdicts and messages are those of the plugin.

Without --level, the labels of each namespace select the policy (pod-security.kubernetes.io/enforce and so
on), and the defaults of --config apply to namespaces without labels. With --level, the policy is the same
in all namespaces. Exempt users, namespaces and runtime classes of --config pass in both cases. If --config
has spec.defaults, a MutatingAdmissionPolicy sets the defaults of new pods.

Exit codes:
  0  success
  2  wrong usage, or the configuration is invalid

Examples:
  portcullis policies generate | kubectl apply -f -
  portcullis policies generate --config settings.yaml --for-kubernetes 1.33
  portcullis policies generate --level baseline --kubernetes-version v1.36 --modes enforce
  portcullis policies generate --static > /etc/kubernetes/policies/pod-security.yaml
`;

/** A minor version of Kubernetes 1, such as 30 for `1.30` and `v1.30.2`. */
export function kubernetesMinor(value: string): number {
  const minor = Number(/^v?1\.(\d{1,4})(?:\.\d+)?$/.exec(value)?.[1] ?? NaN);
  if (minor >= MIN_POLICY_MINOR) return minor;
  const older = Number.isNaN(minor) ? '' : `, because older API servers have no ValidatingAdmissionPolicy v1`;
  throw new UserError(`must be a version of Kubernetes such as 1.36, and 1.${MIN_POLICY_MINOR} or newer${older}`);
}

/** A note for a version that is newer than the checks. */
export function newerVersionNote(minor: number): string | undefined {
  if (minor <= Number(NEWEST.slice(2))) return undefined;
  return `Kubernetes 1.${minor} is newer than ${NEWEST}, the newest supported version: the checks of ${NEWEST} apply`;
}

/** Prints policies for the API server. */
export const command = defineCommand({
  details: DETAILS,
  options: {
    config: option('FILE', text, undefined, {
      help: 'File with defaults and exemptions: a PortcullisConfiguration, or a PodSecurityConfiguration, alone or in an AdmissionConfiguration',
    }),
    level: option('LEVEL', oneOf(['baseline', 'restricted'] as const), undefined, {
      help: 'The level of all namespaces, in place of their labels',
    }),
    'kubernetes-version': option('VERSION', policyVersion, undefined, {
      help: 'The version of --level: latest, v1.N. Default: latest',
    }),
    modes: list('MODE', oneOf(MODES), { help: 'Modes of the policies: enforce, audit, warn. Default: all' }),
    'for-kubernetes': option('VERSION', kubernetesMinor, Number(NEWEST.slice(2)), {
      help: `The oldest API server that evaluates the policies, 1.${MIN_POLICY_MINOR} or newer; "latest" is its version`,
      shown: NEWEST,
    }),
    static: flag({
      help: 'Generate files for staticManifestsDir of the API server. Their objects cannot be changed through the API',
    }),
  },
  async run(values, _operands, io) {
    const { config, level, 'kubernetes-version': version, 'for-kubernetes': minor } = values;
    if (version !== undefined && level === undefined) throw new UsageError('--kubernetes-version requires --level');
    const { settings } = await loadSettings(config, {
      controllers: CONTROLLER_NAMES,
      namespace: INSTALLATION.namespace,
    });
    const options: PolicyOptions = {
      modes: values.modes.length === 0 ? MODES : MODES.filter((mode) => values.modes.includes(mode)),
      fixed: level && { level, version: version ?? 'latest' },
      kubernetesMinor: minor,
      isStatic: values.static,
    };
    const defaults =
      minor < MIN_DEFAULTS_MINOR || values.static
        ? []
        : generateDefaultsPolicy(settings, 'defaults.psa.portcullis.dev');
    const ignored = [
      ...(settings.rollout.phase === 'Disabled' ? [] : ['spec.rollout: it changes the defaults at run time']),
      ...(settings.workloadResources.length === 0 ? [] : ['spec.podSecurity.workloadResources']),
      ...(settings.defaults.mode === 'off' || defaults.length > 0 ? [] : [`spec.defaults: ${WITHOUT_DEFAULTS}`]),
    ];
    io.stdout.write(`${policyHeader(options)}${printYaml([...generatePolicies(settings, options), ...defaults])}`);
    const notes = [
      ...ignored.map((setting) => `Not part of the policies: ${setting}`),
      newerVersionNote(minor),
      systemNamespaceNote(settings, options),
    ];
    for (const note of notes) if (note !== undefined) io.stderr.write(`${note}\n`);
    return EXIT.passed;
  },
});

/** The pods of the cluster itself run in this namespace. */
export const SYSTEM_NAMESPACE = 'kube-system';

/** A note if the policies deny the pods of the cluster itself, which need privileges. */
function systemNamespaceNote({ podSecurity }: Settings, { fixed, modes }: PolicyOptions): string | undefined {
  const { level } = fixed ?? podSecurity.defaults.enforce;
  const isDenied = modes.includes('enforce') && level !== 'privileged';
  if (!isDenied || podSecurity.exemptions.namespace(SYSTEM_NAMESPACE)) return undefined;
  const label = `kubectl label namespace ${SYSTEM_NAMESPACE} ${POD_SECURITY_LABELS.enforce}=privileged`;
  return `The level ${level} denies pods of the cluster itself in the namespace ${SYSTEM_NAMESPACE}: exempt it in spec.podSecurity.exemptions.namespaces of --config${fixed ? '' : `, or label it: ${label}`}`;
}

/** The comment above the manifests: what applies them, and where they differ from the plugin. */
export function policyHeader({ fixed, kubernetesMinor: minor, isStatic }: PolicyOptions): string {
  const allowlist = servedKinds(minor).map((kind) => `--prune-allowlist=admissionregistration.k8s.io/v1/${kind}`);
  const policy = fixed
    ? `${fixed.level satisfies Level}:${fixed.version} in all namespaces`
    : 'the levels of namespace labels';
  const lines = [
    `Pod Security Standards in the API server: ${policy}.`,
    `Generated by ${PROGRAM} v${VERSION} for Kubernetes 1.${minor} and newer.`,
    '',
    ...(isStatic
      ? [
          'Write this file into the folder staticManifestsDir of each API server (feature gate',
          'ManifestBasedAdmissionControlConfig). Audit annotations have the prefix of the policy, not that of the plugin.',
        ]
      : [
          'Apply, and delete the policies of earlier calls:',
          `  kubectl apply -f - --prune -l ${POLICY_SELECTOR} \\`,
          `    ${allowlist.join(' ')}`,
        ]),
    '',
    'Differences from the plugin PodSecurity:',
    `- Pods with more than ${MAX_POLICY_ITEMS} containers, volumes, ports, added capabilities, sysctls and annotations are denied.`,
    '- Pods that exist are not reviewed when the labels of their namespace change, and the labels are not validated.',
    '- There are no metrics pod_security_*.',
    '- Messages over 5 KiB or with a line break are replaced by the name of the policy.',
    ...(minor >= LIST_FUNCTIONS_MINOR
      ? []
      : [
          `- Before Kubernetes 1.${LIST_FUNCTIONS_MINOR}, the values in messages (capabilities, ports, hosts, types, annotations) are neither sorted nor`,
          '  distinct, empty ones are missing, and their number selects the plural. Verdicts are the same.',
        ]),
  ];
  return `${lines.map((line) => `# ${line}`.trimEnd()).join('\n')}\n`;
}
