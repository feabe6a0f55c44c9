/**
 * Fixes pods and pod templates in the text of manifests. This module does not depend on Node, so web pages can import
 * it.
 */
import { deepEqual } from '../kube/equality.ts';
import { formatFieldError } from '../kube/field-error.ts';
import { quote } from '../kube/text.ts';
import { isObject, type JsonObject, type PodLike, valueAt, withValueAt } from '../kube/types.ts';
import {
  capabilityName,
  decodePod,
  type FieldPath,
  findConflicts,
  findPodTemplates,
  lacksWindows,
  printFieldPath,
  type Repair,
} from '../policy/pod/index.ts';
import {
  checkFix,
  checkRepairs,
  evaluateExcepted,
  evaluatePod,
  type ExceptionIndex,
  type SelectOptions,
} from '../policy/pss/index.ts';
import { findFieldProblems, type WrongType } from './field-types.ts';
import { type ManifestObject, manifestObjects, readPod, readPods } from './objects.ts';
import { type FieldValue, rewrite, type Splice } from './rewrite.ts';
import { findUnrendered } from './unrendered.ts';
import { type ManifestError, parsePath, type Path, readDocuments } from './yaml.ts';

/** A violation, its fields, and the repairs that its rule offers. */
export interface RepairableViolation {
  readonly check: string;
  readonly reason: string;
  readonly detail: string;
  /** One sentence that describes how to fix the violation. */
  readonly fix: string;
  readonly repairs: readonly Repair[];
  /** Violating fields, with paths in the pod. */
  readonly fields: readonly {
    readonly path: string;
    readonly values: readonly unknown[];
    readonly isMissing: boolean;
  }[];
}

/** A pod or pod template in the manifests. */
export interface LocatedPod {
  readonly object: ManifestObject;
  /** Path of the pod in the object. */
  readonly path: FieldPath;
}

/** A change to one field. */
export interface FieldChange extends LocatedPod {
  readonly check: string;
  /** Path of the field in the object. */
  readonly field: Path;
  /** A verb phrase that omits the field, such as `set to false` or `removed`. */
  readonly change: string;
  /** A condition that the manifest does not show, so the user must verify it. */
  readonly note?: string;
  /** If true, the note names the container or pod that sets the field. */
  readonly explicit?: true;
}

/** A violation that cannot be fixed automatically. */
export interface Unfixed extends LocatedPod {
  readonly check: string;
  readonly detail: string;
  readonly field: Path;
  /** Possible changes, of which there is at least one. Each change is a verb phrase. */
  readonly choices: readonly string[];
}

export interface FixedText {
  /** The changed text. All text outside the changed fields is unchanged. */
  readonly text: string;
  /** The changes to whole lines, in order. They do not overlap. */
  readonly changedLines: readonly Splice[];
  readonly changes: readonly FieldChange[];
  readonly unfixed: readonly Unfixed[];
  /** Errors of unreadable documents, which remain unchanged. */
  readonly errors: readonly ManifestError[];
}

/** Returns the violations to fix in a pod after API server defaulting. */
export type FindViolations = (pod: PodLike, located: LocatedPod) => readonly RepairableViolation[];

/** Returns the policy violations that no exception allows, with the repairs that the checks offer. */
export function podSecurityViolations(
  pod: PodLike,
  policy: SelectOptions,
  exceptions?: ExceptionIndex,
): readonly RepairableViolation[] {
  const options = { ...policy, fields: true };
  const findViolated = (evaluated: PodLike) => {
    const decoded = exceptions && decodePod(evaluated).pod;
    return (decoded ? evaluateExcepted(decoded, options, exceptions).evaluation : evaluatePod(evaluated, options))
      .violations;
  };
  const violations = findViolated(pod);
  const windows = violations.length > 0 && lacksWindows(pod) ? findViolated(withWindows(pod)) : violations;
  const isLinuxOnly = (check: string): boolean => !windows.some((violation) => violation.check === check);
  return violations.map(({ check, reason, detail, fields = [] }) => ({
    check,
    reason,
    detail,
    ...(isLinuxOnly(check) ? WINDOWS : { fix: checkFix(check), repairs: checkRepairs(check) }),
    fields: fields.map(({ type, path, value }) => ({
      path,
      values: Array.isArray(value) ? (value as readonly unknown[]) : [value],
      isMissing: type === 'FieldValueRequired',
    })),
  }));
}

/** Fix for violations that do not apply to Windows pods, if the pod runs on Windows nodes. */
const WINDOWS = {
  fix: 'Set spec.os.name to windows, because the pod runs on Windows nodes, which ignore the Linux fields.',
  repairs: [{ path: 'spec.os.name', set: 'windows' }],
} as const;

function withWindows(pod: PodLike): PodLike {
  return withValueAt(pod, parsePath(WINDOWS.repairs[0].path), 'windows') as PodLike;
}

/** An object whose unknown fields have been moved to the locations where they belong. */
export interface Relocated {
  readonly object: ManifestObject;
  readonly changes: readonly FieldChange[];
  readonly unfixed: readonly Unfixed[];
}

interface FixOptions {
  /** Returns the possible changes for an object that this function cannot change. */
  readonly refuse?: (object: ManifestObject) => string | undefined;
  /** Returns true for an object that must remain unchanged. */
  readonly isSkipped?: (object: ManifestObject) => boolean;
  /** Changes an object before its pods are fixed. */
  readonly moveFields?: MoveFields;
}

const PROCESSED = 'change it in the template, because its parameters have been substituted';

/**
 * Fixes the violations in all pods and pod templates in a text, as far as their rules offer repairs. Objects that have
 * not been rendered remain unchanged. The text is YAML or JSON and can contain any number of documents and lists.
 * `file` is the name of the text in messages.
 *
 * @example fixText('apiVersion: v1\nkind: Pod\n…', '', (pod) => podSecurityViolations(pod, policy)).text
 */
export function fixText(
  text: string,
  file: string,
  findViolations: FindViolations,
  {
    refuse = () => undefined,
    isSkipped = () => false,
    moveFields = (object) => ({ object, changes: [], unfixed: [] }),
  }: FixOptions = {},
): FixedText {
  const { documents, errors } = readDocuments(text, file);
  const read = documents.map(manifestObjects);
  const fixes = read
    .flatMap(({ objects }) => objects)
    .filter((object) => !isSkipped(object) && findUnrendered(object).length === 0)
    .flatMap((object) => fixObject(object, findViolations, moveFields));
  const refused = new Map(
    fixes.flatMap((fix) => {
      const isProcessed = fix.object.template?.isProcessed ?? false;
      const choice = fix.changes.length === 0 ? undefined : isProcessed ? PROCESSED : refuse(fix.object);
      return choice === undefined ? [] : [[fix, choice] as const];
    }),
  );
  const changed = fixes.filter((fix) => fix.changes.length > 0 && !refused.has(fix));
  const { text: fixed, changedLines, refusals } = rewrite(text, changed);
  for (const [index, message] of refusals) if (changed[index]) refused.set(changed[index], message);
  return {
    text: fixed,
    changedLines,
    changes: fixes.flatMap((fix) => (refused.has(fix) ? [] : fix.changes)),
    unfixed: fixes.flatMap((fix) => [
      ...fix.changes.flatMap((change) => refusedChange(change, refused.get(fix))),
      ...fix.unfixed,
    ]),
    errors: [...errors, ...read.flatMap((file) => file.errors)],
  };
}

/** The new value of an object or of a pod in it, with the changes. */
interface Fix extends FieldValue, Relocated {}

type MoveFields = (object: ManifestObject) => Relocated;

/** Moves the unknown fields of an object and fixes its pods. If fields have been moved, both result in a single fix. */
function fixObject(
  original: ManifestObject,
  findPolicyViolations: FindViolations,
  moveFields: MoveFields,
): readonly Fix[] {
  const before = moveFields(original);
  const { object } = before;
  const { document, path: place } = object;
  const { wrong } = findFieldProblems(object);
  const findViolations: FindViolations = (pod, located) => {
    const undecodable = decodeViolations(wrong, located.path);
    const violations = findPolicyViolations(pod, located);
    return [...undecodable, ...violations.filter(({ check }) => undecodable.length === 0 || check !== 'decode')];
  };
  const pods = findPodTemplates(object.value).templates.map((path) => {
    return { path, ...fixPod({ object, path }, findViolations) };
  });
  const value = pods.reduce<unknown>(
    (result, { path, pod, changes }) => (changes.length === 0 ? result : withValueAt(result, path, pod)),
    object.value,
  );
  const fixed = { ...object, value: value as ManifestObject['value'] };
  // Moves the fields again, because the target of a field may have had a conflicting value before the pods were fixed.
  const after = before.unfixed.length > 0 ? moveFields(fixed) : { object: fixed, changes: [], unfixed: [] };
  const composed = composedViolations(object, findViolations);
  if (before.changes.length + after.changes.length === 0) {
    const rest = { object, document, path: place, value: object.value, changes: [] };
    return [
      { ...rest, unfixed: [...before.unfixed, ...composed] },
      ...pods.map(({ path, pod, ...fix }) => {
        const own = path.length === 0 ? withOwnFields(original, pod) : pod;
        return { ...fix, object, document, path: [...place, ...path], value: own };
      }),
    ];
  }
  return [
    {
      object,
      document,
      path: place,
      value: withOwnFields(original, after.object.value),
      changes: [...before.changes, ...pods.flatMap(({ changes }) => changes), ...after.changes],
      unfixed: [...after.unfixed, ...composed, ...pods.flatMap(({ unfixed }) => unfixed)],
    },
  ];
}

/** Returns violations for the values in a pod that API servers cannot decode. */
function decodeViolations(wrong: readonly WrongType[], template: FieldPath): readonly RepairableViolation[] {
  return wrong
    .filter(({ path }) => template.every((step, index) => path[index] === step))
    .map(({ path, error, fix }) => ({
      check: 'decode',
      reason: 'wrong type',
      detail: formatFieldError(error),
      fix,
      repairs: [],
      fields: [{ path: printFieldPath(path.slice(template.length)), values: [error.value], isMissing: false }],
    }));
}

/**
 * Returns the violations of pods whose fields are spread over the object. They are unfixed, because no rule can fix
 * them.
 */
function composedViolations(object: ManifestObject, findViolations: FindViolations): readonly Unfixed[] {
  const choices = [`change the ${object.kind}, whose controller creates the pod`];
  return readPods(object.value)
    .pods.filter(({ isComposed }) => isComposed)
    .flatMap(({ path, pod, sourcePath }) =>
      findViolations(pod, { object, path }).map(({ check, reason, detail, fields }) => {
        const field = sourcePath(parsePath(fields[0]?.path ?? ''));
        return { object, path, check, detail: detail || reason, field, choices };
      }),
    );
}

/**
 * Restores the fields that were set when the manifest was read. These are the type of an item of a list such as
 * PodList, the type of a Project, and the labels that a template adds to its objects.
 */
function withOwnFields({ document, path, template, value: read }: ManifestObject, value: unknown): unknown {
  const own = valueAt(document.value, path);
  const { apiVersion, kind, metadata } = isObject(own) ? own : {};
  const typed = withMembers(value, { apiVersion, kind });
  const [labels, before] = [value, read].map((object) => valueAt(object, ['metadata', 'labels']));
  // Only a move changes the labels, and no labels are moved to the labels of a template.
  if (!template || !deepEqual(labels, before)) return typed;
  const changed = withMembers(valueAt(value, ['metadata']), { labels: valueAt(metadata, ['labels']) });
  const isAbsent = !isObject(metadata) && Object.keys(changed).length === 0;
  return withMembers(typed, { metadata: isAbsent ? metadata : changed });
}

/** Sets members of an object. Removes members whose new value is `undefined`. */
function withMembers(value: unknown, members: JsonObject): JsonObject {
  const all = { ...(isObject(value) ? value : {}), ...members };
  return Object.fromEntries(Object.entries(all).filter(([, member]) => member !== undefined));
}

function refusedChange({ object, path, check, field, change }: FieldChange, message?: string): readonly Unfixed[] {
  return message === undefined ? [] : [{ object, path, check, field, detail: `not ${change}`, choices: [message] }];
}

/** The pod after the fixes. */
interface FixedPod {
  readonly pod: unknown;
  readonly changes: readonly FieldChange[];
  readonly unfixed: readonly Unfixed[];
}

/** Maximum number of passes. A fix may reveal a violation that another violation concealed. */
const MAX_PASSES = 10;

/**
 * Fixes a pod or pod template, as far as the checks offer fixes. If a change would make API servers reject the pod, the
 * violation is listed as unfixed instead.
 */
export function fixPod(located: LocatedPod, findViolations: FindViolations): FixedPod {
  const rejected = new Map<string, string>();
  for (;;) {
    const fixed = repairPod(located, findViolations, rejected);
    const changed = fixed.changes.map(({ field }) => printFieldPath(field.slice(located.path.length)));
    const before = rejected.size;
    for (const { fields, choice } of findConflicts(fixed.pod)) {
      const isPart = (field: string): boolean => fields.some((part) => field === part || field.startsWith(`${part}.`));
      for (const field of changed.filter(isPart)) rejected.set(field, choice);
    }
    if (rejected.size === before) return fixed;
  }
}

/**
 * Applies the repairs to a pod. `rejected` contains the possible changes for fields that cannot be changed
 * automatically.
 */
function repairPod(
  located: LocatedPod,
  findViolations: FindViolations,
  rejected: ReadonlyMap<string, string>,
): FixedPod {
  const { object, path } = located;
  let pod: unknown = valueAt(object.value, path);
  const changes: FieldChange[] = [];
  let unfixed: Unfixed[] = [];
  for (let pass = 0; pass < MAX_PASSES; pass++) {
    const complete = readPod(withValueAt(object.value, path, pod), path);
    const violations = findViolations(complete.pod, located);
    const before = pod;
    unfixed = [];
    for (const violation of violations) {
      const result = repairViolation(pod, violation, { ...located, rejected });
      pod = result.pod;
      changes.push(...result.changes);
      for (const violation of result.unfixed) unfixed.push(violation);
    }
    if (pod === before) break;
  }
  return { pod, changes, unfixed };
}

function repairViolation(
  pod: unknown,
  { check, reason, detail, fix, repairs, fields }: RepairableViolation,
  { object, path, rejected }: LocatedPod & { readonly rejected: ReadonlyMap<string, string> },
): FixedPod {
  const changes: FieldChange[] = [];
  const unfixed: Unfixed[] = [];
  let repaired = pod;
  const fail = (field: string, choices: readonly string[]): void =>
    void unfixed.unshift({
      object,
      path,
      check,
      detail: detail || reason,
      field: [...path, ...parsePath(field)],
      choices,
    });
  // Repairs fields in reverse order, because removing an item changes the indexes of later items.
  for (const { path: field, values, isMissing } of fields.toReversed()) {
    const repair = repairs.find(
      (repair) => (repair.missing ?? isMissing) === isMissing && (repair.field?.test(field) ?? true),
    );
    if (repair === undefined || 'choices' in repair) {
      fail(field, repair?.choices ?? [fix]);
      continue;
    }
    const target = parsePath(repair.path ?? repair.field?.exec(field)?.[1] ?? field);
    const was = valueAt(repaired, target);
    const result = applyRepair(was, repair, { values, parent: valueAt(repaired, target.slice(0, -1)) });
    if (result.value === was) continue;
    const choice = rejected.get(printFieldPath(target));
    if (choice !== undefined) {
      fail(field, [choice]);
      continue;
    }
    repaired = result.value === undefined ? removeField(repaired, target) : withValueAt(repaired, target, result.value);
    const { explicit } = repair;
    const note = result.lost.length === 0 ? undefined : repair.note?.replace('{values}', result.lost.join(', '));
    const change = { object, path, check, field: [...path, ...target], change: result.change };
    if (note === undefined) changes.unshift(change);
    else if (explicit) changes.unshift({ ...change, note: `${fieldOwner(pod, target)}: ${note}`, explicit });
    else changes.unshift({ ...change, note });
  }
  if (changes.length + unfixed.length === 0) fail(fields[0]?.path ?? '', [fix]);
  return { pod: repaired, changes, unfixed };
}

const CONTAINER_TYPES: Readonly<Record<string, string>> = {
  containers: 'container',
  initContainers: 'init container',
  ephemeralContainers: 'ephemeral container',
};

/** Returns the name of the container that contains a field, or `pod`. */
function fieldOwner(pod: unknown, field: Path): string {
  const type = CONTAINER_TYPES[String(field[1])];
  return type === undefined ? 'pod' : `${type} ${quote(String(valueAt(pod, [...field.slice(0, 3), 'name'])))}`;
}

/** Returns the new value of a field, or `undefined` to remove it. */
function applyRepair(
  was: unknown,
  repair: Exclude<Repair, { readonly choices: unknown }>,
  { values, parent }: { readonly values: readonly unknown[]; readonly parent: unknown },
): AppliedRepair {
  const list: readonly unknown[] = Array.isArray(was) ? was : [];
  const lost = (values.length === 0 ? [was] : values).map(formatLost);
  if ('set' in repair) return { value: repair.set, change: `set to ${repair.set}`, lost };
  if ('append' in repair) {
    const { append } = repair;
    const others = list.filter((item) => capabilityName(item) !== append);
    return { value: [...others, append], change: `set to include ${quote(append)}`, lost };
  }
  const { correct = () => undefined } = repair;
  if (repair.remove === 'field') {
    const corrected = correct(was, parent);
    if (corrected === undefined) return { value: undefined, change: 'removed', lost };
    return { value: corrected, change: `set with ${formatLost(corrected)} instead of ${formatLost(was)}`, lost: [] };
  }
  const removed = values.filter((value) => correct(value, list) === undefined);
  const rest = list
    .filter((item) => !removed.includes(item))
    .map((item) => (values.includes(item) ? correct(item, list) : item));
  if (deepEqual(rest, list)) return { value: was, change: '', lost };
  const names = removed.map(formatLost);
  const changes = [
    ...(names.length === 0 ? [] : [`without ${names.join(', ')}`]),
    ...values
      .filter((value) => !removed.includes(value))
      .map((value) => `with ${formatLost(correct(value, list))} instead of ${formatLost(value)}`),
  ];
  const distinct = [...new Set(rest)];
  return { value: distinct.length === 0 ? undefined : distinct, change: `set ${changes.join(' and ')}`, lost: names };
}

/** Result of a repair. `lost` contains the values that no longer apply. */
interface AppliedRepair {
  readonly value: unknown;
  readonly change: string;
  readonly lost: readonly string[];
}

/** Formats a removed value. A removed list item, such as a sysctl, is represented by its name. */
function formatLost(value: unknown): string {
  const shown = isObject(value) ? (value['name'] ?? value) : value;
  return typeof shown === 'string' ? quote(shown) : (JSON.stringify(shown) ?? '');
}

/** Fields for which an empty value is equivalent to an absent field. */
const PRUNED: ReadonlySet<unknown> = new Set([
  'add',
  'annotations',
  'capabilities',
  'metadata',
  'seLinuxOptions',
  'securityContext',
  'sysctls',
]);

/** Removes a field from a copy of the pod. Optional parents that become empty are removed as well. */
export function removeField(pod: unknown, path: Path): unknown {
  const parentPath = path.slice(0, -1);
  const step = path.at(-1);
  const parent = valueAt(pod, parentPath);
  if (Array.isArray(parent)) {
    const rest = parent.toSpliced(Number(step), 1) as readonly unknown[];
    return withPruned(pod, parentPath, rest);
  }
  if (!isObject(parent) || step === undefined || parent[step] === undefined) return pod;
  const rest = Object.fromEntries(Object.entries(parent).filter(([key]) => key !== step));
  return withPruned(pod, parentPath, rest);
}

function withPruned(pod: unknown, path: Path, rest: object): unknown {
  const isPruned = Object.keys(rest).length === 0 && PRUNED.has(path.at(-1));
  return isPruned ? removeField(pod, path) : withValueAt(pod, path, rest);
}
