import { readException } from '../../cluster/exceptions.ts';
import type { Store } from '../../cluster/store.ts';
import { decodeSettings } from '../../config/portcullis-configuration.ts';
import { type AdmissionRequest, allow } from '../../kube/admission.ts';
import { deepEqual } from '../../kube/equality.ts';
import { getApiVersion } from '../../kube/resources.ts';
import { printCount, summarizeNames } from '../../kube/text.ts';
import { valueAt } from '../../kube/types.ts';
import type { WebhookRegistration } from '../../kube/webhooks.ts';
import { CONFIGURATION_NAME } from '../../kube/well-known.ts';
import { type ExceptionSettings, findExceptionProblem } from '../../policy/psa/exceptions.ts';
import type { Discloses } from '../disclosure.ts';
import type { Evaluations } from '../evaluations.ts';
import { rule, type Webhook } from '../webhook.ts';
import type { ExceptionDeps } from './exceptions.ts';

const KIND = 'PortcullisConfiguration';

export const EXCEPTION_SETTINGS: WebhookRegistration = {
  name: 'settings.exceptions.psa.portcullis.dev',
  path: '/exceptions/settings',
  configuration: { kind: 'ValidatingWebhookConfiguration', name: 'psa.portcullis.dev' },
  feature: 'exceptions',
  rules: [
    rule(['UPDATE'], 'config.portcullis.dev', ['portcullisconfigurations'], { version: 'v1alpha1', scope: 'Cluster' }),
  ],
  timeoutSeconds: 5,
  failure: 'open',
  isNamespaced: false,
};

interface SettingsDeps extends Pick<ExceptionDeps, 'settings' | 'date'> {
  readonly evaluate: Evaluations;
  readonly discloses: Discloses;
}

/** Creates the webhook that warns about exceptions that a change of `spec.podSecurity.exceptions` ends. */
export function createExceptionSettingsWebhook({ settings, date, evaluate, discloses }: SettingsDeps): Webhook {
  return {
    path: EXCEPTION_SETTINGS.path,
    enforces: () => false,
    readsWholeObjects: true,
    async decide(request, context) {
      const next = readChange(request);
      if (next === undefined) return allow();
      const { store } = context;
      const change = { before: settings(), next, nowMs: date().getTime() };
      const { ended, workloads, isComplete } = await evaluate(findEnded(store, change), context);
      if (ended.length === 0) return allow();
      const showsNames = discloses(request, store, KIND);
      const print = (names: readonly string[], noun: string): string =>
        `${isComplete ? '' : 'at least '}${printCount(names.length, noun)}${showsNames ? `: ${summarizeNames(names)}` : ''}`;
      const denied = workloads.length === 0 ? '' : `. It denies new pods of ${print(workloads, 'workload')}`;
      const text = `the change of spec.podSecurity.exceptions ends ${print(ended, 'active exception')}${denied}`;
      return allow({ warnings: [text] });
    },
  };
}

/** Returns the new settings if a request changes them. */
function readChange({ kind, object, oldObject, subResource }: AdmissionRequest): ExceptionSettings | undefined {
  const read = (one: unknown): unknown => valueAt(one, ['spec', 'podSecurity', 'exceptions']);
  if (kind.kind !== KIND || subResource || deepEqual(read(object), read(oldObject))) return undefined;
  const spec = { podSecurity: { exceptions: read(object) } };
  const document = { apiVersion: getApiVersion(KIND), kind: KIND, metadata: { name: CONFIGURATION_NAME }, spec };
  const decoded = decodeSettings(document, { controllers: [], namespace: '' });
  return 'settings' in decoded ? decoded.settings.exceptions : undefined;
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
