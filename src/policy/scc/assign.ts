import { printFieldError } from '../../kube/field-error.ts';
import { POD_SCC_ANNOTATIONS } from '../../kube/scc.ts';
import { failure } from '../../kube/status.ts';
import { isObject, type JsonObject } from '../../kube/types.ts';
import { admissionWarnings } from './admission-warnings.ts';
import { auditCreate, auditUnchanged } from './audit.ts';
import { resolveCompatibility } from './compatibility.ts';
import type { PodFields } from './decode/pod.ts';
import { isCheap } from './effort.ts';
import { hintTexts } from './hint.ts';
import { prepareSearch } from './prepare-search.ts';
import { readRequest } from './request.ts';
import { findNext, searchScc, type Chosen, type SearchInput, type SearchResult } from './search.ts';
import { isUnprocessed } from './skip.ts';
import { aggregate, distinctTexts, printList, textsOf, UNABLE } from './texts.ts';
import type { SccDecision, SccFacts, SccInput } from './types.ts';
import { refusalWarnings, unjudgedWarnings } from './warnings.ts';
import { writePod } from './write.ts';

type Annotations = Readonly<Record<string, string>>;

/**
 * The first pass: finds the first SCC that is usable and fits, and gives the pod what that SCC generates. On updates
 * nothing may change but ephemeral containers that are being added.
 * @see https://github.com/openshift/apiserver-library-go/blob/master/pkg/securitycontextconstraints/sccadmission/admission.go
 */
export function assignScc(input: SccInput): SccDecision {
  const read = readRequest(input);
  if (read.verdict === 'refuse') return refuse(read.message);
  if (read.verdict === 'ignore') return accept({ object: input.object });
  const { pod, oldPod } = read.request;
  const requiredScc = pod.annotations[POD_SCC_ANNOTATIONS.requiredScc] ?? '';
  if (oldPod && requiredScc !== requiredSccOf(oldPod)) {
    const key = POD_SCC_ANNOTATIONS.requiredScc;
    return refuse(`invalid change of required security context constraint annotation: ${key}`);
  }
  if (oldPod && mayPass(input, pod, oldPod)) return accept({ object: input.object });
  const search = prepareSearch(input, pod, { requiredScc, recordedScc: '', mutable: mutableIn(input) });
  if ('error' in search)
    return refuse(search.error, { warnings: advise(input, undefined, () => unjudgedWarnings(input, pod)) });
  const result = searchScc(search);
  if (result.excess) return refuse(`${UNABLE}: ${printFieldError(result.excess)}`);
  const audit = search.mutable === 'everything' ? auditWithNext(search, result) : auditUnchanged(result, '');
  const { chosen } = result;
  if (chosen === undefined) {
    const texts = [...distinctTexts(result.passedOver), ...hintTexts(search, result.passedOver)];
    return refuse(`${UNABLE}: ${aggregate(texts)}`, {
      auditAnnotations: audit,
      warnings: advise(input, search, () => refusalWarnings(input, search, result)),
    });
  }
  return accept({
    object: writePod(chosen.attempt, {
      [POD_SCC_ANNOTATIONS.scc]: chosen.scc.name,
      [POD_SCC_ANNOTATIONS.subjectType]: chosen.subjectType,
    }),
    auditAnnotations: audit,
    facts: factsOf(chosen),
    warnings: advise(input, search, () => admissionWarnings(search, chosen)),
  });
}

/** The second pass: the pod, as it is now, fits an SCC that is usable, without any change. */
export function validateScc(input: SccInput): SccDecision {
  const read = readRequest(input);
  if (read.verdict === 'refuse') return refuse(read.message);
  if (read.verdict === 'ignore') return accept({});
  const { pod, oldPod } = read.request;
  if (oldPod && mayPass(input, pod, oldPod)) return accept({});
  const requiredScc = pod.annotations[POD_SCC_ANNOTATIONS.requiredScc] ?? '';
  const recordedScc = pod.annotations[POD_SCC_ANNOTATIONS.scc] ?? '';
  if (requiredScc !== '' && requiredScc !== recordedScc) {
    return refuse(`required scc/${requiredScc} does not match the suggested scc/${recordedScc}`);
  }
  const search = prepareSearch(input, pod, { requiredScc, recordedScc, mutable: 'nothing' });
  if ('error' in search)
    return refuse(search.error, { warnings: advise(input, undefined, () => unjudgedWarnings(input, pod)) });
  const result = searchScc(search);
  if (result.excess) return refuse(`${UNABLE}: ${printFieldError(result.excess)}`);
  const audit = auditUnchanged(result, recordedScc);
  if (result.chosen) return accept({ auditAnnotations: audit, facts: factsOf(result.chosen) });
  const texts = [...result.passedOver.flatMap(textsOf), ...hintTexts(search, result.passedOver)];
  return refuse(`${UNABLE}: ${printList(texts)}`, {
    auditAnnotations: audit,
    warnings: advise(input, search, () => refusalWarnings(input, search, result)),
  });
}

/** What the first pass may change in the pod. */
export function mutableIn({ operation, subResource }: SccInput): SearchInput['mutable'] {
  if (operation === 'CREATE') return 'everything';
  return subResource === 'ephemeralcontainers' ? 'ephemeralContainers' : 'nothing';
}

/** True for a pod from before there were SCCs that is updated without a change of its spec. */
function mayPass({ compatibility }: SccInput, { json }: PodFields, oldPod: JsonObject): boolean {
  return resolveCompatibility(compatibility).unprocessedPods === 'pass' && isUnprocessed(json, oldPod);
}

/** The only SCC that a pod accepts; empty: any. */
function requiredSccOf(pod: JsonObject): string {
  const metadata = pod['metadata'];
  const annotations = isObject(metadata) ? metadata['annotations'] : undefined;
  const value = isObject(annotations) ? annotations[POD_SCC_ANNOTATIONS.requiredScc] : undefined;
  return typeof value === 'string' ? value : '';
}

function auditWithNext(search: SearchInput, result: SearchResult): Annotations {
  return auditCreate(result, result.chosen && findNext(search, result.chosen.scc));
}

function factsOf({ scc, subjectType }: Chosen): SccFacts {
  return { scc: scc.name, subjectType };
}

/** OpenShift says nothing beside its decisions. Nor is anything said that takes many times as long as the decision. */
function advise(
  { compatibility }: SccInput,
  search: SearchInput | undefined,
  warnings: () => readonly string[],
): readonly string[] {
  return compatibility === 'openshift' || (search && !isCheap(search)) ? [] : warnings();
}

type Given<Allowed extends boolean> = Partial<Omit<SccDecision & { readonly allowed: Allowed }, 'allowed' | 'status'>>;

function accept(given: Given<true>): SccDecision {
  return { allowed: true, warnings: [], auditAnnotations: {}, ...given };
}

function refuse(message: string, given: Given<false> = {}): SccDecision {
  const status = failure(403, 'Forbidden', message);
  return { allowed: false, status, warnings: [], auditAnnotations: {}, ...given };
}
