/** Finds the exceptions that a change of the settings ends. */
import type { PodSecurityException } from '../../kube/pod-security-exception.ts';
import { printCount, summarizeNames } from '../../kube/text.ts';
import { type ExceptionSettings, findExceptionProblem, type PreparedException } from './exceptions.ts';

interface EndedExceptions {
  readonly ended: readonly string[];
  /** Workloads whose running pods need the exceptions. */
  readonly workloads: readonly string[];
  readonly isComplete: boolean;
}

interface ExceptionsChange {
  readonly objects: readonly PodSecurityException[];
  read(object: PodSecurityException): PreparedException | undefined;
  readonly before: ExceptionSettings;
  readonly next: ExceptionSettings;
  readonly nowMs: number;
}

/** Finds the exceptions that apply only before the change. Each step ends with a `yield`. */
export function* findEndedExceptions(change: ExceptionsChange): Generator<void, EndedExceptions, boolean> {
  const { objects, read, before, next, nowMs } = change;
  const ended: string[] = [];
  const workloads = new Set<string>();
  for (const object of objects) {
    if (!(yield)) return { ended, workloads: [...workloads], isComplete: false };
    const exception = object.status?.approval && read(object);
    if (!exception || findExceptionProblem(exception, before, nowMs)) continue;
    if (!findExceptionProblem(exception, next, nowMs)) continue;
    ended.push(`${exception.namespace}/${exception.name}`);
    for (const workload of object.status?.workloads ?? []) {
      workloads.add(workload.replace('/', ` ${exception.namespace}/`));
    }
  }
  return { ended, workloads: [...workloads], isComplete: true };
}

/** Returns the warning about a change of the settings, or `undefined` if it ends no exception. */
export function endedExceptionsWarning(
  { ended, workloads, isComplete }: EndedExceptions,
  showsNames: boolean,
): string | undefined {
  if (ended.length === 0) return undefined;
  const print = (names: readonly string[], noun: string): string =>
    `${isComplete ? '' : 'at least '}${printCount(names.length, noun)}${showsNames ? `: ${summarizeNames(names)}` : ''}`;
  const denied = workloads.length === 0 ? '' : `. It denies new pods of ${print(workloads, 'workload')}`;
  return `the change of spec.podSecurity.exceptions ends ${print(ended, 'active exception')}${denied}`;
}
