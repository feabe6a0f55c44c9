import { printNewlyClosed } from '../../../api/webhooks.ts';
import type { Store } from '../../../cluster/store.ts';
import type { Settings } from '../../../config/settings.ts';
import { allow } from '../../../kube/admission.ts';
import { deepEqual } from '../../../kube/equality.ts';
import { objectName } from '../../../kube/resources.ts';
import { type Namespace, type Pod, valueAt } from '../../../kube/types.ts';
import { endedExceptionsWarning, findEndedExceptions } from '../../../policy/psa/index.ts';
import { enforcedModeWarning, findDeniedWorkloads } from '../../../policy/scc/index.ts';
import { sccAccess, getSccSet } from '../../../views/access.ts';
import { readException } from '../../../views/exceptions.ts';
import { findPodWorkload, isReplaced } from '../../../views/workloads.ts';
import type { Discloses } from '../../disclosure.ts';
import type { Evaluations } from '../../evaluations.ts';
import type { PreviewRanges } from '../../scc-review.ts';
import type { ObjectReviewer, WebhookContext } from '../../webhook.ts';
import type { ExceptionDeps } from './exceptions.ts';

const KIND = 'PortcullisConfiguration';

interface SettingsDeps extends Pick<ExceptionDeps, 'date'> {
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
 * Creates the reviewer that warns about exceptions that new settings end, namespaces that they make fail closed, and
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
      const warnings = next
        ? [
            await warnAboutExceptions(next, scope),
            await warnAboutOutages(next, scope),
            await warnAboutSccs(next, scope),
          ]
        : [];
      const shown = warnings.filter((warning) => warning !== undefined);
      return allow(shown.length === 0 ? {} : { warnings: shown });
    },
  };
}

interface Scope extends SettingsDeps {
  readonly store: Store;
  readonly context: WebhookContext;
  readonly showsNames: boolean;
}

type Warning = Promise<string | undefined>;

async function warnAboutExceptions({ exceptions: next }: Settings, scope: Scope): Warning {
  const { store, date, evaluate, context, showsNames } = scope;
  const before = scope.settings().exceptions;
  if (deepEqual(before, next)) return undefined;
  const kind = 'PodSecurityException';
  const change = { objects: store.list(kind), read: readException, before, next, nowMs: date().getTime() };
  const { isComplete, ...found } = await evaluate(findEndedExceptions(change), context);
  return endedExceptionsWarning({ ...found, isComplete: isComplete && store.synced(kind) }, showsNames);
}

async function warnAboutOutages(settings: Settings, scope: Scope): Warning {
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
  return names.length === 0 ? undefined : printNewlyClosed(names, { isComplete, showsNames });
}

/** Warns about workloads that would be denied after a change to `spec.scc.mode: enforce`. */
async function warnAboutSccs({ scc: next }: Settings, scope: Scope): Warning {
  const { previewRanges, evaluate, store, context, showsNames } = scope;
  const before = scope.settings().scc;
  if (next.mode !== 'enforce' || before.mode === 'enforce') return undefined;
  const change = {
    before,
    next,
    namespaces: store.list('Namespace'),
    sccs: getSccSet(store),
    access: sccAccess(store),
    previewRanges,
    listPods: (namespace: string) => store.list('Pod', namespace),
    findWorkload(pod: Pod) {
      const { kind, metadata } = findPodWorkload(pod, store);
      return isReplaced(pod, store) ? `${kind} ${metadata.namespace}/${metadata.name}` : undefined;
    },
  };
  const { denied, isComplete } = await evaluate(findDeniedWorkloads(change), context);
  return enforcedModeWarning({ denied, isComplete: isComplete && store.synced('Pod') }, showsNames);
}
