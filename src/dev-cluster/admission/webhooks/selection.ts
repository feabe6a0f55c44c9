import { matchesLabelSelector, matchesRule } from '../../../kube/webhooks.ts';
import { forbidden, notFound, type Status } from '../../../kube/status.ts';
import { matchesConditions } from '../../match-conditions.ts';
import { objectAt, objectsAt } from '../../objects/read.ts';
import { metadataOf, type ApiObject, type Attributes, type Reader, type ResourceInfo } from '../../types.ts';
import { failsOpen, type Hook } from './hook.ts';
import { reviewRequest } from './review.ts';

/** What selection reads beside the request. */
export interface Surroundings {
  readonly reader: Reader;
  /** All versions in which a resource is served. */
  versionsOf(key: ResourceInfo): readonly ResourceInfo[];
}

/** Whether a webhook is called, and in which version of the resource it sees the request. */
export type Selection =
  | { readonly called: false }
  | { readonly called: true; readonly resource: ResourceInfo }
  | { readonly called: false; readonly refusal: Status };

const SKIP: Selection = { called: false };
const NAMESPACES = { group: '', resource: 'namespaces' };

/**
 * Decides whether a webhook hears of a request.
 * @see https://github.com/kubernetes/apiserver/blob/v0.36.0/pkg/admission/plugin/webhook/generic/webhook.go
 */
export function select(hook: Hook, attributes: Attributes, surroundings: Surroundings): Selection {
  const labels = namespaceLabels(hook, attributes, surroundings.reader);
  if (labels !== 'any' && labels !== 'missing' && !matchesLabelSelector(namespaceSelector(hook), labels)) return SKIP;
  if (!matchesObject(hook, attributes)) return SKIP;
  const resource = matchedResource(hook, attributes, surroundings);
  if (!resource) return SKIP;
  if (labels === 'missing') return { called: false, refusal: notFound(NAMESPACES, attributes.namespace) };
  return checkConditions(hook, attributes, resource);
}

/** Webhook configurations are no business of webhooks: a broken one could not be repaired. */
export function isExempt({ resource }: Attributes): boolean {
  return resource.group === 'admissionregistration.k8s.io';
}

function namespaceSelector(hook: Hook): unknown {
  return hook.webhook['namespaceSelector'] ?? {};
}

type Labels = Readonly<Record<string, string>>;

/** A Namespace that is written is judged by its own new labels; what lies in none is never left out. */
function namespaceLabels(hook: Hook, attributes: Attributes, reader: Reader): Labels | 'any' | 'missing' {
  const isNamespace = attributes.resource.group === '' && attributes.resource.resource === 'namespaces';
  if (attributes.namespace === '' && !isNamespace) return 'any';
  if (isEmptySelector(namespaceSelector(hook))) return 'any';
  if (isNamespace && attributes.subresource === '' && attributes.object) return labelsOf(attributes.object);
  const namespace = reader.get(NAMESPACES, '', attributes.namespace);
  return namespace ? labelsOf(namespace) : 'missing';
}

function isEmptySelector(selector: unknown): boolean {
  const holder = objectAt({ selector }, 'selector');
  const labels = Object.keys(objectAt(holder, 'matchLabels'));
  return labels.length === 0 && objectsAt(holder, 'matchExpressions').length === 0;
}

function labelsOf(object: ApiObject): Labels {
  return metadataOf(object).labels ?? {};
}

function matchesObject(hook: Hook, { object, oldObject }: Attributes): boolean {
  const selector = hook.webhook['objectSelector'] ?? {};
  if (isEmptySelector(selector)) return true;
  return [object, oldObject].some((one) => one?.metadata && matchesLabelSelector(selector, labelsOf(one)));
}

/** The resource as asked for, else, under matchPolicy Equivalent, another version of it that a rule names. */
function matchedResource(hook: Hook, attributes: Attributes, surroundings: Surroundings): ResourceInfo | undefined {
  const rules = objectsAt(hook.webhook, 'rules');
  const { resource } = attributes;
  if (rules.some((rule) => matchesRule(rule, attributes, resource))) return resource;
  if (hook.webhook['matchPolicy'] !== 'Equivalent') return undefined;
  const others = surroundings.versionsOf(resource).filter(({ version }) => version !== resource.version);
  return rules
    .flatMap((rule) => others.filter((other) => matchesRule(rule, attributes, other)))
    .find((other) => other !== resource);
}

function checkConditions(hook: Hook, attributes: Attributes, resource: ResourceInfo): Selection {
  const conditions = objectsAt(hook.webhook, 'matchConditions');
  if (conditions.length === 0) return { called: true, resource };
  const result = matchesConditions(conditions, reviewRequest('', attributes, resource));
  if (result === true) return { called: true, resource };
  if (result === false || failsOpen(hook)) return SKIP;
  return { called: false, refusal: forbidden(attributes.resource, attributes.name, result.error) };
}
