import { sortedSet, quote } from '../../kube/text.ts';
import { matchesUrl, readRules, type Rule } from './rules.ts';

/**
 * What rules grant that others do not, as the API server tells it to those who would give away more than they have: each
 * line a rule, sorted; empty if nothing is missing.
 * @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/registry/rbac/validation/rule.go
 */
export function missingRights(held: unknown, wanted: unknown): readonly string[] {
  const owned = readRules(held);
  const missing: Rule[] = [];
  let steps = 0;
  for (const rule of readRules(wanted)) {
    if (owned.some((own) => covers(own, rule))) continue;
    for (const part of partsOf(rule)) {
      // Nobody can read what is missing from so many: whoever grants them must hold them as a whole.
      if (++steps > MAX_PARTS || !owned.some((own) => covers(own, part))) missing.push(part);
      if (steps > MAX_PARTS) break;
    }
  }
  return sortedSet(compact(missing).map(printRule));
}

/** A rule may combine any number of groups, resources, names and verbs. */
const MAX_PARTS = 50_000;
const ALL = '*';
const NONE: readonly string[] = [];

/** The rule taken apart: one verb, one resource and at most one name each. */
function* partsOf(rule: Rule): Generator<Rule> {
  const names = rule.resourceNames.length > 0 ? rule.resourceNames.map((name) => [name]) : [NONE];
  for (const group of rule.apiGroups) {
    for (const resource of rule.resources) {
      for (const verb of rule.verbs) {
        for (const resourceNames of names) {
          yield { apiGroups: [group], resources: [resource], verbs: [verb], resourceNames, nonResourceURLs: NONE };
        }
      }
    }
  }
  for (const url of rule.nonResourceURLs) {
    for (const verb of rule.verbs) {
      yield { apiGroups: NONE, resources: NONE, verbs: [verb], resourceNames: NONE, nonResourceURLs: [url] };
    }
  }
}

function covers(own: Rule, part: Rule): boolean {
  const { resourceNames } = own;
  return (
    hasAll(own.verbs, part.verbs) &&
    hasAll(own.apiGroups, part.apiGroups) &&
    part.resources.every((resource) => coversResource(own.resources, resource)) &&
    part.nonResourceURLs.every((url) => matchesUrl(own.nonResourceURLs, url)) &&
    (resourceNames.length === 0 ||
      (part.resourceNames.length > 0 && part.resourceNames.every((name) => resourceNames.includes(name))))
  );
}

function hasAll(own: readonly string[], wanted: readonly string[]): boolean {
  return own.includes(ALL) || wanted.every((one) => own.includes(one));
}

function coversResource(own: readonly string[], resource: string): boolean {
  if (own.includes(ALL) || own.includes(resource)) return true;
  const slash = resource.indexOf('/');
  return slash >= 0 && own.includes(`*${resource.slice(slash)}`);
}

/** Parts that differ by their verb alone are joined again. */
function compact(rules: readonly Rule[]): readonly Rule[] {
  const verbs = new Map<string, string[]>();
  const compacted: Rule[] = [];
  for (const rule of rules) {
    if (rule.resources.length === 0 || rule.resourceNames.length > 0) {
      compacted.push(rule);
      continue;
    }
    const key = JSON.stringify([rule.apiGroups, rule.resources]);
    const known = verbs.get(key);
    if (known) known.push(...rule.verbs);
    else {
      const own = [...rule.verbs];
      verbs.set(key, own);
      compacted.push({ ...rule, verbs: own });
    }
  }
  return compacted;
}

const FIELDS = [
  ['APIGroups', 'apiGroups'],
  ['Resources', 'resources'],
  ['NonResourceURLs', 'nonResourceURLs'],
  ['ResourceNames', 'resourceNames'],
  ['Verbs', 'verbs'],
] as const;

/** `{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}`. */
function printRule(rule: Rule): string {
  const parts = FIELDS.filter(([, field]) => rule[field].length > 0);
  return `{${parts.map(([name, field]) => `${name}:${printTexts(rule[field])}`).join(', ')}}`;
}

/** Several texts as Go prints them with `%q`. */
export function printTexts(texts: readonly string[]): string {
  return `[${texts.map(quote).join(' ')}]`;
}
