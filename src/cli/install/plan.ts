import type { ManifestSettings } from '../../install/index.ts';
import { MINIMUM_MINOR } from '../../install/kubernetes-version.ts';
import { PROFILES, type Profile } from '../../install/profiles.ts';
import type { ClusterFacts } from './facts.ts';
import { platformNotes } from './platforms.ts';

/** What is installed, and what was taken for granted. Or why it should not be. */
export type InstallPlan =
  { readonly settings: ManifestSettings; readonly notes: readonly string[] } | { readonly problem: string };

export interface InstallRequest {
  readonly defaults: ManifestSettings;
  /** Chosen instead of what the cluster looks like. */
  readonly profile: Profile | undefined;
  /** What was asked for by name. */
  readonly wanted: Partial<ManifestSettings>;
}

/** Of its other groups some may be served elsewhere, too: we define kinds of them. */
const OPENSHIFT = 'route.openshift.io';
const CERT_MANAGER = 'cert-manager.io';
const PROMETHEUS_OPERATOR = 'monitoring.coreos.com';

/** Plans for a cluster that nobody has looked at. */
export function planUnseen({ defaults, profile = 'default', wanted }: InstallRequest): InstallPlan {
  const notes = [`the profile ${profile}, for Kubernetes 1.${MINIMUM_MINOR} or newer: no cluster was looked at`];
  return { settings: { ...defaults, ...PROFILES[profile], ...wanted }, notes };
}

/** Plans for a cluster as it is. */
export function planFor(facts: ClusterFacts, { defaults, wanted }: InstallRequest): InstallPlan {
  const isOpenShift = facts.groups.includes(OPENSHIFT);
  const settings: ManifestSettings = {
    ...defaults,
    ...(isOpenShift ? PROFILES.openshift : {}),
    ...(facts.groups.includes(PROMETHEUS_OPERATOR) ? PROFILES.monitoring : {}),
    ...wanted,
  };
  const problem = problemOf(facts, settings);
  return problem === undefined ? { settings, notes: notesOf(facts, settings) } : { problem };
}

function problemOf({ server, version, groups }: ClusterFacts, settings: ManifestSettings): string | undefined {
  if (isTooOld(version)) {
    return `${server} runs Kubernetes ${version}: v1.${MINIMUM_MINOR} or newer is needed, which has match conditions`;
  }
  if (groups.includes(OPENSHIFT) && settings.sccMode !== 'off') {
    return `--scc-mode=${settings.sccMode}: OpenShift has its own SCC admission, and two would undo what the other one does: only --scc-mode=off works there`;
  }
  if (settings.certificates === 'cert-manager' && !groups.includes(CERT_MANAGER)) {
    return `--cert-manager: ${server} does not serve ${CERT_MANAGER}: install cert-manager first, or leave the option out`;
  }
  return settings.monitoring === 'prometheus-operator' && !groups.includes(PROMETHEUS_OPERATOR)
    ? `--monitoring: ${server} does not serve ${PROMETHEUS_OPERATOR}: install the Prometheus operator first, or leave the option out`
    : undefined;
}

/** Builds from sources call themselves v0.0.0: a version that says nothing is nobody's fault. */
function isTooOld(version: string): boolean {
  const minor = /^v?1\.(\d+)/.exec(version)?.[1];
  return minor !== undefined && Number(minor) < MINIMUM_MINOR;
}

function notesOf(facts: ClusterFacts, settings: ManifestSettings): readonly string[] {
  const { server, version, groups, sccDefinition } = facts;
  const notes = [`Kubernetes ${version} at ${server}`];
  if (groups.includes(OPENSHIFT)) notes.push('this is OpenShift: SCCs, their definitions and ranges are left to it');
  else if (settings.sccMode !== 'off') {
    if (sccDefinition === 'others')
      notes.push('there is a definition of SCCs from somebody else: it is replaced by ours');
    if (sccDefinition === 'unknown')
      notes.push('whether SCCs are defined already could not be read: ours are in the output');
  }
  if (settings.monitoring === 'prometheus-operator') {
    notes.push(
      'the Prometheus operator is there: it gets a ServiceMonitor and alerts, --monitoring=false leaves them out',
    );
  }
  if (settings.certificates === 'self-managed' && groups.includes(CERT_MANAGER)) {
    notes.push(
      'cert-manager is there: --cert-manager lets it make the serving certificate, which the replicas make else',
    );
  }
  return [...notes, ...platformNotes(facts)];
}
