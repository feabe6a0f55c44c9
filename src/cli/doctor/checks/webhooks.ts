import { decodePolicy, webhookConfigurations } from '../../../install/index.ts';
import { deepEqual } from '../../../kube/equality.ts';
import { printCount } from '../../../kube/text.ts';
import { isInstalled, isPartOfPortcullis } from '../../../kube/webhooks.ts';
import { PART_OF, PART_OF_LABEL } from '../../../kube/well-known.ts';
import { MIN_DEFAULTS_MINOR } from '../../../policy/psa/defaults.ts';
import { minorVersion } from '../../../policy/pss/cel-policy.ts';
import { sccMode } from '../../../policy/scc/mode.ts';
import { otherConditions } from '../../install/break-glass-state.ts';
import {
  type Configuration,
  DEV_CLUSTER_ENFORCEMENT,
  parseWebhookConfiguration,
  type Webhook,
} from '../../install/webhooks.ts';
import {
  type Check,
  type CheckResult,
  evaluateFact,
  type Facts,
  factValue,
  type Fix,
  info,
  ok,
  problem,
  unknown,
  warning,
} from '../facts.ts';
import { applyManifests, changeWebhook, instruction, leaderCorrects, run } from '../fix.ts';
import { invalidReason } from '../gather.ts';
import type { RegisteredWebhook } from '../matching.ts';
import { isFloorOpen } from './floor.ts';
import { isDevCluster } from './installation.ts';

/** Compares the webhook configurations with those that the settings require in this version. */
export const webhooks: Check = {
  name: 'webhooks',
  evaluate: (facts) =>
    evaluateFact(facts.configuration, 'webhooks', (object) => {
      if (invalidReason(object?.spec ?? {}, facts.namespace) !== undefined) {
        return [unknown('webhooks', 'not compared with the settings, which are invalid')];
      }
      const own = facts.configurations.filter(isPartOfPortcullis);
      return [
        ...expectedConfigurations(facts).flatMap((expected) => compareConfiguration(facts, expected)),
        ...own.flatMap((configuration) => findUnknown(facts, configuration)),
      ];
    }),
};

function expectedConfigurations(facts: Facts): readonly Configuration[] {
  return webhookConfigurations(facts.settings, enforcementState(facts)).map((manifest) =>
    parseWebhookConfiguration(manifest.kind as Configuration['kind'], manifest),
  );
}

function findExpected(facts: Facts, { kind, name }: Configuration): Configuration | undefined {
  return expectedConfigurations(facts).find((one) => one.kind === kind && one.name === name);
}

function isManaged({ settings }: Facts): boolean {
  return decodePolicy(settings).webhooks.management === 'managed';
}

/** The fix of a configuration that differs from the expected one. */
export function restoreConfigurations(facts: Facts): Fix {
  if (isDevCluster(facts)) return instruction('restart portcullis serve, which registers the webhooks');
  if (isManaged(facts)) return leaderCorrects(facts);
  const { after = [], ...fix } = applyManifests(facts);
  // Requests that no replica reviews may be denied. The leader sets the caBundle of new webhooks.
  return { ...fix, after: ['replicas', 'leases', ...after] };
}

/** The fix of a registered webhook that differs from the expected one, or that this version does not define. */
export function restoreWebhook(facts: Facts, { configuration, webhook }: RegisteredWebhook): Fix {
  const expected = findExpected(facts, configuration);
  const isExpected = expected?.webhooks.some(({ name }) => name === webhook.name) === true;
  if (!isInstalled(configuration.kind, configuration.name)) return deleteConfiguration(configuration);
  return isExpected || isManaged(facts)
    ? restoreConfigurations(facts)
    : changeWebhook(configuration, { name: webhook.name, $patch: 'delete' });
}

function deleteConfiguration({ kind, name }: Configuration): Fix {
  return run('kubectl', 'delete', kind.toLowerCase(), name);
}

/** The leader registers webhooks by what is enforced now. Whether a default level is in force is not read. */
function enforcementState(facts: Facts): Parameters<typeof webhookConfigurations>[1] {
  const { settings, namespaces, configurations, server } = facts;
  const { scc } = decodePolicy(settings);
  if (isDevCluster(facts)) return DEV_CLUSTER_ENFORCEMENT;
  if (!isManaged(facts)) return {};
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
const UNKNOWN = 'API servers still call it. It may belong to another version';

function compareConfiguration(facts: Facts, expected: Configuration): readonly CheckResult[] {
  const { kind, name } = expected;
  const object = `${kind} ${name}`;
  const live = facts.configurations.find((one) => one.kind === kind && one.name === name);
  const fix = restoreConfigurations(facts);
  if (!live) {
    const create = name.includes('scc') ? warning : problem;
    const explanation = isManaged(facts) ? '. The leader registers it when a replica is ready' : '';
    return [create(object, `${NOT_REGISTERED}${explanation}`, { impact: MISSING, fix })];
  }
  const unlabeled = problem(object, `has no label ${PART_OF_LABEL}=${PART_OF}`, {
    impact: 'break-glass and uninstall do not find it',
    fix,
  });
  const results = [
    ...(isPartOfPortcullis(live) ? [] : [unlabeled]),
    ...expected.webhooks.flatMap((webhook) => compareWebhook(live, webhook, fix)),
  ];
  const isOpen = ({ message }: CheckResult): boolean => message === formatDifference('failurePolicy', 'Ignore', 'Fail');
  if (isNew(live, facts) && results.length > 0 && results.every(isOpen)) {
    return [info(object, 'was registered seconds ago, and fails open until API servers trust the certificate')];
  }
  if (results.length > 0) return results;
  return [ok(object, `${printCount(live.webhooks.length, 'webhook')}, as expected by this version`)];
}

/** Time after the registration of a webhook until it fails closed, with a margin. */
const NEW_MS = 30_000;

function isNew({ metadata }: Configuration, facts: Facts): boolean {
  const createdMs = Date.parse(metadata.creationTimestamp ?? '');
  return isManaged(facts) && facts.now.getTime() - createdMs < NEW_MS;
}

function formatDifference(field: string, actual: unknown, expected: unknown): string {
  return `${field} is ${JSON.stringify(actual)}, expected ${JSON.stringify(expected)}`;
}

function compareWebhook({ webhooks: all }: Configuration, expected: Webhook, fix: Fix): readonly CheckResult[] {
  const { name } = expected;
  const live = all.find((webhook) => webhook.name === name);
  if (!live) return [problem(name, NOT_REGISTERED, { impact: MISSING, fix })];
  const actual = comparableFields(live);
  return Object.entries(comparableFields(expected))
    .filter(([field, value]) => !deepEqual(actual[field], value))
    .map(([field, value]) => {
      const create = ESSENTIAL_FIELDS.has(field) ? problem : warning;
      const impact = IMPACTS.get(field) ?? 'its behavior differs from the documentation';
      return create(name, formatDifference(field, actual[field], value), { impact, fix });
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

/** The fields of a webhook. The host of its address, its caBundle and the condition of break-glass may differ. */
function comparableFields(webhook: Webhook): Readonly<Record<string, unknown>> {
  const { clientConfig, ...fields } = webhook;
  const { url, service } = clientConfig;
  const path = url == null ? service?.path : URL.parse(url)?.pathname;
  return { path, ...fields, matchConditions: otherConditions(webhook) };
}

/** Finds configurations with the label of Portcullis, and their webhooks, that this version does not define. */
function findUnknown(facts: Facts, configuration: Configuration): readonly CheckResult[] {
  const { kind, name, webhooks: all } = configuration;
  // The permissions check reports the webhooks of features that are not installed.
  if (factValue(facts.obsolete)?.includes(`${kind.toLowerCase()}s/${name}`)) return [];
  const known = findExpected(facts, configuration);
  if (!known) {
    const isDeletedByLeader = isManaged(facts) && isInstalled(kind, name);
    const fix = isDeletedByLeader ? restoreConfigurations(facts) : deleteConfiguration(configuration);
    return [warning(`${kind} ${name}`, 'is unknown to this version', { impact: UNKNOWN, fix })];
  }
  const names = new Set(known.webhooks.map((webhook) => webhook.name));
  return all
    .filter((webhook) => !names.has(webhook.name))
    .map((webhook) =>
      warning(webhook.name, `is unknown to this version, in ${kind} ${name}`, {
        impact: UNKNOWN,
        fix: restoreWebhook(facts, { configuration, webhook }),
      }),
    );
}
