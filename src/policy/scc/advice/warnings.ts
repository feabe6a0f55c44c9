import { quote } from '../../../kube/text.ts';
import { NAMESPACE_RANGE_ANNOTATIONS, POD_SCC_ANNOTATIONS } from '../../../kube/scc.ts';
import { isObject, type Namespace } from '../../../kube/types.ts';
import { namespaceRangesOf } from '../namespace.ts';
import { type SearchResult, admits, fitsScc, type SearchInput } from '../search.ts';
import { adviceOn, type Advice, type Nearest, type Obstacle, type OwnScc } from './suggestion.ts';
import { resolveCompatibility } from '../mode.ts';
import type { PodFields } from '../decode/pod.ts';
import { orderSccs } from '../order.ts';
import type { PreparedScc } from '../scc.ts';
import { standardRoleOf } from '../standard.ts';
import type { SccInput } from '../request.ts';

// Sentences for warnings: short enough for API servers to pass them on whole, whatever names and values are in them.

/** @see https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/#response */
const MAX_LENGTH = 256;
const MAX_NAME = 63;
const MAX_VALUE = 40;

interface Enumeration {
  readonly head: string;
  readonly items: readonly string[];
  readonly tail: string;
}

/** As many items as there is room for, and how many there are besides; at least one. */
export function enumerate({ head, items, tail }: Enumeration): string {
  let text = '';
  for (const [index, item] of items.entries()) {
    const longer = index === 0 ? item : `${text}, ${item}`;
    const rest = items.length - index - 1;
    const isTooLong = head.length + longer.length + moreText(rest).length + tail.length > MAX_LENGTH;
    if (index > 0 && isTooLong) return fit(head + text + moreText(items.length - index) + tail);
    text = longer;
  }
  return fit(head + text + tail);
}

function moreText(count: number): string {
  return count === 0 ? '' : ` and ${count} more`;
}

/** A name in quotes. */
export function named(name: string): string {
  return quote(clip(name, MAX_NAME));
}

const PLAIN = /^[\w./:+-]+$/;

/** Values of fields, as short as they can be told: `NET_ADMIN,SYS_TIME`. */
export function printValues(values: readonly unknown[]): string {
  return values.map(printValue).join(',');
}

function printValue(value: unknown): string {
  const text = clip(typeof value === 'string' ? value : JSON.stringify(value), MAX_VALUE);
  return typeof value !== 'string' || PLAIN.test(text) ? text : quote(text);
}

/** A sentence that is not too long and has no control characters: API servers drop warnings that have some. */
export function fit(text: string): string {
  return clip(text, MAX_LENGTH).replaceAll(/\p{Cc}/gu, ' ');
}

/** The text, or as much of it as goes with three dots behind. */
function clip(text: string, length: number): string {
  return text.length <= length ? text : `${text.slice(0, length - 3).toWellFormed()}...`;
}

// What is wrong with the annotations of a namespace that pods are judged by.

const { uidRange, mcs, supplementalGroups } = NAMESPACE_RANGE_ANNOTATIONS;

/** Of a namespace that lacks annotations: which, and what to do. */
function missingRangeWarnings(namespace: Namespace): readonly string[] {
  const { name, problem } = namespaceRangesOf(namespace);
  if (problem === undefined || !isObject(namespace)) return [];
  const ids = valueOf(namespace, uidRange);
  if (ids === undefined) {
    const remedy =
      'try again in a few seconds; if that does not help, the controller that allocates it does not run, or has none left (event UIDRangeFull).';
    return [fit(`Namespace ${named(name)} has no annotation ${uidRange} yet: ${remedy}`)];
  }
  const remedy = `set it, or remove ${uidRange}=${printValues([ids])}, so that both are allocated.`;
  return [fit(`Namespace ${named(name)} has no annotation ${mcs}: ${remedy}`)];
}

/** By annotation: what is read from it, and the parts of an SCC that need it. */
const READINGS = [
  { key: uidRange, read: 'uidRange', needs: ['uidRange'] },
  { key: mcs, read: 'seLinuxLevel', needs: ['seLinuxLevel'] },
  { key: supplementalGroups, read: 'groupRanges', needs: ['fsGroup', 'supplementalGroups'] },
] as const;

/** Of a namespace whose annotations keep SCCs that may be used from working: before anything else, these are to be mended. */
function unusableRangeWarning(namespace: Namespace, { passedOver }: SearchResult): string | undefined {
  const ranges = namespaceRangesOf(namespace);
  for (const { key, read, needs } of READINGS) {
    const found = ranges[read];
    if (!('error' in found)) continue;
    const isInTheWay = passedOver.some(
      ({ scc, because }) => because === 'errors' && needs.some((need) => scc.needs[need]),
    );
    if (isInTheWay) return unusableText(ranges.name, key, valueOf(namespace, key) ?? '', found.error);
  }
  return undefined;
}

function unusableText(name: string, key: string, value: string, error: string): string {
  const why = value === '' ? 'is empty' : `cannot be read (${error})`;
  return fit(
    `Annotation ${key}=${printValues([value])} of namespace ${named(name)} ${why}: correct it, or remove it so that it is allocated.`,
  );
}

function valueOf(namespace: Namespace, key: string): string | undefined {
  const value: unknown = namespace.metadata?.annotations?.[key];
  return typeof value === 'string' ? value : undefined;
}

/** What a person can do about a decision. */
type Warnings = readonly string[];

/** Advice tries SCCs that the decision need not try; of pods that nobody runs it would only cost time. */
const MAX_CONTAINERS = 1000;

/** Of a pod that no SCC admits: what comes nearest, what stands in its way, and what could be granted. */
export function refusalWarnings(input: SccInput, search: SearchInput, result: SearchResult): Warnings {
  if (search.pod.containers.length > MAX_CONTAINERS) return [];
  const ofNamespace = unusableRangeWarning(input.namespace, result);
  if (ofNamespace !== undefined) return [ofNamespace];
  // What is granted for the sake of an update would be needless once the pod is created anew.
  const advised = input.operation === 'UPDATE' ? createdAnew(input, search) : search;
  const advice = adviceOn(advised, result);
  const { nearest, changing } = advice;
  const isRequired = (search.pod.annotations[POD_SCC_ANNOTATIONS.requiredScc] ?? '') !== '';
  const isAnyUsable = result.passedOver.some(({ because }) => because !== 'denied');
  const first = changing
    ? changingText(input, changing)
    : nearest && nearestText(nearest, isAnyUsable ? 'may be used' : 'may not be used');
  const second = changing ? undefined : admittingText(advice, { search, advised });
  const none = nearest && !isRequired ? 'No SCC would admit the pod as it is.' : undefined;
  return [first, second ?? none].filter((text) => text !== undefined);
}

/** Of a pod that no SCC was tried on. */
export function unjudgedWarnings(input: SccInput, pod: PodFields): Warnings {
  const { sccs, byName } = orderSccs(input.sccs);
  const missing = resolveCompatibility(input.compatibility).requiredSccs.find((name) => !byName.has(name));
  if (missing !== undefined) return [missingText(missing)];
  const requiredScc = pod.annotations[POD_SCC_ANNOTATIONS.requiredScc] ?? '';
  if (requiredScc !== '' && !byName.has(requiredScc)) return [unknownText(requiredScc, sccs)];
  return missingRangeWarnings(input.namespace);
}

function nearestText({ scc, obstacles }: Nearest, use: 'may be used' | 'may not be used'): string {
  const head =
    use === 'may be used'
      ? `SCC ${named(scc.name)} comes nearest; in its way: `
      : `No SCC may be used; of those that could be granted ${named(scc.name)} comes nearest; in its way: `;
  return enumerate({ head, items: obstacles.map(printObstacle), tail: '.' });
}

function changingText(
  { operation }: SccInput,
  { scc, paths }: { readonly scc: PreparedScc; readonly paths: readonly string[] },
): string {
  const tail =
    operation === 'UPDATE'
      ? ', which an update may not: create the pod anew.'
      : ': the pod was changed after its SCC had been assigned.';
  return enumerate({ head: `SCC ${named(scc.name)} would have to change `, items: paths, tail });
}

interface Searches {
  readonly search: SearchInput;
  /** The one that advice is about. */
  readonly advised: SearchInput;
}

/** The SCC that would admit the pod, and what is to be done for it. */
function admittingText({ grantable, ownScc }: Advice, { search, advised }: Searches): string | undefined {
  const isAnew = search !== advised;
  const usable = isAnew ? usableFor(advised) : undefined;
  if (usable) return fit(`SCC ${named(usable.name)} would admit the pod${ANEW}.`);
  if (!grantable) return undefined;
  const when = isAnew && !admits(grantable, search) ? ANEW : '';
  return ownScc ? ownSccText(grantable, ownScc, { search, when }) : grantText(grantable, { search, when });
}

const ANEW = ' if it were created anew';

/** Debug containers stay behind; where one is being added, it would be added again. */
function createdAnew({ subResource }: SccInput, search: SearchInput): SearchInput {
  const containers = search.pod.containers.filter(({ list }) => list !== 'ephemeralContainers');
  const pod = subResource === 'ephemeralcontainers' ? search.pod : { ...search.pod, containers };
  return { ...search, pod, mutable: 'everything' };
}

function usableFor(search: SearchInput): PreparedScc | undefined {
  return search.candidates.find((scc) => search.subjectTypeOf(scc) !== undefined && fitsScc(scc, search));
}

interface Grant {
  readonly search: SearchInput;
  readonly when: string;
}

function grantText({ name }: PreparedScc, { search, when }: Grant): string {
  const grantee = granteeOf(search);
  const role = standardRoleOf(name);
  const who =
    role === undefined
      ? `a cluster administrator can grant ${grantee} the verb use on it`
      : `a cluster administrator, or whoever may bind ClusterRole ${quote(role)}, can grant it to ${grantee}`;
  return fit(`SCC ${named(name)} would admit the pod${when}: ${who}.`);
}

function ownSccText({ name }: PreparedScc, { like, fields }: OwnScc, { search, when }: Grant): string {
  const advice = `rather have a cluster administrator write one like ${named(like.name)} with `;
  return enumerate({
    head: `SCC ${named(name)} would admit the pod${when}, but allows everything: ${advice}`,
    items: fields,
    tail: `, for ${granteeOf(search)}.`,
  });
}

/** Granted is to the service account, if there is one: that helps whoever creates the pod. */
function granteeOf({ pod: { serviceAccountName }, subjects }: SearchInput): string {
  return serviceAccountName === ''
    ? `user ${named(subjects.user.username)}`
    : `service account ${named(serviceAccountName)}`;
}

function missingText(name: string): string {
  return fit(
    `There is no SCC ${named(name)}, and without it no pod is admitted: create it, or take it out of --scc-required.`,
  );
}

function unknownText(requiredScc: string, sccs: readonly PreparedScc[]): string {
  const head = `Annotation ${POD_SCC_ANNOTATIONS.requiredScc} asks for SCC ${named(requiredScc)}; there are only: `;
  return enumerate({ head, items: sccs.map(({ name }) => name).sort(), tail: '.' });
}

/** `spec.hostNetwork=true` */
export function printObstacle({ path, values }: Obstacle): string {
  return values.length === 0 ? `${path} (not set)` : `${path}=${printValues(values)}`;
}
