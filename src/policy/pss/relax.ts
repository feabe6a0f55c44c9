import type { Rule } from './types.ts';

/** The rule for all but pods that say that they run on Windows; node selectors do not count. */
export function unlessWindows(rule: Rule): Rule {
  return (pod) => (pod.osName === 'windows' ? undefined : rule(pod));
}

/** The rule for all but pods with a user namespace of their own. */
export function unlessUserNamespace(rule: Rule): Rule {
  return (pod) => (pod.hostUsers === false ? undefined : rule(pod));
}
