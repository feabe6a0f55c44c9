/** The report of a cluster: from the data in the file, or live from the server of the page. */
import { render, type ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { Decisions } from './decisions.tsx';
import { HeatMap } from './heat-map.tsx';
import type { Decision, ReportData, ReportNamespace, ReportScc } from './report-data.ts';
import { RolloutDiagram } from './rollout-diagram.tsx';
import { Chip, count, Header, Section, Table, useLimit } from './ui.tsx';
import './style.css';

/** The state of the connection to the server of the page. */
interface Live {
  readonly status: string;
  readonly isConnected: boolean;
  /** Absent for a cluster whose decisions are not known. */
  readonly decisions?: readonly Decision[] | undefined;
}

/** Follows the events of the server. The last decisions come first. */
function LiveReport() {
  const [data, setData] = useState<ReportData>();
  const [problem, setProblem] = useState<string>();
  const [live, setLive] = useState<Live>({ status: 'connecting', isConnected: false });
  useEffect(() => {
    const events = new EventSource('/events');
    const update = (change: Partial<Live>): void => setLive((before) => ({ ...before, ...change }));
    const read = (event: Event): unknown => JSON.parse((event as MessageEvent<string>).data);
    events.addEventListener('open', () => update({ status: 'live', isConnected: true }));
    events.addEventListener('error', () => {
      const isClosed = events.readyState === EventSource.CLOSED;
      update({ status: isClosed ? 'disconnected: start the program again' : 'reconnecting', isConnected: false });
    });
    events.addEventListener('report', (event) => {
      setData(read(event) as ReportData);
      setProblem(undefined);
    });
    events.addEventListener('problem', (event) => setProblem(read(event) as string));
    events.addEventListener('decisions', (event) => update({ decisions: read(event) as readonly Decision[] }));
    return () => events.close();
  }, []);
  return (
    <>
      {problem !== undefined && (
        <p class="message" role="alert">
          {problem}
        </p>
      )}
      {data ? <Report data={data} live={live} /> : <Header title="Portcullis dashboard">{statusChip(live)}</Header>}
    </>
  );
}

function statusChip({ status, isConnected }: Live) {
  return (
    <span role="status">
      <Chip tone={isConnected ? 'ok' : 'warn'}>{status}</Chip>
    </span>
  );
}

interface ReportProps {
  readonly data: ReportData;
  readonly live?: Live;
}

function Report({ data, live }: ReportProps) {
  const { source, time, version, settings, summary, rollout, assumptions } = data;
  return (
    <>
      <Header title={live ? 'Portcullis dashboard' : 'Portcullis report'}>
        {live && statusChip(live)}
        <p class="meta">
          {source} · {time} · v{version}
        </p>
      </Header>
      <main class="report">
        <dl class="tiles">
          <Tile
            title="Namespaces"
            value={summary.namespaces}
            note={`${summary.clean} clean, ${summary.labeled} labeled`}
          />
          <Tile
            title="Violating namespaces"
            value={summary.violating}
            isBad
            note={`${summary.inconclusive} inconclusive`}
          />
          <Tile title="Denied workloads" value={summary.workloads} isBad note={count(summary.pods, 'pod')} />
          <Tile title="Denied by SCCs" value={data.sccDenials.length} isBad note={count(data.sccs.length, 'SCC')} />
          <Tile title="Exemptions" value={data.exemptions.length} note={`${summary.exempt} exempt namespaces`} />
        </dl>
        {live?.decisions && <Decisions decisions={live.decisions} />}
        <Section title="Rollout of enforcement">
          {!rollout.isInstalled && <p class="note">Portcullis is not installed in this cluster.</p>}
          <RolloutDiagram steps={rollout.steps} />
          <div class="columns">
            <List title="Blocked by" items={rollout.blockers} empty="Nothing: the cluster is enforcing." />
            <List title="Next" items={rollout.next} empty="Nothing to do." />
          </div>
          <dl class="facts">
            {rollout.facts.map(([title, text]) => (
              <>
                <dt>{title}</dt>
                <dd>{text}</dd>
              </>
            ))}
          </dl>
        </Section>
        <HeatMap namespaces={data.namespaces} />
        <Blocking namespaces={data.namespaces} />
        <SccUsage data={data} />
        <Exemptions data={data} />
        <Section title="Basis of this report">
          <List
            title={`Settings: ${settings ?? 'defaults'}`}
            items={assumptions.map((assumption) => `Assumed: ${assumption}`)}
            empty="No assumptions."
          />
        </Section>
      </main>
    </>
  );
}

interface TileProps {
  readonly title: string;
  readonly value: number;
  readonly note: string;
  /** True if a value above zero is a problem. */
  readonly isBad?: boolean;
}

function Tile({ title, value, note, isBad = false }: TileProps) {
  return (
    <div class={`tile ${isBad ? (value > 0 ? 'bad' : 'ok') : ''}`}>
      <dt>{title}</dt>
      <dd>
        <strong>{value.toLocaleString('en')}</strong>
        <span class="note">{note}</span>
      </dd>
    </div>
  );
}

interface ListProps {
  readonly title: string;
  readonly items: readonly string[];
  readonly empty: string;
}

function List({ title, items, empty }: ListProps) {
  return (
    <div>
      <h3>{title}</h3>
      {items.length === 0 ? (
        <p class="note">{empty}</p>
      ) : (
        <ul class="plain">
          {items.map((item) => (
            <li>{item}</li>
          ))}
        </ul>
      )}
    </div>
  );
}

/** The number of namespaces whose workloads are shown at first. */
const MAX_BLOCKING = 50;

function Blocking({ namespaces }: { readonly namespaces: readonly ReportNamespace[] }) {
  const blocking = namespaces
    .filter(({ verdict }) => verdict === 'violating' || verdict === 'inconclusive')
    .sort((a, b) => b.workloads.length - a.workloads.length);
  const { shown, more } = useLimit(blocking, MAX_BLOCKING, 'namespaces');
  return (
    <Section title="Blocking workloads" note="The workloads that the planned level of their namespace would deny.">
      {blocking.length === 0 && <p class="empty">No workload would be denied.</p>}
      {shown.map((namespace, index) => (
        <BlockingNamespace namespace={namespace} isOpen={index < 3} />
      ))}
      {more}
    </Section>
  );
}

function BlockingNamespace({ namespace, isOpen }: { readonly namespace: ReportNamespace; readonly isOpen: boolean }) {
  const { name, planned = 'unknown', workloads, error, steps } = namespace;
  return (
    <details class="card" open={isOpen}>
      <summary>
        <strong>{name}</strong> <Chip tone="plain">{planned}</Chip>{' '}
        <Chip tone={error === undefined ? 'bad' : 'warn'}>
          {error === undefined ? `${count(workloads.length, 'workload')} denied` : 'inconclusive'}
        </Chip>
      </summary>
      {error !== undefined && <p>{error}</p>}
      {workloads.map(({ kind, name: workload, pods, violations }) => (
        <div class="workload">
          <h3>
            <span class="kind">{kind}</span> {workload}
            {pods > 0 && kind !== 'Pod' && <span class="note"> {count(pods, 'pod')}</span>}
          </h3>
          <ul class="plain">
            {violations.map(({ check, reason, detail, fix }) => (
              <li>
                <strong>{check}</strong>: {detail || reason}
                <div class="note">Fix: {fix}</div>
              </li>
            ))}
          </ul>
        </div>
      ))}
      {steps.map((step) => (
        <p class="next">
          <strong>Next:</strong> {step}
        </p>
      ))}
    </details>
  );
}

function SccUsage({ data: { sccs, sccDenials } }: { readonly data: ReportData }) {
  const used = sccs.filter(({ pods, workloads, grants }) => pods + workloads + grants.length > 1);
  const denials = useLimit(sccDenials, MAX_BLOCKING, 'denied workloads');
  return (
    <Section
      title="Security context constraints"
      note="Pods: pods that the SCC admitted. Workloads: workloads whose pods it would admit now."
    >
      {used.length === 0 ? (
        <p class="empty">The cluster has no SCCs, or none is used.</p>
      ) : (
        <Table
          caption="SCCs"
          head={['SCC', 'Priority', 'Pods', 'Workloads', 'Granted to']}
          rows={used.map((scc) => [scc.name, scc.priority, scc.pods, scc.workloads, <Grants scc={scc} />])}
        />
      )}
      {sccDenials.length > 0 && (
        <>
          <h3 class="subtitle">Denied workloads</h3>
          <Table
            caption="Workloads that SCC admission denies"
            isWide
            head={['Workload', 'Mode', 'Reason', 'Fix']}
            rows={denials.shown.map(({ namespace, kind, name, mode, reason, fix }) => [
              <>
                <span class="kind">{kind}</span> {namespace}/{name}
              </>,
              <Chip tone={mode === 'enforce' ? 'bad' : 'warn'}>{mode}</Chip>,
              reason,
              fix === undefined ? 'Change the workload.' : <code>{fix}</code>,
            ])}
          />
          {denials.more}
        </>
      )}
    </Section>
  );
}

/** The number of grants that are listed for one SCC. */
const MAX_GRANTS = 200;

function Grants({ scc: { grants } }: { readonly scc: ReportScc }): ComponentChildren {
  const [first, ...others] = grants.map(
    ({ subject, namespace, through }) => `${subject}${namespace === undefined ? '' : ` in ${namespace}`}: ${through}`,
  );
  if (first === undefined) return 'no grants';
  if (others.length === 0) return first;
  const rest = grants.length - MAX_GRANTS;
  return (
    <details>
      <summary>{count(grants.length, 'grant')}</summary>
      <ul class="plain">
        {[first, ...others].slice(0, MAX_GRANTS).map((grant) => (
          <li>{grant}</li>
        ))}
        {rest > 0 && <li>and {count(rest, 'more grant')}: portcullis scc who-can</li>}
      </ul>
    </details>
  );
}

function Exemptions({ data: { exemptions, uses } }: { readonly data: ReportData }) {
  const { shown, more } = useLimit(exemptions, MAX_BLOCKING, 'exemptions');
  const counted = uses
    ? `Uses are counted by ${count(uses.replicas, 'replica')} since ${uses.since}.`
    : 'Uses are not known: no replica publishes counts.';
  return (
    <Section title="Exemptions" note={`What the policies do not apply to. ${counted}`}>
      {exemptions.length === 0 ? (
        <p class="empty">There are no exemptions.</p>
      ) : (
        <Table
          caption="Exemptions"
          isWide
          head={['Name', 'Kind', 'Policy', 'Source', 'Since', 'Pods', 'Uses']}
          rows={shown.map(({ name, kind, policy, source, scc, namespace, since, pods, uses: used }) => [
            `${scc === undefined ? '' : `${scc}: `}${name}`,
            kind,
            <span class="nowrap">{policy}</span>,
            `${source}${namespace === undefined ? '' : `, in namespace ${namespace}`}`,
            <span class="nowrap">{since ?? '–'}</span>,
            pods ?? '–',
            used ?? '–',
          ])}
        />
      )}
      {more}
    </Section>
  );
}

// Printed pages contain all details.
addEventListener('beforeprint', () => {
  for (const details of document.querySelectorAll('details')) details.open = true;
});

const root = document.getElementById('app');
const data = document.getElementById('data')?.textContent;
if (root) render(data == null ? <LiveReport /> : <Report data={JSON.parse(data) as ReportData} />, root);
if (location.search !== '') history.replaceState(null, '', '/');
