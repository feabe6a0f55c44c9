/** Reviews the pods in manifests with SCC admission, based on exported SCCs and grants or on the standard SCCs. */
import type { LocatedPod } from '../../config/fix.ts';
import { manifestName, type ManifestObject } from '../../config/objects.ts';
import { STDIN } from '../../config/yaml.ts';
import type { PodCreator } from '../../kube/controller-pod.ts';
import type { Kind } from '../../kube/kinds.ts';
import { getApiVersion } from '../../kube/resources.ts';
import { POD_SCC_ANNOTATIONS } from '../../kube/scc.ts';
import { type JsonObject, type PodLike, type UserInfo, withValueAt } from '../../kube/types.ts';
import { printFieldPath } from '../../policy/pod/index.ts';
import { isKnownKind } from '../../policy/psa/index.ts';
import {
  describeReason,
  explainPod,
  formatFix,
  listFixes,
  type PodDenial,
  SCC_REPAIRS,
  type SccFix,
  sccMode,
  workloadPod,
} from '../../policy/scc/index.ts';
import { POD_SOURCES } from '../../views/workloads.ts';
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

/** Assumed creator of bare pods. The manifests do not contain the creator. */
const ANY_USER: UserInfo = { groups: ['system:authenticated'] };

/**
 * Creates the function that reviews pods. If the objects contain no SCCs, it uses the standard SCCs and their grants.
 * Service accounts may be missing from the manifests, because a chart may use existing service accounts.
 * @throws {UserError} for invalid settings, and for SCCs, grants and namespaces that no API server accepts
 */
export async function createSccReviewer(options: SccReviewOptions): Promise<SccReviewer> {
  const { config, isOpenShift, namespaces } = options;
  const objects = options.objects.filter(({ kind }) => SCC_INPUT_KINDS.some((input) => input === kind));
  const compatibility = isOpenShift ? 'openshift' : 'portcullis';
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
    const { verdict, decision } = explainPod(created.input);
    // In report mode, SCC admission neither denies nor changes pods.
    if (decision.allowed) return { pod: mode === 'enforce' ? (decision.object as PodLike) : pod };
    if (verdict.outcome !== 'denied') return { pod };
    const { kind, value, document } = located.object;
    const { file } = document;
    const isBuiltIn = isKnownKind(located.object.apiVersion, kind);
    const workload = {
      kind,
      name: manifestName(value),
      ...(isBuiltIn ? {} : { template: printFieldPath(located.path) }),
      serviceAccount: created.serviceAccount,
      files: [file === STDIN.name ? STDIN.path : file],
    };
    const denial = createDenial(verdict, listFixes(verdict, workload, name));
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
  const kind: Kind | undefined = POD_SOURCES.find((source) => source === name && getApiVersion(source) === apiVersion);
  return kind ? { kind, object } : { kind: name, object, template: path };
}

/** Returns the denial as a violation that lists the fields to change. */
function createDenial(verdict: PodDenial, fixes: readonly SccFix[]) {
  const { closest, requiredScc } = verdict;
  const annotation = `metadata.annotations[${POD_SCC_ANNOTATIONS.requiredScc}]`;
  const fields =
    requiredScc === undefined ? (closest?.disallowedFields ?? []) : [{ path: annotation, values: [requiredScc] }];
  return {
    check: 'scc-admission' satisfies OtherCheck,
    ...describeReason(verdict),
    fix: fixes.map(formatFix).join(' Or: '),
    repairs: requiredScc === undefined ? SCC_REPAIRS : [{ set: requiredScc }],
    fields: fields.map(({ path, values }) => ({ path, values, isMissing: values.length === 0 })),
  };
}
