/** Reviews the pods in manifests with SCC admission, based on exported SCCs and grants or on the standard SCCs. */
import { POD_SOURCES } from '../../cluster/workloads.ts';
import type { LocatedPod } from '../../config/fix.ts';
import { manifestName, type ManifestObject } from '../../config/objects.ts';
import type { PodCreator } from '../../kube/controller-pod.ts';
import type { Kind } from '../../kube/kinds.ts';
import { getApiVersion } from '../../kube/resources.ts';
import { type JsonObject, type PodLike, type UserInfo, withValueAt } from '../../kube/types.ts';
import { grantCommand } from '../../policy/scc/advice/denials.ts';
import { type ExplainedScc, explainPod } from '../../policy/scc/advice/explain.ts';
import { workloadPod } from '../../policy/scc/advice/plan.ts';
import { type DisallowedField, formatDisallowedField } from '../../policy/scc/advice/suggestion.ts';
import { sccMode } from '../../policy/scc/mode.ts';
import { SCC_REPAIRS } from '../../policy/scc/strategies/index.ts';
import { createInventory, findNamespace } from '../inventory/inventory.ts';
import { SCC_INPUT_KINDS, sccInput } from '../inventory/scc-input.ts';
import { sccSettings } from '../inventory/settings.ts';
import type { OtherCheck } from '../output/findings.ts';
import type { SccReviewer } from './manifests.ts';

interface SccReviewOptions {
  /** The manifests, including those of `--sccs`. */
  readonly objects: readonly ManifestObject[];
  /** Namespace for manifests that do not set one. */
  readonly namespace: string;
  /** Namespaces in which the pods are created. */
  readonly namespaces: readonly string[];
  /** Path of the `--config` file. */
  readonly config: string | undefined;
  /** True for OpenShift, which enforces all denials and adds its own groups to service accounts. */
  readonly isOpenShift: boolean;
}

/** Creator of bare pods, because the manifests do not contain it. */
const ANY_USER: UserInfo = { groups: ['system:authenticated'] };

/**
 * Creates the function that reviews pods. If the objects contain no SCCs, it uses the standard SCCs and their grants.
 * The manifests may lack service accounts because a chart may use existing service accounts.
 * @throws {UserError} for invalid settings, and for SCCs, grants and namespaces that no API server accepts
 */
export async function createSccReviewer(options: SccReviewOptions): Promise<SccReviewer> {
  const { config, isOpenShift, namespaces } = options;
  const objects = options.objects.filter(({ kind }) => SCC_INPUT_KINDS.some((one) => one === kind));
  const compatibility = isOpenShift ? 'openshift' : {};
  const { store } = createInventory(objects, options.namespace, { kinds: SCC_INPUT_KINDS, namespaces, compatibility });
  const settings = await sccSettings({ config, 'scc-mode': config === undefined ? 'enforce' : undefined }, store);
  const effective =
    isOpenShift && config === undefined ? { ...settings, compatibility: 'openshift' as const } : settings;
  return (pod, located, name) => {
    const namespace = findNamespace(store, name);
    const { mode } = sccMode(namespace, settings);
    if (mode === 'off') return { pod };
    const findAccount = (account: string) =>
      store.get('ServiceAccount', account, name) ?? { metadata: { name: account, namespace: name } };
    const context = { ...sccInput(store, effective), namespace, creator: ANY_USER, findAccount };
    const created = workloadPod(podCreator(pod, located, name), context);
    if (created === undefined) return { pod };
    const { verdict, decision, sccs } = explainPod(created.input);
    // In report mode, SCC admission neither denies nor changes pods.
    if (decision.allowed) return { pod: mode === 'enforce' ? (decision.object as PodLike) : pod };
    const { closest, grantable } = verdict.outcome === 'denied' ? verdict : {};
    const denial = createDenial(
      decision.status.message,
      findTarget(sccs) ?? sccs.find(({ name: scc }) => scc === closest?.scc),
      grantable && grantCommand(grantable, name, created.serviceAccount),
    );
    return { pod, denial: { ...denial, mode: mode === 'enforce' ? 'enforce' : 'warn' } };
  };
}

/** Returns the object with the given pod as its pod template. */
function podCreator(
  pod: PodLike,
  { object: { apiVersion, kind: name, value }, path }: LocatedPod,
  namespace: string,
): PodCreator {
  const { metadata, spec } = pod as JsonObject;
  const changed = withValueAt(
    value,
    path,
    path.length === 0 ? { ...value, metadata, spec } : { metadata, spec },
  ) as JsonObject;
  const object = { ...changed, metadata: { ...(changed.metadata as object), name: manifestName(value), namespace } };
  const kind: Kind | undefined = POD_SOURCES.find((one) => one === name && getApiVersion(one) === apiVersion);
  return kind ? { kind, object } : { kind: name, object, template: path };
}

/**
 * Returns the usable SCC that requires the fewest field changes in the pod, among the SCCs whose changes are all
 * fixable.
 */
function findTarget(sccs: readonly ExplainedScc[]): ExplainedScc | undefined {
  const canChange = ({ path }: DisallowedField): boolean => {
    const repair = SCC_REPAIRS.find(({ field }) => field?.test(path));
    return repair !== undefined && !('choices' in repair);
  };
  const [target] = sccs
    .filter(({ isCandidate, usableBy }) => isCandidate && usableBy.length > 0)
    .filter(({ disallowedFields: fields }) => fields.length > 0 && fields.every(canChange))
    .sort((a, b) => a.disallowedFields.length - b.disallowedFields.length);
  return target;
}

/** `grant` is the command that grants an SCC that would admit the pod. */
function createDenial(message: string, closest: ExplainedScc | undefined, grant: string | undefined) {
  const { name, disallowedFields: fields = [] } = closest ?? {};
  const alternative = grant === undefined ? '' : `, or grant an SCC that allows them: ${grant}`;
  const list = fields.map(formatDisallowedField).join(', ');
  return {
    check: 'scc-admission' satisfies OtherCheck,
    reason: 'no usable SCC admits the pod',
    detail: name === undefined ? message : `${name}, the closest SCC, does not allow ${list}`,
    fix: `Remove the fields${alternative}.`,
    repairs: SCC_REPAIRS,
    fields: fields.map(({ path, values }) => ({ path, values, isMissing: values.length === 0 })),
  };
}
