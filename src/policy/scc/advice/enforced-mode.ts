/** Finds the workloads that are denied if the SCC mode changes to `enforce`. */
import { createPod } from '../../../kube/controller-pod.ts';
import { objectName } from '../../../kube/resources.ts';
import { printCount, summarizeNames } from '../../../kube/text.ts';
import type { Namespace, Pod } from '../../../kube/types.ts';
import { assignScc } from '../assign.ts';
import { sccMode, type SccSettings } from '../mode.ts';
import type { SccInput } from '../request.ts';

interface DeniedWorkloads {
  readonly denied: readonly string[];
  readonly isComplete: boolean;
}

interface ModeChange extends Pick<SccInput, 'sccs' | 'access'> {
  readonly before: SccSettings;
  readonly next: SccSettings;
  readonly namespaces: readonly Namespace[];
  listPods(namespace: string): readonly Pod[];
  /** Returns the workload that replaces a pod, or `undefined` if no workload replaces it. */
  findWorkload(pod: Pod): string | undefined;
  /** Returns the namespace with the ranges that it will get. */
  previewRanges(namespace: Namespace, all: readonly Namespace[]): Namespace;
}

/** Evaluates one pod of each workload in the namespaces where the change enforces SCCs. Yields before each step. */
export function* findDeniedWorkloads(change: ModeChange): Generator<void, DeniedWorkloads, boolean> {
  const { before, next, namespaces, listPods, findWorkload, previewRanges } = change;
  const evaluated = new Set<string>();
  const denied: string[] = [];
  for (const namespace of namespaces) {
    if (!(yield)) return { denied, isComplete: false };
    if (sccMode(namespace, before).mode === 'enforce' || sccMode(namespace, next).mode !== 'enforce') continue;
    let ranged: Namespace | undefined;
    for (const pod of listPods(objectName(namespace))) {
      if (!(yield)) return { denied, isComplete: false };
      const workload = findWorkload(pod);
      if (workload === undefined || evaluated.has(workload)) continue;
      evaluated.add(workload);
      ranged ??= previewRanges(namespace, namespaces);
      if (isDenied(pod, ranged, change)) denied.push(workload);
    }
  }
  return { denied, isComplete: true };
}

function isDenied(object: Pod, namespace: Namespace, { sccs, access, next }: ModeChange): boolean {
  // The creator of a bare pod is unknown, so it is assumed to have no grants.
  const created = createPod(
    { kind: 'Pod', object },
    { namespace: objectName(namespace), creator: {}, findAccount: () => undefined },
  );
  if (created === undefined) return false;
  const { compatibility, preferUserNamespaces } = next;
  const input = { sccs, access, compatibility, preferUserNamespaces, namespace };
  return !assignScc({ ...input, operation: 'CREATE', object: created.pod, userInfo: created.requester }).allowed;
}

/** Returns the warning about the change, or `undefined` if the change denies no workload. */
export function enforcedModeWarning({ denied, isComplete }: DeniedWorkloads, showsNames: boolean): string | undefined {
  if (isComplete && denied.length === 0) return undefined;
  const plan = 'portcullis scc plan --scc-mode enforce';
  if (denied.length === 0) return `spec.scc.mode enforce was not evaluated for all workloads; ${plan} evaluates them`;
  const count = `${isComplete ? '' : 'at least '}${printCount(denied.length, 'workload')}`;
  const names = showsNames ? `: ${summarizeNames(denied)}` : '';
  return `spec.scc.mode enforce denies new pods of ${count}${names}; ${plan} prints the reasons`;
}
