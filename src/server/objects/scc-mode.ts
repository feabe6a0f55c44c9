import { canUseScc, getSccSet } from '../../cluster/access.ts';
import type { Store } from '../../cluster/store.ts';
import { findPodWorkload, isReplaced } from '../../cluster/workload-events.ts';
import type { AdmissionRequest } from '../../kube/admission.ts';
import { createPod } from '../../kube/controller-pod.ts';
import { objectName } from '../../kube/resources.ts';
import { summarizeNames, printCount } from '../../kube/text.ts';
import { type Namespace, type Pod, valueAt } from '../../kube/types.ts';
import { assignScc } from '../../policy/scc/assign.ts';
import { sccMode, type SccSettings, withKubeSystem } from '../../policy/scc/mode.ts';
import type { Evaluations } from '../evaluations.ts';
import type { PreviewRanges } from '../scc-review.ts';
import type { WebhookContext } from '../webhook.ts';

interface Scope extends Pick<Search, 'store' | 'previewRanges'> {
  /** The effective settings. */
  readonly settings: SccSettings;
  readonly evaluate: Evaluations;
  readonly context: WebhookContext;
  readonly showsNames: boolean;
}

/** Returns the warnings about workloads that a change to `spec.scc.mode: enforce` denies. */
export async function warnAboutSccs(
  request: AdmissionRequest,
  { settings, previewRanges, evaluate, store, context, showsNames }: Scope,
): Promise<readonly string[]> {
  const next = readEnforce(request, settings);
  if (next === undefined) return [];
  const result = await evaluate(findDenied({ before: settings, next, previewRanges, store }), context);
  return result.isComplete && result.denied.length === 0 ? [] : [formatWarning(result, showsNames)];
}

/** Returns the changed settings if a request sets the mode to `enforce`. */
function readEnforce({ object, oldObject }: AdmissionRequest, current: SccSettings) {
  const read = (root: unknown, name: string): unknown => valueAt(root, ['spec', 'scc', name]);
  if (read(object, 'mode') !== 'enforce' || read(oldObject, 'mode') === 'enforce') return undefined;
  const names: unknown = read(object, 'exemptNamespaces');
  const exemptNamespaces = Array.isArray(names)
    ? withKubeSystem(names.filter((name) => typeof name === 'string'))
    : current.exemptNamespaces;
  return { ...current, mode: 'enforce', exemptNamespaces } as const;
}

interface Search {
  readonly previewRanges: PreviewRanges;
  readonly store: Store;
  readonly before: SccSettings;
  readonly next: SccSettings;
}

interface DeniedWorkloads {
  readonly denied: readonly string[];
  readonly isComplete: boolean;
}

/** Evaluates one pod of each workload in the namespaces where the change enforces SCCs. */
function* findDenied({ before, next, previewRanges, store }: Search): Generator<void, DeniedWorkloads, boolean> {
  const namespaces = store.list('Namespace');
  const evaluated = new Set<string>();
  const denied: string[] = [];
  for (const namespace of namespaces) {
    if (!(yield)) return { denied, isComplete: false };
    if (sccMode(namespace, before).mode === 'enforce' || sccMode(namespace, next).mode !== 'enforce') continue;
    const pods = store.list('Pod', objectName(namespace));
    const ranged = pods.length === 0 ? namespace : previewRanges(namespace, namespaces);
    for (const pod of pods) {
      if (!(yield)) return { denied, isComplete: false };
      const { kind, metadata } = findPodWorkload(pod, store);
      const workload = `${kind} ${metadata.namespace}/${metadata.name}`;
      if (evaluated.has(workload) || !isReplaced(pod, store)) continue;
      evaluated.add(workload);
      if (isDenied(pod, ranged, { store, settings: next })) denied.push(workload);
    }
  }
  return { denied, isComplete: store.synced('Pod') };
}

function isDenied(
  object: Pod,
  namespace: Namespace,
  { store, settings }: { readonly store: Store; readonly settings: SccSettings },
): boolean {
  // The creator of a bare pod is unknown.
  const created = createPod(
    { kind: 'Pod', object },
    { namespace: objectName(namespace), creator: {}, findAccount: () => undefined },
  );
  if (created === undefined) return false;
  const { compatibility, preferUserNamespaces } = settings;
  const sccs = getSccSet(store);
  const input = { sccs, canUse: canUseScc(store), compatibility, preferUserNamespaces, namespace };
  return !assignScc({ ...input, operation: 'CREATE', object: created.pod, userInfo: created.requester }).allowed;
}

function formatWarning({ denied, isComplete }: DeniedWorkloads, showsNames: boolean): string {
  const plan = 'portcullis scc plan --scc-mode enforce';
  if (denied.length === 0) return `spec.scc.mode enforce was not evaluated for all workloads; ${plan} evaluates them`;
  const count = `${isComplete ? '' : 'at least '}${printCount(denied.length, 'workload')}`;
  const names = showsNames ? `: ${summarizeNames(denied)}` : '';
  return `spec.scc.mode enforce denies new pods of ${count}${names}; ${plan} prints the reasons`;
}
