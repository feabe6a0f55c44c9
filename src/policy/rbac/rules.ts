import { isObject } from '../../kube/types.ts';
import type { Action } from './types.ts';

/** A rule whose form has been checked. */
export interface Rule {
  readonly verbs: readonly string[];
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly resourceNames: readonly string[];
  readonly nonResourceURLs: readonly string[];
}

const ALL = '*';

/**
 * The rules of a role. One that is malformed is left out as a whole: without its broken list of names it would grant
 * more than was meant.
 */
export function readRules(rules: unknown): readonly Rule[] {
  if (!Array.isArray(rules)) return [];
  return rules.map(readRule).filter((rule) => rule !== undefined);
}

function readRule(rule: unknown): Rule | undefined {
  if (!isObject(rule)) return undefined;
  const verbs = readTexts(rule['verbs']);
  const apiGroups = readTexts(rule['apiGroups']);
  const resources = readTexts(rule['resources']);
  const resourceNames = readTexts(rule['resourceNames']);
  const nonResourceURLs = readTexts(rule['nonResourceURLs']);
  if (!verbs || !apiGroups || !resources || !resourceNames || !nonResourceURLs) return undefined;
  return { verbs, apiGroups, resources, resourceNames, nonResourceURLs };
}

function readTexts(value: unknown): readonly string[] | undefined {
  if (value == null) return [];
  return Array.isArray(value) && value.every((item) => typeof item === 'string') ? value : undefined;
}

/**
 * True if the rule grants the action; where it is bound does not matter here.
 * @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/apis/rbac/v1/evaluation_helpers.go
 */
export function ruleAllows(rule: Rule, action: Action): boolean {
  if (action.nonResourceURL != null) {
    return matches(rule.verbs, action.verb) && matchesUrl(rule.nonResourceURLs, action.nonResourceURL);
  }
  return (
    ruleCovers(rule, action) && (rule.resourceNames.length === 0 || rule.resourceNames.includes(action.name ?? ''))
  );
}

/** True if the rule grants the action on objects of that resource, at least on those whose names it gives. */
export function ruleCovers(rule: Rule, { verb, apiGroup, resource, subresource }: Action): boolean {
  return (
    matches(rule.verbs, verb) &&
    matches(rule.apiGroups, apiGroup ?? '') &&
    matchesResource(rule.resources, resource ?? '', subresource ?? '')
  );
}

function matches(granted: readonly string[], asked: string): boolean {
  return granted.includes(ALL) || granted.includes(asked);
}

function matchesResource(granted: readonly string[], resource: string, subresource: string): boolean {
  if (subresource === '') return matches(granted, resource);
  return matches(granted, `${resource}/${subresource}`) || granted.includes(`*/${subresource}`);
}

/** A URL that ends in asterisks covers all that begins with the text before them. */
export function matchesUrl(granted: readonly string[], url: string): boolean {
  return granted.some(
    (pattern) => pattern === url || (pattern.endsWith(ALL) && url.startsWith(trimAsterisks(pattern))),
  );
}

function trimAsterisks(pattern: string): string {
  let end = pattern.length;
  while (pattern[end - 1] === ALL) end--;
  return pattern.slice(0, end);
}
