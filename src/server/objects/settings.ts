import { readException } from '../../cluster/exceptions.ts';
import type { Store } from '../../cluster/store.ts';
import type { Settings } from '../../config/settings.ts';
import { allow } from '../../kube/admission.ts';
import { deepEqual } from '../../kube/equality.ts';
import { objectName } from '../../kube/resources.ts';
import { printCount, summarizeNames } from '../../kube/text.ts';
import { type Namespace, valueAt } from '../../kube/types.ts';
import { printNewlyClosed } from '../../kube/webhooks.ts';
import { type ExceptionSettings, findExceptionProblem } from '../../policy/psa/exceptions.ts';
import type { Discloses } from '../disclosure.ts';
import type { Evaluations } from '../evaluations.ts';
import type { PreviewRanges } from '../scc-review.ts';
import type { WebhookContext } from '../webhook.ts';
import type { ObjectReviewer } from '../webhooks/objects.ts';
import type { ExceptionDeps } from './exceptions.ts';
import { warnAboutSccs } from './scc-mode.ts';

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
        ...(await warnAboutSccs(request, { ...scope, settings: deps.settings().scc })),
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
