/** The diagnosis of an installation without a server: policies in the API server. */
import { reviewSelf } from '../../cluster/access.ts';
import { readCluster } from '../../cluster/lists.ts';
import { effectivePodSecurity } from '../../cluster/rollout.ts';
import { UserError } from '../../config/files.ts';
import { settingsFromObject } from '../../config/configuration.ts';
import { settingAt, withSetting } from '../../config/setting-paths.ts';
import type { Settings } from '../../config/settings.ts';
import { CONTROLLER_NAMES } from '../../controllers/index.ts';
import { decodePolicy } from '../../install/index.ts';
import { RESOURCES } from '../../kube/resources.ts';
import { isPartOfPortcullis } from '../../kube/webhooks.ts';
import {
  INSTALLATION,
  POD_SECURITY_CONFIG_MAP,
  POD_SECURITY_LABELS,
  POLICY_SETTINGS_ANNOTATION,
} from '../../kube/well-known.ts';
import { printPolicy, resolvePolicies } from '../../policy/psa/policy.ts';
import { compareVersions } from '../../policy/pss/policy.ts';
import { VERSION } from '../command.ts';
import { patchSettings } from '../install/installed.ts';
import { findWeakerThanPolicies } from '../install/weakening.ts';
import { readConfigurations, readServer, type ClusterClient, type Server } from '../installation.ts';
import { objectPathName } from '../install/diff.ts';
import {
  comparePolicies,
  deleteAllCommand,
  deleteCommand,
  hasSettings,
  LACKS,
  readServerless,
  serverlessConfiguration,
  serverlessPolicies,
  type InstalledPolicy,
  type ServerlessSettings,
} from '../install/policies.ts';
import {
  info,
  ok,
  problem,
  unknown,
  warning,
  type CheckResult,
  type Facts,
  type Finding,
  type Probe,
} from './facts.ts';
import { podProbe, runProbe, VIOLATING_POD } from './gather.ts';

const INSTALL = 'portcullis install --without-server | kubectl apply -f -';

/** True if the webhooks or the Deployment of a server exist. Rejects as `request` does. */
export async function hasServer(client: ClusterClient, namespace: string): Promise<boolean> {
  if ((await readConfigurations(client)).some(isPartOfPortcullis)) return true;
  return (await client.get(RESOURCES.Deployment, INSTALLATION.name, namespace)) !== undefined;
}

/** A server in a cluster with policies that were installed without one. */
interface PolicyServer {
  readonly client: ClusterClient;
  readonly facts: Facts;
  readonly findings: readonly Finding[];
}

/**
 * The finding for a cluster with a server and policies that were installed without one. The fix deletes the policies only if
 * the server enforces as much.
 */
export async function checkBesideServer(
  policies: readonly InstalledPolicy[],
  server: PolicyServer,
): Promise<readonly Finding[]> {
  if (!policies.some(hasSettings)) return [];
  const result = warning('policies', 'of an installation without a server exist besides the server', {
    impact:
      'they enforce the settings in their annotation, in addition to those of the server; to remove the server instead: portcullis uninstall --keep-policies',
    fix: await besideServerFix(policies, server),
  });
  return [{ check: 'policies', ...result }];
}

async function besideServerFix(
  policies: readonly InstalledPolicy[],
  { client, facts, findings }: PolicyServer,
): Promise<string> {
  const isUnhealthy = findings.some(
    ({ severity, check }) => severity === 'problem' || (severity === 'warning' && check === 'configuration'),
  );
  if (isUnhealthy || !('value' in facts.configuration)) {
    return '# first fix the problems above: until then, only the policies may enforce';
  }
  const spec = readServerless(policies)?.spec ?? {};
  const { phase, effective } = await readEffectiveSpec(client, facts);
  const weaker = findWeakerThanPolicies(facts.namespace, spec, effective);
  if (weaker.length === 0) return deleteAllCommand(policies);
  if (phase !== 'Disabled') {
    return `# the policies enforce more than the rollout (${weaker.join('; ')}): delete them when it enforces as much, see portcullis rollout status`;
  }
  const paths = weaker.map((one) => one.split(' ', 1).join().split('.'));
  return patchSettings(paths.map((path) => ({ path, value: settingAt(spec, path) ?? null })));
}

/** Reads the settings of the server, with the default level that a rollout has reached. */
async function readEffectiveSpec(client: ClusterClient, { namespace, settings }: Facts) {
  const { rollout, podSecurity } = decodePolicy(settings);
  const { phase } = rollout;
  if (phase === 'Disabled') return { phase, effective: settings.policy };
  const { store } = await readCluster(client.connection, ['PSAEnforcementConfig', 'FeatureGate'], {
    signal: client.signal,
  });
  const configMap = await client.get(RESOURCES.ConfigMap, POD_SECURITY_CONFIG_MAP, namespace);
  if (configMap) store.put('ConfigMap', configMap);
  const { configuration } = effectivePodSecurity({ store, namespace, version: VERSION }, { rollout, podSecurity });
  const { enforce } = configuration.defaults;
  const isOther = ([name]: readonly [string, unknown]): boolean => name !== 'rollout' && name !== 'featureGates';
  const others = Object.fromEntries(Object.entries(settings.policy).filter(isOther));
  return { phase, effective: withSetting(others, { path: ['podSecurity', 'defaults', 'enforce'], value: enforce }) };
}

interface PolicyFacts {
  readonly server: Server;
  readonly objects: readonly InstalledPolicy[];
  readonly settings: ServerlessSettings;
  readonly podSecurity: Settings['podSecurity'];
  /** Violating pods in a namespace with a level by label, and by default. */
  readonly probes: { readonly label: Probe | undefined; readonly default: Probe | undefined };
  /** True if the user of the command is exempt. */
  readonly isExempt: boolean;
}

const DECODE = { controllers: CONTROLLER_NAMES, namespace: INSTALLATION.namespace };

/** Inspects the policies. Rejects as `request` does. */
export async function diagnosePolicies(
  client: ClusterClient,
  objects: readonly InstalledPolicy[],
): Promise<readonly Finding[]> {
  const toFinding = (check: string) => (result: CheckResult) => ({ check, ...result });
  let settings, podSecurity;
  try {
    settings = readServerless(objects);
    podSecurity = settings && settingsFromObject(serverlessConfiguration(settings), DECODE).podSecurity;
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    return [problem('settings', error.message, {})].map(toFinding('policies'));
  }
  if (!settings || !podSecurity) {
    const impact = 'it is unknown what they enforce, and other commands assume the default settings';
    const fix = 'portcullis install --without-server --help';
    const result = problem('policies', `none has its settings in the annotation ${POLICY_SETTINGS_ANNOTATION}`, {
      impact,
      fix,
    });
    return [result].map(toFinding('policies'));
  }
  const server = await readServer(client);
  const probes = await probeNamespaces(client, podSecurity);
  const user = await reviewSelf(client.connection, client.signal);
  const isExempt = user?.username !== undefined && podSecurity.exemptions.user(user.username);
  const facts = { server, objects, settings, podSecurity, probes, isExempt };
  return [
    ...[info('installation', `policies without a server: ${LACKS}`)].map(toFinding('installation')),
    ...checkVersion(facts).map(toFinding('api-server')),
    ...checkObjects(facts).map(toFinding('policies')),
    ...checkEnforcement(facts).map(toFinding('enforcement')),
    ...checkPlugin(facts).map(toFinding('other-admission')),
  ];
}

/** Sends violating pods to a namespace with a level by label, and to one with the default level, as dry runs. */
async function probeNamespaces(
  client: ClusterClient,
  { defaults, exemptions }: Settings['podSecurity'],
): Promise<PolicyFacts['probes']> {
  const all = (await client.list(RESOURCES.Namespace)).flatMap(({ metadata: { name, labels = {} } }) => {
    const isEnforced = resolvePolicies(labels, defaults).enforce.level !== 'privileged';
    return isEnforced && !exemptions.namespace(name) ? [{ name, labels }] : [];
  });
  const isLabelled = ({ labels }: (typeof all)[number]): boolean => POD_SECURITY_LABELS.enforce in labels;
  const run = async (namespace: (typeof all)[number] | undefined): Promise<Probe | undefined> =>
    namespace && (await runProbe(client, podProbe('a violating pod', namespace, VIOLATING_POD)));
  const unlabelled = all.filter((one) => !isLabelled(one));
  const [label, byDefault] = await Promise.all([
    run(all.find(isLabelled)),
    run(unlabelled.find(({ name }) => name === 'default') ?? unlabelled[0]),
  ]);
  return { label, default: byDefault };
}

function checkVersion({ server: { version, minor }, settings: { kubernetes } }: PolicyFacts): readonly CheckResult[] {
  const object = `Kubernetes ${version}`;
  if (minor === undefined) return [unknown(object, `the policies are for ${kubernetes}, and the version is unknown`)];
  const order = compareVersions(kubernetes, minor);
  if (order > 0) {
    return [
      problem(object, `the policies are for ${kubernetes}`, {
        impact: 'the API server may reject functions of the policies, and then denies pods',
        fix: INSTALL,
      }),
    ];
  }
  if (order === 0) return [ok(object, 'the policies are for this version')];
  const impact = `latest means ${kubernetes}: requirements of newer versions are not enforced`;
  const fix = 'portcullis upgrade | kubectl apply -f -';
  return [info(object, `the policies are for ${kubernetes}`, { impact, fix })];
}

/** Each generated object exists and is unchanged, and there are no others. */
function checkObjects({ objects, settings }: PolicyFacts): readonly CheckResult[] {
  const { program, kubernetes, spec } = settings;
  if (program !== VERSION) {
    const message = `were generated by version ${program}, and this program has version ${VERSION}: they are not compared`;
    return [info('policies', message, { fix: 'portcullis upgrade | kubectl apply -f -' })];
  }
  const { expected, missing, changed, obsolete } = comparePolicies(serverlessPolicies(spec, kubernetes), objects);
  const isMutating = ({ kind }: { readonly kind: string }): boolean => kind.startsWith('Mutating');
  const report = (object: (typeof expected)[number], message: string): CheckResult => {
    const impact = isMutating(object)
      ? 'new pods do not get the defaults of the settings'
      : 'pods are not evaluated as the settings require';
    return problem(objectPathName(object), message, { impact, fix: INSTALL });
  };
  const results = [
    ...missing.map((object) => report(object, 'does not exist')),
    ...changed.map((object) => report(object, 'differs from what its settings generate')),
    ...obsolete.map((object) =>
      warning(objectPathName(object), 'is not part of the settings', {
        impact: isMutating(object) ? 'it sets former defaults in new pods' : 'it enforces former settings',
        fix: deleteCommand(object),
      }),
    ),
  ];
  return results.length > 0
    ? results
    : [ok('policies', `${expected.length} objects exist, as their settings generate them`)];
}

const DENIAL = /violates PodSecurity "/;
const POLICY = 'ValidatingAdmissionPolicy';

/** A violating pod is denied by default. */
function checkEnforcement({ probes, podSecurity, isExempt }: PolicyFacts): readonly CheckResult[] {
  const { enforce } = podSecurity.defaults;
  if (enforce.level === 'privileged') return [info('default', 'namespaces without a label are not restricted')];
  const probe = probes.default;
  const level = printPolicy(enforce);
  if (!probe) return [info('default', `${level}; no namespace without a label is evaluated`)];
  const object = `namespace ${probe.namespace?.name}`;
  if (probe.refusal !== undefined) {
    return DENIAL.test(probe.refusal)
      ? [ok(object, `a violating pod is denied by the default ${level}`)]
      : [unknown(object, `the default ${level} was not tested: ${probe.refusal}`)];
  }
  if (isExempt) return [unknown(object, `the default ${level} was not tested: the user of this command is exempt`)];
  const impact = `the default ${level} is not enforced`;
  return [problem(object, 'a violating pod is admitted', { impact, fix: INSTALL })];
}

const PLUGIN = 'PodSecurity plugin';

/** The denial of the plugin does not name a policy, and comes first. */
function checkPlugin({ probes: { label }, isExempt }: PolicyFacts): readonly CheckResult[] {
  const reason = label ? label.refusal : `no evaluated namespace has the label ${POD_SECURITY_LABELS.enforce}`;
  if (reason === undefined || !DENIAL.test(reason)) {
    return [
      unknown(
        PLUGIN,
        `cannot detect whether it is enabled: ${reason ?? (isExempt ? 'the user of this command is exempt' : 'a violating pod is admitted')}`,
      ),
    ];
  }
  if (reason.includes(POLICY)) return [ok(PLUGIN, 'is disabled: only the policies evaluate pods')];
  const impact = 'the exemptions and defaults of the policies do not apply to the plugin';
  return [info(PLUGIN, 'is enabled: it evaluates the labels of namespaces before the policies', { impact })];
}
