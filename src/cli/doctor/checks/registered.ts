import { deepEqual } from '../../../kube/equality.ts';
import type { JsonObject } from '../../../kube/types.ts';
import { webhookConfigurations } from '../../../install/index.ts';
import { BREAK_GLASS } from '../../break-glass.ts';
import { configurationOf, isOurs, type Configuration, type Webhook } from '../../installation.ts';
import type { Check, Facts, Remark } from '../facts.ts';

/** The webhook configurations are there, and are those of this version. */
export const registered: Check = {
  name: 'webhooks',
  judge(facts) {
    const remarks = webhookConfigurations(facts.settings).flatMap((manifest) => {
      const kind = manifest.kind as Configuration['kind'];
      return compare(facts, configurationOf(kind, manifest));
    });
    return [...remarks, ...strangers(facts)];
  },
};

const WANTED = 'what this version of portcullis wants';

function fixOf({ settings: { namespace } }: Facts): string {
  const where = namespace === 'portcullis' ? '' : ` --namespace ${namespace}`;
  return `portcullis install${where} | kubectl apply --server-side -f -`;
}

function compare(facts: Facts, wanted: Configuration): readonly Remark[] {
  const { kind, name } = wanted;
  const live = facts.configurations.find((one) => one.kind === kind && one.name === name);
  const fix = fixOf(facts);
  if (!live) {
    const severity = name.includes('scc') ? 'warning' : 'problem';
    return [{ severity, where: `${kind} ${name}`, what: 'is not registered', why: WHY_MISSING, fix }];
  }
  const unlabelled: readonly Remark[] = isOurs(live)
    ? []
    : [
        {
          severity: 'problem',
          where: `${kind} ${name}`,
          what: 'has no label app.kubernetes.io/part-of=portcullis',
          why: 'break-glass and uninstall would not find it',
          fix: `kubectl label ${kind.toLowerCase()} ${name} app.kubernetes.io/part-of=portcullis`,
        },
      ];
  const found = wanted.webhooks.flatMap((webhook) => compareWebhook(live, webhook, fix));
  const remarks = [...unlabelled, ...found];
  const what = `has all ${live.webhooks.length} webhooks as this version of portcullis wants them`;
  return remarks.length > 0 ? remarks : [{ severity: 'ok', where: `${kind} ${name}`, what }];
}

const WHY_MISSING = 'nobody asks Portcullis about what it would judge';

function compareWebhook({ webhooks }: Configuration, wanted: Webhook, fix: string): readonly Remark[] {
  const live = webhooks.find(({ name }) => name === wanted.name);
  const where = wanted.name;
  if (!live) return [{ severity: 'problem', where, what: 'is not registered', why: WHY_MISSING, fix }];
  const [is, should] = [shapeOf(live), shapeOf(wanted)];
  return Object.entries(should)
    .filter(([field, value]) => !deepEqual(is[field], value))
    .map(([field, value]) => ({
      severity: SERIOUS.has(field) ? 'problem' : 'warning',
      where,
      what: `${field} is ${JSON.stringify(is[field])}; ${WANTED} is ${JSON.stringify(value)}`,
      why: WHYS.get(field) ?? 'it behaves otherwise than documented',
      fix,
    }));
}

/** Without these it does not work; the rest may be somebody's choice. */
const SERIOUS: ReadonlySet<string> = new Set(['path', 'rules', 'admissionReviewVersions', 'sideEffects']);

const WHYS: ReadonlyMap<string, string> = new Map([
  ['path', 'requests reach nobody, or somebody else'],
  ['rules', 'something is judged that should not be, or is not that should be'],
  ['failurePolicy', 'it says whether pods start unjudged while nobody answers, or not at all'],
  ['namespaceSelector', 'namespaces are left out, or held to it although a cold cluster needs them'],
  ['objectSelector', 'whoever may label an object may keep it from being judged'],
  ['matchConditions', 'requests are left out, or asked about for nothing'],
  ['timeoutSeconds', 'requests fail early, or hang for long while nobody answers'],
  ['reinvocationPolicy', 'what other webhooks change afterwards is not completed'],
]);

/** What counts of a webhook, with the defaults that API servers fill in. */
function shapeOf(webhook: Webhook): Readonly<Record<string, unknown>> {
  const { clientConfig, matchConditions, rules } = webhook;
  const { url, service } = clientConfig;
  const path = url == null ? service?.path : URL.parse(url)?.pathname;
  const conditions = (matchConditions ?? []).filter((one) => !deepEqual(one, BREAK_GLASS));
  return {
    path: path ?? '/',
    rules: (rules ?? []).map((rule) => ruleShape(rule)),
    failurePolicy: webhook.failurePolicy ?? 'Fail',
    namespaceSelector: selectorShape(webhook.namespaceSelector),
    objectSelector: selectorShape(webhook.objectSelector),
    matchConditions: conditions,
    matchPolicy: webhook.matchPolicy ?? 'Equivalent',
    timeoutSeconds: webhook.timeoutSeconds ?? 10,
    sideEffects: webhook.sideEffects,
    admissionReviewVersions: webhook.admissionReviewVersions,
    reinvocationPolicy: ('reinvocationPolicy' in webhook ? webhook.reinvocationPolicy : undefined) ?? 'Never',
  };
}

function ruleShape(rule: JsonObject): JsonObject {
  const lists = ['apiGroups', 'apiVersions', 'operations', 'resources'].map((field) => [field, sorted(rule[field])]);
  return { ...Object.fromEntries(lists), scope: rule['scope'] ?? '*' } as JsonObject;
}

function selectorShape(selector: Webhook['namespaceSelector']): JsonObject {
  const { matchLabels = {}, matchExpressions = [] } = selector ?? {};
  const expressions = matchExpressions.map(({ key, operator, values }) => ({ key, operator, values: sorted(values) }));
  return { matchLabels, matchExpressions: expressions.toSorted((a, b) => (a.key < b.key ? -1 : 1)) };
}

function sorted(list: unknown): readonly unknown[] {
  return Array.isArray(list) ? list.map(String).toSorted() : [];
}

/** Configurations with our label that this version knows nothing of. */
function strangers({ configurations, settings }: Facts): readonly Remark[] {
  const wanted = new Map(
    webhookConfigurations(settings).map(({ kind, metadata, webhooks }) => [
      `${kind} ${metadata.name}`,
      new Set((webhooks ?? []).map(({ name }) => name)),
    ]),
  );
  return configurations.filter(isOurs).flatMap(({ kind, name, webhooks }) => {
    const names = wanted.get(`${kind} ${name}`);
    if (!names) {
      const fix = `kubectl delete ${kind.toLowerCase()} ${name}`;
      return [
        {
          severity: 'warning',
          where: `${kind} ${name}`,
          what: 'is unknown to this version of portcullis',
          why: WHY_STRANGE,
          fix,
        },
      ];
    }
    return webhooks
      .filter((webhook) => !names.has(webhook.name))
      .map((webhook) => ({
        severity: 'warning' as const,
        where: webhook.name,
        what: `is unknown to this version of portcullis, in ${kind} ${name}`,
        why: WHY_STRANGE,
        fix: `kubectl edit ${kind.toLowerCase()} ${name} # take out its entry: a client-side apply leaves it there`,
      }));
  });
}

const WHY_STRANGE = 'API servers ask it all the same; it may be left from another version';
