import { decodePolicy, webhookConfigurations } from '../../../install/index.ts';
import { deepEqual } from '../../../kube/equality.ts';
import type { JsonObject } from '../../../kube/types.ts';
import { isPartOfPortcullis } from '../../../kube/webhooks.ts';
import { otherConditions } from '../../break-glass.ts';
import { parseWebhookConfiguration, type Configuration, type Webhook } from '../../installation.ts';
import { isDevCluster } from './installation.ts';
import { sccMode } from '../../../policy/scc/mode.ts';
import { factValue, FIXES, ok, problem, warning, type Check, type CheckResult, type Facts } from '../facts.ts';

/** The webhook configurations equal those that the settings require in this version. */
export const webhooks: Check = {
  name: 'webhooks',
  evaluate(facts) {
    const expected = webhookConfigurations(facts.settings, getState(facts)).map((manifest) =>
      parseWebhookConfiguration(manifest.kind as Configuration['kind'], manifest),
    );
    return [
      ...expected.flatMap((configuration) => compareConfiguration(facts, configuration)),
      ...facts.configurations
        .filter(isPartOfPortcullis)
        .flatMap((configuration) => findUnknown(configuration, expected)),
    ];
  },
};

/** The leader registers webhooks by what is enforced now. Whether a default level is in force is not read. */
function getState(facts: Facts): Parameters<typeof webhookConfigurations>[1] {
  const { settings, namespaces, configurations } = facts;
  const { scc, webhooks } = decodePolicy(settings);
  if (isDevCluster(facts)) return { podSecurity: true };
  if (webhooks.management === 'External') return {};
  const podSecurity = configurations.flatMap((one) => one.webhooks).find(({ name }) => name === 'psa.portcullis.dev');
  const enforces = (factValue(namespaces) ?? []).some((metadata) => sccMode({ metadata }, scc).mode === 'enforce');
  return { podSecurity: podSecurity?.failurePolicy === 'Fail', someSccs: scc.mode === 'enforce' || enforces };
}

const MISSING = 'API servers do not call Portcullis for these requests';
const NOT_REGISTERED = 'is not registered';
const UNKNOWN = 'API servers still call it; it may belong to another version';

function compareConfiguration({ configurations, settings }: Facts, expected: Configuration): readonly CheckResult[] {
  const { kind, name } = expected;
  const object = `${kind} ${name}`;
  const isManaged = decodePolicy(settings).webhooks.management === 'Managed';
  const fix = isManaged ? FIXES.register(settings.namespace) : FIXES.applyWebhooks(settings.namespace);
  const live = configurations.find((one) => one.kind === kind && one.name === name);
  if (!live) {
    const create = name.includes('scc') ? warning : problem;
    const message = isManaged ? 'is not registered: the leader registers it when a replica is ready' : NOT_REGISTERED;
    return [create(object, message, { impact: MISSING, fix })];
  }
  const label = `app.kubernetes.io/part-of=portcullis`;
  const results = [
    ...(isPartOfPortcullis(live)
      ? []
      : [
          problem(object, `has no label ${label}`, {
            impact: 'break-glass and uninstall do not find it',
            fix: `kubectl label ${kind.toLowerCase()} ${name} ${label}`,
          }),
        ]),
    ...expected.webhooks.flatMap((webhook) => compareWebhook(live, webhook, fix)),
  ];
  const count = `${live.webhooks.length} ${live.webhooks.length === 1 ? 'webhook' : 'webhooks'}`;
  return results.length > 0 ? results : [ok(object, `${count}, as expected by this version`)];
}

function compareWebhook(configuration: Configuration, expected: Webhook, fix: string): readonly CheckResult[] {
  const { name } = expected;
  const live = configuration.webhooks.find((webhook) => webhook.name === name);
  if (!live) return [problem(name, NOT_REGISTERED, { impact: MISSING, fix })];
  const actual = comparableFields(live);
  return Object.entries(comparableFields(expected))
    .filter(([field, value]) => !deepEqual(actual[field], value))
    .map(([field, value]) => {
      const create = ESSENTIAL_FIELDS.has(field) ? problem : warning;
      const message = `${field} is ${JSON.stringify(actual[field])}; expected ${JSON.stringify(value)}`;
      return create(name, message, {
        impact: IMPACTS.get(field) ?? 'its behavior differs from the documentation',
        fix,
      });
    });
}

/** A difference in one of these fields breaks the webhook. Other differences may be intended. */
const ESSENTIAL_FIELDS: ReadonlySet<string> = new Set(['path', 'rules', 'admissionReviewVersions', 'sideEffects']);

const IMPACTS: ReadonlyMap<string, string> = new Map([
  ['path', 'requests do not reach the webhook'],
  ['rules', 'the webhook receives too few or too many requests'],
  ['failurePolicy', 'it decides whether requests are denied or admitted without a review while no replica responds'],
  ['namespaceSelector', 'namespaces are not reviewed, or fail closed although a starting cluster needs them'],
  ['objectSelector', 'users can exclude objects from review by a label'],
  ['matchConditions', 'requests are not reviewed, or reviewed without need'],
  ['timeoutSeconds', 'requests fail too early, or hang while no replica responds'],
  ['reinvocationPolicy', 'changes by later webhooks are not completed'],
]);

/** The relevant fields of a webhook, with the defaults of the API server. */
function comparableFields(webhook: Webhook): Readonly<Record<string, unknown>> {
  const { clientConfig, rules } = webhook;
  const { url, service } = clientConfig;
  const path = url == null ? service?.path : URL.parse(url)?.pathname;
  return {
    path: path ?? '/',
    rules: (rules ?? []).map((rule) => comparableRule(rule)),
    failurePolicy: webhook.failurePolicy ?? 'Fail',
    namespaceSelector: comparableSelector(webhook.namespaceSelector),
    objectSelector: comparableSelector(webhook.objectSelector),
    matchConditions: otherConditions(webhook),
    matchPolicy: webhook.matchPolicy ?? 'Equivalent',
    timeoutSeconds: webhook.timeoutSeconds ?? 10,
    sideEffects: webhook.sideEffects,
    admissionReviewVersions: webhook.admissionReviewVersions,
    reinvocationPolicy: ('reinvocationPolicy' in webhook ? webhook.reinvocationPolicy : undefined) ?? 'Never',
  };
}

function comparableRule(rule: JsonObject): JsonObject {
  const lists = ['apiGroups', 'apiVersions', 'operations', 'resources'].map((field) => [field, sorted(rule[field])]);
  return { ...Object.fromEntries(lists), scope: rule['scope'] ?? '*' } as JsonObject;
}

function comparableSelector(selector: Webhook['namespaceSelector']): JsonObject {
  const { matchLabels = {}, matchExpressions = [] } = selector ?? {};
  const expressions = matchExpressions.map(({ key, operator, values }) => ({ key, operator, values: sorted(values) }));
  return { matchLabels, matchExpressions: expressions.toSorted((a, b) => (a.key < b.key ? -1 : 1)) };
}

function sorted(list: unknown): readonly unknown[] {
  return Array.isArray(list) ? list.map(String).toSorted() : [];
}

/** Configurations with the label of Portcullis, and their webhooks, that this version does not define. */
function findUnknown(
  { kind, name, webhooks }: Configuration,
  expected: readonly Configuration[],
): readonly CheckResult[] {
  const known = expected.find((one) => one.kind === kind && one.name === name);
  const resource = kind.toLowerCase();
  if (!known) {
    const fix = `kubectl delete ${resource} ${name}`;
    return [warning(`${kind} ${name}`, 'is unknown to this version', { impact: UNKNOWN, fix })];
  }
  const names = new Set(known.webhooks.map((webhook) => webhook.name));
  return webhooks
    .filter((webhook) => !names.has(webhook.name))
    .map((webhook) =>
      warning(webhook.name, `is unknown to this version, in ${kind} ${name}`, {
        impact: UNKNOWN,
        fix: `kubectl edit ${resource} ${name} # delete the entry: a client-side apply does not remove it`,
      }),
    );
}
