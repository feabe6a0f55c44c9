import type { ManifestObject, Manifests } from '../../config/manifests.ts';
import { quote } from '../../kube/quote.ts';
import type { Kind } from '../../kube/types.ts';
import { isKnownKind } from '../../policy/psa/known-kinds.ts';
import type { NamespacePolicy } from '../../policy/psa/namespace-policy.ts';
import { printPolicy, type Mode } from '../../policy/psa/policy.ts';
import { labelFindings, podFindings, sccLabelFindings } from './findings.ts';
import { nameOf, namespaceOf } from './identity.ts';
import { groupOf, podPath } from './pod.ts';
import { indexPolicies, isNamespace, type PolicyIndex, type PolicySettings } from './policies.ts';
import { isScc, sccFindings } from './scc-findings.ts';
import type { FindUnknownFields } from './strict.ts';
import type { Finding, Judgement, Remark, Report } from './types.ts';

export interface CheckSettings extends PolicySettings {
  /** The namespace of objects that name none. */
  readonly namespace: string;
  readonly failOn: Mode;
  /** Finds unknown fields of pods, workloads and namespaces; absent: these do not matter. */
  readonly findUnknownFields?: FindUnknownFields;
}

/**
 * Judges objects with pods by the policies of their namespaces, namespaces by their labels, and SCCs by the rules for
 * SCCs.
 */
export function judge(manifests: Manifests, settings: CheckSettings): Report {
  const index = indexPolicies(manifests.objects, settings);
  const outcomes = manifests.objects.map((object) => judgeObject(object, index, settings));
  return {
    judgements: outcomes.filter((outcome) => outcome !== undefined && 'findings' in outcome),
    others: outcomes.filter((outcome) => outcome === undefined).length,
    unjudged: outcomes.filter((outcome) => outcome !== undefined && 'message' in outcome),
    warnings: manifests.documents.flatMap(repeatedKeys),
    errors: manifests.errors,
    failOn: settings.failOn,
  };
}

/** The verdict on an object, or why there is none; `undefined` for an object of which nothing is known. */
function judgeObject(
  object: ManifestObject,
  index: PolicyIndex,
  { namespace: defaultNamespace, findUnknownFields = () => [] }: CheckSettings,
): Judgement | Remark | undefined {
  if (isNamespace(object)) {
    const policies = index.ofLabels(object);
    const findings = [...labelFindings(object, policies), ...sccLabelFindings(object), ...findUnknownFields(object)];
    return judgement(object, { policies, findings });
  }
  const path = podPath(object.apiVersion, object.kind);
  if (path && isKnownKind(object.apiVersion, object.kind)) {
    const namespace = namespaceOf(object.value) ?? defaultNamespace;
    const policies = index.ofNamespace(namespace);
    const findings = [...podFindings(object, path, policies), ...findUnknownFields(object)];
    return judgement(object, { namespace, policies, findings });
  }
  return isScc(object) ? judgement(object, { findings: sccFindings(object) }) : mistakenType(object);
}

interface Outcome {
  readonly namespace?: string;
  readonly policies?: NamespacePolicy;
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
    ...(policies ? { policies: printPolicies(policies) } : {}),
    findings,
  };
}

function printPolicies({ enforce, audit, warn }: NamespacePolicy): Readonly<Record<Mode, string>> {
  return { enforce: printPolicy(enforce), audit: printPolicy(audit), warn: printPolicy(warn) };
}

/** The groups that have, or had, kinds that are judged. Others may have kinds of the same names. */
const OWN_GROUPS: ReadonlySet<string> = new Set(['', 'apps', 'batch', 'extensions', 'security.openshift.io']);

const JUDGED_KINDS = [
  'Namespace',
  'Pod',
  'PodTemplate',
  'ReplicationController',
  'ReplicaSet',
  'Deployment',
  'StatefulSet',
  'DaemonSet',
  'Job',
  'CronJob',
  'SecurityContextConstraints',
] as const satisfies readonly Kind[];
const BY_LOWER_CASE = new Map(JUDGED_KINDS.map((kind) => [kind.toLowerCase(), kind]));

/** Says of a kind that would be judged why it was not: no current API server knows it by that apiVersion, or so written. */
function mistakenType({ apiVersion, kind, document, positionOf }: ManifestObject): Remark | undefined {
  const meant = BY_LOWER_CASE.get(kind.toLowerCase());
  if (meant === undefined || !OWN_GROUPS.has(groupOf(apiVersion))) return undefined;
  const message = `not judged: no kind ${quote(kind)} is registered for version ${quote(apiVersion)}`;
  return { file: document.file, ...positionOf([meant === kind ? 'apiVersion' : 'kind']), message };
}

function repeatedKeys({ file, duplicateKeys }: Manifests['documents'][number]): Remark[] {
  return duplicateKeys.map(({ path, line, column }) => ({
    file,
    line,
    column,
    message: `key ${quote(String(path.at(-1)))} is repeated: the last one counts`,
  }));
}
