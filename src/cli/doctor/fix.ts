/** Fixes shared by several checks, and the function that prints fixes. */
import { COMPONENT_LABEL, INSTALLATION, OPTIONAL_FEATURES, type OptionalFeature } from '../../api/names.ts';
import { type Configuration, type ManifestSettings, PROFILES, SELECTOR_LABELS } from '../../install/index.ts';
import { deepEqual } from '../../kube/equality.ts';
import { type Pod, valueAt } from '../../kube/types.ts';
import { PROGRAM } from '../command.ts';
import { findIncompatibility } from '../installation/deployment.ts';
import { printable } from '../output/print.ts';
import { kubectl, printCommand } from '../output/shell.ts';
import { type DoctorFinding, type Facts, factValue, type Fix } from './facts.ts';

/** Returns a fix that runs one command. */
export function commandFix(program: string, ...args: readonly string[]): Fix {
  return { commands: [{ program, args }] };
}

/** Returns a fix without a command. */
export function instruction(note: string): Fix {
  return { commands: [], note };
}

/** Label selector of the replicas. */
export const SELECTOR = `app.kubernetes.io/name=${INSTALLATION.name}`;

/** Returns true if the replicas run as processes outside the cluster. */
export function runsProcesses({ deployment, settings }: Pick<Facts, 'deployment' | 'settings'>): boolean {
  return settings.webhooks !== 'service' || ('value' in deployment && deployment.value === undefined);
}

export function isReplica({ metadata }: Pod): boolean {
  return metadata?.labels?.['app.kubernetes.io/name'] === INSTALLATION.name;
}

/** Returns the command that prints the logs of the replicas or, if there are no pods, describes their Deployment. */
export function replicaLogs(facts: Pick<Facts, 'namespace' | 'deployment' | 'settings' | 'pods'>): Fix {
  const { namespace, pods } = facts;
  if (runsProcesses(facts)) return instruction('read the logs of the replicas');
  const hasNone = 'value' in pods && !pods.value.some(isReplica);
  if (hasNone) return commandFix('kubectl', '-n', namespace, 'describe', 'deployments,replicasets', '-l', SELECTOR);
  return commandFix('kubectl', '-n', namespace, 'logs', '-l', SELECTOR, '--tail=50');
}

/** Returns a fix that patches one webhook of a configuration. The other fields and webhooks remain unchanged. */
export function changeWebhook(
  { kind, name }: Pick<Configuration, 'kind' | 'name'>,
  change: { readonly name: string; readonly $patch?: 'delete'; readonly namespaceSelector?: object },
): Fix {
  return commandFix('kubectl', 'patch', kind.toLowerCase(), name, '-p', JSON.stringify({ webhooks: [change] }));
}

/** Returns the fix for an object that the leader maintains and corrects within seconds. */
export function leaderCorrects(facts: Facts): Fix {
  return {
    ...replicaLogs(facts),
    note: 'the leader corrects it within seconds. Otherwise, its log contains the reason',
    after: ['break-glass', 'replicas', 'leases', 'installation', 'configuration'],
  };
}

export const END_BREAK_GLASS: Fix = {
  ...commandFix(PROGRAM, 'break-glass', 'off'),
  after: ['replicas', 'certificates', 'leases'],
};

/** Flags for kubectl that overwrite the changes of other clients, except in the objects that users customize. */
const REPLACE = ['--force-conflicts', '-l', `${COMPONENT_LABEL}!=${SELECTOR_LABELS[COMPONENT_LABEL]}`];

/**
 * Returns the fix for an object that differs from the manifests of the installation. The fix reapplies the manifests
 * with the same tool and options. The fix for `prerequisites`, which include webhook configurations, leaves the
 * Deployment and other objects that users customize unchanged. All other fixes apply the whole output, and kubectl
 * reports conflicts.
 */
export function applyManifests(
  facts: Pick<Facts, 'namespace' | 'deployment' | 'settings'>,
  change: 'prerequisites' | 'missing' | OptionalFeature,
): Fix {
  const { namespace, settings } = facts;
  const feature = OPTIONAL_FEATURES.find((feature) => feature === change);
  const place = namespace === INSTALLATION.namespace ? [] : [`--namespace=${namespace}`];
  // The options of the installation are known only from the Deployment.
  const deployment = factValue(facts.deployment);
  if (!deployment) {
    const isLocal = runsProcesses(facts) && deepEqual(settings.webhooks, PROFILES.local.webhooks);
    if (!isLocal) return instruction('apply the manifests of the installation again');
    const restart = feature === undefined ? '' : `, and then restart the replicas with ${feature} in --features`;
    return {
      commands: [
        {
          program: PROGRAM,
          args: ['install', '--profile=local', ...place, ...processOptions(settings, feature)],
          isOffline: true,
        },
        kubectl('apply', '--server-side', ...(change === 'prerequisites' ? REPLACE : []), '-f', '-'),
      ],
      note: `add the other options of the installation${restart}`,
    };
  }
  const { labels, annotations } = deployment.metadata ?? {};
  const marks = { ...labels, ...annotations };
  const owner = OWNERS.find(([, mark]) => marks[mark] !== undefined);
  if (owner) {
    const [tool, mark] = owner;
    const addition = feature === undefined ? '' : `, with the ${feature} feature`;
    return instruction(`apply the manifests of ${marks[mark]} again with ${tool}${addition}`);
  }
  const isUpgrade = findIncompatibility(deployment, false) !== undefined;
  const reason = isUpgrade ? findIncompatibility(deployment, true) : undefined;
  if (reason !== undefined) return instruction(reason);
  const options = [...place, ...(feature === undefined ? [] : [`--${feature}`])];
  return {
    commands: [
      { program: PROGRAM, args: [isUpgrade ? 'upgrade' : 'install', ...options] },
      kubectl('apply', '--server-side', ...(change === 'prerequisites' && !isUpgrade ? REPLACE : []), '-f', '-'),
    ],
    note: 'with kustomize, apply your kustomization instead',
    // The manifests cannot be generated while the settings are invalid.
    after: ['configuration'],
  };
}

/** Settings that determine the permissions of the replicas. */
const PERMISSION_SETTINGS = [
  ['defaults', 'mode'],
  ['kubelet', 'taint'],
  ['webhooks', 'management'],
] as const;

/** Returns the known options of an installation whose replicas run as processes, including the added feature. */
function processOptions({ features, policy }: ManifestSettings, added: OptionalFeature | undefined): readonly string[] {
  return [
    ...(features.rollout ? [] : ['--rollout=false']),
    ...OPTIONAL_FEATURES.filter((feature) => features[feature] || feature === added).map((feature) => `--${feature}`),
    ...PERMISSION_SETTINGS.flatMap((path) => {
      const value = valueAt(policy, path);
      return typeof value === 'string' || value === true ? [`--set=${path.join('.')}=${value}`] : [];
    }),
  ];
}

/** Tools that apply the manifests from their own source, and the label or annotation that identifies the source. */
const OWNERS: readonly (readonly [tool: string, mark: string])[] = [
  ['Flux', 'helm.toolkit.fluxcd.io/name'],
  ['Flux', 'kustomize.toolkit.fluxcd.io/name'],
  ['Argo CD', 'argocd.argoproj.io/tracking-id'],
  ['Helm', 'meta.helm.sh/release-name'],
];

/** A finding whose fix is a shell command line or a comment (`# …`). */
export type PrintedFinding = Omit<DoctorFinding, 'alternative' | 'fix'> & { readonly fix?: string };

/** Returns a finding with its fix and the alternative as shell command lines. The flags select the cluster. */
export function printFinding(
  { impact, alternative, fix, ...finding }: DoctorFinding,
  clusterFlags: readonly string[],
): PrintedFinding {
  const end = alternative === undefined ? '' : printFix(alternative, clusterFlags);
  return {
    ...finding,
    ...(impact === undefined ? {} : { impact: impact + end }),
    ...(fix === undefined ? {} : { fix: printFix(fix, clusterFlags) }),
  };
}

/** Formats a fix as a shell command line. The flags select the cluster. */
function printFix({ commands, note }: Fix, clusterFlags: readonly string[]): string {
  const lines = commands.map((command) => printCommand(command, clusterFlags));
  return [
    ...(lines.length > 0 ? [lines.join(' | ')] : []),
    ...(note === undefined ? [] : [`# ${printable(note)}`]),
  ].join(' ');
}
