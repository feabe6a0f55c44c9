/** The report on many clusters, based on data in the page. */
import { type ComponentChildren, render } from 'preact';
import { useMemo } from 'preact/hooks';
import { LEVELS } from '../policy/pss/index.ts';
import type { FleetCluster, FleetData } from './fleet-data.ts';
import {
  countViolations,
  fleetToCsv,
  type FleetView,
  formatFleetView,
  parseFleetView,
  selectClusters,
} from './fleet-view.ts';
import { formatView } from './report-view.ts';
import {
  Chip,
  count,
  download,
  Header,
  heatClass,
  openDetailsForPrint,
  readData,
  Section,
  Select,
  Table,
  Tile,
  useFragment,
  useLimit,
  VERDICT_CHIPS,
  workloadName,
} from './ui.tsx';
import './style.css';

/** Number of clusters shown initially, and of rows in other lists. */
const MAX_ROWS = 25;

const STATES: Readonly<Record<FleetCluster['state'], 'ok' | 'bad' | 'warn' | 'plain'>> = {
  Enforcing: 'ok',
  Evaluating: 'plain',
  Blocked: 'bad',
  Off: 'warn',
};

function Fleet({ data }: { readonly data: FleetData }) {
  const [view, setView] = useFragment(parseFleetView, formatFleetView);
  const clusters = useMemo(() => selectClusters(data.clusters, view), [data, view]);
  const unread = data.unread.filter(({ name }) => view.state === undefined && name.includes(view.cluster ?? ''));
  return (
    <>
      <Header title="Portcullis fleet report">
        <p class="meta">
          {count(data.clusters.length, 'cluster')} · {data.time} · v{data.version}
        </p>
      </Header>
      {data.notes.map((note) => (
        <p class="message">{note}</p>
      ))}
      <main class="report">
        <Filters data={data} clusters={clusters} view={view} onView={setView} />
        <Tiles clusters={clusters} unread={unread.length} />
        <Clusters clusters={clusters} unread={unread} view={view} />
        <Fixes data={data} view={view} />
        <Matrix clusters={clusters} checks={data.checks} view={view} />
        <Differences data={data} clusters={clusters} />
        <Workloads clusters={clusters} view={view} />
      </main>
    </>
  );
}

interface FilterProps {
  readonly data: FleetData;
  /** The selected clusters. */
  readonly clusters: readonly FleetCluster[];
  readonly view: FleetView;
  onView(view: FleetView): void;
}

function Filters({ data, clusters, view, onView: replaceView }: FilterProps) {
  const onView = (next: FleetView): void => replaceView({ ...next, at: '' });
  const name = `portcullis-fleet-${data.time.slice(0, 10)}`;
  const choices = { state: Object.keys(STATES), check: data.checks.map(({ check }) => check) };
  return (
    <form class="filters" role="search" aria-label="Filter" onSubmit={(event) => event.preventDefault()}>
      <label>
        Cluster{' '}
        <input
          type="search"
          name="cluster"
          list="cluster-values"
          placeholder="prod-"
          value={view.cluster ?? ''}
          onInput={({ currentTarget: { value } }) => onView({ ...view, cluster: value })}
        />
        <datalist id="cluster-values">
          {data.clusters.map((cluster) => (
            <option value={cluster.name} />
          ))}
        </datalist>
      </label>
      {(['state', 'check'] as const).map((field) => (
        <Select
          title={field === 'state' ? 'State' : 'Check'}
          name={field}
          value={view[field]}
          none="all"
          options={choices[field].map((value) => [value, value] as const)}
          onSelect={(value) => onView({ ...view, [field]: value })}
        />
      ))}
      <button type="button" onClick={() => onView({})}>
        Show all
      </button>
      <button type="button" onClick={() => download(`${name}.csv`, 'text/csv', fleetToCsv(clusters, data))}>
        CSV
      </button>
      <button type="button" onClick={() => download(`${name}.json`, 'application/json', JSON.stringify(data, null, 2))}>
        JSON
      </button>
      <span class="note" role="status">
        {clusters.length === data.clusters.length
          ? ''
          : `${clusters.length} of ${count(data.clusters.length, 'cluster')}`}
      </span>
    </form>
  );
}

interface ClustersProps {
  readonly clusters: readonly FleetCluster[];
  readonly view: FleetView;
}

function Tiles({ clusters, unread }: Pick<ClustersProps, 'clusters'> & { readonly unread: number }) {
  const sum = (value: (cluster: FleetCluster) => number): number =>
    clusters.reduce((total, cluster) => total + value(cluster), 0);
  const spread = (value: (cluster: FleetCluster) => number): string =>
    `in ${count(clusters.filter((cluster) => value(cluster) > 0).length, 'cluster')}`;
  const tile = (title: string, value: (cluster: FleetCluster) => number, isBad = true) => (
    <Tile title={title} value={sum(value)} isBad={isBad} note={spread(value)} />
  );
  const enforcing = clusters.filter(({ state }) => state === 'Enforcing').length;
  return (
    <dl class="tiles">
      <Tile
        title="Clusters"
        value={clusters.length}
        note={`${enforcing} enforcing${unread === 0 ? '' : `, ${unread} more not read`}`}
      />
      {tile('Namespaces', ({ namespaces }) => namespaces, false)}
      {tile('Denied now', ({ workloads }) => workloads.deniedNow)}
      {tile('Would be denied', ({ workloads }) => workloads.wouldBeDenied)}
      {tile('To restart', ({ workloads }) => workloads.restart, false)}
      {tile('Namespaces not evaluated', ({ notEvaluated }) => notEvaluated.length)}
    </dl>
  );
}

function Clusters({ clusters, unread, view }: ClustersProps & Pick<FleetData, 'unread'>) {
  return (
    <Section
      title="Clusters"
      note="Workloads by verdict. Levels: evaluated namespaces with the privileged, baseline and restricted level in force. Workloads in namespaces that were not evaluated are not counted."
    >
      <Table
        caption="Clusters"
        kind="wide"
        head={[
          ...['Cluster', 'State', 'Default', 'Levels', 'Denied now', 'Would be denied'],
          ...['To restart', 'Not evaluated', 'Next action', 'Report'],
        ]}
        rows={[
          ...unread.map(({ name, error }) => [
            name,
            <Chip tone="bad">Not read</Chip>,
            ...Array.from({ length: 6 }, () => '?'),
            error,
            '',
          ]),
          ...clusters.map((cluster) => [
            clusterLink(cluster, view),
            <Chip tone={STATES[cluster.state]}>{cluster.state}</Chip>,
            cluster.default,
            <span class="nowrap">{LEVELS.map((level) => cluster.levels[level]).join(' / ')}</span>,
            cluster.workloads.deniedNow,
            cluster.workloads.wouldBeDenied,
            cluster.workloads.restart,
            cluster.notEvaluated.length === 0 ? 0 : <Chip tone="warn">{cluster.notEvaluated.length}</Chip>,
            cluster.next ?? 'nothing to do',
            reportLink(cluster, {}, cluster.time),
          ]),
        ]}
        limit={[MAX_ROWS, 'clusters']}
        empty="No cluster matches the filter."
      />
    </Section>
  );
}

function clusterLink({ name }: FleetCluster, view: FleetView) {
  return <a href={formatFleetView({ ...view, cluster: name, at: 'workloads' })}>{name}</a>;
}

/** Links to the cluster's own report, if there is one. */
function reportLink(
  { href }: FleetCluster,
  target: Parameters<typeof formatView>[0],
  content: ComponentChildren,
): ComponentChildren {
  return href === undefined ? content : <a href={`${href}${formatView(target)}`}>{content}</a>;
}

function Fixes({ data: { checks }, view }: { readonly data: FleetData; readonly view: FleetView }) {
  if (checks.length === 0) return null;
  return (
    <Section
      title="Fixes"
      note="Fix the checks in this order in all clusters: each fix admits the most additional workloads. Admitted: denied workloads that pass once this check and those above it are fixed."
    >
      <Table
        caption="Fixes"
        kind="wide"
        isSortable={false}
        head={['Check', 'Workloads', 'Admitted', 'Clusters', 'Fix']}
        rows={checks.map(({ check, fix, workloads, admitted, clusters }) => [
          <a href={formatFleetView({ ...view, check, at: 'workloads' })}>{check}</a>,
          workloads.toLocaleString('en'),
          admitted.toLocaleString('en'),
          clusterNames(clusters),
          fix,
        ])}
      />
    </Section>
  );
}

interface MatrixProps extends ClustersProps {
  readonly checks: FleetData['checks'];
}

function Matrix({ clusters, checks, view }: MatrixProps) {
  if (checks.length === 0) return null;
  return (
    <Section
      title="Checks by cluster"
      note="Each number counts the denied workloads that violate the check, and links to them. A question mark means that no namespace was evaluated."
    >
      <Table
        caption="Checks by cluster"
        kind="heat-map"
        head={['Cluster', ...checks.map(({ check }) => check), 'Not evaluated']}
        rows={clusters.map((cluster) => [
          cluster.name,
          ...checks.map(({ check }) => {
            const number = countViolations(cluster, check);
            return <td class={heatClass(number)}>{cell(cluster, { check, number, view })}</td>;
          }),
          cluster.notEvaluated.length,
        ])}
        limit={[MAX_ROWS, 'clusters']}
      />
    </Section>
  );
}

function Differences({ data, clusters }: Pick<FilterProps, 'data' | 'clusters'>) {
  const { reference, differences = [] } = data;
  if (reference === undefined) return null;
  const selected = new Set(clusters.map(({ name }) => name));
  const shown = differences.filter((difference) => difference.clusters.some((name) => selected.has(name)));
  return (
    <Section
      title={`Differences from ${reference}`}
      note="Settings, levels in force, exemptions, SCC grants and exceptions that differ from the reference cluster, and the checks that are violated only in other clusters."
    >
      <Table
        caption="Differences"
        kind="wide"
        head={['Name', 'Kind', reference, 'Other value', 'Clusters']}
        rows={shown.map((difference) => [
          difference.name,
          difference.kind,
          difference.reference,
          difference.value,
          clusterNames(difference.clusters),
        ])}
        limit={[MAX_ROWS, 'differences']}
        empty="The selected clusters do not differ from the reference cluster."
      />
    </Section>
  );
}

function clusterNames(names: readonly string[]) {
  return (
    <details>
      <summary class="nowrap">{count(names.length, 'cluster')}</summary>
      {names.join(', ')}
    </details>
  );
}

interface Cell {
  readonly check: string;
  readonly number: number | undefined;
  readonly view: FleetView;
}

function cell({ name }: FleetCluster, { check, number, view }: Cell): ComponentChildren {
  if (number === undefined) return '?';
  if (number === 0) return 0;
  const href = formatFleetView({ ...view, cluster: name, check, at: 'workloads' });
  return (
    <a href={href} aria-label={`${number} in cluster ${name} violate ${check}`}>
      {number}
    </a>
  );
}

function Workloads({ clusters, view }: ClustersProps) {
  const { check } = view;
  const listed = clusters.flatMap((cluster) =>
    cluster.denied
      .filter(({ checks }) => check === undefined || checks.includes(check))
      .map((workload) => ({ cluster, workload })),
  );
  const omitted = clusters.reduce((total, cluster) => total + cluster.omitted, 0);
  const { shown, more } = useLimit(listed, MAX_ROWS * 4, 'workloads');
  return (
    <Section
      title="Denied workloads"
      id="workloads"
      note={
        omitted === 0
          ? undefined
          : `${count(omitted, 'workload')} of the selected clusters are not listed. The reports of the clusters and -o json contain them.`
      }
    >
      <Table
        caption="Denied workloads"
        kind="wide"
        head={['Workload', 'Cluster', 'Verdict', 'Checks']}
        rows={shown.map(({ cluster, workload: { namespace, kind, name, verdict, checks } }) => [
          reportLink(cluster, { namespace, at: 'workloads' }, workloadName({ namespace, kind, name })),
          cluster.name,
          <Chip tone={VERDICT_CHIPS[verdict][1]}>{VERDICT_CHIPS[verdict][0]}</Chip>,
          checks.join(', '),
        ])}
        empty="No workload of the selected clusters is or would be denied."
      />
      {more}
      {clusters
        .filter(({ notEvaluated }) => notEvaluated.length > 0)
        .slice(0, MAX_ROWS)
        .map(({ name, notEvaluated }) => (
          <p class="note">
            Not evaluated in {name}: {notEvaluated.slice(0, MAX_ROWS).join(', ')}
            {notEvaluated.length > MAX_ROWS && ` and ${notEvaluated.length - MAX_ROWS} more`}
          </p>
        ))}
    </Section>
  );
}

openDetailsForPrint();
const root = document.getElementById('app');
const data = await readData<FleetData>();
if (root && data) render(<Fleet data={data} />, root);
