/** Evaluates the generated policies for SCCs on the input of a decision. */
import { POD_SCC_ANNOTATIONS, type SecurityContextConstraints } from '../../src/kube/scc.ts';
import { generateSccPolicies, type SccPolicySettings } from '../../src/policy/psa/scc-policies.ts';
import type { SccInput } from '../../src/policy/scc/index.ts';
import { podAnnotation } from '../../src/policy/scc/request.ts';
import { createPolicyAdmission, type PolicyRequest } from './cel.ts';

type Input = Omit<SccInput, 'sccs'> & { readonly sccs: readonly SecurityContextConstraints[] };

/** Returns the function that evaluates both policies, and returns their denials. */
export function createSccPolicies({ scc, ...settings }: Partial<SccPolicySettings> = {}) {
  const defaults = { mode: 'enforce', exemptNamespaces: ['kube-system'], compatibility: {} } as const;
  const complete: SccPolicySettings = { scc: { ...defaults, ...scc }, fallbackLevel: 'restricted', ...settings };
  const admissions = new Map<string, ReturnType<typeof createPolicyAdmission>>();
  return (input: Input): readonly string[] => {
    const sccNames = input.sccs.map(({ metadata }) => metadata?.name ?? '');
    const key = sccNames.join(' ');
    const options = { sccNames, namespace: 'portcullis', kubernetesMinor: 37 };
    const admit = admissions.get(key) ?? createPolicyAdmission(generateSccPolicies(complete, options));
    admissions.set(key, admit);
    const named = podAnnotation(input.object, POD_SCC_ANNOTATIONS.scc);
    // Of the SCCs that pass by the condition of the policy, one is sufficient.
    const params = input.sccs.filter(({ metadata }, index) => index === 0 || metadata?.name === named);
    return admit({ ...policyRequest(input), params }).messages.Deny;
  };
}

/** The request of a decision. */
export function policyRequest({
  object,
  oldObject,
  operation,
  subResource = '',
  namespace,
  userInfo,
  canUse,
}: Omit<SccInput, 'sccs'>): PolicyRequest {
  const { name = '', labels = {}, annotations = {} } = namespace.metadata ?? {};
  const request = { operation, subResource, namespace: name, userInfo };
  return { object, oldObject, labels, annotations, request, mayUse: canUse };
}
