import { printNewlyClosed } from '../../api/webhooks.ts';
import type { Store } from '../../cluster/store.ts';
import type { Settings } from '../../config/settings.ts';
import { allow } from '../../kube/admission.ts';
import { createPod } from '../../kube/controller-pod.ts';
import { deepEqual } from '../../kube/equality.ts';
import { objectName } from '../../kube/resources.ts';
import { printCount, summarizeNames } from '../../kube/text.ts';
import { type Namespace, type Pod, valueAt } from '../../kube/types.ts';
import { type ExceptionSettings, findExceptionProblem } from '../../policy/psa/index.ts';
import { assignScc, sccMode, type SccSettings } from '../../policy/scc/index.ts';
import { sccAccess, getSccSet } from '../../views/access.ts';
import { readException } from '../../views/exceptions.ts';
import { findPodWorkload, isReplaced } from '../../views/workloads.ts';
import type { Discloses } from '../disclosure.ts';
import type { Evaluations } from '../evaluations.ts';
import type { PreviewRanges } from '../scc-review.ts';
import type { WebhookContext } from '../webhook.ts';
import type { ObjectReviewer } from '../webhooks/objects.ts';
import type { ExceptionDeps } from './exceptions.ts';

const KIND = 'PortcullisConfiguration';

export interface SettingsDeps extends Pick<ExceptionDeps, 'date'> {
  /** Returns the current settings. */
  settings(): Settings;
  /** Returns the settings in a PortcullisConfiguration, or `undefined` if they are not valid. */
  readSettings(object: unknown): Settings | undefined;
  /** Returns the function that is true for namespaces that fail closed with the settings. */
  createFailsClosed(settings: Settings): (namespace: Namespace) => boolean;
  readonly previewRanges: PreviewRanges;
  readonly evaluate: Evaluations;
  readonly discloses: Discloses;
}

/**
 * Creates the reviewer that warns about exceptions that new settings end, about namespaces that fail closed, and about
 * workloads that `spec.scc.mode: enforce` denies.
 */
export function createSettingsReviewer(deps: SettingsDeps): ObjectReviewer {
  return {
    enforces: () => false,
    async validate(request, context) {
      const { object, oldObject } = request;
      const isChanged = !deepEqual(valueAt(object, ['spec']), valueAt(oldObject, ['spec']));
      const next = isChanged ? deps.readSettings(object) : undefined;
      const showsNames = deps.discloses(request, context.store, KIND);
      const scope = { ...deps, store: context.store, showsNames, context };
      const warnings = [
        ...(next ? await warnAboutExceptions(next, scope) : []),
        ...(next ? await warnAboutOutages(next, scope) : []),
        ...(next ? await warnAboutSccs(next, scope) : []),
      ];
      return allow(warnings.length === 0 ? {} : { warnings });
    },
  };
}

interface Scope extends SettingsDeps {
  readonly store: Store;
  readonly context: WebhookContext;
  readonly showsNames: boolean;
}

async function warnAboutExceptions(settings: Settings, scope: Scope): Promise<readonly string[]> {
  const { store, date, evaluate, context, showsNames } = scope;
  const change = { before: scope.settings().exceptions, next: settings.exceptions, nowMs: date().getTime() };
  if (deepEqual(change.before, change.next)) return [];
  const { ended, workloads, isComplete } = await evaluate(findEnded(store, change), context);
  if (ended.length === 0) return [];
  const print = (names: readonly string[], noun: string): string =>
    `${isComplete ? '' : 'at least '}${printCount(names.length, noun)}${showsNames ? `: ${summarizeNames(names)}` : ''}`;
  const denied = workloads.length === 0 ? '' : `. It denies new pods of ${print(workloads, 'workload')}`;
  return [`the change of spec.podSecurity.exceptions ends ${print(ended, 'active exception')}${denied}`];
}

async function warnAboutOutages(settings: Settings, scope: Scope): Promise<readonly string[]> {
  const { store, evaluate, context, showsNames, createFailsClosed } = scope;
  const [before, after] = [createFailsClosed(scope.settings()), createFailsClosed(settings)];
  const find = function* (): Generator<
    void,
    { readonly names: readonly string[]; readonly isComplete: boolean },
    boolean
  > {
    const names: string[] = [];
    for (const namespace of store.list('Namespace')) {
      if (!(yield)) return { names, isComplete: false };
      if (after(namespace) && !before(namespace)) names.push(objectName(namespace));
    }
    return { names, isComplete: true };
  };
  const { names, isComplete } = await evaluate(find(), context);
  return names.length === 0 ? [] : [printNewlyClosed(names, { isComplete, showsNames })];
}

interface Change {
  readonly before: ExceptionSettings;
  readonly next: ExceptionSettings;
  readonly nowMs: number;
}

interface EndedExceptions {
  readonly ended: readonly string[];
  /** Workloads whose running pods need the exceptions. */
  readonly workloads: readonly string[];
  readonly isComplete: boolean;
}

/** Finds the exceptions that apply only before the change. */
function* findEnded(store: Store, { before, next, nowMs }: Change): Generator<void, EndedExceptions, boolean> {
  const ended: string[] = [];
  const workloads = new Set<string>();
  for (const object of store.list('PodSecurityException')) {
    if (!(yield)) return { ended, workloads: [...workloads], isComplete: false };
    const exception = object.status?.approval && readException(object);
    if (!exception || findExceptionProblem(exception, before, nowMs)) continue;
    if (!findExceptionProblem(exception, next, nowMs)) continue;
    ended.push(`${exception.namespace}/${exception.name}`);
    for (const workload of object.status?.workloads ?? []) {
      workloads.add(workload.replace('/', ` ${exception.namespace}/`));
    }
  }
  return { ended, workloads: [...workloads], isComplete: store.synced('PodSecurityException') };
}

// Workloads that SCCs deny

/** Returns the warnings about workloads that a change to `spec.scc.mode: enforce` denies. */
async function warnAboutSccs(settings: Settings, scope: Scope): Promise<readonly string[]> {
  const { previewRanges, evaluate, store, context, showsNames } = scope;
  const before = scope.settings().scc;
  const { scc: next } = settings;
  if (next.mode !== 'enforce' || before.mode === 'enforce') return [];
  const result = await evaluate(findDenied({ before, next, previewRanges, store }), context);
  return result.isComplete && result.denied.length === 0 ? [] : [formatWarning(result, showsNames)];
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
  const input = { sccs, access: sccAccess(store), compatibility, preferUserNamespaces, namespace };
  return !assignScc({ ...input, operation: 'CREATE', object: created.pod, userInfo: created.requester }).allowed;
}

function formatWarning({ denied, isComplete }: DeniedWorkloads, showsNames: boolean): string {
  const plan = 'portcullis scc plan --scc-mode enforce';
  if (denied.length === 0) return `spec.scc.mode enforce was not evaluated for all workloads; ${plan} evaluates them`;
  const count = `${isComplete ? '' : 'at least '}${printCount(denied.length, 'workload')}`;
  const names = showsNames ? `: ${summarizeNames(denied)}` : '';
  return `spec.scc.mode enforce denies new pods of ${count}${names}; ${plan} prints the reasons`;
}
