import { compareBytes } from '../../../kube/order.ts';
import type { Namespace, Pod, PodLike } from '../../../kube/types.ts';
import { evaluatePod } from '../../pss/evaluate.ts';
import { remedyOf } from '../../pss/remedy.ts';
import type { Level, Version } from '../../pss/types.ts';
import type { Exemptions } from '../../psa/exemptions.ts';
import { classify } from './classify.ts';
import { ownerKey, ownerOf, type Exists, type Owner } from './owner.ts';
import { isUserCaused, type ProvenanceContext } from './provenance.ts';
import type { TemplatePod } from './template.ts';
import type { Cause, FixableViolation, NamespaceEvaluation, ViolatingWorkload } from './types.ts';

/** All that the evaluation of a namespace needs. */
export interface NamespaceInput extends ProvenanceContext {
  readonly namespace: Namespace;
  /** What it would be held to; absent if nobody can tell. */
  readonly level: Level | undefined;
  /** All of them; absent if they cannot be told. */
  readonly pods: readonly Pod[] | undefined;
  /** As admitted; made one after the other, for each takes some time. */
  readonly templates: Iterable<TemplatePod>;
  /** Hears that the template that was made last keeps the level. */
  readonly onKept?: () => void;
  readonly exemptions: Pick<Exemptions, 'runtimeClass'>;
  readonly exists: Exists;
  readonly emulationVersion?: Version;
}

/** Evaluates a namespace in one go. */
export function evaluateNamespace(input: NamespaceInput): NamespaceEvaluation {
  const steps = evaluateInSteps(input);
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
  }
}

/** Evaluates a namespace and pauses after each pod and each template, so that something else can go on meanwhile. */
export function* evaluateInSteps(input: NamespaceInput): Generator<undefined, NamespaceEvaluation> {
  const { namespace, level, pods } = input;
  const name = namespace.metadata?.name ?? '';
  if (level === undefined)
    return inconclusive(name, 'restricted', 'the managed fields of the namespace cannot be read');
  if (pods === undefined) return inconclusive(name, level, 'the pods of the namespace cannot be listed');
  const found = new Map<string, Found>();
  if (level !== 'privileged') {
    for (const pod of pods) {
      notePod(found, pod, input, level);
      yield;
    }
    for (const template of input.templates) {
      noteTemplate(found, template, input, level);
      yield;
    }
  }
  const workloads = [...found.values()].flatMap(workloadOf).sort(compareWorkloads);
  if (workloads.length === 0) return { name, level, verdict: 'clean', categories: [], workloads };
  return { name, level, verdict: 'violating', categories: classify(namespace, workloads), workloads };
}

/** What is known of one owner. */
interface Found {
  readonly owner: Owner;
  violatingPods: number;
  userPods: number;
  readonly causes: Set<Cause>;
  ofPods: readonly FixableViolation[];
  ofTemplate: readonly FixableViolation[];
}

function inconclusive(name: string, level: Level, error: string): NamespaceEvaluation {
  return { name, level, verdict: 'inconclusive', categories: [], workloads: [], error };
}

/** Pods that have ended are not started again. */
function notePod(found: Map<string, Found>, pod: Pod, input: NamespaceInput, level: Level): void {
  const phase = pod.status?.phase;
  if (phase === 'Succeeded' || phase === 'Failed') return;
  const violations = violationsOf(pod, '', input, level);
  const isOfUser = isUserCaused(pod, input);
  if (violations.length === 0 && !isOfUser) return;
  const entry = entryFor(found, ownerOf(pod, input.exists));
  if (isOfUser) entry.userPods++;
  if (violations.length === 0) return;
  entry.violatingPods++;
  entry.causes.add(isOfUser ? 'user' : 'serviceAccount');
  if (entry.ofPods.length === 0) entry.ofPods = violations;
}

function noteTemplate(found: Map<string, Found>, template: TemplatePod, input: NamespaceInput, level: Level): void {
  const violations = violationsOf(template.pod, `${template.path}.`, input, level);
  if (violations.length > 0) entryFor(found, template).ofTemplate = violations;
  else input.onKept?.();
}

function entryFor(found: Map<string, Found>, { kind, name }: Owner): Found {
  const key = ownerKey({ kind, name });
  const known = found.get(key);
  if (known) return known;
  const owner = { kind, name };
  const entry = { owner, violatingPods: 0, userPods: 0, causes: new Set<Cause>(), ofPods: [], ofTemplate: [] };
  found.set(key, entry);
  return entry;
}

/** Fields are looked for only where something is wrong. */
function violationsOf(pod: PodLike, prefix: string, input: NamespaceInput, level: Level): readonly FixableViolation[] {
  const { emulationVersion } = input;
  const options = {
    level,
    version: 'latest',
    ...(emulationVersion === undefined ? {} : { emulationVersion }),
  } as const;
  if (input.exemptions.runtimeClass(pod.spec?.runtimeClassName) || evaluatePod(pod, options).allowed) return [];
  return evaluatePod(pod, { ...options, fields: true }).violations.map(({ check, reason, detail, fields = [] }) => ({
    check,
    reason,
    detail,
    fields: fields.map(({ path }) => prefix + path),
    fix: remedyOf(check),
  }));
}

/** A template counts for users only where pods show that they have to let them in. */
function workloadOf({
  owner,
  ofTemplate,
  ofPods,
  violatingPods,
  userPods,
  causes,
}: Found): readonly ViolatingWorkload[] {
  const violations = ofTemplate.length > 0 ? ofTemplate : ofPods;
  if (violations.length === 0) return [];
  if (ofTemplate.length > 0) causes.add(userPods > 0 ? 'user' : 'serviceAccount');
  return [{ ...owner, pods: violatingPods, causes: [...causes].sort(), violations }];
}

function compareWorkloads(a: Owner, b: Owner): number {
  return compareBytes(a.kind, b.kind) || compareBytes(a.name, b.name);
}
