import { readFileSync } from 'node:fs';
import packageJson from '../../package.json' with { type: 'json' };
import { ENFORCE_LABEL, FAIL_OPEN, TIER_LABEL } from '../../src/api/names.ts';
import { expectedConfigurations } from '../../src/cli/doctor/checks/webhooks.ts';
import type { NamespaceFact } from '../../src/cli/doctor/facts.ts';
import type { Request } from '../../src/cli/doctor/matching.ts';
import { findEffect, ONLY_PRIVILEGED } from '../../src/cli/doctor/outage.ts';
import { defaultSettings, PROFILES } from '../../src/install/settings.ts';
import { NAMESPACE_NAME_LABEL, POD_SECURITY_LABELS } from '../../src/kube/well-known.ts';
import { SCC_MODE_LABEL } from '../../src/policy/scc/index.ts';
import { formatMarkdownTable } from './markdown.ts';

export const STATES_PAGE = 'docs/explanation/states.md';

/** The values of each column that selects rows, in the order of the columns. */
const COLUMNS = {
  replicas: ['respond', 'overloaded', 'do not respond'],
  namespace: ['excluded', 'fail-open', 'fail-closed'],
  'default level': ['none', 'set'],
  level: ['own', 'none', 'set'],
  SCCs: ['off', 'report', 'enforce'],
  request: ['`exec` and `attach`', 'create or change a namespace', 'create or change an SCC'],
  'user may use the `privileged` SCC': ['yes', 'no'],
} as const;
type Column = keyof typeof COLUMNS;
type Situation = Readonly<Record<Column, string>>;

const FLOORS = ['without floor', 'floor, `Fail`', 'floor, `Ignore`'] as const;

/** Returns the page with tables that are computed from the tiers of the webhooks, as `doctor` computes its table. */
export function formatStatesPage(): string {
  const tables = [formatPods(), formatOthers()];
  return readFileSync(STATES_PAGE, 'utf8').replaceAll(/^\|.*\n(?:\|.*\n)+/gm, () => tables.shift() ?? '');
}

function formatPods(): string {
  const columns = ['replicas', 'namespace', 'default level', 'level', 'SCCs'] as const;
  return formatTable(columns, FLOORS, ['replicas', 'namespace', 'SCCs', 'level', 'default level'], (situation) =>
    FLOORS.map((floor) => {
      const installed = situation.SCCs === 'off' ? [true, false] : [true];
      const [result, ...others] = new Set(
        listNamespaces(situation).flatMap((one) =>
          installed.map((hasSccs) => podResult(situation, floor, one, hasSccs)),
        ),
      );
      if (result === undefined || others.length > 0) throw new Error(`ambiguous: ${JSON.stringify(situation)}`);
      return result;
    }),
  );
}

function podResult(situation: Situation, floor: string, namespace: NamespaceFact, hasSccs: boolean): string {
  const request: Request = { operation: 'CREATE', group: '', resource: 'pods', namespace };
  const effect = findEffect(findConfigurations(situation, floor, undefined, hasSccs), request);
  if (effect === 'unaffected') return 'not reviewed';
  if (situation.replicas === 'respond') return 'reviewed';
  if (situation.replicas === 'overloaded') return 'reviewed or rejected';
  if (effect === 'denied') return 'rejected';
  return floor === 'without floor' ? 'not reviewed' : 'upstream level only';
}

function formatOthers(): string {
  const columns = ['request', 'namespace', 'SCCs', 'user may use the `privileged` SCC'] as const;
  return formatTable(columns, ['result'], ['request', 'namespace', 'SCCs', columns[3]], (situation) => {
    const { request, SCCs } = situation;
    const [namespace] = listNamespaces(situation);
    const isScc = request === COLUMNS.request[2];
    const requests: Readonly<Record<string, Request>> = {
      [COLUMNS.request[0]]: { operation: 'CONNECT', group: '', resource: 'pods', subresource: 'exec', namespace },
      [COLUMNS.request[1]]: { operation: 'UPDATE', group: '', resource: 'namespaces', namespace },
      [COLUMNS.request[2]]: {
        operation: 'UPDATE',
        group: 'security.openshift.io',
        resource: 'securitycontextconstraints',
      },
    };
    const sent = requests[request];
    // SCC objects are cluster-scoped, so the column selects the default mode.
    const effect = sent && findEffect(findConfigurations(situation, FLOORS[0], isScc ? SCCs : undefined), sent);
    const isRejected =
      effect === 'denied' || (effect === ONLY_PRIVILEGED && situation['user may use the `privileged` SCC'] === 'no');
    return [isRejected ? 'rejected' : 'not reviewed'];
  });
}

/**
 * Returns the webhook configurations for a situation. Without the SCC feature, the results are the same as for
 * namespaces in which SCCs are off.
 */
function findConfigurations(situation: Situation, floor: string, mode = 'report', hasSccs = true) {
  const scc = hasSccs ? { ...PROFILES.scc, policy: { scc: { mode } } } : {};
  const settings = { ...defaultSettings(packageJson.version), ...scc };
  return expectedConfigurations(settings, {
    defaultLevel: situation['default level'] === 'set',
    floor: floor === FLOORS[2],
    privilegedStreams: true,
  });
}

/** Returns one namespace for each combination of labels that results in the level of the situation. */
function listNamespaces({
  namespace,
  SCCs,
  level,
  'default level': fallback,
}: Situation): readonly [NamespaceFact, ...NamespaceFact[]] {
  const upstream = POD_SECURITY_LABELS.enforce;
  const own = { [upstream]: 'privileged', [ENFORCE_LABEL]: 'restricted' };
  const labeled = level === 'own' ? own : { [upstream]: level === 'set' ? 'restricted' : 'privileged' };
  const isDefault = level !== 'own' && (level === 'set') === (fallback === 'set');
  const name = namespace === 'excluded' ? 'portcullis' : 'shop';
  const create = (labels: Readonly<Record<string, string>>): NamespaceFact => {
    const tier = namespace === 'fail-open' ? { [TIER_LABEL]: FAIL_OPEN } : {};
    return { name, labels: { [NAMESPACE_NAME_LABEL]: name, [SCC_MODE_LABEL]: SCCs, ...tier, ...labels } };
  };
  return [create(labeled), ...(isDefault ? [create({})] : [])];
}

/** A row of the table. All combinations of the values in its columns have the same results. */
interface Row {
  readonly values: Readonly<Partial<Record<Column, readonly string[]>>>;
  readonly results: readonly string[];
}

/**
 * Formats the results of all situations in as few rows as possible. For each column in the order of `merged`, merges
 * the values of the column whose rows are equal.
 */
function formatTable(
  columns: readonly Column[],
  titles: readonly string[],
  merged: readonly Column[],
  findResults: (situation: Situation) => readonly string[],
): string {
  const mergeFrom = (index: number, situation: Partial<Situation>): readonly Row[] => {
    const column = merged[index];
    if (column === undefined) {
      const any = Object.fromEntries(Object.entries(COLUMNS).map(([name, [value]]) => [name, value]));
      return [{ values: {}, results: findResults({ ...any, ...situation } as Situation) }];
    }
    const groups = Map.groupBy(
      COLUMNS[column].map((value) => ({ value, rows: mergeFrom(index + 1, { ...situation, [column]: value }) })),
      ({ rows }) => JSON.stringify(rows),
    );
    return [...groups.values()].flatMap((group) => {
      const values = group.map(({ value }) => value);
      return (group[0]?.rows ?? []).map((row) => ({ ...row, values: { ...row.values, [column]: values } }));
    });
  };
  const print = (column: Column, values: readonly string[] = []): string =>
    values.length === COLUMNS[column].length ? 'any' : values.join(', ');
  const rows = mergeFrom(0, {}).map(({ values, results }) => [
    ...columns.map((column) => print(column, values[column])),
    ...results,
  ]);
  return formatMarkdownTable([...columns, ...titles], rows);
}
