/** Evaluates the generated policies for SCCs on the input of a decision. */
import { POD_SCC_ANNOTATIONS, type SecurityContextConstraints } from '../../src/kube/scc.ts';
import { generateSccPolicies, type SccPolicySettings } from '../../src/policy/psa/scc-policies.ts';
import type { SccInput } from '../../src/policy/scc/index.ts';
import { podAnnotation } from '../../src/policy/scc/request.ts';
import { createPolicyAdmission } from './cel.ts';

type Input = Omit<SccInput, 'sccs'> & { readonly sccs: readonly SecurityContextConstraints[] };

/** Returns the function that evaluates both policies, and returns their denials. */
export function createSccPolicies({ scc, ...settings }: Partial<SccPolicySettings> = {}) {
  const defaults = { mode: 'enforce', exemptNamespaces: ['kube-system'], compatibility: {} } as const;
  const complete: SccPolicySettings = { scc: { ...defaults, ...scc }, fallbackLevel: 'restricted', ...settings };
  const admissions = new Map<string, ReturnType<typeof createPolicyAdmission>>();
  return ({ object, oldObject, operation, subResource = '', namespace, userInfo, sccs, canUse }: Input) => {
    const sccNames = sccs.map(({ metadata }) => metadata?.name ?? '');
    const key = sccNames.join(' ');
    const options = { sccNames, namespace: 'portcullis', kubernetesMinor: 37 };
    const admit = admissions.get(key) ?? createPolicyAdmission(generateSccPolicies(complete, options));
    admissions.set(key, admit);
    const { name = '', labels = {}, annotations = {} } = namespace.metadata ?? {};
    const named = podAnnotation(object, POD_SCC_ANNOTATIONS.scc);
    const { messages } = admit({
      object,
      oldObject,
      labels,
      annotations,
      request: { operation, subResource, namespace: name, userInfo },
      // Of the SCCs that pass by the condition of the policy, one is sufficient.
      params: sccs.filter(({ metadata }, index) => index === 0 || metadata?.name === named),
      mayUse: canUse,
    });
    return messages.Deny;
  };
}
