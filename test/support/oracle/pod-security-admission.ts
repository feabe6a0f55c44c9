/**
 * Pod Security Admission, with the decision and the violations of the audit and warn policies.
 * @see https://github.com/kubernetes/pod-security-admission/blob/v0.37.0/admission/admission.go
 */
import { at, isObject, type JsonObject, listAt, mapAt, memoize, textAt } from './json.ts';
import { matchesType, NAMESPACE_SCHEMA, POD_SECURITY_SCHEMA, TEMPLATES } from './object-schema.ts';
import { findReasons } from './pod-security-standards.ts';

interface Policy {
  readonly level: string;
  readonly version: string;
}

interface Policies {
  readonly enforce: Policy;
  readonly audit: Policy;
  readonly warn: Policy;
  /** The errors of invalid labels, in order. */
  readonly errors: readonly string[];
}

/** The labels of a stored namespace, or `undefined` if it does not exist. */
type NamespaceLabels = (name: string) => ReadonlyMap<string, string> | undefined;

export interface PodSecurityVerdict {
  readonly allowed: boolean;
  /** The status code of a denial. */
  readonly code?: number;
  /** The violations by mode. Absent for modes that are not evaluated. */
  readonly enforce?: readonly string[];
  readonly audit?: readonly string[];
  readonly warn?: readonly string[];
}

const ALLOWED: PodSecurityVerdict = { allowed: true };

/** Returns a pod template with the defaults that SCC admission sets in its pods in the request's namespace. */
type CompleteTemplate = (template: JsonObject, request: JsonObject) => JsonObject;

/** Evaluates a request with the default configuration. */
export function evaluatePodSecurity(
  request: JsonObject,
  namespaceLabels: NamespaceLabels,
  completeTemplate: CompleteTemplate = (template) => template,
): PodSecurityVerdict {
  const group = textAt(request, 'resource', 'group');
  const resource = textAt(request, 'resource', 'resource');
  // The subresource of the original request.
  const subresource = textAt(request, 'requestSubResource') || textAt(request, 'subResource');
  if (group === '' && resource === 'namespaces') {
    return subresource === '' ? judgeNamespace(request) : ALLOWED;
  }
  if (group === '' && resource === 'pods') return judgePod(request, subresource, namespaceLabels);
  return subresource === '' ? judgeWorkload(request, namespaceLabels, completeTemplate) : ALLOWED;
}

function judgePod(request: JsonObject, subresource: string, namespaceLabels: NamespaceLabels): PodSecurityVerdict {
  const ignored = ['exec', 'attach', 'binding', 'eviction', 'log', 'portforward', 'proxy', 'status'];
  if (ignored.includes(subresource)) return ALLOWED;
  const labels = namespaceLabels(textAt(request, 'namespace'));
  if (labels === undefined) return { allowed: false, code: 500 };
  const policies = resolvePolicies(labels);
  const levels = [policies.enforce.level, policies.audit.level, policies.warn.level];
  if (policies.errors.length === 0 && levels.every((level) => level === 'privileged')) return ALLOWED;
  if (!decodesAs(matchesPod, 'v1 Pod', request, 'object')) return { allowed: false, code: 400 };
  const isUpdate = request['operation'] === 'UPDATE';
  if (isUpdate && !decodesAs(matchesPod, 'v1 Pod', request, 'oldObject')) return { allowed: false, code: 400 };
  const pod = request['object'];
  if (isUpdate && !isSignificant(pod, request['oldObject'])) return ALLOWED;
  const against = ({ level, version }: Policy): readonly string[] => findReasons(pod, level, version);
  const enforce = against(policies.enforce);
  const audit = against(policies.audit);
  return enforce.length > 0
    ? { allowed: false, code: 403, enforce, audit }
    : { allowed: true, enforce, audit, warn: against(policies.warn) };
}

function judgeWorkload(
  request: JsonObject,
  namespaceLabels: NamespaceLabels,
  completeTemplate: CompleteTemplate,
): PodSecurityVerdict {
  const labels = namespaceLabels(textAt(request, 'namespace'));
  if (labels === undefined) return ALLOWED;
  const policies = resolvePolicies(labels);
  const isAdvised = policies.warn.level !== 'privileged' || policies.audit.level !== 'privileged';
  if (policies.errors.length === 0 && !isAdvised) return ALLOWED;
  const kind = getKind(request, 'object');
  const path = kind === 'v1 Pod' ? [] : TEMPLATES[kind];
  if (path === undefined || !isObject(request['object'])) return ALLOWED;
  const isController = kind === 'v1 ReplicationController';
  const template = at(request['object'], ...path);
  if (isController && template === undefined) return ALLOWED;
  if (!matchesType(template, POD_SECURITY_SCHEMA)) return ALLOWED;
  const pod = completeTemplate(isObject(template) ? template : {}, request);
  const against = ({ level, version }: Policy): readonly string[] => findReasons(pod, level, version);
  return { allowed: true, audit: against(policies.audit), warn: against(policies.warn) };
}

/** Denies invalid labels, and objects that cannot be decoded. */
function judgeNamespace(request: JsonObject): PodSecurityVerdict {
  const operation = request['operation'];
  if (operation !== 'CREATE' && operation !== 'UPDATE') return ALLOWED;
  if (!decodesAs(matchesNamespace, 'v1 Namespace', request, 'object')) return { allowed: false, code: 400 };
  const getErrors = (key: string): readonly string[] =>
    resolvePolicies(mapAt(request, key, 'metadata', 'labels')).errors;
  const errors = getErrors('object');
  if (operation === 'CREATE') return errors.length > 0 ? { allowed: false, code: 422 } : ALLOWED;
  if (!decodesAs(matchesNamespace, 'v1 Namespace', request, 'oldObject')) return { allowed: false, code: 400 };
  const isAsBefore = JSON.stringify(getErrors('oldObject')) === JSON.stringify(errors);
  return errors.length > 0 && !isAsBefore ? { allowed: false, code: 422 } : ALLOWED;
}

function isSignificant(pod: unknown, old: unknown): boolean {
  for (const list of ['containers', 'initContainers']) {
    const [now, before] = [listAt(pod, 'spec', list), listAt(old, 'spec', list)];
    if (now.length !== before.length) return true;
    if (now.some((container, index) => textAt(container, 'image') !== textAt(before[index], 'image'))) return true;
  }
  const before = listAt(old, 'spec', 'ephemeralContainers');
  return listAt(pod, 'spec', 'ephemeralContainers').some((container) => {
    const namesake = before.find((one) => textAt(one, 'name') === textAt(container, 'name'));
    return namesake === undefined || textAt(namesake, 'image') !== textAt(container, 'image');
  });
}

/** Returns the apiVersion and kind of the object, or else those of the request. */
function getKind(request: JsonObject, key: string): string {
  const group = textAt(request, 'kind', 'group');
  const version = textAt(request, 'kind', 'version');
  const apiVersion = textAt(request, key, 'apiVersion') || (group === '' ? version : `${group}/${version}`);
  return `${apiVersion} ${textAt(request, key, 'kind') || textAt(request, 'kind', 'kind')}`;
}

const matchesPod = memoize((object) => matchesType(object, POD_SECURITY_SCHEMA));
const matchesNamespace = memoize((object) => matchesType(object, NAMESPACE_SCHEMA));

function decodesAs(matches: typeof matchesPod, kind: string, request: JsonObject, key: string): boolean {
  const object = request[key];
  return getKind(request, key) === kind && isObject(object) && matches(object);
}

function resolvePolicies(labels: ReadonlyMap<string, string>): Policies {
  const errors: string[] = [];
  const getPolicy = (mode: string, levelOnError: string): Policy => {
    const level = labels.get(`pod-security.kubernetes.io/${mode}`);
    const version = labels.get(`pod-security.kubernetes.io/${mode}-version`);
    if (level !== undefined && !isLevel(level)) errors.push(`${mode}=${level}`);
    if (version !== undefined && !isVersion(version)) errors.push(`${mode}-version=${version}`);
    return {
      level: level === undefined ? 'privileged' : isLevel(level) ? level : levelOnError,
      version: version === undefined ? 'latest' : isVersion(version) ? version : 'latest',
    };
  };
  const enforce = getPolicy('enforce', 'restricted');
  const audit = getPolicy('audit', 'privileged');
  let warn = getPolicy('warn', 'privileged');
  // Step 4
  const enforceLabel = labels.get('pod-security.kubernetes.io/enforce');
  const isRaised =
    !labels.has('pod-security.kubernetes.io/warn') &&
    enforceLabel !== undefined &&
    isLevel(enforceLabel) &&
    strictness(enforce.level) > strictness(warn.level);
  if (isRaised) {
    const keepsVersion = labels.has('pod-security.kubernetes.io/warn-version');
    warn = { level: enforce.level, version: keepsVersion ? warn.version : enforce.version };
  }
  return { enforce, audit, warn, errors };
}

const LEVELS = ['privileged', 'baseline', 'restricted'];

function isLevel(text: string): boolean {
  return LEVELS.includes(text);
}

function strictness(level: string): number {
  return LEVELS.indexOf(level);
}

function isVersion(text: string): boolean {
  if (text === 'latest') return true;
  return /^v1\.(0|[1-9]\d*)$/.test(text) && BigInt(text.slice(3)) < 2n ** 63n;
}
