/**
 * Finds the exception that admits a pod at the enforced level of its namespace, or the reasons why no exception does.
 */
import { activeExceptions, readException } from '../../cluster/exceptions.ts';
import { effectivePodSecurity } from '../../cluster/rollout.ts';
import type { Store } from '../../cluster/store.ts';
import type { Settings } from '../../config/settings.ts';
import { quote } from '../../kube/text.ts';
import type { Namespace } from '../../kube/types.ts';
import { INSTALLATION } from '../../kube/well-known.ts';
import { decodePod } from '../../policy/pod/pod.ts';
import { findExceptionProblem } from '../../policy/psa/exceptions.ts';
import { printPolicy } from '../../policy/psa/policy.ts';
import { evaluateDecoded } from '../../policy/pss/evaluate.ts';
import { evaluateExcepted } from '../../policy/pss/exceptions.ts';
import { VERSION } from '../command.ts';

interface ExceptionContext {
  readonly store: Store;
  readonly settings: Pick<Settings, 'podSecurity' | 'rollout' | 'exceptions' | 'emulationVersion'>;
}

/** Returns `undefined` if exceptions are off or the pod satisfies the level. */
export function explainExceptions(
  pod: unknown,
  namespace: Namespace,
  { store, settings }: ExceptionContext,
): string | undefined {
  const decoded = decodePod(pod).pod;
  if (settings.exceptions.mode === 'off' || decoded === undefined) return undefined;
  const { name = '' } = namespace.metadata ?? {};
  const scope = { store, namespace: INSTALLATION.namespace, version: VERSION };
  const { enforce } = effectivePodSecurity(scope, settings).namespaceRules(namespace);
  const options = { ...enforce, emulationVersion: settings.emulationVersion ?? store.emulationVersion };
  const nowMs = Date.now();
  const plain = evaluateDecoded({ pod: decoded }, options);
  if (plain.allowed) return undefined;
  const active = activeExceptions(store, settings.exceptions, name, nowMs);
  const { evaluation, exceptions } = evaluateExcepted(decoded, options, active);
  const violation = `violates PodSecurity ${quote(printPolicy(enforce))}`;
  if (evaluation.allowed) return `${violation}: ${plain.reason}; allowed by ${exceptions.join(', ')}`;
  const account = decoded.serviceAccountName || 'default';
  const reasons = store.list('PodSecurityException', name).flatMap((object) => {
    const exception = readException(object);
    if (exception?.rule.serviceAccountName !== account) return [];
    const problem = findExceptionProblem(exception, settings.exceptions, nowMs);
    return [`${exception.name}: ${problem?.message ?? 'it does not cover these violations'}`];
  });
  const none = reasons.length === 0 ? `no exception for the service account ${account}` : reasons.join('; ');
  return `${violation}: ${evaluation.detail}; ${none}`;
}
