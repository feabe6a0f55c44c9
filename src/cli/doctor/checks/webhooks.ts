import { decodePolicy, webhookConfigurations } from '../../../install/index.ts';
import { deepEqual } from '../../../kube/equality.ts';
import type { JsonPatchOp } from '../../../kube/json-patch.ts';
import type { JsonObject } from '../../../kube/types.ts';
import { shellQuote } from '../../../kube/text.ts';
import { BREAK_GLASS_ANNOTATION } from '../../../kube/well-known.ts';
import { isInstalled, isPartOfPortcullis } from '../../../kube/webhooks.ts';
import { otherConditions } from '../../install/break-glass-state.ts';
import {
  DEV_CLUSTER_ENFORCEMENT,
  parseWebhookConfiguration,
  type Configuration,
  type Webhook,
} from '../../installation.ts';
import { isDevCluster } from './installation.ts';
import { MIN_DEFAULTS_MINOR } from '../../../policy/psa/defaults.ts';
import { minorVersion } from '../../../policy/pss/cel-policy.ts';
import { sccMode } from '../../../policy/scc/mode.ts';
import {
  createCommand,
  evaluateFact,
  factValue,
  FIXES,
  info,
  ok,
  problem,
  unknown,
  warning,
  type Check,
  type CheckResult,
  type Facts,
} from '../facts.ts';
import { invalidReason } from '../gather.ts';
import { type RegisteredWebhook } from '../matching.ts';
import { configuration } from './configuration.ts';
import { isFloorOpen } from './floor.ts';
import { leases } from './leases.ts';
import { permissions } from './permissions.ts';
import { replicas } from './replicas.ts';

/** The webhook configurations equal those that the settings require in this version. */
export const webhooks: Check = {
  name: 'webhooks',
  evaluate: (facts) =>
    evaluateFact(facts.configuration, 'webhooks', (object) => {
      const reason = invalidReason(object?.spec ?? {}, facts.namespace);
      if (reason !== undefined) return [unknown('webhooks', `not compared with the settings, which are invalid`)];
      const expected = expectedConfigurations(facts);
      return [
        ...expected.flatMap((configuration) => compareConfiguration(facts, configuration)),
        ...facts.configurations
          .filter(isPartOfPortcullis)
          .flatMap((configuration) => findUnknown(facts, configuration, expected)),
      ];
    }),
};

function expectedConfigurations(facts: Facts): readonly Configuration[] {
  return webhookConfigurations(facts.settings, getState(facts)).map((manifest) =>
    parseWebhookConfiguration(manifest.kind as Configuration['kind'], manifest),
  );
}

function isManaged({ settings }: Facts): boolean {
  return decodePolicy(settings).webhooks.management === 'managed';
}

/** The leader corrects webhooks by itself. The fix is to remove what prevents it. */
function managedFix(facts: Facts): string {
  if (isDevCluster(facts)) return '# restart portcullis serve, which registers the webhooks';
  const isStopped = facts.configurations.some(({ metadata }) => metadata.annotations?.[BREAK_GLASS_ANNOTATION]);
  if (isStopped) return '# first end break-glass, see above: until then, the leader changes no webhook';
  const failed = [replicas, leases, permissions, configuration]
    .filter(({ evaluate }) => evaluate(facts).some(({ severity }) => severity === 'problem'))
    .map(({ name }) => name);
  if (failed.length > 0) return `# first fix the problems below (${failed.join(', ')}): then the leader corrects it`;
  return `${FIXES.logs(facts)} # the leader logs why it does not correct it`;
}

/** The fix of a webhook that no replica maintains. It is not registered unless a replica responds. */
function externalFix(facts: Facts, command: string): string {
  const failed = replicas.evaluate(facts).some(({ severity }) => severity === 'problem');
  if (failed) return '# first fix the problems below (replicas): requests that nothing answers may be denied';
  return command;
}

type PatchTarget = Pick<Configuration, 'kind' | 'name' | 'webhooks'>;

/** The command that changes one field of a webhook. It fails if the webhook was moved after it was read. */
export function patchCommand({ kind, name, webhooks }: PatchTarget, webhook: string, change: JsonPatchOp): string {
  const index = webhooks.findIndex((one) => one.name === webhook);
  const path = `/webhooks/${index}`;
  const operations = [
    { op: 'test', path: `${path}/name`, value: webhook },
    { ...change, path: `${path}${change.path}` },
  ];
  return formatPatch({ kind, name }, operations);
}

function formatPatch({ kind, name }: Pick<Configuration, 'kind' | 'name'>, operations: readonly object[]): string {
  return `kubectl patch ${kind.toLowerCase()} ${name} --type=json -p ${shellQuote(JSON.stringify(operations))}`;
}

/** The fix of a webhook of Portcullis that prevents the replicas from starting. */
export function excludeNamespace(facts: Facts, { configuration, webhook }: RegisteredWebhook): string {
  if (isManaged(facts)) return managedFix(facts);
  const { kind, name } = configuration;
  const expected = expectedConfigurations(facts)
    .find((one) => one.kind === kind && one.name === name)
    ?.webhooks.find((one) => one.name === webhook.name);
  if (!expected) return `kubectl delete ${kind.toLowerCase()} ${name}`;
  const value = expected.namespaceSelector ?? {};
  return patchCommand(configuration, webhook.name, { op: 'add', path: '/namespaceSelector', value });
}

/** The objects of the manifests, with the authorities that the registered webhooks trust. */
function createConfiguration({ settings, ...facts }: Facts, { kind, name }: Configuration): string {
  const manifests = webhookConfigurations(settings, getState({ settings, ...facts }));
  const manifest = manifests.find((one) => one.kind === kind && one.metadata.name === name);
  const webhooks = manifest?.webhooks?.map((webhook) => withAuthorities(webhook, facts.configurations));
  return createCommand({ ...manifest, webhooks });
}

function withAuthorities<T extends Webhook>(webhook: T, configurations: readonly Configuration[]): T {
  const installed = configurations.filter(({ kind, name }) => isInstalled(kind, name));
  const [caBundle] = installed.flatMap((one) =>
    one.webhooks.flatMap(({ clientConfig }) => clientConfig.caBundle || []),
  );
  // Requests are not denied until the authorities are injected.
  if (caBundle === undefined) return { ...webhook, failurePolicy: 'Ignore' };
  return { ...webhook, clientConfig: { ...webhook.clientConfig, caBundle } };
}

/** The leader registers webhooks by what is enforced now. Whether a default level is in force is not read. */
function getState(facts: Facts): Parameters<typeof webhookConfigurations>[1] {
  const { settings, namespaces, configurations, server } = facts;
  const { scc, webhooks } = decodePolicy(settings);
  if (isDevCluster(facts)) return DEV_CLUSTER_ENFORCEMENT;
  if (webhooks.management === 'static') return {};
  const all = configurations.flatMap((one) => one.webhooks);
  const podSecurity = all.find(({ name }) => name === 'psa.portcullis.dev')?.failurePolicy === 'Fail';
  const floor = isFloorOpen(facts);
  // The webhooks of the tier exist only while a default level is in force.
  const isEnforced = podSecurity || (floor && all.some(({ name }) => name === 'kube-system.psa.portcullis.dev'));
  const enforces = (factValue(namespaces) ?? []).some((metadata) => sccMode({ metadata }, scc).mode === 'enforce');
  const { minor } = factValue(server) ?? {};
  return {
    podSecurity: isEnforced,
    floor,
    someSccs: scc.mode === 'enforce' || enforces,
    // A policy sets the defaults of pods.
    ...(minor !== undefined && minorVersion(minor) >= MIN_DEFAULTS_MINOR ? { defaults: undefined } : {}),
  };
}

const MISSING = 'API servers do not call Portcullis for these requests';
const NOT_REGISTERED = 'is not registered';
const UNKNOWN = 'API servers still call it; it may belong to another version';

function compareConfiguration(facts: Facts, expected: Configuration): readonly CheckResult[] {
  const { kind, name } = expected;
  const object = `${kind} ${name}`;
  const live = facts.configurations.find((one) => one.kind === kind && one.name === name);
  if (!live) {
    const create = name.includes('scc') ? warning : problem;
    if (!isManaged(facts)) {
      const fix = externalFix(facts, createConfiguration(facts, expected));
      return [create(object, NOT_REGISTERED, { impact: MISSING, fix })];
    }
    const message = `${NOT_REGISTERED}: the leader registers it when a replica is ready`;
    return [create(object, message, { impact: MISSING, fix: managedFix(facts) })];
  }
  const label = `app.kubernetes.io/part-of=portcullis`;
  const results = [
    ...(isPartOfPortcullis(live)
      ? []
      : [
          problem(object, `has no label ${label}`, {
            impact: 'break-glass and uninstall do not find it',
            fix: isManaged(facts)
              ? managedFix(facts)
              : `kubectl label ${kind.toLowerCase()} ${name} ${label} --overwrite`,
          }),
        ]),
    ...expected.webhooks.flatMap((webhook) => compareWebhook(facts, live, webhook)),
  ];
  const message = 'was registered seconds ago, and fails open until API servers trust the certificate';
  if (isNew(live, facts) && results.length > 0 && results.every(isOpen)) return [info(object, message)];
  const count = `${live.webhooks.length} ${live.webhooks.length === 1 ? 'webhook' : 'webhooks'}`;
  return results.length > 0 ? results : [ok(object, `${count}, as expected by this version`)];
}

/** Time after the registration of a webhook until it fails closed, with a margin. */
const NEW_MS = 30_000;

function isNew({ metadata }: Configuration, facts: Facts): boolean {
  const createdMs = Date.parse(metadata.creationTimestamp ?? '');
  return isManaged(facts) && facts.now.getTime() - createdMs < NEW_MS;
}

function isOpen({ message }: CheckResult): boolean {
  return message === formatDifference('failurePolicy', 'Ignore', 'Fail');
}

function formatDifference(field: string, actual: unknown, expected: unknown): string {
  return `${field} is ${JSON.stringify(actual)}; expected ${JSON.stringify(expected)}`;
}

function compareWebhook(facts: Facts, configuration: Configuration, expected: Webhook): readonly CheckResult[] {
  const { name } = expected;
  const live = configuration.webhooks.find((webhook) => webhook.name === name);
  if (!live) {
    const value = withAuthorities(expected, facts.configurations);
    const command = formatPatch(configuration, [{ op: 'add', path: '/webhooks/-', value }]);
    const fix = isManaged(facts) ? managedFix(facts) : externalFix(facts, command);
    return [problem(name, NOT_REGISTERED, { impact: MISSING, fix })];
  }
  const actual = comparableFields(live);
  return Object.entries(comparableFields(expected))
    .filter(([field, value]) => !deepEqual(actual[field], value))
    .map(([field, value]) => {
      const create = ESSENTIAL_FIELDS.has(field) ? problem : warning;
      const message = formatDifference(field, actual[field], value);
      return create(name, message, {
        impact: IMPACTS.get(field) ?? 'its behavior differs from the documentation',
        fix: isManaged(facts)
          ? managedFix(facts)
          : externalFix(facts, patchCommand(configuration, name, correctField(field, live, expected))),
      });
    });
}

/** Sets the expected value of a field. The address of the webhook and the condition of break-glass are kept. */
function correctField(field: string, live: Webhook, expected: Webhook): JsonPatchOp {
  const { url } = live.clientConfig;
  if (field === 'path') {
    const path = String(comparableFields(expected)['path']);
    return url == null
      ? { op: 'add', path: '/clientConfig/service/path', value: path }
      : { op: 'replace', path: '/clientConfig/url', value: new URL(path, url).href };
  }
  const value: unknown = Object.entries(expected).find(([key]) => key === field)?.[1];
  if (field !== 'matchConditions') return { op: 'add', path: `/${field}`, value: value ?? null };
  const others = otherConditions(live);
  const own = (live.matchConditions ?? []).filter((condition) => !others.includes(condition));
  return { op: 'add', path: '/matchConditions', value: [...otherConditions(expected), ...own] };
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
  facts: Facts,
  { kind, name, webhooks }: Configuration,
  expected: readonly Configuration[],
): readonly CheckResult[] {
  const known = expected.find((one) => one.kind === kind && one.name === name);
  // The permissions check reports the webhooks of features that are not installed.
  if (factValue(facts.obsolete)?.includes(`${kind.toLowerCase()}s/${name}`)) return [];
  if (!known) {
    const isRemovedByLeader = isManaged(facts) && isInstalled(kind, name);
    const fix = isRemovedByLeader ? managedFix(facts) : `kubectl delete ${kind.toLowerCase()} ${name}`;
    return [warning(`${kind} ${name}`, 'is unknown to this version', { impact: UNKNOWN, fix })];
  }
  const names = new Set(known.webhooks.map((webhook) => webhook.name));
  return webhooks
    .filter((webhook) => !names.has(webhook.name))
    .map((webhook) =>
      warning(webhook.name, `is unknown to this version, in ${kind} ${name}`, {
        impact: UNKNOWN,
        fix: isManaged(facts)
          ? managedFix(facts)
          : patchCommand({ kind, name, webhooks }, webhook.name, { op: 'remove', path: '' }),
      }),
    );
}
