import type { Connection } from '../../../cluster/connect.ts';
import { listAll } from '../../../cluster/list.ts';
import { INSTALLATION } from '../../../kube/installation.ts';
import { RESOURCES } from '../../../kube/resources.ts';
import { isObject, type Kind, type Kinds, type KubeObject } from '../../../kube/types.ts';
import { ifThere } from '../../installation/connect.ts';
import { listObjects, objectPath, type Resource } from '../../installation/resource.ts';
import { isOurs, readConfigurations, type Configuration } from '../../installation/own-webhooks.ts';
import type { ConfigurationFile, Fact, Facts, NamespaceFact, ServedCertificate, ServerFact } from '../types.ts';
import { lookAtAccess } from './access.ts';
import { lookAtAddress, lookAtSecret } from './certificates.ts';
import { look } from './look.ts';
import { mountedFile } from './mounted.ts';
import { planProbes, runProbe } from './probes.ts';
import { settingsOf } from './settings.ts';

export interface GatherOptions {
  /** Of the installation. */
  readonly namespace: string;
  readonly now: Date;
  readonly signal: AbortSignal;
}

const DISRUPTION_BUDGETS: Resource = { group: 'policy', version: 'v1', resource: 'poddisruptionbudgets' };
const CONFIG_MAPS: Resource = { group: '', version: 'v1', resource: 'configmaps' };

/**
 * Looks at an installation and what surrounds it. Rejects with an ApiError if the webhook configurations may not be read,
 * with a UserError if the cluster cannot be reached.
 */
export async function gatherFacts(connection: Connection, options: GatherOptions): Promise<Facts> {
  const { namespace, now, signal } = options;
  const configurations = await readConfigurations(connection, signal);
  const list = <K extends Kind>(kind: K, within?: string): Promise<Fact<readonly Kinds[K][]>> =>
    look(async () => {
      const objects = await listAll(connection, {
        kind,
        signal,
        ...(within === undefined ? {} : { namespace: within }),
      });
      return objects as unknown as readonly Kinds[K][];
    });
  const [server, namespaces, nodes, deployment, pods, disruptionBudgets, leases] = await Promise.all([
    lookAtServer(connection, signal),
    list('Namespace'),
    list('Node'),
    lookAtDeployment(connection, options),
    list('Pod', namespace),
    look(() => listObjects(connection, DISRUPTION_BUDGETS, { namespace, signal })),
    list('Lease', namespace),
  ]);
  const running = valueOf(deployment);
  const configuration = await lookAtConfiguration(connection, options, running);
  const settings = settingsOf({ namespace, configurations, deployment: running, file: valueOf(configuration) });
  const known = (valueOf(namespaces) ?? []).map(namespaceFact);
  const requests = planProbes({
    installation: namespace,
    configurations,
    namespaces: known,
    groups: valueOf(server)?.groups ?? [],
  });
  const account = running?.spec?.template.spec?.serviceAccountName ?? INSTALLATION.name;
  const [certificate, atUrls, lacking, probes] = await Promise.all([
    lookAtSecret(connection, namespace, running, signal),
    lookAtUrls(configurations),
    lookAtAccess(connection, settings, account, signal),
    Promise.all(requests.map((request) => runProbe(connection, request, signal))),
  ]);
  return {
    now,
    namespace,
    settings,
    server,
    configurations,
    namespaces: 'value' in namespaces ? { value: known } : namespaces,
    nodes,
    deployment,
    pods,
    disruptionBudgets,
    leases,
    certificate,
    atUrls,
    configuration,
    lacking,
    probes,
  };
}

function valueOf<T>(fact: Fact<T>): T | undefined {
  return 'value' in fact ? fact.value : undefined;
}

function namespaceFact({ metadata }: KubeObject): NamespaceFact {
  return { name: metadata?.name ?? '', labels: metadata?.labels ?? {} };
}

async function lookAtServer(connection: Connection, signal: AbortSignal): Promise<Fact<ServerFact>> {
  return await look(async () => {
    const [version, apis] = await Promise.all(
      ['/version', '/apis'].map((path) => connection.request({ method: 'GET', path, signal })),
    );
    const groups: readonly unknown[] = Array.isArray(apis?.['groups']) ? apis['groups'] : [];
    return {
      version: String(version?.['gitVersion']),
      groups: groups.flatMap((group) => (isObject(group) ? [String(group['name'])] : [])),
    };
  });
}

async function lookAtDeployment(
  connection: Connection,
  { namespace, signal }: GatherOptions,
): Promise<Fact<Kinds['Deployment'] | undefined>> {
  const path = objectPath(RESOURCES.Deployment, INSTALLATION.name, namespace);
  return await look(() =>
    ifThere(() => connection.request({ method: 'GET', path, signal }) as Promise<Kinds['Deployment']>),
  );
}

async function lookAtUrls(configurations: readonly Configuration[]): Promise<Facts['atUrls']> {
  const urls = configurations
    .filter(isOurs)
    .flatMap(({ webhooks }) => webhooks.flatMap(({ clientConfig: { url } }) => url ?? []));
  const origins = [...new Set(urls.filter((url) => URL.canParse(url)).map((url) => new URL(url).origin))];
  const facts = await Promise.all(
    origins.map(async (origin): Promise<[string, Fact<ServedCertificate>]> => [origin, await lookAtAddress(origin)]),
  );
  return new Map(facts);
}

async function lookAtConfiguration(
  connection: Connection,
  { namespace, signal }: GatherOptions,
  deployment: Kinds['Deployment'] | undefined,
): Promise<Fact<ConfigurationFile | undefined>> {
  const mounted = mountedFile(deployment, 'config');
  if (mounted?.kind !== 'ConfigMap') return { value: undefined };
  const { name, key } = mounted;
  return await look(async () => {
    const path = objectPath(CONFIG_MAPS, name, namespace);
    const map = await ifThere(() => connection.request({ method: 'GET', path, signal }));
    return { source: `configmaps/${name} ${key}`, text: textAt(map?.['data'], key) };
  });
}

function textAt(data: unknown, key: string): string | undefined {
  const text = isObject(data) && Object.hasOwn(data, key) ? data[key] : undefined;
  return typeof text === 'string' ? text : undefined;
}
