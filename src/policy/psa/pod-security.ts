import type { Namespace } from '../../kube/types.ts';
import { passedUnder } from './answers.ts';
import { completeDefaults, type PodSecurityConfiguration } from './configuration.ts';
import { createExemptions, type Exemptions } from './exemptions.ts';
import { resolvePolicies, type NamespacePolicy } from './namespace-policy.ts';
import type { Policies } from './policy.ts';
import type { PodSecurityReview } from './types.ts';

/** A namespace's policies, and the answer for a pod that satisfies them all. */
export interface NamespaceRules extends NamespacePolicy {
  readonly passed: PodSecurityReview;
}

/** The configuration in force, ready for decisions. */
export interface PodSecurity {
  /** What it was made of. */
  readonly configuration: PodSecurityConfiguration;
  readonly defaults: Policies;
  readonly exemptions: Exemptions;
  /** Resolved once per stored object: a store replaces a namespace that changes. */
  rulesOf(namespace: Namespace): NamespaceRules;
}

/** Makes a configuration ready for decisions; it must be a valid one. */
export function createPodSecurity(configuration: PodSecurityConfiguration): PodSecurity {
  const defaults = completeDefaults(configuration.defaults).policies;
  const known = new WeakMap<Namespace, NamespaceRules>();
  return {
    configuration,
    defaults,
    exemptions: createExemptions(configuration.exemptions),
    rulesOf(namespace) {
      let rules = known.get(namespace);
      if (!rules) {
        const policy = resolvePolicies(namespace.metadata?.labels, defaults);
        known.set(namespace, (rules = { ...policy, passed: passedUnder(policy) }));
      }
      return rules;
    },
  };
}
