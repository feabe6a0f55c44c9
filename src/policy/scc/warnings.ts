import { POD_SCC_ANNOTATIONS } from '../../kube/scc.ts';
import { quote } from '../../kube/quote.ts';
import { isObject } from '../../kube/types.ts';
import { serviceAccountSubject } from './access.ts';
import { adviceOn, type Nearest } from './advice.ts';
import type { PodFields } from './decode/pod.ts';
import { namespaceRangesOf } from './namespace-ranges.ts';
import type { Obstacle } from './obstacles.ts';
import { orderSccs } from './order.ts';
import type { PreparedScc } from './prepare.ts';
import { fitsScc, type Chosen, type SearchInput, type SearchResult } from './search.ts';
import { clip, enumerate, fit, named } from './sentence.ts';
import { standardRoleOf } from './standard.ts';
import type { SccInput } from './types.ts';

/** What a person can do about a decision. */
type Warnings = readonly string[];

const MAX_VALUE = 40;
/** Advice tries SCCs that the decision need not try; of pods that nobody runs it would only cost time. */
const MAX_CONTAINERS = 1000;

/** Of a pod that no SCC admits: what comes nearest, what stands in its way, and what could be granted. */
export function refusalWarnings(input: SccInput, search: SearchInput, result: SearchResult): Warnings {
  if (search.pod.containers.length > MAX_CONTAINERS) return [];
  const { nearest, grantable, changing } = adviceOn(search, result);
  const isRequired = (search.pod.annotations[POD_SCC_ANNOTATIONS.requiredScc] ?? '') !== '';
  const isAnyUsable = result.passedOver.some(({ because }) => because !== 'denied');
  const first = changing
    ? changingText(input, changing)
    : nearest && nearestText(nearest, isAnyUsable ? 'may be used' : 'may not be used');
  const second = grantable ? grantText(grantable, search) : undefined;
  const none = nearest && !isRequired ? 'No SCC would admit the pod as it is.' : undefined;
  return [first, second ?? none].filter((text) => text !== undefined);
}

/** Of a pod that no SCC was tried on. */
export function unjudgedWarnings(input: SccInput, pod: PodFields): Warnings {
  const requiredScc = pod.annotations[POD_SCC_ANNOTATIONS.requiredScc] ?? '';
  const { sccs, byName } = orderSccs(input.sccs);
  if (requiredScc !== '' && !byName.has(requiredScc)) return [unknownText(requiredScc, sccs)];
  const { name, problem } = namespaceRangesOf(input.namespace);
  if (problem === undefined || !isObject(input.namespace)) return [];
  const remedy = 'try again in a few seconds; if that does not help, the controller that allocates them does not run.';
  return [fit(`Namespace ${named(name)} has not been given its ranges of ids yet: ${remedy}`)];
}

/**
 * Of a pod that is created with an SCC which only its creator may use: what becomes of such pods when they are created by
 * a controller, that is by their service account.
 */
export function admissionWarnings(search: SearchInput, { scc, subjectType }: Chosen): Warnings {
  if (subjectType !== 'user' || search.mutable !== 'everything' || search.pod.serviceAccountName === '') return [];
  const { serviceAccountName, containers } = search.pod;
  if (containers.length > MAX_CONTAINERS) return [];
  // Controllers meet what the account may really do, whatever identity is configured.
  const account = serviceAccountSubject(search.namespace.name, serviceAccountName, 'accurate');
  if (search.mayUse(account, scc)) return [];
  const rest = search.candidates.slice(search.candidates.indexOf(scc) + 1);
  const other = rest.find((one) => search.mayUse(account, one) && fitsScc(one, search));
  const fate = other ? `get SCC ${named(other.name)}` : 'fail';
  return [
    fit(
      `SCC ${named(scc.name)} admits the pod because its creator may use it; service account ${named(serviceAccountName)} may not: such pods ${fate} when a controller creates them.`,
    ),
  ];
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

/** Granted is to the service account, if there is one: that helps whoever creates the pod. */
function grantText({ name }: PreparedScc, { pod: { serviceAccountName }, subjects }: SearchInput): string {
  const grantee =
    serviceAccountName === ''
      ? `user ${named(subjects.user.username)}`
      : `service account ${named(serviceAccountName)}`;
  const role = standardRoleOf(name);
  const who =
    role === undefined
      ? `a cluster administrator can grant ${grantee} the verb use on it`
      : `a cluster administrator, or whoever may bind ClusterRole ${quote(role)}, can grant it to ${grantee}`;
  return fit(`SCC ${named(name)} would admit the pod: ${who}.`);
}

function unknownText(requiredScc: string, sccs: readonly PreparedScc[]): string {
  const head = `Annotation ${POD_SCC_ANNOTATIONS.requiredScc} asks for SCC ${named(requiredScc)}; there are only: `;
  return enumerate({ head, items: sccs.map(({ name }) => name).sort(), tail: '.' });
}

/** `spec.hostNetwork=true` */
export function printObstacle({ path, values }: Obstacle): string {
  return values.length === 0 ? `${path} (not set)` : `${path}=${values.map(printValue).join(',')}`;
}

const PLAIN = /^[\w./:+-]+$/;

function printValue(value: unknown): string {
  const text = clip(typeof value === 'string' ? value : JSON.stringify(value), MAX_VALUE);
  return typeof value !== 'string' || PLAIN.test(text) ? text : quote(text);
}
