import type { ManifestObject, Manifests } from '../../config/manifests.ts';
import { quote } from '../../kube/quote.ts';
import { isKnownKind } from '../../policy/psa/known-kinds.ts';
import type { NamespacePolicy } from '../../policy/psa/namespace-policy.ts';
import { printPolicy, type Mode } from '../../policy/psa/policy.ts';
import { labelFindings, podFindings } from './findings.ts';
import { nameOf, namespaceOf } from './identity.ts';
import { groupOf, podPath } from './pod.ts';
import { indexPolicies, isNamespace, type PolicyIndex, type PolicySettings } from './policies.ts';
import type { Finding, Judgement, Remark, Report } from './types.ts';

export interface CheckSettings extends PolicySettings {
  /** The namespace of objects that name none. */
  readonly namespace: string;
  readonly failOn: Mode;
}

/** Judges objects with pods by the policies of their namespaces, and namespaces by their labels. */
export function judge(manifests: Manifests, settings: CheckSettings): Report {
  const index = indexPolicies(manifests.objects, settings);
  const outcomes = manifests.objects.map((object) => judgeObject(object, index, settings.namespace));
  return {
    judgements: outcomes.filter((outcome) => outcome !== undefined && 'findings' in outcome),
    others: outcomes.filter((outcome) => outcome === undefined).length,
    unjudged: outcomes.filter((outcome) => outcome !== undefined && 'message' in outcome),
    warnings: manifests.documents.flatMap(repeatedKeys),
    errors: manifests.errors,
    failOn: settings.failOn,
  };
}

/** The verdict on an object, or why there is none; `undefined` for an object without pods. */
function judgeObject(
  object: ManifestObject,
  index: PolicyIndex,
  defaultNamespace: string,
): Judgement | Remark | undefined {
  if (isNamespace(object)) {
    const policies = index.ofLabels(object);
    return judgement(object, { policies, findings: labelFindings(object, policies) });
  }
  const path = podPath(object.apiVersion, object.kind);
  if (path && isKnownKind(object.apiVersion, object.kind)) {
    const namespace = namespaceOf(object.value) ?? defaultNamespace;
    const policies = index.ofNamespace(namespace);
    return judgement(object, { namespace, policies, findings: podFindings(object, path, policies) });
  }
  return mistakenVersion(object);
}

interface Outcome {
  readonly namespace?: string;
  readonly policies: NamespacePolicy;
  readonly findings: readonly Finding[];
}

function judgement(object: ManifestObject, { namespace, policies, findings }: Outcome): Judgement {
  const { apiVersion, kind, line, column, value, document } = object;
  return {
    apiVersion,
    kind,
    ...(namespace === undefined ? {} : { namespace }),
    name: nameOf(value),
    file: document.file,
    line,
    column,
    policies: {
      enforce: printPolicy(policies.enforce),
      audit: printPolicy(policies.audit),
      warn: printPolicy(policies.warn),
    },
    findings,
  };
}

/** The groups of Kubernetes itself that have, or had, kinds with pods. Others may have kinds of the same names. */
const BUILT_IN_GROUPS: ReadonlySet<string> = new Set(['', 'apps', 'batch', 'extensions']);

/** Says of a kind with pods why it was not judged: with that apiVersion no current API server knows it. */
function mistakenVersion({ apiVersion, kind, document, positionOf }: ManifestObject): Remark | undefined {
  const isMeant = ['v1', 'apps/v1', 'batch/v1'].some((version) => podPath(version, kind) !== undefined);
  if (!isMeant || !BUILT_IN_GROUPS.has(groupOf(apiVersion))) return undefined;
  const message = `not judged: no kind ${quote(kind)} is registered for version ${quote(apiVersion)}`;
  return { file: document.file, ...positionOf(['apiVersion']), message };
}

function repeatedKeys({ file, duplicateKeys }: Manifests['documents'][number]): Remark[] {
  return duplicateKeys.map(({ path, line, column }) => ({
    file,
    line,
    column,
    message: `key ${quote(String(path.at(-1)))} is repeated: the last one counts`,
  }));
}
