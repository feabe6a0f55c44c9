/** The SCC mode of namespaces, and the settings of SCC admission. */
import type { V1LabelSelectorRequirement } from '@kubernetes/client-node';
import type { AdmissionRequest } from '../../kube/admission.ts';
import { quote } from '../../kube/text.ts';
import { isObject, type Namespace, type Wire } from '../../kube/types.ts';
import { KUBE_SYSTEM, NAMESPACE_NAME_LABEL } from '../../kube/well-known.ts';

/** Whether decisions are enforced, only reported, or not made, in descending strictness. */
export const SCC_MODES = ['enforce', 'report', 'off'] as const;
export type SccMode = (typeof SCC_MODES)[number];

/** The label of a namespace with its mode. */
export const SCC_MODE_LABEL = 'portcullis.dev/scc';

export const RUN_LEVEL_LABEL = 'openshift.io/run-level';
export const DISABLE_LABEL = 'security.openshift.io/disable-securitycontextconstraints';

/** The settings of SCC admission in a cluster. */
export interface SccSettings {
  /** The mode of namespaces without a label. */
  readonly mode: SccMode;
  /** Namespaces to which SCCs do not apply, regardless of their labels. */
  readonly exemptNamespaces: readonly string[];
  readonly compatibility: Compatibility;
  /** As in `SccInput`. */
  readonly preferUserNamespaces: boolean;
}

/**
 * The namespaces that exist in every cluster, and that of the installation. OpenShift also exempts `default`, and three
 * namespaces that other clusters lack: a user who can create namespaces could create one and run any pod in it.
 */
export const DEFAULT_EXEMPT_NAMESPACES: readonly string[] = [KUBE_SYSTEM, 'kube-public', 'portcullis'];

/** The default exempt namespaces of an installation in that namespace. */
export function defaultExemptNamespaces(namespace: string): readonly string[] {
  return DEFAULT_EXEMPT_NAMESPACES.map((name) => (name === 'portcullis' ? namespace : name));
}

/** Adds `kube-system`, whose pods no webhook changes, as on OpenShift. */
export function withKubeSystem(exemptNamespaces: readonly string[]): readonly string[] {
  return exemptNamespaces.includes(KUBE_SYSTEM) ? exemptNamespaces : [...exemptNamespaces, KUBE_SYSTEM];
}

export interface NamespaceMode {
  readonly mode: SccMode;
  /** The message for an invalid label. The mode is then `enforce`. */
  readonly problem?: string;
}

type ModeSettings = Pick<SccSettings, 'mode' | 'exemptNamespaces'>;

/**
 * The mode of a namespace.
 * @see https://github.com/openshift/kubernetes/blob/master/openshift-kube-apiserver/openshiftkubeapiserver/patch.go
 */
export function sccMode(namespace: Namespace, settings: ModeSettings): NamespaceMode {
  const name = namespace.metadata?.name ?? '';
  const labels = namespace.metadata?.labels ?? {};
  if (settings.mode === 'off' || settings.exemptNamespaces.includes(name)) return { mode: 'off' };
  if (labels[RUN_LEVEL_LABEL] === '0' || labels[RUN_LEVEL_LABEL] === '1') return { mode: 'off' };
  if (labels[DISABLE_LABEL] === 'true') return { mode: 'off' };
  const label = labels[SCC_MODE_LABEL];
  if (label === undefined) return { mode: settings.mode };
  const mode = SCC_MODES.find((one) => one === label);
  if (mode !== undefined) return { mode };
  const problem = `label ${SCC_MODE_LABEL}: unknown mode ${quote(label)}, "enforce" applies; must be one of ${SCC_MODES.join(', ')}`;
  return { mode: 'enforce', problem };
}

type Requirement = Wire<V1LabelSelectorRequirement>;

/** Selects the namespaces that have a mode other than `off`, and those with the label `off`, except for other exempt names. */
export function selectSccNamespaces(
  { exemptNamespaces }: Pick<SccSettings, 'exemptNamespaces'>,
  others: readonly string[] = [],
): readonly Requirement[] {
  return [
    { key: NAMESPACE_NAME_LABEL, operator: 'NotIn', values: [...new Set([...exemptNamespaces, ...others])] },
    { key: RUN_LEVEL_LABEL, operator: 'NotIn', values: ['0', '1'] },
    { key: DISABLE_LABEL, operator: 'NotIn', values: ['true'] },
  ];
}

/** Selects the namespaces with the mode `enforce`, for a default mode other than `off`. */
export function selectEnforcedNamespaces(settings: ModeSettings, others?: readonly string[]): readonly Requirement[] {
  return [
    ...selectSccNamespaces(settings, others),
    ...(settings.mode === 'enforce' ? [] : [{ key: SCC_MODE_LABEL, operator: 'Exists' }]),
    // An unknown value enforces.
    { key: SCC_MODE_LABEL, operator: 'NotIn', values: ['off', 'report'] },
  ];
}

/** Returns the warning for a request that gives a namespace an invalid mode label. */
export function modeLabelWarning(request: AdmissionRequest, settings: ModeSettings): string | undefined {
  const { kind, operation, subResource } = request;
  if (kind.kind !== 'Namespace' || kind.group || subResource) return undefined;
  if (operation !== 'CREATE' && operation !== 'UPDATE') return undefined;
  const problem = findLabelProblem(request.object, settings);
  return problem === findLabelProblem(request.oldObject, settings) ? undefined : problem;
}

function findLabelProblem(object: unknown, settings: ModeSettings): string | undefined {
  const metadata = isObject(object) ? object['metadata'] : undefined;
  const labels = isObject(metadata) ? metadata['labels'] : undefined;
  if (!isObject(labels) || typeof labels[SCC_MODE_LABEL] !== 'string') return undefined;
  return sccMode(object as Namespace, settings).problem;
}

/** The deviations from OpenShift. */
export interface Deviations {
  /**
   * The groups of a pod's service account. `accurate` (the default): all groups. `openshift`: without
   * `system:authenticated`, so that most pods are admitted with the permissions of their creator.
   */
  readonly identity?: 'accurate' | 'openshift';
  /** `skip` (the default): an SCC that cannot be used allows no pod. `deny`: it causes the denial of every pod. */
  readonly brokenScc?: 'skip' | 'deny';
  /** SCCs without which no pod is admitted; none by default. */
  readonly requiredSccs?: readonly string[];
  /**
   * Updates that do not change the spec of a pod on which no SCC is recorded. `pass` (the default): admitted without
   * evaluation. `evaluate`: evaluated.
   */
  readonly unprocessedPods?: 'pass' | 'evaluate';
}

/** `openshift` is the behaviour of OpenShift without deviations. */
export type Compatibility = 'openshift' | Deviations;

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
  brokenScc: 'deny',
  requiredSccs: OPENSHIFT_REQUIRED_SCCS,
  unprocessedPods: 'evaluate',
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
