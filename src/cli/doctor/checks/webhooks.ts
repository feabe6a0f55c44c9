import { PART_OF, PART_OF_LABEL } from '../../../api/names.ts';
import { isKnownConfiguration, isPartOfPortcullis } from '../../../api/webhooks.ts';
import {
  type Configuration,
  decodePolicy,
  DEV_CLUSTER_ENFORCEMENT,
  type Enforcement,
  type LiveWebhook,
  type ManifestSettings,
  otherConditions,
  parseWebhookConfiguration,
  staticWebhookConfigurations,
} from '../../../install/index.ts';
import { deepEqual } from '../../../kube/equality.ts';
import { printCount } from '../../../kube/text.ts';
import { MIN_DEFAULTS_MINOR } from '../../../policy/psa/index.ts';
import { minorVersion } from '../../../policy/pss/index.ts';
import {
  type DoctorCheck,
  type CheckResult,
  evaluateFact,
  type Facts,
  factValue,
  type Fix,
  ok,
  problem,
  warning,
} from '../facts.ts';
import { applyManifests, changeWebhook, instruction, leaderCorrects, commandFix } from '../fix.ts';
import type { ConfiguredWebhook } from '../matching.ts';
import { isDevCluster } from './installation.ts';

/**
 * Compares the webhook configurations with the configurations that this version generates for the settings. If the
 * leader maintains a configuration, reports it only if it is missing, because the leader corrects all other
 * differences.
 */
export const webhooks: DoctorCheck = {
  name: 'webhooks',
  evaluate: (facts) =>
    evaluateFact(facts.spec, 'webhooks', () => {
      const own = facts.webhookConfigurations.filter(isPartOfPortcullis);
      return [
        ...findExpectedAll(facts).flatMap((expected) => compareConfiguration(facts, expected)),
        ...own.flatMap((configuration) => findUnknown(facts, configuration)),
      ];
    }),
};

function findExpectedAll(facts: Facts): readonly Configuration[] {
  return expectedConfigurations(facts.settings, enforcementState(facts));
}

function findExpected(facts: Facts, { kind, name }: Configuration): Configuration | undefined {
  return findExpectedAll(facts).find((configuration) => configuration.kind === kind && configuration.name === name);
}

/** Returns true if the leader maintains the configurations. */
function isManaged(facts: Facts): boolean {
  return decodePolicy(facts.settings).webhooks.management === 'managed' && !isDevCluster(facts);
}

/**
 * Returns the state that determines which configurations are required. The leader registers only configurations that
 * are in use.
 */
function enforcementState(facts: Facts): Partial<Enforcement> {
  if (isDevCluster(facts)) return DEV_CLUSTER_ENFORCEMENT;
  if (!isManaged(facts)) return {};
  const { minor } = factValue(facts.server) ?? {};
  // In these versions, a policy sets the defaults of pods, so the webhook is not required.
  return minor !== undefined && minorVersion(minor) >= MIN_DEFAULTS_MINOR ? { defaults: undefined } : {};
}

/** Returns the fix for a configuration that differs from the expected one. */
export function restoreConfigurations(facts: Facts): Fix {
  if (isDevCluster(facts)) return instruction('restart portcullis serve, which registers the webhooks');
  if (isManaged(facts)) return leaderCorrects(facts);
  const { after = [], ...fix } = applyManifests(facts, 'prerequisites');
  // Replicas must be ready first, because fail-closed webhooks would otherwise deny requests. A leader must exist
  // because it sets the caBundle of new webhooks.
  return { ...fix, after: ['replicas', 'leases', ...after] };
}

/** Returns the fix for a registered webhook that differs from the expected one or that this version does not define. */
export function restoreWebhook(facts: Facts, { configuration, webhook }: ConfiguredWebhook): Fix {
  const { kind, name } = configuration;
  if (!isKnownConfiguration(kind, name)) return commandFix('kubectl', 'delete', kind.toLowerCase(), name);
  const isExpected =
    findExpected(facts, configuration)?.webhooks.some((expected) => expected.name === webhook.name) === true;
  return isExpected || isManaged(facts)
    ? restoreConfigurations(facts)
    : changeWebhook(configuration, { name: webhook.name, $patch: 'delete' });
}

const MISSING = 'API servers do not call Portcullis for these requests';
const NOT_REGISTERED = 'is not registered';
const UNKNOWN = 'API servers still call it. It may belong to another version';

function compareConfiguration(facts: Facts, expected: Configuration): readonly CheckResult[] {
  const { kind, name } = expected;
  const object = `${kind} ${name}`;
  const live = facts.webhookConfigurations.find(
    (configuration) => configuration.kind === kind && configuration.name === name,
  );
  const fix = restoreConfigurations(facts);
  if (!live) {
    const explanation = isManaged(facts) ? '. The leader registers it when a replica is ready' : '';
    return [problem(object, `${NOT_REGISTERED}${explanation}`, { impact: MISSING, fix })];
  }
  const count = printCount(live.webhooks.length, 'webhook');
  if (isManaged(facts)) return [ok(object, `${count}, maintained by the leader`)];
  const unlabeled = problem(object, `has no label ${PART_OF_LABEL}=${PART_OF}`, {
    impact: 'break-glass and uninstall do not find it',
    fix,
  });
  const results = [
    ...(isPartOfPortcullis(live) ? [] : [unlabeled]),
    ...expected.webhooks.flatMap((webhook) => compareWebhook(live, webhook, fix)),
  ];
  return results.length > 0 ? results : [ok(object, `${count}, as expected by this version`)];
}

function compareWebhook({ webhooks: all }: Configuration, expected: LiveWebhook, fix: Fix): readonly CheckResult[] {
  const { name } = expected;
  const live = all.find((webhook) => webhook.name === name);
  if (!live) return [problem(name, NOT_REGISTERED, { impact: MISSING, fix })];
  const differences = findDifferences(live, expected);
  if (differences.length === 0) return [];
  const create = differences.some(({ isEssential }) => isEssential) ? problem : warning;
  const texts = differences.map(
    ({ field, actual, expected }) => `${field} is ${JSON.stringify(actual)}, expected ${JSON.stringify(expected)}`,
  );
  return [create(name, texts.join('; '), { impact: 'its behavior differs from the documentation', fix })];
}

/** Finds configurations and webhooks that have the Portcullis label but are not defined in this version. */
function findUnknown(facts: Facts, configuration: Configuration): readonly CheckResult[] {
  const { kind, name, webhooks: all } = configuration;
  // The installation check reports the webhooks of features that are not installed.
  if (factValue(facts.obsolete)?.includes(`${kind.toLowerCase()}s/${name}`)) return [];
  if (isManaged(facts) && isKnownConfiguration(kind, name)) return [];
  const known = findExpected(facts, configuration);
  if (!known) {
    const fix = commandFix('kubectl', 'delete', kind.toLowerCase(), name);
    return [warning(`${kind} ${name}`, 'is not defined in this version', { impact: UNKNOWN, fix })];
  }
  const names = new Set(known.webhooks.map((webhook) => webhook.name));
  return all
    .filter((webhook) => !names.has(webhook.name))
    .map((webhook) =>
      warning(webhook.name, `is not defined in this version, in ${kind} ${name}`, {
        impact: UNKNOWN,
        fix: restoreWebhook(facts, { configuration, webhook }),
      }),
    );
}

// Results of the comparison with the required configurations

/** Returns the required configurations. `state` has the same meaning as for `staticWebhookConfigurations`. */
export function expectedConfigurations(
  settings: ManifestSettings,
  state: Partial<Enforcement>,
): readonly Configuration[] {
  return staticWebhookConfigurations(settings, state).map((manifest) =>
    parseWebhookConfiguration(manifest.kind as Configuration['kind'], manifest),
  );
}

/** Fields whose differences break the webhook. Other differences may be intentional. */
const ESSENTIAL_FIELDS: ReadonlySet<string> = new Set(['path', 'rules', 'admissionReviewVersions', 'sideEffects']);

/** Returns the differences in a webhook. Ignores the host, the caBundle and the break-glass condition. */
function findDifferences(live: LiveWebhook, expected: LiveWebhook) {
  const actual = comparableFields(live);
  return Object.entries(comparableFields(expected))
    .filter(([field, value]) => !deepEqual(actual[field], value))
    .map(([field, value]) => ({
      field,
      actual: actual[field],
      expected: value,
      isEssential: ESSENTIAL_FIELDS.has(field),
    }));
}

function comparableFields(webhook: LiveWebhook): Readonly<Record<string, unknown>> {
  const { clientConfig, ...fields } = webhook;
  const { url, service } = clientConfig;
  const path = url == null ? service?.path : URL.parse(url)?.pathname;
  return { path, ...fields, matchConditions: otherConditions(webhook) };
}
