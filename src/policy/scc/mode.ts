/** SCC modes of namespaces, and the SCC admission settings. */
import type { V1LabelSelectorRequirement } from '@kubernetes/client-node';
import type { AdmissionRequest } from '../../kube/admission.ts';
import { quote } from '../../kube/text.ts';
import { type Namespace, type Wire, objectMember } from '../../kube/types.ts';
import { KUBE_SYSTEM, NAMESPACE_NAME_LABEL } from '../../kube/well-known.ts';

/**
 * The modes of SCC admission, in which it enforces decisions, only reports them, or is off. Sorted from strictest to
 * least strict.
 */
export const SCC_MODES = ['enforce', 'report', 'off'] as const;
export type SccMode = (typeof SCC_MODES)[number];

export const SCC_MODE_LABEL = 'portcullis.dev/scc';

export const RUN_LEVEL_LABEL = 'openshift.io/run-level';
export const DISABLE_LABEL = 'security.openshift.io/disable-securitycontextconstraints';

export interface SccSettings {
  /** Default mode for namespaces that lack the label. */
  readonly mode: SccMode;
  /** Namespaces that SCC admission skips regardless of their labels. */
  readonly exemptNamespaces: readonly string[];
  readonly compatibility: Compatibility;
  /** See `SccInput`. */
  readonly preferUserNamespaces: boolean;
}

/**
 * Namespaces that exist in every cluster, and the default installation namespace. OpenShift also exempts `default` and
 * three namespaces that do not exist in other clusters. In those clusters, any user who can create namespaces could
 * create one of them and run any pod in it.
 */
export const DEFAULT_EXEMPT_NAMESPACES: readonly string[] = [KUBE_SYSTEM, 'kube-public', 'portcullis'];

/** Returns the namespaces that are exempt by default in an installation with the given namespace. */
export function defaultExemptNamespaces(namespace: string): readonly string[] {
  return DEFAULT_EXEMPT_NAMESPACES.map((name) => (name === 'portcullis' ? namespace : name));
}

/** Adds `kube-system` to the exempt namespaces, because no webhook changes its pods, as on OpenShift. */
export function withKubeSystem(exemptNamespaces: readonly string[]): readonly string[] {
  return exemptNamespaces.includes(KUBE_SYSTEM) ? exemptNamespaces : [...exemptNamespaces, KUBE_SYSTEM];
}

export interface NamespaceMode {
  readonly mode: SccMode;
  /** The reason why the label is invalid. If set, the mode is `enforce`. */
  readonly problem?: string;
}

type ModeSettings = Pick<SccSettings, 'mode' | 'exemptNamespaces'>;

/**
 * Returns the mode of a namespace.
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
  const mode = SCC_MODES.find((other) => other === label);
  if (mode !== undefined) return { mode };
  const problem = `label ${SCC_MODE_LABEL}: unknown mode ${quote(label)}, using "enforce"; must be one of ${SCC_MODES.join(', ')}`;
  return { mode: 'enforce', problem };
}

type Requirement = Wire<V1LabelSelectorRequirement>;

/**
 * Returns the requirements that select namespaces that are not exempt. They ignore the mode label, so they also match
 * namespaces in `off` mode. `others` are additional exempt names.
 */
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

/** Returns the requirements that select the namespaces in `enforce` mode. The default mode must not be `off`. */
export function selectEnforcedNamespaces(settings: ModeSettings, others?: readonly string[]): readonly Requirement[] {
  return [
    ...selectSccNamespaces(settings, others),
    ...(settings.mode === 'enforce' ? [] : [{ key: SCC_MODE_LABEL, operator: 'Exists' }]),
    // Unknown values mean `enforce`.
    { key: SCC_MODE_LABEL, operator: 'NotIn', values: ['off', 'report'] },
  ];
}

/** Returns the warning for a request that sets an invalid mode label on a namespace. */
export function modeLabelWarning(request: AdmissionRequest, settings: ModeSettings): string | undefined {
  const { kind, operation, subResource } = request;
  if (kind.kind !== 'Namespace' || kind.group || subResource) return undefined;
  if (operation !== 'CREATE' && operation !== 'UPDATE') return undefined;
  const problem = findLabelProblem(request.object, settings);
  return problem === findLabelProblem(request.oldObject, settings) ? undefined : problem;
}

function findLabelProblem(object: unknown, settings: ModeSettings): string | undefined {
  const labels = objectMember(objectMember(object, 'metadata'), 'labels');
  if (typeof labels[SCC_MODE_LABEL] !== 'string') return undefined;
  return sccMode(object as Namespace, settings).problem;
}

/**
 * The compatibility mode. `portcullis` is the default. In `openshift` mode, decisions, warnings, labels and audit
 * annotations are the same as in OpenShift.
 */
export type Compatibility = 'portcullis' | 'openshift';

/**
 * SCCs without which OpenShift admits no pods.
 * @see
 * https://github.com/openshift/apiserver-library-go/blob/master/pkg/securitycontextconstraints/sccadmission/admission.go
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
