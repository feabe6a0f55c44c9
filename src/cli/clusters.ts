/** Runs a command for one cluster, or for several clusters in parallel. */
import { CONFIGURATION_NAME } from '../api/names.ts';
import { systemClock, withTimeout } from '../cluster/clock.ts';
import { listContexts } from '../cluster/cluster-source.ts';
import { connect } from '../cluster/connection.ts';
import type { Kind } from '../kube/kinds.ts';
import { objectPath } from '../kube/resources.ts';
import { ApiError, ConnectionError } from '../kube/status.ts';
import { matchesWildcard, quote, summarizeNames } from '../kube/text.ts';
import { valueAt } from '../kube/types.ts';
import { UserError } from '../kube/user-error.ts';
import { KUBE_SYSTEM } from '../kube/well-known.ts';
import type { ClusterIdentity } from '../web/report-data.ts';
import { clusterOptions, ignoreApiError } from './cluster.ts';
import { type Command, defineCommand, EXIT, type Io, PROGRAM, VERSION } from './command.ts';
import { durationMs, flag, type Option, option, type Options, repeated, text, type Values } from './options.ts';
import {
  type Cell,
  type headersOption,
  printable,
  printListing,
  printReport,
  printTable,
  type Style,
  withHeader,
  withProgress,
} from './output/print.ts';

/** Cluster options of the commands that support several clusters. */
export const clustersOptions = {
  kubeconfig: clusterOptions.kubeconfig,
  context: repeated('NAME', text, {
    help: 'Kubeconfig context, or a pattern such as prod-* for all matching contexts. Can be repeated. Default: the current context',
  }),
  'all-contexts': flag({ help: 'All contexts of the kubeconfig', conflicts: ['context'] }),
  'cluster-timeout': option('DURATION', durationMs, 60_000, {
    shown: '1m',
    help: 'Time limit for each cluster, if the command reads several clusters',
  }),
};

const CLUSTERS_DETAILS = `
With several --context flags, a pattern, or --all-contexts, the output contains one row for each cluster, or one
item with -o json and -o yaml. -o wide also prints the output for each cluster. If a cluster cannot be read, its
row contains the error. The exit code is the highest of all clusters.
`.trim();

type ClustersValues = Values<typeof clustersOptions> & { readonly filename?: readonly string[] };

/** Option values when the command runs for one cluster. */
type OneCluster<V> = Omit<V, 'context'> & { readonly context: string | undefined };

/**
 * Returns the selected contexts, in the order of the options and of the kubeconfig. Returns `undefined` if the options
 * select manifests, or one cluster by its exact name. Rejects with a UserError if no context matches a pattern.
 */
export async function selectContexts(
  { context: patterns, 'all-contexts': isAll, kubeconfig, filename = [] }: ClustersValues,
  { env }: Pick<Io, 'env'>,
): Promise<readonly string[] | undefined> {
  if (!isAll && new Set(patterns).size < 2 && !patterns.some((pattern) => pattern.includes('*'))) return undefined;
  if (filename.length > 0) {
    throw new UserError('--filename reads manifests instead of clusters: remove --context and --all-contexts');
  }
  const names = await listContexts({ kubeconfig, env });
  const choices = names.length === 0 ? 'the kubeconfig contains no context' : `the contexts are ${names.join(', ')}`;
  const selected = (isAll ? ['*'] : patterns).flatMap((pattern) => {
    const matching = names.includes(pattern) ? [pattern] : names.filter((name) => matchesWildcard(pattern, name));
    if (matching.length === 0) throw new UserError(`no context matches ${quote(pattern)}; ${choices}`);
    return matching;
  });
  return [...new Set(selected)];
}

/** The result of a command for one of several clusters, or the reason why the cluster could not be read. */
export type ClusterOutcome<R> = { readonly cluster: ClusterIdentity } & (
  | { readonly result: R; readonly error?: undefined }
  | { readonly error: string; readonly result?: undefined }
);

/** Number of clusters that are read at the same time, which limits the memory for their objects. */
const PARALLEL = 8;

/**
 * Calls `gather` for each context, and resolves to the outcomes in the same order. Shows the progress on a terminal.
 * Rejects if the signal is aborted.
 */
export async function gatherClusters<V extends ClustersValues, R>(
  { contexts, values, io }: { readonly contexts: readonly string[]; readonly values: V; readonly io: Io },
  gather: (values: OneCluster<V>, io: Io) => Promise<R>,
): Promise<readonly ClusterOutcome<R>[]> {
  return await withProgress(io.stderr, async (show) => {
    const outcomes: ClusterOutcome<R>[] = [];
    const running = new Set<string>();
    const pending = contexts.entries();
    let done = 0;
    const progress = (): void => {
      const current = running.size === 0 ? '' : `, reading ${summarizeNames([...running], 3)}`;
      show(printable(`Read ${done} of ${contexts.length} clusters${current}`));
    };
    const work = async (): Promise<void> => {
      for (const [index, context] of pending) {
        running.add(context);
        progress();
        outcomes[index] = await gatherOne({ ...values, context }, io, gather);
        running.delete(context);
        done++;
        progress();
      }
    };
    await Promise.all(Array.from({ length: PARALLEL }, work));
    return outcomes;
  });
}

async function gatherOne<V extends ClustersValues, R>(
  values: OneCluster<V> & ClustersTarget,
  io: Io,
  gather: (values: OneCluster<V>, io: Io) => Promise<R>,
): Promise<ClusterOutcome<R>> {
  const { context, 'cluster-timeout': timeoutMs } = values;
  let cluster: ClusterIdentity = { context };
  let isLate = false;
  try {
    const result = await withTimeout(systemClock, timeoutMs, async (limit) => {
      limit.addEventListener('abort', () => (isLate = true));
      const signal = AbortSignal.any([io.signal, limit]);
      const stderr = { write: (output: string) => io.stderr.write(output) };
      const own: Io = Object.assign(Object.create(io) as Io, { signal, stderr });
      cluster = await identifyCluster(values, own);
      return await gather(values, own);
    });
    return { cluster, result };
  } catch (error) {
    io.signal.throwIfAborted();
    if (isLate) return { cluster, error: `no result within ${timeoutMs / 1000} s (--cluster-timeout)` };
    if (error instanceof UserError || error instanceof ConnectionError || error instanceof ApiError) {
      return { cluster, error: error.message.replaceAll('\n', '; ') };
    }
    // Unexpected objects in one cluster must not hide the results of the other clusters.
    return { cluster, error: `unexpected error: ${String(error)}` };
  }
}

/** Time limit for the first response of a cluster, so unreachable clusters are reported soon. */
const FIRST_RESPONSE_MS = 5000;

type ClustersTarget = OneCluster<Values<typeof clustersOptions>>;

/** Reads the UID and the name of a cluster. Rejects with a ConnectionError if it does not respond. */
async function identifyCluster(
  { kubeconfig, context }: ClustersTarget,
  { env, signal }: Pick<Io, 'env' | 'signal'>,
): Promise<ClusterIdentity> {
  const userAgent = `${PROGRAM}/${VERSION}`;
  const connection = await connect({ kubeconfig, context, env, userAgent, timeoutMs: FIRST_RESPONSE_MS });
  const read = async (kind: Kind, name: string): Promise<object | undefined> =>
    await connection.request({ method: 'GET', path: objectPath(kind, name), signal }).catch(ignoreApiError);
  try {
    const objects = [read('Namespace', KUBE_SYSTEM), read('PortcullisConfiguration', CONFIGURATION_NAME)];
    const [namespace, configuration] = await Promise.all(objects);
    const [uid, name] = [valueAt(namespace, ['metadata', 'uid']), valueAt(configuration, ['spec', 'clusterName'])];
    return { ...(typeof uid === 'string' && { uid }), context, ...(typeof name === 'string' && { name }) };
  } finally {
    connection.close();
  }
}

/** Returns the name of a cluster, followed by its context if the context has a different name. */
function printCluster({ name, context = name ?? '' }: ClusterIdentity): string {
  return name === undefined || name === context ? context : `${name} (${context})`;
}

/** The output of a command for one cluster. */
interface ClusterListing {
  readonly data: object;
  /** The objects that `-o name` prints. */
  readonly objects?: Parameters<typeof printListing>[2]['objects'];
  blocks(style: Style): readonly string[];
  readonly code: number;
  /** The cluster's row in the table of several clusters, and the text in the last column. */
  readonly row: readonly Cell[];
  readonly message?: string | undefined;
}

type ListingOptions = Options &
  typeof clustersOptions & { readonly output: Option<Parameters<typeof printListing>[1]> };

interface ClusterCommand<O extends ListingOptions> extends Pick<Command<O>, 'details' | 'options'> {
  /** Titles of the columns between the name of the cluster and the message. */
  readonly columns: readonly string[];
  gather(values: OneCluster<Values<O>>, io: Io): Promise<ClusterListing>;
}

/** Defines a command that prints a listing for one cluster, and a row or an item for each of several clusters. */
export function defineClusterCommand<O extends ListingOptions>(command: ClusterCommand<O>): Command {
  const { columns, details = '', options, gather }: ClusterCommand<ListingOptions> = command;
  return defineCommand<ListingOptions>({
    options,
    details: details.replace('\nExamples:\n', `\n${CLUSTERS_DETAILS}\n\nExamples:\n`),
    async run(values, _operands, io) {
      const { output } = values;
      const contexts = await selectContexts(values, io);
      if (contexts === undefined) {
        const { data, objects = [], blocks, code } = await gather({ ...values, context: values.context[0] }, io);
        printListing(io, output, { data, objects }, blocks);
        return code;
      }
      if (output === 'name') throw new UserError('-o name does not support several clusters: set -o json');
      const outcomes = await gatherClusters({ contexts, values, io }, gather);
      printReport(io, output, { items: outcomes.map(clusterItem) }, (style) => [
        printClusters(outcomes, { columns, style, ...values }),
        ...(output === 'wide' ? outcomes.flatMap((outcome) => clusterBlocks(outcome, style)) : []),
      ]);
      // A cluster that cannot be read results in the exit code for errors.
      return Math.max(...outcomes.map(({ error, result }) => (error === undefined ? result.code : EXIT.usage)));
    },
  });
}

function clusterItem(outcome: ClusterOutcome<ClusterListing>): object {
  const { cluster, error } = outcome;
  return error === undefined ? { cluster, ...outcome.result.data } : { cluster, error };
}

interface ClusterTable extends Partial<Values<typeof headersOption>> {
  readonly columns: readonly string[];
  readonly style: Style;
}

/** Formats a table with a row for each cluster. If a cluster could not be read, its cells contain a question mark. */
export function printClusters(
  outcomes: readonly ClusterOutcome<Pick<ClusterListing, 'row' | 'message'>>[],
  { columns, style, ...values }: ClusterTable,
): string {
  const rows = outcomes.map(({ cluster, error, result }): readonly Cell[] =>
    error === undefined
      ? [printCluster(cluster), ...result.row, result.message ?? '']
      : [printCluster(cluster), ...columns.map(() => '?'), [error, 'red']],
  );
  return printTable(withHeader(['CLUSTER', ...columns, 'MESSAGE'], rows, { 'no-headers': false, ...values }), {
    style,
  });
}

function clusterBlocks({ cluster, result }: ClusterOutcome<ClusterListing>, style: Style): readonly string[] {
  const title = style('bold', printable(`Cluster ${printCluster(cluster)}`));
  return result === undefined ? [] : [`${title}\n`, ...result.blocks(style)];
}
