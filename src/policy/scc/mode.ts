import { quote } from '../../kube/text.ts';
import { type Namespace, isObject } from '../../kube/types.ts';
import type { Compatibility, Deviations } from './request.ts';
import type { AdmissionRequest } from '../../kube/admission.ts';

/** What becomes of a decision: it holds; it is only told; there is none. From the strictest on. */
export const SCC_MODES = ['enforce', 'report', 'off'] as const;
export type SccMode = (typeof SCC_MODES)[number];

/** The label of a namespace that says its mode. */
export const SCC_MODE_LABEL = 'portcullis.dev/scc';

export const RUN_LEVEL_LABEL = 'openshift.io/run-level';
export const DISABLE_LABEL = 'security.openshift.io/disable-securitycontextconstraints';

/** How a cluster wants SCCs to work. */
export interface SccSettings {
  /** Of namespaces whose label says nothing. */
  readonly mode: SccMode;
  /** Namespaces where SCCs never count, whatever their labels. */
  readonly exemptNamespaces: readonly string[];
  readonly compatibility: Compatibility;
  /** See `SccInput`. */
  readonly preferUserNamespaces: boolean;
}

/** The namespaces of the cluster itself; outside OpenShift `default` is not among them. */
export const DEFAULT_EXEMPT_NAMESPACES: readonly string[] = [
  'kube-system',
  'kube-public',
  'openshift',
  'openshift-infra',
  'openshift-node',
  'portcullis',
];

export interface NamespaceMode {
  readonly mode: SccMode;
  /** What is wrong with the label: such a namespace is held to what is strictest. */
  readonly problem?: string;
}

/**
 * The mode that counts in a namespace.
 * @see https://github.com/openshift/kubernetes/blob/master/openshift-kube-apiserver/openshiftkubeapiserver/patch.go
 */
export function sccModeOf(
  namespace: Namespace,
  settings: Pick<SccSettings, 'mode' | 'exemptNamespaces'>,
): NamespaceMode {
  const name = namespace.metadata?.name ?? '';
  const labels = namespace.metadata?.labels ?? {};
  if (settings.mode === 'off' || settings.exemptNamespaces.includes(name)) return { mode: 'off' };
  if (labels[RUN_LEVEL_LABEL] === '0' || labels[RUN_LEVEL_LABEL] === '1') return { mode: 'off' };
  if (labels[DISABLE_LABEL] === 'true') return { mode: 'off' };
  const label = labels[SCC_MODE_LABEL];
  if (label === undefined) return { mode: settings.mode };
  const mode = SCC_MODES.find((one) => one === label);
  if (mode !== undefined) return { mode };
  const problem = `label ${SCC_MODE_LABEL}: unknown mode ${quote(label)}, taken for "enforce"; must be one of ${SCC_MODES.join(', ')}`;
  return { mode: 'enforce', problem };
}

type ModeSettings = Pick<SccSettings, 'mode' | 'exemptNamespaces'>;

/**
 * What whoever labels a namespace has to know of the label that says its mode, in the words that authors of pods will get:
 * `undefined` if nothing, or if it was so before.
 */
export function warnOfModeLabel(request: AdmissionRequest, settings: ModeSettings): string | undefined {
  const { kind, operation, subResource } = request;
  if (kind.kind !== 'Namespace' || kind.group || subResource) return undefined;
  if (operation !== 'CREATE' && operation !== 'UPDATE') return undefined;
  const problem = problemOf(request.object, settings);
  return problem === problemOf(request.oldObject, settings) ? undefined : problem;
}

function problemOf(object: unknown, settings: ModeSettings): string | undefined {
  const metadata = isObject(object) ? object['metadata'] : undefined;
  const labels = isObject(metadata) ? metadata['labels'] : undefined;
  if (!isObject(labels) || typeof labels[SCC_MODE_LABEL] !== 'string') return undefined;
  return sccModeOf(object as Namespace, settings).problem;
}

/**
 * The SCCs without which OpenShift admits no pod.
 * @see https://github.com/openshift/apiserver-library-go/blob/master/pkg/securitycontextconstraints/sccadmission/admission.go
 */
export const OPENSHIFT_REQUIRED_SCCS = [
  'anyuid',
  'hostaccess',
  'hostmount-anyuid',
  'hostnetwork',
  'hostnetwork-v2',
  'nonroot',
  'nonroot-v2',
  'privileged',
  'restricted',
  'restricted-v2',
] as const;

const OPENSHIFT: Required<Deviations> = {
  identity: 'openshift',
  brokenScc: 'refuse',
  requiredSccs: OPENSHIFT_REQUIRED_SCCS,
  unprocessedPods: 'judge',
};

const DEFAULTS: Required<Deviations> = {
  identity: 'accurate',
  brokenScc: 'skip',
  requiredSccs: [],
  unprocessedPods: 'pass',
};

export function resolveCompatibility(compatibility: Compatibility = {}): Required<Deviations> {
  return compatibility === 'openshift' ? OPENSHIFT : { ...DEFAULTS, ...compatibility };
}
