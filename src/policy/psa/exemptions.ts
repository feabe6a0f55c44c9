import type { AdmissionRequest } from '../../kube/admission.ts';
import type { PodSecurityConfiguration } from './configuration.ts';

/** Why a request is exempt; also the value of the audit annotation `exempt`. */
export type Exemption = 'namespace' | 'user' | 'runtimeClass';

/** Tells whether a name is exempt: matches are exact, and an empty or absent name matches nothing. */
export type Exemptions = Readonly<Record<Exemption, (name: string | null | undefined) => boolean>>;

/** Makes the sets behind the lists of a configuration. */
export function createExemptions(lists: PodSecurityConfiguration['exemptions']): Exemptions {
  return {
    namespace: membership(lists.namespaces),
    user: membership(lists.usernames),
    runtimeClass: membership(lists.runtimeClasses),
  };
}

/** What exempts a request about a pod or workload before anything is looked up; groups do not count. */
export function exemptionOf(request: AdmissionRequest, exemptions: Exemptions): 'namespace' | 'user' | undefined {
  if (exemptions.namespace(request.namespace)) return 'namespace';
  return exemptions.user(request.userInfo?.username) ? 'user' : undefined;
}

function membership(names: readonly string[]): Exemptions[Exemption] {
  const exempt = new Set<string | null | undefined>(names);
  return (name) => name !== '' && exempt.has(name);
}
