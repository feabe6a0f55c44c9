import { CONFIGURATION_NAME, POD_SECURITY_CONFIG_MAP } from '../../api/names.ts';
import { systemClock } from '../../cluster/clock.ts';
import { connect } from '../../cluster/connection.ts';
import { createLiveCluster, type Scope } from '../../cluster/live-cluster.ts';
import { ApiError, ConnectionError } from '../../kube/status.ts';
import { UserError } from '../../kube/user-error.ts';
import { defineCommand, EXIT, PROGRAM, VERSION } from '../command.ts';
import { readCustomSources } from '../inventory/custom-resources.ts';
import { POLICY_SCOPE } from '../inventory/inventory.ts';
import { readRolloutInventory, ROLLOUT_COMMAND_KINDS, rolloutOptions } from '../inventory/rollout.ts';
import { findSettings } from '../inventory/settings.ts';
import { aborted, explainAddressError } from '../listen.ts';
import { integer, option } from '../options.ts';
import { openDashboard } from './dashboard-server.ts';

const { kubeconfig, context, config, 'installation-namespace': installation, 'scc-mode': sccMode } = rolloutOptions;

/** Minimum interval between two reads of the custom resources, which are not watched. */
const CUSTOM_INTERVAL_MS = 5000;

const DETAILS = `
Shows the report of a cluster in a browser, and updates it while the cluster changes. The command reads the
cluster with the permissions of the kubeconfig, and changes nothing.

The page is served only on 127.0.0.1. The printed URL contains a one-time token, which the browser exchanges for
a cookie. Ctrl-C ends the command.

Examples:
  portcullis dashboard
  portcullis dashboard --context production --port 8090
`;

export const command = defineCommand({
  details: DETAILS,
  options: {
    kubeconfig,
    context,
    config,
    'installation-namespace': installation,
    'scc-mode': sccMode,
    port: option('PORT', integer(0, 65_535), 0, { help: 'Port on 127.0.0.1, or 0 for any free port' }),
  },
  async run(options, _operands, io) {
    const { port, 'installation-namespace': namespace } = options;
    // Reads the cluster once to report missing permissions, because watches would retry forever.
    const inventory = await readRolloutInventory({ ...options, filename: [], exclude: [] }, io, {
      kinds: ROLLOUT_COMMAND_KINDS,
      workloadResources: () => Promise.resolve([]),
    });
    const { env, signal } = io;
    const connection = await connect({ ...options, env, userAgent: `${PROGRAM}/${VERSION}` });
    const cluster = createLiveCluster({
      connection,
      clock: systemClock,
      random: Math.random,
      now: () => new Date(),
    });
    const { store } = cluster;
    store.emulationVersion = inventory.store.emulationVersion;
    const scopes: readonly Scope[] = [
      ...ROLLOUT_COMMAND_KINDS.map((kind) => ({ kind })),
      { kind: 'PortcullisConfiguration', name: CONFIGURATION_NAME },
      POLICY_SCOPE,
      { kind: 'PodSecurityException' },
      { kind: 'ConfigMap', namespace, name: POD_SECURITY_CONFIG_MAP },
      { kind: 'Lease', namespace },
    ];
    try {
      const isUnread = ({ kind }: Scope): boolean => inventory.unread.some((unread) => unread.kind === kind);
      await Promise.race([cluster.follow(scopes.filter((scope) => !isUnread(scope))), aborted(signal)]);
      const outages = (): readonly string[] =>
        [...cluster.failures()].map(
          ([kind, reason]) => `the last known ${kind} objects, because watching them fails: ${reason}`,
        );
      const readCustom = async (): ReturnType<typeof readCustomSources> => {
        const { workloadResources } = (await findSettings({ config: options.config, store, namespace })).settings;
        return await readCustomSources(workloadResources, { connection, only: undefined, signal });
      };
      let custom = await readCustom();
      let unreadCustom: readonly string[] = [];
      let readMs = -Infinity;
      const refresh = async (): Promise<void> => {
        if (performance.now() - readMs < CUSTOM_INTERVAL_MS) return;
        readMs = performance.now();
        try {
          custom = await readCustom();
          unreadCustom = [];
        } catch (error) {
          if (!(error instanceof ApiError || error instanceof ConnectionError || error instanceof UserError))
            throw error;
          unreadCustom = [`the last known state of custom resources: ${error.message}`];
        }
      };
      const opening = openDashboard({
        port,
        server: connection.server,
        inventory: () => {
          const { customSources, assumptions: notRead } = custom;
          const assumptions = [...inventory.assumptions, ...notRead, ...outages(), ...unreadCustom];
          return { ...inventory, store, customSources, assumptions };
        },
        refresh,
        values: options,
        signal,
      });
      const dashboard = await explainAddressError(opening, { host: '127.0.0.1', port, option: 'port' });
      io.stdout.write(`Portcullis shows the cluster at ${connection.server}\n\n  Dashboard: ${dashboard.url}\n\n`);
      await aborted(signal);
      await dashboard.close();
    } finally {
      await cluster.stop();
      connection.close();
    }
    return EXIT.passed;
  },
});
