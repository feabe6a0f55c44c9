import type { Store } from '../../cluster/store.ts';
import { evaluatedAs, latestVersion, newestVersion, type Version } from '../../policy/pss/index.ts';
import { countNamespaces, needsFix } from '../../policy/rollout/index.ts';
import { listDenials, sccMode } from '../../policy/scc/index.ts';
import { clustersOptions, defineClusterCommand } from '../clusters.ts';
import { EXIT } from '../command.ts';
import { findNamespace, selectedNamespace, selectionOptions, selectorOption } from '../inventory/inventory.ts';
import { policyVersion } from '../inventory/policy-version.ts';
import { gatherRollout, type RolloutFacts, rolloutOptions } from '../inventory/rollout.ts';
import { planSccs } from '../inventory/scc-input.ts';
import { oneOf, option, time, type Values } from '../options.ts';
import { assumptionBlocks, listOptions } from '../output/print.ts';
import { getClusterFlags } from '../output/shell.ts';
import {
  COUNT_COLUMNS,
  countCells,
  findNewerVersions,
  planNamespaces,
  planUpgrades,
  selectNamespaces,
} from '../report/namespaces.ts';
import { listedNamespaces, namespaceSections, printNamespaceCounts, sccBlocks } from './namespace-table.ts';

const DETAILS = `
Shows the enforced and the planned level of each namespace, the workloads that these levels deny, and the next
steps. The command changes nothing.

  denied now  the enforced level denies the workload: running pods continue, but new pods are denied
  violating   only the planned level denies the workload
  to restart  running pods violate the level, but new pods comply. Manifests need no change

A namespace with its own label keeps its level. If the server manages the labels of a namespace, its planned
level follows from the security context constraints (SCCs) that its service accounts may use. Otherwise, the
planned level is restricted. --level plans another default level, and the same level for all namespaces with a
weaker label. With -n, --level can also plan a weaker label.

With --kubernetes-version, the output contains only the workloads that this version would newly deny. The output
lists up to 20 namespaces. -o wide lists all namespaces with their details. With -n, the output also lists the
workloads that no SCC admits, if SCC admission denies pods in the namespace. These workloads do not affect the
exit code.

The exit code is 1 if workloads are or would be denied, or if an evaluation failed.

Examples:
  portcullis rollout plan
  portcullis rollout plan -n shop -o json
  portcullis rollout plan --kubernetes-version v1.37
  portcullis rollout plan --at 2027-02-01
  portcullis rollout plan --level restricted
  portcullis rollout plan --context staging --context 'prod-*'
  portcullis rollout plan -f exported/ --scc-mode enforce
`;

const options = {
  ...rolloutOptions,
  ...clustersOptions,
  ...selectionOptions,
  ...selectorOption,
  ...listOptions,
  level: option('LEVEL', oneOf(['baseline', 'restricted'] as const), undefined, {
    help: 'Plan this level as the default, and as the label of namespaces with a weaker label. With -n, also plan a weaker label. Default: the default level of the rollout. Without a server: the level in --config, otherwise restricted',
  }),
  at: option('DATE', time, undefined, { help: 'Evaluate exceptions as of this date. Default: now' }),
  'kubernetes-version': option('VERSION', policyVersion, undefined, {
    help: 'Show only workloads that this version newly denies',
  }),
};

export const command = defineClusterCommand({
  details: DETAILS,
  options,
  columns: COUNT_COLUMNS,
  async gather(values, io) {
    const only = selectedNamespace(values);
    const clusterFlags = getClusterFlags(values);
    const facts = await gatherRollout(values, io, new Date());
    const { settingsSource: settings } = facts;
    const comparison = compare(facts.store, values['kubernetes-version']);
    const { versions } = comparison ?? {};
    const isCurrent = versions !== undefined && values.level === undefined;
    const policy = isCurrent ? facts.policies?.defaults.enforce : plannedDefault(facts, values);
    const scope = { only, policy, newLabel: values.level };
    const planned = versions
      ? await planUpgrades(facts, versions, { io, ...scope })
      : await planNamespaces(facts, io, scope);
    const namespaces = selectNamespaces(planned, facts.store, { ...values, namespace: only });
    const counts = countNamespaces(namespaces);
    const newer = findNewerVersions(namespaces, facts.store);
    const assumptions = [...facts.assumptions, ...(comparison?.assumptions ?? []), ...newer];
    const denial =
      versions && `would be denied by Kubernetes ${describe(versions.to)} but not by ${describe(versions.from)}`;
    const sccPlan = only === undefined || versions ? undefined : planEnforcedSccs(only, facts);
    const sccDenials = sccPlan && listDenials(sccPlan, values.filename);
    const data = { summary: counts, versions, namespaces, sccDenials, settings, assumptions };
    return {
      data,
      objects: listedNamespaces(namespaces),
      blocks: (style) => [
        ...assumptionBlocks(assumptions, settings),
        ...namespaceSections(namespaces, { ...values, namespace: only, clusterFlags }, style),
        ...(sccPlan ? sccBlocks(sccPlan, { files: values.filename, clusterFlags }, style) : []),
        `${style('bold', [printNamespaceCounts(counts, denial), ...newer].join('; '))}\n`,
      ],
      code: namespaces.some(needsFix) ? EXIT.violations : EXIT.passed,
      row: countCells(counts.namespaces, counts.inconclusive, (verdict) => counts.workloads[verdict].workloads),
      message: newer.join('; '),
    };
  },
});

/** Evaluates the SCCs for the workloads of a namespace in which SCC admission denies pods. */
function planEnforcedSccs(name: string, { store, customSources, management: { scc } }: RolloutFacts) {
  const namespace = findNamespace(store, name);
  const hasSccs = store.list('SecurityContextConstraints').length > 0;
  return hasSccs && sccMode(namespace, scc).mode === 'enforce'
    ? planSccs(namespace, { store, customSources }, scc)
    : undefined;
}

/**
 * Returns the default policy to plan. Without a server, its level is the default level in `--config`, otherwise
 * `restricted`.
 */
function plannedDefault(
  { policies, podSecurity }: RolloutFacts,
  { level, config }: Pick<Values<typeof options>, 'level' | 'config'>,
) {
  if (!policies) return level && ({ level, version: 'latest' } as const);
  const { enforce } = podSecurity.defaults;
  return { ...enforce, level: level ?? (config === undefined ? 'restricted' : enforce.level) };
}

/**
 * Returns the versions to compare. Without a cluster, the current version is assumed to be the preceding minor version.
 */
function compare({ emulationVersion }: Store, to: Version | undefined) {
  if (to === undefined) return undefined;
  const minor = Number(latestVersion(to).slice('v1.'.length));
  const from = emulationVersion ?? (`v1.${Math.max(minor - 1, 0)}` as const);
  return {
    versions: { from, to: to === 'latest' ? newestVersion : to },
    assumptions: emulationVersion === undefined ? [`Kubernetes ${from} as the current version`] : [],
  };
}

/**
 * Returns the name of a version and, if its Pod Security Standards are unknown, the version that is evaluated instead.
 */
function describe(version: Version): string {
  const note = evaluatedAs(version);
  return note === undefined ? version : `${version} (${note})`;
}
