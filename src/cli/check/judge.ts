import type { Path } from '../../config/yaml.ts';
import type { ManifestObject, Manifests } from '../../config/manifests.ts';
import { quote } from '../../kube/text.ts';
import {
  UNKNOWN_FIELD,
  type Finding,
  type OffendingField,
  type Judgement,
  type Remark,
  type Report,
} from '../output/findings.ts';
import { applyDefaults } from '../../kube/defaults.ts';
import { draft, isObject, type PodLike, type Kind } from '../../kube/types.ts';
import {
  decodeError,
  checkFix,
  evaluatePod,
  type Violation,
  type Level,
  type Version,
} from '../../policy/pss/index.ts';
import { invalidValue, formatFieldError, type FieldError, notSupported } from '../../kube/field-error.ts';
import { type NamespacePolicy, resolvePolicies, type Labels } from '../../policy/psa/namespace-policy.ts';
import { SCC_MODE_LABEL, SCC_MODES, sccModeOf } from '../../policy/scc/mode.ts';
import { printPolicy, type Mode, type Policies } from '../../policy/psa/policy.ts';
import { labelsOf, groupOf, nameOf, namespaceOf, podPath } from '../inventory/manifests.ts';
import { findMisshapen, type FieldShape } from '../../kube/field-shape.ts';
import { getApiVersion } from '../../kube/resources.ts';
import { SCC_FIELDS, USER_NAMESPACE_LEVELS, type SecurityContextConstraints } from '../../kube/scc.ts';
import { defaultScc, sccObjectErrors } from '../../policy/scc/objects.ts';
import { sccTypos, type SccTypo, sccDefect } from '../../policy/scc/advice/scc-warnings.ts';
import { isKnownKind } from '../../policy/psa/known-kinds.ts';

/** Takes a printed path such as `spec.containers[0].image` or `metadata.labels[a.b/c]` apart. */
export function parseFieldPath(path: string): Path {
  return [...path.matchAll(/\[([^\]]*)\]|([^.[\]]+)/g)].map(([, inBrackets, name]) => {
    if (inBrackets === undefined) return name ?? '';
    return /^\d+$/.test(inBrackets) ? Number(inBrackets) : inBrackets;
  });
}

/** Prints a path in that form. */
function printFieldPath(path: Path): string {
  return path
    .map((step) => (typeof step === 'number' ? `[${step}]` : /^[^.[\]]+$/.test(step) ? `.${step}` : `[${step}]`))
    .join('')
    .replace(/^\./, '');
}

/** A field that the API server does not know: it may refuse the object, or drop the field without a word. */
function unknownField(object: ManifestObject, path: Path, remedy?: string): Finding {
  return {
    mode: 'enforce',
    check: UNKNOWN_FIELD,
    reason: 'unknown field',
    detail: quote(printFieldPath(path)),
    remedy: remedy ?? 'Correct its name or remove it: API servers may drop it without a word.',
    fields: [{ path: printFieldPath(path), file: object.document.file, ...object.positionOf(path) }],
  };
}

/** What will be judged as a pod, and where it lies in its object. */
interface FoundPod {
  readonly pod: PodLike;
  readonly path: readonly string[];
}

/**
 * The pod that the object is or would have. Of a template that is absent it is an empty one; where something else than
 * an object stands on the way to it, that is what will be judged, and refused for its type.
 */
function podIn(object: unknown, path: readonly string[]): FoundPod {
  let value: unknown = object;
  for (const [depth, name] of path.entries()) {
    if (!isObject(value)) return { pod: value as PodLike, path: path.slice(0, depth) };
    value = value[name] ?? {};
  }
  return { pod: value as PodLike, path };
}

/** The pod as the API server completes it before it is judged. What cannot be decoded stays as it is. */
function completed(pod: PodLike): PodLike {
  if (decodeError(pod) !== undefined) return pod;
  const { metadata, spec } = draft(pod);
  const complete: Record<string, unknown> = { apiVersion: 'v1', kind: 'Pod', metadata, spec };
  applyDefaults(complete);
  return complete;
}

/** From the strongest. */
export const MODES_BY_STRENGTH: readonly Mode[] = ['enforce', 'warn', 'audit'];

const LABEL_FIXES: ReadonlyMap<string, string> = new Map([
  ['scc-label', `Use one of ${SCC_MODES.join(', ')}, in lower case.`],
  ['labels', 'Use a level (privileged, baseline, restricted) or a version (latest, v1.N), in lower case.'],
]);

/** What the pod of an object violates, each once: in the strongest mode in which it counts. */
function podFindings(object: ManifestObject, path: readonly string[], policies: NamespacePolicy): Finding[] {
  const { pod, path: podPath } = podIn(object.value, path);
  const judged = completed(pod);
  const findings = new Map<string, Finding>();
  for (const mode of MODES_BY_STRENGTH) {
    const policy = printPolicy(policies[mode]);
    for (const violation of evaluatePod(judged, { ...policies[mode], fields: true }).violations) {
      const key = JSON.stringify([violation.check, violation.detail]);
      if (!findings.has(key)) findings.set(key, { mode, policy, ...findingOf(object, podPath, violation) });
    }
  }
  return [...findings.values()];
}

/** What is wrong with the labels of a Namespace, for which the API server would refuse it. */
function labelFindings(object: ManifestObject, { errors }: NamespacePolicy): Finding[] {
  return errors.map((error) => {
    const violation = { check: 'labels', reason: 'invalid label', detail: formatFieldError(error), fields: [error] };
    return { mode: 'enforce', ...findingOf(object, [], violation) };
  });
}

/** What is wrong with the label of a Namespace that says its mode of SCCs. */
function sccLabelFindings(object: ManifestObject): Finding[] {
  const label = labelsOf(object.value)[SCC_MODE_LABEL];
  if (label == null) return [];
  const field = fieldOf(object, `metadata.labels[${SCC_MODE_LABEL}]`);
  const finding = {
    ...findingOf(object, [], { check: 'scc-label', reason: 'invalid label', detail: '' }),
    fields: [field],
  };
  // YAML has words such as off that are no texts unless they are quoted.
  if (typeof label !== 'string') {
    const detail = formatFieldError(invalidValue(field.path, label, 'must be a string: put it in quotes'));
    return [{ mode: 'enforce', ...finding, detail }];
  }
  const namespace = { metadata: { labels: { [SCC_MODE_LABEL]: label } } };
  // Nobody refuses it: it counts as the strictest.
  const { problem } = sccModeOf(namespace, { mode: 'report', exemptNamespaces: [] });
  return problem === undefined ? [] : [{ mode: 'warn', ...finding, detail: problem }];
}

function findingOf(object: ManifestObject, podPath: readonly string[], violation: Violation): Omit<Finding, 'mode'> {
  const { check, reason, detail, fields = [] } = violation;
  const paths = fields.length === 0 ? [''] : fields.map(({ path }: FieldError) => path);
  return {
    check,
    reason,
    detail,
    remedy: LABEL_FIXES.get(check) ?? checkFix(check),
    fields: paths.map((path) => fieldOf(object, [...podPath, path].filter((part) => part !== '').join('.'))),
  };
}

function fieldOf(object: ManifestObject, path: string): OffendingField {
  return { path, file: object.document.file, ...object.positionOf(parseFieldPath(path)) };
}

/** Finds the fields of an object of a built-in kind that the kind does not have. */
type FindUnknownFields = (object: ManifestObject) => readonly Finding[];

/** A field of a model of client-node. `type` is the name of a model, a scalar type, or a list or map of these. */
interface ModelField {
  readonly baseName: string;
  readonly type: string;
}

interface Model {
  getAttributeTypeMap(): readonly ModelField[];
}

type Models = Readonly<Record<string, unknown>>;

/** Creates the function from the models of client-node, which are loaded on the first call. */
export async function createUnknownFieldFinder(): Promise<FindUnknownFields> {
  const models: Models = await import('@kubernetes/client-node/dist/gen/models/all.js');
  return (object) => {
    const { apiVersion, kind, value } = object;
    const version = apiVersion.slice(apiVersion.indexOf('/') + 1);
    const isBuiltIn = /^(|[a-z]+|.*\.k8s\.io)$/.test(groupOf(apiVersion));
    const type = `${version.charAt(0).toUpperCase()}${version.slice(1)}${kind}`;
    if (!isBuiltIn) return [];
    return listUnknownFields(models, type, value, []).map((path) => unknownField(object, path));
  };
}

function listUnknownFields(models: Models, type: string, value: unknown, path: Path): Path[] {
  const items = /^Array<(.*)>$/.exec(type)?.[1];
  if (items !== undefined) {
    const list: readonly unknown[] = Array.isArray(value) ? value : [];
    return list.flatMap((item, index) => listUnknownFields(models, items, item, [...path, index]));
  }
  const fields = getFields(models, type);
  const values = /^\{ \[key: string\]: (.*); \}$/.exec(type)?.[1];
  if (!isObject(value) || (!fields && values === undefined)) return [];
  return Object.entries(value).flatMap(([name, member]) => {
    const fieldType = values ?? fields?.get(name);
    const fieldPath = [...path, name];
    return fieldType === undefined ? [fieldPath] : listUnknownFields(models, fieldType, member, fieldPath);
  });
}

function getFields(models: Models, type: string): ReadonlyMap<string, string> | undefined {
  const model = Object.hasOwn(models, type) ? (models[type] as Partial<Model>) : undefined;
  const fields = model?.getAttributeTypeMap?.();
  return fields && new Map(fields.map((field) => [field.baseName, field.type]));
}

/** What counts where the manifests do not say it. */
interface PolicySettings {
  /** What a namespace enforces whose labels do not say it. */
  readonly level: Level;
  /** Of every mode whose labels do not name one. */
  readonly version: Version;
  /** The labels of namespaces that are not among the manifests. */
  readonly namespaceLabels: Labels;
}

/** The policies of namespaces; a Namespace among the objects brings its own labels. */
interface PolicyIndex {
  ofNamespace(name: string): NamespacePolicy;
  /** Those of a Namespace itself. */
  ofLabels(namespace: ManifestObject): NamespacePolicy;
}

/** Of several Namespaces with one name the last counts, as if all were applied in order. */
function indexPolicies(
  objects: readonly ManifestObject[],
  { level, version, namespaceLabels }: PolicySettings,
): PolicyIndex {
  const unasked = { level: 'privileged', version } as const;
  const defaults: Policies = { enforce: { level, version }, audit: unasked, warn: unasked };
  const namespaces = objects.filter(isNamespace);
  const ofLabels = new Map(namespaces.map((object) => [object, resolvePolicies(labelsOf(object.value), defaults)]));
  const named = new Map(namespaces.map((object) => [nameOf(object.value), ofLabels.get(object)]));
  const others = resolvePolicies(namespaceLabels, defaults);
  return {
    ofNamespace: (name) => named.get(name) ?? others,
    ofLabels: (namespace) => ofLabels.get(namespace) ?? others,
  };
}

function isNamespace({ apiVersion, kind }: ManifestObject): boolean {
  return apiVersion === 'v1' && kind === 'Namespace';
}

const MAX_LENGTH = 64;

/** The candidate that was probably meant: the same in other letters, or with up to two slips. */
export function similarTo(name: string, candidates: readonly string[]): string | undefined {
  if (name.length > MAX_LENGTH) return undefined;
  const lower = name.toLowerCase();
  const limit = Math.min(2, Math.floor(name.length / 3));
  const distances = candidates.map((candidate) => ({ candidate, distance: slips(lower, candidate.toLowerCase()) }));
  const [nearest] = distances.filter(({ distance }) => distance <= limit).sort((a, b) => a.distance - b.distance);
  return nearest?.candidate;
}

/**
 * How many letters have to be put in, left out or replaced.
 * @see https://en.wikipedia.org/wiki/Levenshtein_distance
 */
function slips(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(replaced, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row.at(-1) ?? 0;
}

const SHAPE: FieldShape = { apiVersion: 'string', kind: 'string', metadata: 'any', ...SCC_FIELDS };

/** True for an object that API servers take for an SCC. */
function isScc({ apiVersion, kind }: ManifestObject): boolean {
  return kind === 'SecurityContextConstraints' && apiVersion === getApiVersion(kind);
}

/**
 * What is wrong with an SCC: fields that nobody knows and values of wrong types; if all can be read, what would be refused
 * once everything that is left open is filled in; and if nothing would, that no pod could use it.
 */
function sccFindings(object: ManifestObject): readonly Finding[] {
  const misshapen = findMisshapen(object.value, SHAPE);
  const unknown = misshapen.flatMap((one) => ('known' in one ? [unknownField(object, one.path, remedyOf(one))] : []));
  const wrong = misshapen.flatMap((one) => ('known' in one ? [] : [wrongType(object, one)]));
  return [...unknown, ...(wrong.length > 0 ? wrong : contentFindings(object))];
}

/** What was probably meant, if that can be told. */
function remedyOf({ path, known }: { readonly path: Path; readonly known: readonly string[] }): string | undefined {
  if (path.length === 1 && path[0] === 'spec') return 'SCCs have no spec: move its fields up to the top of the object.';
  const meant = similarTo(String(path.at(-1)), known);
  return meant === undefined ? undefined : `Write ${quote(meant)}.`;
}

interface WrongType {
  readonly path: Path;
  readonly value: unknown;
  readonly expected: string;
}

function wrongType(object: ManifestObject, { path, value, expected }: WrongType): Finding {
  return {
    mode: 'enforce',
    check: 'decode',
    reason: 'wrong type',
    detail: formatFieldError(invalidValue(printFieldPath(path), value, expected)),
    remedy: 'Give the field a value of the type that it must have.',
    fields: [fieldOfJudge(object, path)],
  };
}

function contentFindings(object: ManifestObject): readonly Finding[] {
  const scc = defaultScc(object.value);
  const errors = [...sccObjectErrors(scc), ...levelErrors(scc)];
  if (errors.length > 0) return errors.map((error) => invalidField(object, error));
  const defect = sccDefect(scc);
  const typos = sccTypos(object.value).map((typo) => mistyped(object, typo));
  return defect === undefined ? typos : [unusable(object, defect), ...typos];
}

/** The schema refuses other values. */
function levelErrors({ userNamespaceLevel: level }: SecurityContextConstraints): readonly FieldError[] {
  if (level == null || USER_NAMESPACE_LEVELS.includes(level)) return [];
  return [notSupported('userNamespaceLevel', level, USER_NAMESPACE_LEVELS)];
}

const LISTED_ONCE = 'Keep the capability in one of the two lists.';
const NAMED_ONCE =
  'Name a sysctl in one of the two lists, or several by a trailing *; a lone * takes no other beside it.';
const GROUPS = 'Use MustRunAs or RunAsAny, and ranges of groups of 0 or more whose min is not above their max.';

/** What to do about a field that is refused. */
const REMEDIES: ReadonlyMap<string, string> = new Map([
  ['metadata', 'Give it a name of lower-case letters, digits, hyphens and dots.'],
  ['priority', 'Use 0 or more, or leave it out.'],
  ['runAsUser', 'Use one of the types that are named, and a uid of 0 or more.'],
  ['seLinuxContext', 'Use one of the types that are named.'],
  ['fsGroup', GROUPS],
  ['supplementalGroups', GROUPS],
  ['defaultAddCapabilities', LISTED_ONCE],
  ['allowedCapabilities', LISTED_ONCE],
  ['requiredDropCapabilities', 'Empty it, or name the capabilities in allowedCapabilities instead of *.'],
  ['defaultAllowPrivilegeEscalation', 'Set it to false, or allowPrivilegeEscalation to true.'],
  ['volumes', 'Remove none, or all others; allowHostDirVolumePlugin: true adds hostPath.'],
  ['allowedFlexVolumes', 'Name each driver and add flexVolume to volumes, or remove the field.'],
  ['allowedUnsafeSysctls', NAMED_ONCE],
  ['forbiddenSysctls', NAMED_ONCE],
  ['userNamespaceLevel', 'Use one of the levels that are named, or leave it out.'],
]);

function invalidField(object: ManifestObject, error: FieldError): Finding {
  const path = parseFieldPath(error.path);
  return {
    mode: 'enforce',
    check: 'scc',
    reason: 'invalid field',
    detail: formatFieldError(error),
    remedy: REMEDIES.get(String(path[0])) ?? '',
    fields: [fieldOfJudge(object, path)],
  };
}

function unusable(object: ManifestObject, defect: string): Finding {
  return {
    mode: 'warn',
    check: 'unusable',
    reason: 'incomplete strategy',
    detail: defect,
    remedy: 'Give MustRunAs a uid, and MustRunAsRange both bounds in their order or none.',
    fields: [fieldOfJudge(object, ['runAsUser'])],
  };
}

const TYPO_REMEDIES: Partial<Record<SccTypo['field'], string>> = {
  volumes: 'Name a type of volume as pods name it.',
  seccompProfiles: 'Name a profile: runtime/default, unconfined, localhost/FILE, or * for all.',
  users: 'Name namespace and name of the service account.',
};

function mistyped(object: ManifestObject, { field, index, value, why, meant }: SccTypo): Finding {
  const path = [field, index];
  return {
    mode: 'warn',
    check: 'mistyped',
    reason: 'mistyped value',
    detail: `${printFieldPath(path)}: ${quote(value)} ${why}`,
    remedy:
      meant === undefined ? (TYPO_REMEDIES[field] ?? 'Name capabilities like NET_ADMIN.') : `Write ${quote(meant)}.`,
    fields: [fieldOfJudge(object, path)],
  };
}

function fieldOfJudge(object: ManifestObject, path: Path): Finding['fields'][number] {
  return { path: printFieldPath(path), file: object.document.file, ...object.positionOf(path) };
}

interface CheckSettings extends PolicySettings {
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
