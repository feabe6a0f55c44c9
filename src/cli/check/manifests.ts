/** Checks manifests against the Pod Security Standards, without a cluster. */
import type { ManifestObject, Manifests } from '../../config/manifests.ts';
import type { ManifestError, Path } from '../../config/yaml.ts';
import { applyDefaults } from '../../kube/defaults.ts';
import { formatFieldError, invalidValue } from '../../kube/field-error.ts';
import { quote } from '../../kube/text.ts';
import { draft, isObject, type Kind, type PodLike } from '../../kube/types.ts';
import { isKnownKind } from '../../policy/psa/decode.ts';
import { resolvePolicies, type Labels, type NamespacePolicy } from '../../policy/psa/policy.ts';
import { printPolicy, type Policies } from '../../policy/psa/policy.ts';
import { checkFix, decodeError, evaluatePod, type Level, type Version } from '../../policy/pss/index.ts';
import { SCC_MODE_LABEL, SCC_MODES, sccMode } from '../../policy/scc/mode.ts';
import { apiGroup, manifestLabels, manifestName, manifestNamespace, podPath } from '../inventory/manifests.ts';
import { MODES_BY_STRENGTH, type CheckedObject, type Finding, type Report } from '../output/findings.ts';
import { fieldPosition, parseFieldPath, unknownField } from './fields.ts';
import { isScc, sccFindings } from './scc.ts';

interface CheckSettings {
  /** The enforced level of namespaces without the label. */
  readonly level: Level;
  /** The version of every mode without the label. */
  readonly version: Version;
  /** The labels of namespaces that are not among the manifests. */
  readonly namespaceLabels: Labels;
  /** The namespace of objects without one. */
  readonly namespace: string;
  /** The weakest mode whose findings fail the check. */
  readonly failOn: Report['failOn'];
  /** Absent: unknown fields are not reported. */
  readonly findUnknownFields?: (object: ManifestObject) => readonly Finding[];
}

/** Checks all manifests. Other kinds are counted; objects that no API server accepts are errors. */
export function checkManifests(manifests: Manifests, settings: CheckSettings): Report {
  const policies = createPolicyIndex(manifests.objects, settings);
  const results = manifests.objects.map((object) => checkObject(object, policies, settings));
  return {
    objects: results.filter((result) => result !== undefined && 'findings' in result),
    otherKinds: results.filter((result) => result === undefined).length,
    notEvaluated: results.filter((result) => result !== undefined && 'message' in result),
    warnings: manifests.documents.flatMap(({ file, duplicateKeys }) =>
      duplicateKeys.map(({ path, line, column }) => {
        const message = `key ${quote(String(path.at(-1)))} is repeated: the last value counts`;
        return { file, line, column, message };
      }),
    ),
    errors: manifests.errors,
    failOn: settings.failOn,
  };
}

interface PolicyIndex {
  /** The policies of the namespace of that name. */
  ofName(name: string): NamespacePolicy;
  /** The policies of a Namespace object. */
  ofObject(namespace: ManifestObject): NamespacePolicy;
}

/** If several Namespace objects have the same name, the last one counts, as if all were applied in order. */
function createPolicyIndex(
  objects: readonly ManifestObject[],
  { level, version, namespaceLabels }: CheckSettings,
): PolicyIndex {
  const privileged = { level: 'privileged', version } as const;
  const defaults: Policies = { enforce: { level, version }, audit: privileged, warn: privileged };
  const namespaces = objects.filter(isNamespace);
  const byObject = new Map(
    namespaces.map((object) => [object, resolvePolicies(manifestLabels(object.value), defaults)]),
  );
  const byName = new Map(namespaces.map((object) => [manifestName(object.value), byObject.get(object)]));
  const others = resolvePolicies(namespaceLabels, defaults);
  return {
    ofName: (name) => byName.get(name) ?? others,
    ofObject: (namespace) => byObject.get(namespace) ?? others,
  };
}

function isNamespace({ apiVersion, kind }: ManifestObject): boolean {
  return apiVersion === 'v1' && kind === 'Namespace';
}

/** Returns the findings of an object, an error for an object that no API server accepts, or `undefined` for other kinds. */
function checkObject(
  object: ManifestObject,
  policyIndex: PolicyIndex,
  { namespace: defaultNamespace, findUnknownFields = () => [] }: CheckSettings,
): CheckedObject | ManifestError | undefined {
  if (isNamespace(object)) {
    const policies = policyIndex.ofObject(object);
    const findings = [...labelFindings(object, policies), ...sccModeFindings(object), ...findUnknownFields(object)];
    return checkedObject(object, { policies, findings });
  }
  const path = podPath(object.apiVersion, object.kind);
  if (path && isKnownKind(object.apiVersion, object.kind)) {
    const namespace = manifestNamespace(object.value) ?? defaultNamespace;
    const policies = policyIndex.ofName(namespace);
    const findings = [...podFindings(object, path, policies), ...findUnknownFields(object)];
    return checkedObject(object, { namespace, policies, findings });
  }
  return isScc(object) ? checkedObject(object, { findings: sccFindings(object) }) : unknownVersion(object);
}

interface Result {
  readonly namespace?: string;
  readonly policies?: NamespacePolicy;
  readonly findings: readonly Finding[];
}

function checkedObject(object: ManifestObject, { namespace, policies, findings }: Result): CheckedObject {
  const { apiVersion, kind, line, column, value, document } = object;
  return {
    apiVersion,
    kind,
    ...(namespace === undefined ? {} : { namespace }),
    name: manifestName(value),
    file: document.file,
    line,
    column,
    ...(policies ? { policies: printPolicies(policies) } : {}),
    findings,
  };
}

function printPolicies({ enforce, audit, warn }: NamespacePolicy): CheckedObject['policies'] & {} {
  return { enforce: printPolicy(enforce), audit: printPolicy(audit), warn: printPolicy(warn) };
}

/** API groups that have or had checked kinds. Kinds of the same names in other groups are unrelated. */
const CHECKED_GROUPS: ReadonlySet<string> = new Set(['', 'apps', 'batch', 'extensions', 'security.openshift.io']);

const CHECKED_KINDS = [
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
const BY_LOWER_CASE = new Map(CHECKED_KINDS.map((kind) => [kind.toLowerCase(), kind]));

/** Returns an error for a checked kind with an unknown apiVersion or in wrong letter case. */
function unknownVersion({ apiVersion, kind, document, positionOf }: ManifestObject): ManifestError | undefined {
  const correctKind = BY_LOWER_CASE.get(kind.toLowerCase());
  if (correctKind === undefined || !CHECKED_GROUPS.has(apiGroup(apiVersion))) return undefined;
  const message = `not evaluated: no kind ${quote(kind)} is registered for version ${quote(apiVersion)}`;
  return { file: document.file, ...positionOf([correctKind === kind ? 'apiVersion' : 'kind']), message };
}

/** Returns each violation of the pod or pod template once, in the strongest mode in which it counts. */
function podFindings(object: ManifestObject, path: readonly string[], policies: NamespacePolicy): Finding[] {
  const template = findPod(object.value, path);
  const pod = withDefaults(template.pod);
  const findings = new Map<string, Finding>();
  for (const mode of MODES_BY_STRENGTH) {
    const policy = printPolicy(policies[mode]);
    for (const { check, reason, detail, fields } of evaluatePod(pod, { ...policies[mode], fields: true }).violations) {
      const key = JSON.stringify([check, detail]);
      if (findings.has(key)) continue;
      const paths = fields === undefined || fields.length === 0 ? [''] : fields.map((field) => field.path);
      const positions = paths.map((field) => fieldPosition(object, [...template.path, ...parseFieldPath(field)]));
      findings.set(key, { mode, policy, check, reason, detail, fix: checkFix(check), fields: positions });
    }
  }
  return [...findings.values()];
}

/**
 * Returns the pod or pod template of an object with its path. A missing template is an empty pod. A value that is no object
 * on the way to the template is returned itself, and fails to decode.
 */
function findPod(object: unknown, path: readonly string[]): { readonly pod: PodLike; readonly path: Path } {
  let value: unknown = object;
  for (const [depth, name] of path.entries()) {
    if (!isObject(value)) return { pod: value as PodLike, path: path.slice(0, depth) };
    value = value[name] ?? {};
  }
  return { pod: value as PodLike, path };
}

/** Returns the pod with the defaults of the API server. A pod that cannot be decoded is returned unchanged. */
function withDefaults(pod: PodLike): PodLike {
  if (decodeError(pod) !== undefined) return pod;
  const { metadata, spec } = draft(pod);
  const complete: Record<string, unknown> = { apiVersion: 'v1', kind: 'Pod', metadata, spec };
  applyDefaults(complete);
  return complete;
}

/** Returns the invalid Pod Security labels of a Namespace, which the API server rejects. */
function labelFindings(object: ManifestObject, { errors }: NamespacePolicy): Finding[] {
  return errors.map((error) => ({
    mode: 'enforce',
    check: 'labels',
    reason: 'invalid label',
    detail: formatFieldError(error),
    fix: 'Use a level (privileged, baseline, restricted) or a version (latest, v1.N), in lower case.',
    fields: [fieldPosition(object, parseFieldPath(error.path))],
  }));
}

/** Returns a finding for an invalid SCC mode of a Namespace. The API server accepts any string; a wrong one counts as enforce. */
function sccModeFindings(object: ManifestObject): Finding[] {
  const label = manifestLabels(object.value)[SCC_MODE_LABEL];
  if (label == null) return [];
  const field = fieldPosition(object, ['metadata', 'labels', SCC_MODE_LABEL]);
  const finding = {
    check: 'scc-label',
    reason: 'invalid label',
    fix: `Use one of ${SCC_MODES.join(', ')}, in lower case.`,
    fields: [field],
  };
  // YAML 1.1 reads unquoted words such as off as booleans.
  if (typeof label !== 'string') {
    const detail = formatFieldError(invalidValue(field.path, label, 'must be a string: put it in quotes'));
    return [{ mode: 'enforce', ...finding, detail }];
  }
  const namespace = { metadata: { labels: { [SCC_MODE_LABEL]: label } } };
  const { problem } = sccMode(namespace, { mode: 'report', exemptNamespaces: [] });
  return problem === undefined ? [] : [{ mode: 'warn', ...finding, detail: problem }];
}

type Models = Readonly<Record<string, unknown>>;

/** A model of client-node. The type of a field is the name of a model, a scalar type, or a list or map of these. */
interface Model {
  getAttributeTypeMap(): readonly { readonly baseName: string; readonly type: string }[];
}

/** Creates a function that finds unknown fields of built-in kinds by the models of client-node, which are loaded here. */
export async function createUnknownFieldFinder(): Promise<(object: ManifestObject) => readonly Finding[]> {
  const models: Models = await import('@kubernetes/client-node/dist/gen/models/all.js');
  return (object) => {
    const { apiVersion, kind, value } = object;
    if (!/^(|[a-z]+|.*\.k8s\.io)$/.test(apiGroup(apiVersion))) return [];
    const version = apiVersion.slice(apiVersion.indexOf('/') + 1);
    const type = `${version.charAt(0).toUpperCase()}${version.slice(1)}${kind}`;
    return listUnknownFields(models, type, value, []).map((path) => unknownField(object, path));
  };
}

function listUnknownFields(models: Models, type: string, value: unknown, path: Path): Path[] {
  const items = /^Array<(.*)>$/.exec(type)?.[1];
  if (items !== undefined) {
    const list: readonly unknown[] = Array.isArray(value) ? value : [];
    return list.flatMap((item, index) => listUnknownFields(models, items, item, [...path, index]));
  }
  const model = Object.hasOwn(models, type) ? (models[type] as Partial<Model>) : undefined;
  const fields = model?.getAttributeTypeMap?.();
  const values = /^\{ \[key: string\]: (.*); \}$/.exec(type)?.[1];
  if (!isObject(value) || (!fields && values === undefined)) return [];
  const types = new Map(fields?.map((field) => [field.baseName, field.type]));
  return Object.entries(value).flatMap(([name, member]) => {
    const fieldType = values ?? types.get(name);
    return fieldType === undefined ? [[...path, name]] : listUnknownFields(models, fieldType, member, [...path, name]);
  });
}
