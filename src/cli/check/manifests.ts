/** Checks manifests against the Pod Security Standards, without a cluster. */
import { dirname } from 'node:path';
import { isException, manifestExceptions } from '../../config/exceptions.ts';
import { findPodFieldProblems } from '../../config/field-types.ts';
import {
  type FindViolations,
  type LocatedPod,
  podSecurityViolations,
  type RepairableViolation,
} from '../../config/fix.ts';
import type { Manifests } from '../../config/manifests.ts';
import {
  apiGroup,
  errorAt,
  fieldNamespace,
  isKustomization,
  kustomizedObjects,
  manifestLabels,
  manifestName,
  manifestNamespace,
  type ManifestObject,
  type ObjectPod,
  readPods,
} from '../../config/objects.ts';
import { findUnrendered } from '../../config/unrendered.ts';
import { type ManifestDocument, type ManifestError, parsePath } from '../../config/yaml.ts';
import { defined } from '../../kube/defined.ts';
import { hasFinished } from '../../kube/pod.ts';
import { quote, shellQuote } from '../../kube/text.ts';
import type { PodLike } from '../../kube/types.ts';
import { decodePod, type FieldPath, printFieldPath } from '../../policy/pod/index.ts';
import {
  isKnownKind,
  type Labels,
  type Mode,
  type NamespacePolicy,
  printPolicy,
  resolvePolicies,
} from '../../policy/psa/index.ts';
import type { ExceptionIndex, Level, Version } from '../../policy/pss/index.ts';
import { POD_SOURCES } from '../../views/workloads.ts';
import { type CheckedObject, type ViolatedCheck, MODES_BY_STRENGTH, type CheckReport } from '../output/findings.ts';
import {
  exceptionFindings,
  exceptionWarnings,
  builtInFindings,
  fieldPosition,
  wrongType,
  labelFindings,
  sccModeFindings,
  unusedKeyFindings,
} from './fields.ts';
import { isScc, sccFindings } from './scc-objects.ts';

export interface CheckSettings {
  /** Enforced level for namespaces without the label. */
  readonly level: Level;
  /** Version for modes without a version label. */
  readonly version: Version;
  /** Labels for namespaces that the manifests do not contain. */
  readonly namespaceLabels: Labels;
  /** Namespace for manifests that do not set one. */
  readonly namespace: string;
  /** The weakest mode in which findings fail the check. */
  readonly failOn: CheckReport['failOn'];
  /** Kinds of other API groups to skip, as `KIND.GROUP`. */
  readonly skippedKinds: readonly string[];
  /** Time at which exceptions in the manifests are evaluated. They are assumed to be approved. */
  readonly at: Date;
  /** Reviews pods with SCC admission. If absent, SCC admission is not evaluated. */
  readonly reviewScc?: SccReviewer;
}

/** Evaluates SCC admission for a pod from the manifests in the given namespace. */
export type SccReviewer = (pod: PodLike, located: LocatedPod, namespace: string) => SccReview;

/** The pod as Pod Security admission receives it, and the denial if SCC admission denies the pod. */
interface SccReview {
  readonly pod: PodLike;
  readonly denial?: RepairableViolation & { readonly mode: Mode };
}

/**
 * Checks all manifests. Objects of kinds that are not checked are only counted. Objects that no API server accepts are
 * reported as errors.
 */
export function checkManifests(manifests: Manifests, settings: CheckSettings): CheckReport {
  const context = createContext(manifests, settings);
  const results = manifests.objects.map((object) => checkObject(object, context));
  return {
    objects: results.flat().filter((result) => 'findings' in result),
    otherKinds: results.filter((result) => result.length === 0).length,
    notEvaluated: results.flat().filter((result) => 'message' in result),
    warnings: [
      ...manifests.documents.flatMap(documentWarnings),
      ...findExceptionWarnings(manifests.objects, context),
      ...manifests.objects.flatMap(finishedWarning),
    ],
    errors: manifests.errors,
    failOn: settings.failOn,
  };
}

/** Returns warnings for text that kubectl ignores or that other tools read differently. */
function documentWarnings({ file, repetitions, ignored, notJson }: ManifestDocument): readonly ManifestError[] {
  const repeated = repetitions.map(({ path, isMerged = false, line, column }) => {
    const key = quote(String(path.at(-1)));
    const message = isMerged
      ? `the merge key replaces ${key}, because kubectl applies the keys of an object in order. In kustomize, the explicit key applies: put the merge key before ${key}`
      : `key ${key} is repeated, and the last value applies`;
    return { file, line, column, message };
  });
  const message = 'kubectl ignores the text from here to the next separator: put a line with --- before it';
  return [
    ...repeated,
    ...(ignored ? [{ file, ...ignored, message }] : []),
    ...(notJson ? [{ file, ...notJson, message: NOT_JSON }] : []),
  ];
}

const NOT_JSON =
  'kubectl before version 1.34 rejects this text, because it begins with a brace but is not JSON: correct the JSON, or put a line with --- before the brace';

/** Returns true for an object of a kind that `--skip-kind` lists. */
export function isSkipped({ apiVersion, kind }: ManifestObject, { skippedKinds }: CheckSettings): boolean {
  return skippedKinds.includes(`${kind}.${apiGroup(apiVersion)}`);
}

/** Returns a function that finds the violations that fail the check. `--fix` uses it to fix the same manifests. */
export function createFailureFinder(manifests: Manifests, settings: CheckSettings): FindViolations {
  const context = createContext(manifests, settings);
  const failing = MODES_BY_STRENGTH.slice(0, MODES_BY_STRENGTH.indexOf(settings.failOn) + 1);
  return (pod, located) => {
    const namespace = fieldNamespace(located.object.value, located.path) ?? settings.namespace;
    const violations = findViolations(pod, located, { namespace, context });
    return violations.filter(({ mode }) => failing.includes(mode));
  };
}

function createContext(manifests: Manifests, settings: CheckSettings): CheckContext {
  // If several Namespace objects have the same name, the last object applies, as if all manifests were applied in order.
  const namespaces = new Map(manifests.objects.filter(isNamespace).map(({ value }) => [manifestName(value), value]));
  const getNamespaceLabels = (name: string): Labels => {
    const namespace = namespaces.get(name);
    return namespace ? manifestLabels(namespace) : settings.namespaceLabels;
  };
  const { namespace, at } = settings;
  const getExceptions = manifestExceptions(manifests.objects, { namespace, nowMs: at.getTime() });
  return { ...settings, getNamespaceLabels, getExceptions, isKustomized: kustomizedObjects(manifests.objects) };
}

function isNamespace({ apiVersion, kind }: ManifestObject): boolean {
  return apiVersion === 'v1' && kind === 'Namespace';
}

interface CheckContext extends CheckSettings {
  /** Returns the exceptions in the namespace that have not expired. */
  getExceptions(namespace: string): ExceptionIndex | undefined;
  /** Returns the labels of a namespace, which come from the manifests or the options. */
  getNamespaceLabels(name: string): Labels;
  /** Returns true if a kustomization may add required fields to the object. */
  isKustomized(object: ManifestObject): boolean;
}

/**
 * Returns the findings for each pod template of an object, and for Namespaces and SCCs. Objects that no API server
 * accepts, and containers and security fields outside a known pod template, result in errors. Returns nothing for other
 * kinds.
 */
function checkObject(object: ManifestObject, context: CheckContext): readonly (CheckedObject | ManifestError)[] {
  const { apiVersion, kind, value } = object;
  const isOmitted = isSkipped(object, context);
  const unrendered = isOmitted ? [] : findUnrendered(object);
  if (unrendered.length > 0) return unrendered;
  const isKustomized = context.isKustomized(object);
  const fields = builtInFindings(object).filter(({ check }) => check !== 'invalid' || !isKustomized);
  if (isNamespace(object)) {
    const policies = resolvePolicyLabels(manifestLabels(value), context);
    if (!isAccepted(fields)) return [checkedObject(object, fields, { policies })];
    const labels = [...labelFindings(object, policies), ...sccModeFindings(object), ...unusedKeyFindings(object)];
    return [checkedObject(object, [...labels, ...fields], { policies })];
  }
  if (isScc(object)) return [checkedObject(object, sccFindings(object))];
  if (isException(object)) {
    const findings = exceptionFindings(object);
    const namespace = manifestNamespace(value) ?? context.namespace;
    return findings.length === 0 ? [] : [checkedObject(object, findings, { namespace })];
  }
  const isBuiltIn = isKnownKind(apiVersion, kind);
  const error = isBuiltIn ? undefined : unknownVersion(object);
  if (error) return [error];
  if (isOmitted) return [];
  if (isKustomization(object)) return [unbuilt(object)];
  const { pods, ...outside } = readPods(value);
  if (pods.length === 0 && fields.length > 0) {
    const namespace = manifestNamespace(value);
    return [checkedObject(object, fields, namespace === undefined ? {} : { namespace })];
  }
  return [
    ...pods.map((pod) => checkPod(object, pod, { context, isBuiltIn, fields })),
    ...outside.unknown.map((path) => outsideTemplates(object, path, 'contains containers')),
    ...outside.fields.map((path) => outsideTemplates(object, path, 'is a security field')),
  ];
}

interface TemplateContext {
  readonly context: CheckContext;
  readonly isBuiltIn: boolean;
  /** Findings about the fields of a built-in object. */
  readonly fields: readonly ViolatedCheck[];
}

function checkPod(
  object: ManifestObject,
  objectPod: ObjectPod,
  { context, isBuiltIn, fields }: TemplateContext,
): CheckedObject {
  const { path, pod, sourcePath } = objectPod;
  const fieldFindings = isBuiltIn
    ? fields
    : findPodFieldProblems(objectPod).map((problem) => wrongType(object, problem));
  const namespace = fieldNamespace(object.value, path) ?? context.namespace;
  const policies = resolvePolicyLabels(context.getNamespaceLabels(namespace), context);
  const scope = { namespace, policies, ...(isBuiltIn ? {} : { path }) };
  // API servers do not evaluate policies on objects that they reject because of invalid fields.
  if (!isAccepted(fieldFindings)) return checkedObject(object, fieldFindings, scope);
  const findings = findViolations(pod, { object, path }, { namespace, context }).map((violation): ViolatedCheck => {
    const { mode, policy, check, reason, detail, fix } = violation;
    const paths = violation.fields.length === 0 ? [''] : violation.fields.map((field) => field.path);
    const positions = paths.map((field) => fieldPosition(object, sourcePath(parsePath(field))));
    return { mode, ...defined({ policy }), check, reason, detail, fix, fields: positions };
  });
  const unused = [
    ...(isBuiltIn ? unusedKeyFindings(object) : []),
    ...(path.length > 0 ? unusedKeyFindings(object, path) : []),
  ];
  return checkedObject(object, [...findings, ...unused, ...fieldFindings], scope);
}

function isAccepted(findings: readonly ViolatedCheck[]): boolean {
  return findings.every(({ check }) => check !== 'decode' && check !== 'invalid');
}

function outsideTemplates(object: ManifestObject, path: FieldPath, problem: string): ManifestError {
  const name = `${object.kind}.${apiGroup(object.apiVersion)}`;
  const message = `not evaluated: ${printFieldPath(path)} ${problem} outside the known pod templates of ${name}; to skip this kind, set --skip-kind=${name}`;
  return errorAt(object, path, message);
}

function unbuilt({ apiVersion, kind, document: { file }, line, column }: ManifestObject): ManifestError {
  const folder = shellQuote(dirname(file));
  const check =
    kind === 'Component'
      ? 'a component changes the manifests of the kustomizations that list it. Check the result of each kustomization with: kubectl kustomize DIR'
      : `a kustomization changes the manifests that it lists. Check its result with: kubectl kustomize ${folder}`;
  const message = `not evaluated, because ${check} | portcullis check -f -. To skip this kind, set --skip-kind=${kind}.${apiGroup(apiVersion)}`;
  return { file, line, column, message };
}

function resolvePolicyLabels(labels: Labels, { level, version }: CheckSettings): NamespacePolicy {
  const privileged = { level: 'privileged', version } as const;
  return resolvePolicies(labels, { enforce: { level, version }, audit: privileged, warn: privileged });
}

interface CheckedScope {
  readonly namespace?: string;
  readonly policies?: NamespacePolicy;
  /** Path of the pod template in a custom resource. */
  readonly path?: FieldPath;
}

function checkedObject(
  { apiVersion, kind, value, document, locate }: ManifestObject,
  findings: readonly ViolatedCheck[],
  { namespace, policies, path }: CheckedScope = {},
): CheckedObject {
  const print = ({ enforce, audit, warn }: NamespacePolicy) => {
    return { enforce: printPolicy(enforce), audit: printPolicy(audit), warn: printPolicy(warn) };
  };
  return {
    apiVersion,
    kind,
    ...defined({ namespace }),
    name: manifestName(value),
    ...(path ? { template: printFieldPath(path) } : {}),
    file: document.file,
    ...locate(path ?? []),
    ...(policies ? { policies: print(policies) } : {}),
    findings,
  };
}

/** Current and former API groups of checked kinds. Kinds with the same names in other groups are unrelated. */
const CHECKED_GROUPS: ReadonlySet<string> = new Set(['', 'apps', 'batch', 'extensions', 'security.openshift.io']);
const CHECKED_KINDS: readonly string[] = ['Namespace', 'PodTemplate', ...POD_SOURCES, 'SecurityContextConstraints'];

/** Returns an error for a checked kind with an unknown apiVersion or wrong capitalization. */
function unknownVersion(object: ManifestObject): ManifestError | undefined {
  const { apiVersion, kind } = object;
  const correctKind = CHECKED_KINDS.find((checked) => checked.toLowerCase() === kind.toLowerCase());
  if (correctKind === undefined || !CHECKED_GROUPS.has(apiGroup(apiVersion))) return undefined;
  const hint = correctKind === kind ? '' : `: write ${quote(correctKind)}`;
  const message = `not evaluated: no kind ${quote(kind)} is registered for version ${quote(apiVersion)}${hint}`;
  return errorAt(object, [correctKind === kind ? 'apiVersion' : 'kind'], message);
}

/** A violation, with the strongest mode in which it occurs and the policy of that mode. SCC denials have no policy. */
interface CountedViolation extends RepairableViolation {
  readonly mode: Mode;
  readonly policy?: string;
}

/**
 * Returns the distinct violations of a pod. If SCC admission is enforced and admits the pod, its defaults are set
 * before the evaluation.
 */
function findViolations(
  pod: PodLike,
  located: LocatedPod,
  { namespace, context }: { readonly namespace: string; readonly context: CheckContext },
): readonly CountedViolation[] {
  const review: SccReview = context.reviewScc?.(pod, located, namespace) ?? { pod };
  // A denied pod is not evaluated further, because the SCC that admits it would first set its defaults.
  if (review.denial?.mode === 'enforce') return [review.denial];
  const policies = resolvePolicyLabels(context.getNamespaceLabels(namespace), context);
  const found = new Map<string, CountedViolation>();
  for (const mode of MODES_BY_STRENGTH) {
    const policy = printPolicy(policies[mode]);
    const exceptions = mode === 'enforce' ? context.getExceptions(namespace) : undefined;
    for (const violation of podSecurityViolations(review.pod, policies[mode], exceptions)) {
      const key = JSON.stringify([violation.check, violation.detail]);
      if (!found.has(key)) found.set(key, { ...violation, mode, policy });
    }
  }
  return [...(review.denial ? [review.denial] : []), ...found.values()];
}

/**
 * Returns a warning for a finished Job or pod, whose status is ignored. Otherwise, a status in a manifest would hide
 * violations, although API servers ignore it when they create the object.
 */
function finishedWarning(object: ManifestObject): readonly ManifestError[] {
  const { apiVersion, kind, value } = object;
  if (!isKnownKind(apiVersion, kind) || !hasFinished({ kind, status: value['status'] })) return [];
  const message = `${kind} ${quote(manifestName(value))} has finished, but the status is ignored because API servers ignore it when an object is created`;
  return [errorAt(object, [], message)];
}

/** Returns the warnings for exceptions. Pods are listed only if there are exceptions. */
function findExceptionWarnings(objects: readonly ManifestObject[], context: CheckContext): readonly ManifestError[] {
  const exceptions = objects.filter(isException);
  if (exceptions.length === 0) return [];
  const accountKey = (namespace: string, account: string): string => JSON.stringify([namespace, account]);
  const pods = Map.groupBy(
    objects.flatMap((object) => listDecodedPods(object, context)),
    ({ namespace, pod }) => accountKey(namespace, pod.serviceAccountName || 'default'),
  );
  const getPods = (namespace: string, account: string) => ({
    pods: (pods.get(accountKey(namespace, account)) ?? []).map(({ pod }) => pod),
    policy: resolvePolicyLabels(context.getNamespaceLabels(namespace), context).enforce,
  });
  return exceptions.flatMap((object) => exceptionWarnings(object, { ...context, getPods }));
}

function listDecodedPods(object: ManifestObject, context: CheckContext) {
  return readPods(object.value).pods.flatMap(({ path, pod }) => {
    const namespace = fieldNamespace(object.value, path) ?? context.namespace;
    const decoded = decodePod(context.reviewScc?.(pod, { object, path }, namespace).pod ?? pod).pod;
    return decoded ? [{ namespace, pod: decoded }] : [];
  });
}
