/** Diagnoses the policies of an installation that has no server. */
import { INSTALLATION, POLICY_SETTINGS_ANNOTATION } from '../../api/names.ts';
import { isPartOfPortcullis } from '../../api/webhooks.ts';
import { reviewSelf } from '../../cluster/access-reviews.ts';
import { type ClusterClient, readServer, type Server } from '../../cluster/client.ts';
import { settingsFromObject } from '../../config/configuration.ts';
import type { Settings } from '../../config/settings.ts';
import { CONTROLLER_NAMES } from '../../controllers/index.ts';
import { readConfigurations } from '../../install/index.ts';
import { RESOURCES } from '../../kube/resources.ts';
import { UserError } from '../../kube/user-error.ts';
import { POD_SECURITY_LABELS } from '../../kube/well-known.ts';
import { printPolicy, resolvePolicies } from '../../policy/psa/index.ts';
import { compareVersions } from '../../policy/pss/index.ts';
import { isTerminating } from '../../policy/rollout/index.ts';
import { PROGRAM, VERSION } from '../command.ts';
import { objectPathName } from '../installation/obsolete-objects.ts';
import {
  comparePolicies,
  deleteCommand,
  type InstalledPolicy,
  LACKS,
  readAnnotatedSettings,
  equivalentConfiguration,
  buildPolicies,
  type AnnotatedSettings,
} from '../installation/policies.ts';
import { kubectl } from '../output/shell.ts';
import { describeExemptionProblems } from './checks/exemptions.ts';
import { describeLowerGrants } from './checks/guard.ts';
import { PLUGIN, podSecurityEvaluator } from './checks/other-admission.ts';
import {
  type CheckName,
  type CheckResult,
  type DoctorFinding,
  type Fix,
  info,
  ok,
  type Probe,
  problem,
  unknown,
  warning,
} from './facts.ts';
import { instruction } from './fix.ts';
import { createLister, podProbe, readExemptionProblems, readLowerGrants, runProbe, VIOLATING_POD } from './gather.ts';

const APPLY = kubectl('apply', '-f', '-');
const INSTALL: Fix = { commands: [{ program: PROGRAM, args: ['install', '--without-server'] }, APPLY] };
const UPGRADE: Fix = { commands: [{ program: PROGRAM, args: ['upgrade'] }, APPLY] };

/**
 * Resolves to true if the webhooks or the Deployment of a server exist. Rejects with the errors of
 * `Connection.request`.
 */
export async function hasServer(client: ClusterClient, namespace: string): Promise<boolean> {
  if ((await readConfigurations(client)).some(isPartOfPortcullis)) return true;
  return (await client.get(RESOURCES.Deployment, INSTALLATION.name, namespace)) !== undefined;
}

interface PolicyFacts {
  readonly server: Server;
  readonly objects: readonly InstalledPolicy[];
  readonly settings: AnnotatedSettings;
  readonly podSecurity: Settings['podSecurity'];
  /** Dry runs of violating pods in a namespace whose label sets a level and in a namespace with the default level. */
  readonly probes: { readonly label: Probe | undefined; readonly default: Probe | undefined };
  /** True if the user who runs the command is exempt. */
  readonly isExempt: boolean;
}

const DECODE = { controllers: CONTROLLER_NAMES, namespace: INSTALLATION.namespace };

/** Diagnoses the policies. Rejects with the errors of `Connection.request`. */
export async function diagnosePolicies(
  client: ClusterClient,
  objects: readonly InstalledPolicy[],
): Promise<readonly DoctorFinding[]> {
  const named = (check: CheckName, ...results: readonly CheckResult[]) =>
    results.map((result) => ({ check, ...result }));
  let settings, podSecurity, guard;
  try {
    settings = readAnnotatedSettings(objects);
    if (settings) ({ podSecurity, guard } = settingsFromObject(equivalentConfiguration(settings), DECODE));
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    return named('policies', problem('settings', error.message));
  }
  if (!settings || !podSecurity) {
    const message = `none contains its settings in annotation ${POLICY_SETTINGS_ANNOTATION}`;
    const impact = 'their enforcement is unknown, and other commands assume the default settings';
    const fix = instruction('install them again with all settings, see portcullis install --without-server --help');
    return named('policies', problem('policies', message, { impact, fix }));
  }
  const server = await readServer(client);
  const list = createLister(client);
  const probes = await probeNamespaces(client, list, podSecurity);
  const user = await reviewSelf(client.connection, client.signal);
  const isExempt = user?.username !== undefined && podSecurity.exemptions.user(user.username);
  const facts = { server, objects, settings, podSecurity, probes, isExempt };
  return [
    ...named('installation', info('installation', `policies without a server: ${LACKS}`)),
    ...named('api-server', checkVersion(facts)),
    ...named('policies', ...checkObjects(facts)),
    ...named('enforcement', checkEnforcement(facts)),
    ...named(
      'exemptions',
      ...describeExemptionProblems(await readExemptionProblems(list, podSecurity.configuration.exemptions)),
    ),
    ...(guard?.labels === 'off' ? [] : named('guard', ...describeLowerGrants(await readLowerGrants(list)))),
    ...named('other-admission', checkPlugin(facts)),
  ];
}

/**
 * Sends dry runs of violating pods to a namespace whose label sets a level and to a namespace with the default level.
 */
async function probeNamespaces(
  client: ClusterClient,
  list: ReturnType<typeof createLister>,
  { defaults, exemptions }: Settings['podSecurity'],
): Promise<PolicyFacts['probes']> {
  const namespaces = (await list('Namespace')).filter((namespace) => !isTerminating(namespace));
  const all = namespaces.flatMap(({ metadata: { name, labels = {} } }) => {
    const isEnforced = resolvePolicies(labels, defaults).enforce.level !== 'privileged';
    return isEnforced && !exemptions.namespace(name) ? [{ name, labels }] : [];
  });
  const isLabeled = ({ labels }: (typeof all)[number]): boolean => POD_SECURITY_LABELS.enforce in labels;
  const run = async (namespace: (typeof all)[number] | undefined): Promise<Probe | undefined> =>
    namespace && (await runProbe(client, podProbe('a violating pod', namespace, VIOLATING_POD)));
  const unlabeled = all.filter((namespace) => !isLabeled(namespace));
  const [label, byDefault] = await Promise.all([
    run(all.find(isLabeled)),
    run(unlabeled.find(({ name }) => name === 'default') ?? unlabeled[0]),
  ]);
  return { label, default: byDefault };
}

function checkVersion({ server: { version, minor }, settings: { kubernetes } }: PolicyFacts): CheckResult {
  const object = `Kubernetes ${version}`;
  const message = `the policies are for ${kubernetes}`;
  if (minor === undefined) return unknown(object, `${message}, and the version is unknown`);
  const order = compareVersions(kubernetes, minor);
  if (order === 0) return ok(object, 'the policies are for this version');
  if (order > 0) {
    const impact = 'the API server may reject functions in the policies, and then denies pods';
    return problem(object, message, { impact, fix: INSTALL });
  }
  const impact = `latest means ${kubernetes}, so requirements of newer versions are not enforced`;
  return info(object, message, { impact, fix: UPGRADE });
}

/** Checks that every generated object exists unchanged and that no other policies exist. */
function checkObjects({ objects, settings }: PolicyFacts): readonly CheckResult[] {
  const { program, kubernetes, spec } = settings;
  if (program !== VERSION) {
    const message = `were generated by version ${program}, so version ${VERSION} does not compare them with their settings`;
    return [info('policies', message, { fix: UPGRADE })];
  }
  const { expected, missing, changed, obsolete } = comparePolicies(buildPolicies(spec, kubernetes), objects);
  const isMutating = ({ kind }: { readonly kind: string }): boolean => kind.startsWith('Mutating');
  const report = (object: (typeof expected)[number], message: string): CheckResult => {
    const impact = isMutating(object)
      ? 'new pods do not get the configured defaults'
      : 'pods are not evaluated according to the settings';
    return problem(objectPathName(object), message, { impact, fix: INSTALL });
  };
  const results = [
    ...missing.map((object) => report(object, 'does not exist')),
    ...changed.map((object) => report(object, 'differs from the object that its settings generate')),
    ...obsolete.map((object) =>
      warning(objectPathName(object), 'is not generated by its settings', {
        impact: isMutating(object) ? 'it sets outdated defaults in new pods' : 'it enforces outdated settings',
        fix: { commands: [deleteCommand(object)] },
      }),
    ),
  ];
  return results.length > 0 ? results : [ok('policies', `${expected.length} objects exist and match their settings`)];
}

const EXEMPT = 'the current user is exempt';

/** Checks that the default level denies a violating pod. */
function checkEnforcement({ probes, podSecurity, isExempt }: PolicyFacts): CheckResult {
  const { enforce } = podSecurity.defaults;
  if (enforce.level === 'privileged') return info('default', 'namespaces without a label are not restricted');
  const probe = probes.default;
  const level = printPolicy(enforce);
  if (!probe) return info('default', `the default level is ${level}, but no namespace without a label is evaluated`);
  const object = `namespace ${probe.namespace?.name}`;
  const { rejection = isExempt ? EXEMPT : undefined } = probe;
  if (rejection === undefined) {
    const impact = `the default level ${level} is not enforced`;
    return problem(object, 'a violating pod is admitted', { impact, fix: INSTALL });
  }
  return podSecurityEvaluator(rejection) !== undefined
    ? ok(object, `a violating pod is denied by the default level ${level}`)
    : unknown(object, `the default level ${level} was not tested: ${rejection}`);
}

/**
 * Detects the PodSecurity plugin, which denies pods before the policies do. Its message does not contain a policy name.
 */
function checkPlugin({ probes: { label }, isExempt }: PolicyFacts): CheckResult {
  const reason = label ? label.rejection : `no evaluated namespace has the label ${POD_SECURITY_LABELS.enforce}`;
  const evaluator = podSecurityEvaluator(reason);
  if (evaluator === undefined) {
    const cause = reason ?? (isExempt ? EXEMPT : 'a violating pod is admitted');
    return unknown(PLUGIN, `cannot detect whether it is enabled: ${cause}`);
  }
  if (evaluator === 'policy') return ok(PLUGIN, 'is disabled. Only the policies evaluate pods');
  const impact = 'the exemptions and defaults of the policies do not apply to the plugin';
  return info(PLUGIN, 'is enabled and evaluates the labels of namespaces before the policies', { impact });
}
