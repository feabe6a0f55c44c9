import type { Store } from '../../cluster/store.ts';
import { listSettings } from '../../config/setting-paths.ts';
import type { Settings } from '../../config/settings.ts';
import { deepEqual } from '../../kube/equality.ts';
import { shellQuote } from '../../kube/text.ts';
import type { JsonObject } from '../../kube/types.ts';
import { INSTALLATION } from '../../kube/well-known.ts';
import { latestVersion, newestVersion } from '../../policy/pss/evaluate.ts';
import type { Version } from '../../policy/pss/policy.ts';
import { countNamespaces, needsFix } from '../../policy/rollout/plan.ts';
import { defineCommand, EXIT } from '../command.ts';
import { findWeakenings } from '../install/weakening.ts';
import { selectedNamespace, selectionOptions, selectorOption } from '../inventory/inventory.ts';
import { oneOf, option, policyVersion, time, UsageError, type Values } from '../options.ts';
import { assumptionBlocks, listOptions, printable, printListing } from '../output/print.ts';
import { gatherRollout, type RolloutFacts, rolloutOptions } from './facts.ts';
import { listedNamespaces, namespaceSections, printNamespaceCounts } from './namespace-table.ts';
import { planNamespaces, planUpgrades, selectNamespaces } from './namespaces.ts';

const DETAILS = `
Shows the level in force in each namespace, the level with enforcement, the workloads that these levels deny,
the reasons and the next steps. The command changes nothing.

"denied now" marks workloads that the level in force denies: running pods continue, but new ones are denied.
"violating" marks namespaces with workloads that only the planned level denies. "to restart" marks workloads
whose running pods violate the level, such as pods that are older than SCC enforcement, and whose new pods
comply. Restart them; their manifests need no change.

A namespace with its own label keeps its level. The planned level of other namespaces follows from the
security context constraints (SCCs) that their service accounts may use, if the server manages their labels.
Otherwise it is restricted.

With --kubernetes-version, only the workloads that this version would deny but the cluster
version admits are listed, in all namespaces. Use it to prepare a cluster upgrade.

--level plans another default level, such as a change of spec.podSecurity.defaults.enforce, and this label in
all namespaces with a weaker label. With -n, it also plans a weaker label. In a cluster whose policies were
installed without a server, the command that applies the change is printed. There, --config plans the
defaults and exemptions of a file.

The namespaces with the most denied workloads are listed first, up to 20 namespaces. -o wide lists all of them
with the denied workloads, the reasons and the next steps; -n does so for one namespace.

Exit codes:
  0  no workload is or would be denied
  1  some workloads are or would be denied, or an evaluation failed
  2  usage error, or the input cannot be read

Examples:
  portcullis rollout plan
  portcullis rollout plan -n shop -o json
  portcullis rollout plan --kubernetes-version v1.37
  portcullis rollout plan --at 2027-02-01
  portcullis rollout plan --level restricted
  portcullis rollout plan -n shop --level restricted
  portcullis rollout plan -f exported/ --scc-mode enforce
`;

const options = {
  ...rolloutOptions,
  ...selectionOptions,
  ...selectorOption,
  ...listOptions,
  level: option('LEVEL', oneOf(['baseline', 'restricted'] as const), undefined, {
    help: 'Plan this level as the default and as the label of namespaces with a weaker one; with -n, also as a weaker label. Default: the default level of the rollout, or without a server, of --config, else restricted',
  }),
  at: option('DATE', time, undefined, {
    help: 'Show what is denied at this date, when some exceptions have expired. Default: now',
  }),
  'kubernetes-version': option('VERSION', policyVersion, undefined, {
    help: 'Show what this Kubernetes version (v1.N) would newly deny',
  }),
};

export const command = defineCommand({
  details: DETAILS,
  options,
  async run(values, _operands, io) {
    if (values.level !== undefined && values['kubernetes-version'] !== undefined) {
      throw new UsageError('--level and --kubernetes-version cannot be combined');
    }
    const only = selectedNamespace(values);
    const facts = await gatherRollout(values, io, new Date());
    const { settingsSource: settings } = facts;
    const comparison = compare(facts.store, values['kubernetes-version']);
    const { versions } = comparison ?? {};
    const assumptions = [...facts.assumptions, ...(comparison?.assumptions ?? [])];
    const change = planChange(facts, values);
    const scope = { only, policy: versions ? facts.serverless?.defaults.enforce : change.policy };
    const planned = versions
      ? await planUpgrades(facts, versions, { io, ...scope })
      : await planNamespaces(facts, io, { ...scope, newLabel: values.level });
    const namespaces = selectNamespaces(planned, facts.store, { ...values, namespace: only });
    const counts = countNamespaces(namespaces);
    const denial = versions && `would be denied by Kubernetes ${versions.to} but not by ${versions.from}`;
    const isLabelChange = only !== undefined && namespaces.some(({ currentSource }) => currentSource === 'label');
    const apply = versions || isLabelChange ? undefined : change.command;
    const data = { summary: counts, versions, namespaces, apply, settings, assumptions };
    printListing(io, values.output, { data, objects: listedNamespaces(namespaces) }, (style) => [
      ...assumptionBlocks(assumptions, settings),
      ...namespaceSections(namespaces, { ...values, namespace: only }, style),
      `${style('bold', printNamespaceCounts(counts, denial))}\n`,
      ...(apply === undefined ? [] : [`Apply: ${printable(apply)}\n`]),
    ]);
    return namespaces.some(needsFix) ? EXIT.violations : EXIT.passed;
  },
});

/**
 * The default to plan. For policies without a server, also the command that sets it and the levels and exemptions that
 * `--config` changes.
 */
function planChange({ serverless, podSecurity }: RolloutFacts, { level, config }: Values<typeof options>) {
  if (!serverless) return { policy: level && ({ level, version: 'latest' } as const) };
  const { enforce } = podSecurity.defaults;
  const isFile = config !== undefined;
  const policy = { ...enforce, level: level ?? (isFile ? enforce.level : 'restricted') };
  const { defaults, exemptions } = (isFile ? podSecurity : serverless).configuration;
  const next = { defaults: { ...defaults, enforce: policy.level }, exemptions };
  const [before, after] = [serverless.configuration, next].map(toSpec);
  const current = listSettings(before ?? {});
  const changed = listSettings(after ?? {}).filter(
    ({ path, value }) => !current.some((one) => deepEqual(one, { path, value })),
  );
  const changes = changed.map(({ path, value }) => {
    const text = Array.isArray(value) ? `[${value.join(', ')}]` : String(value);
    return shellQuote(`--set=${path.join('.')}=${text}`);
  });
  const isWeaker = findWeakenings(INSTALLATION.namespace, before ?? {}, after ?? {}).length > 0;
  const options = [...changes, ...(isWeaker ? ['--allow-weaker'] : [])].join(' ');
  const command = `portcullis install --without-server ${options} | kubectl apply -f -`;
  return { policy, command: changes.length === 0 ? undefined : command };
}

/** The same configuration as the spec of a PortcullisConfiguration. */
function toSpec({ defaults, exemptions }: Pick<Settings['podSecurity']['configuration'], 'defaults' | 'exemptions'>) {
  const renamed = Object.entries(defaults).map(([field, value]) => [field.replace('-version', 'Version'), value]);
  return { podSecurity: { defaults: Object.fromEntries(renamed) as JsonObject, exemptions: { ...exemptions } } };
}

/** The versions to compare. Without a cluster, the current version is the preceding minor version. */
function compare({ emulationVersion }: Store, to: Version | undefined) {
  if (to === undefined) return undefined;
  const minor = Number(latestVersion(to).slice('v1.'.length));
  const from = emulationVersion ?? (`v1.${Math.max(minor - 1, 0)}` as const);
  const isNewer = to !== 'latest' && latestVersion(to) !== to;
  return {
    versions: { from, to: to === 'latest' ? newestVersion : to },
    assumptions: [
      ...(emulationVersion === undefined ? [`Kubernetes ${from} as the current version`] : []),
      ...(isNewer ? [`${to} as ${newestVersion}, whose Pod Security Standards are the newest known`] : []),
    ],
  };
}
