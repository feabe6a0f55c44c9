/** The report on a cluster, based on data in the page or on live data from the page's server. */
import { type ComponentChildren, render } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import type { SccDenial } from '../policy/scc/advice/denials.ts';
import { HeatMap } from './heat-map.tsx';
import type { ReportData, ReportNamespace, ReportScc } from './report-data.ts';
import { RolloutDiagram } from './rollout-diagram.tsx';
import { Chip, count, Header, Section, Table, useLimit } from './ui.tsx';
import './style.css';

/** Whether the page is connected to its server. */
interface Live {
  readonly status: string;
  readonly isConnected: boolean;
}

/** Subscribes to events from the server. */
function LiveReport() {
  const [data, setData] = useState<ReportData>();
  const [problem, setProblem] = useState<string>();
  const [live, setLive] = useState<Live>({ status: 'connecting', isConnected: false });
  useEffect(() => {
    const events = new EventSource('/events');
    const read = (event: Event): unknown => JSON.parse((event as MessageEvent<string>).data);
    events.addEventListener('open', () => setLive({ status: 'live', isConnected: true }));
    events.addEventListener('error', () => {
      const isClosed = events.readyState === EventSource.CLOSED;
      setLive({ status: isClosed ? 'disconnected: start the program again' : 'reconnecting', isConnected: false });
    });
    events.addEventListener('report', (event) => {
      setData(read(event) as ReportData);
      setProblem(undefined);
    });
    events.addEventListener('problem', (event) => setProblem(read(event) as string));
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
  const { source, time, version, settings, rollout, assumptions } = data;
  return (
    <>
      <Header title={live ? 'Portcullis dashboard' : 'Portcullis report'}>
        {live && statusChip(live)}
        <p class="meta">
          {source} · {time} · v{version}
        </p>
      </Header>
      <main class="report">
        <Tiles data={data} />
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
        <DeniedWorkloads namespaces={data.namespaces} />
        <UnreviewedPods pods={data.unreviewedPods} />
        <SccUsage data={data} />
        <Exceptions data={data} />
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

function Tiles({ data }: { readonly data: ReportData }) {
  const { summary } = data;
  const { deniedNow, wouldBeDenied, restart } = summary.workloads;
  return (
    <dl class="tiles">
      <Tile
        title="Namespaces"
        value={summary.namespaces}
        note={`${summary.clean} clean, ${summary.inconclusive} inconclusive`}
      />
      <Tile title="Denied now" value={deniedNow.workloads} isBad note={count(deniedNow.pods, 'running pod')} />
      <Tile
        title="Would be denied"
        value={wouldBeDenied.workloads}
        isBad
        note={count(wouldBeDenied.pods, 'running pod')}
      />
      <Tile title="To restart" value={restart.workloads} note={count(restart.pods, 'running pod')} />
      <Tile title="Denied by SCCs" value={data.sccDenials.length} isBad note={count(data.sccs.length, 'SCC')} />
      <Tile title="Exemptions" value={data.exemptions.length} note={count(summary.exempt, 'namespace')} />
    </dl>
  );
}

interface TileProps {
  readonly title: string;
  readonly value: number;
  readonly note: string;
  /** True if any value other than zero is a problem. */
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

/** Number of namespaces shown initially, and of rows in other lists. */
const MAX_NAMESPACES = 50;

function DeniedWorkloads({ namespaces }: { readonly namespaces: readonly ReportNamespace[] }) {
  const listed = namespaces
    .filter(({ workloads, error }) => workloads.length > 0 || error !== undefined)
    .sort(
      (a, b) => countVerdict(b, 'deniedNow') - countVerdict(a, 'deniedNow') || b.workloads.length - a.workloads.length,
    );
  const { shown, more } = useLimit(listed, MAX_NAMESPACES, 'namespaces');
  return (
    <Section
      title="Workloads denied by Pod Security"
      note="The workloads that the level of their namespace denies now, those that the planned level would deny, and those whose running pods need a restart."
    >
      {listed.length === 0 && <p class="empty">No workload is or would be denied.</p>}
      {shown.map((namespace, index) => (
        <DeniedNamespace namespace={namespace} isOpen={index < 3} />
      ))}
      {more}
    </Section>
  );
}

/** Verdicts on workloads, with their text and color. */
const DECISIONS = {
  deniedNow: ['denied now', 'bad'],
  wouldBeDenied: ['would be denied', 'warn'],
  restart: ['to restart', 'plain'],
} as const;

function countVerdict({ workloads }: ReportNamespace, verdict: keyof typeof DECISIONS): number {
  return workloads.filter((one) => one.verdict === verdict).length;
}

function DeniedNamespace({ namespace, isOpen }: { readonly namespace: ReportNamespace; readonly isOpen: boolean }) {
  const { name, current, planned = 'unknown', workloads, error, steps } = namespace;
  const verdicts = (['deniedNow', 'wouldBeDenied', 'restart'] as const).filter(
    (verdict) => countVerdict(namespace, verdict) > 0,
  );
  return (
    <details class="card" open={isOpen}>
      <summary>
        <strong>{name}</strong>{' '}
        <Chip tone="plain">{current === planned ? current : `${current}, planned ${planned}`}</Chip>
        {error !== undefined && (
          <>
            {' '}
            <Chip tone="warn">inconclusive</Chip>
          </>
        )}
        {verdicts.map((verdict) => (
          <>
            {' '}
            <Chip tone={DECISIONS[verdict][1]}>{`${countVerdict(namespace, verdict)} ${DECISIONS[verdict][0]}`}</Chip>
          </>
        ))}
      </summary>
      {error !== undefined && <p>{error}</p>}
      {workloads.map(({ kind, name: workload, verdict, pods, violations }) => (
        <div class="workload">
          <h3>
            <span class="kind">{kind}</span> {workload}
            {pods > 0 && kind !== 'Pod' && <span class="note"> {count(pods, 'running pod')}</span>}{' '}
            <Chip tone={DECISIONS[verdict][1]}>{DECISIONS[verdict][0]}</Chip>
          </h3>
          {verdict === 'restart' && <p class="note">New pods comply.</p>}
          <ul class="plain">
            {(verdict === 'restart' ? [] : violations).map(({ check, reason, detail, fix }) => (
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
  const denials = useLimit(sccDenials, MAX_NAMESPACES, 'denied workloads');
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
          <h3 class="subtitle">Workloads denied by SCCs</h3>
          <Table
            caption="Workloads that SCC admission denies"
            isWide
            head={['Workload', 'Mode', 'Reason', 'Fixes']}
            rows={denials.shown.map(({ namespace, kind, name, mode, reason, fixes }) => [
              <>
                <span class="kind">{kind}</span> {namespace}/{name}
              </>,
              <Chip tone={mode === 'enforce' ? 'bad' : 'warn'}>{mode}</Chip>,
              reason,
              <Fixes fixes={fixes} />,
            ])}
          />
          {denials.more}
        </>
      )}
    </Section>
  );
}

function Fixes({ fixes }: Pick<SccDenial, 'fixes'>) {
  return (
    <ol class="fixes">
      {fixes.map(({ text, command, consequence }) => (
        <li>
          {text}
          {command !== undefined && (
            <>
              : <code>{command}</code>
            </>
          )}
          {consequence !== undefined && <div class="note">{consequence}</div>}
        </li>
      ))}
    </ol>
  );
}

/** Number of grants listed for one SCC. */
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

function UnreviewedPods({ pods }: { readonly pods: ReportData['unreviewedPods'] }) {
  if (pods.length === 0) return null;
  return (
    <Section
      title="Admitted without a review"
      note="The policy denies these pods. API servers admitted them without a review, for example while no replica responded. No pod was deleted."
    >
      <Table
        caption="Pods that were admitted without a review"
        isWide
        head={['Pod', 'Namespace', 'Created', 'Reason']}
        rows={pods.map(({ name, namespace, created, message }) => [
          name,
          namespace,
          <span class="nowrap">{created}</span>,
          message,
        ])}
      />
    </Section>
  );
}

const STATES: Readonly<Record<string, 'ok' | 'warn'>> = { Active: 'ok', Shadowed: 'warn', Proposed: 'warn' };

/** The exceptions, and the workloads that only they allow. */
function Exceptions({ data: { exceptions, namespaces } }: { readonly data: ReportData }) {
  const excepted = namespaces.flatMap(({ name: namespace, excepted: workloads }) =>
    workloads.map((workload) => ({ ...workload, namespace })),
  );
  const listed = useLimit(exceptions, MAX_NAMESPACES, 'exceptions');
  const allowed = useLimit(excepted, MAX_NAMESPACES, 'workloads');
  if (exceptions.length === 0) return null;
  return (
    <Section
      title="Exceptions"
      note="PodSecurityExceptions, each of which allows a service account's pods to violate individual checks for a limited time."
    >
      <Table
        caption="Exceptions"
        isWide
        head={['Exception', 'Service account', 'State', 'Until', 'Approved by', 'Uses', 'Reason']}
        rows={listed.shown.map(({ namespace, name, serviceAccount, state, problem, ...one }) => [
          `${namespace}/${name}`,
          serviceAccount,
          <>
            <Chip tone={STATES[state] ?? 'plain'}>{state}</Chip>
            {problem !== undefined && <div class="note">{problem}</div>}
          </>,
          <span class="nowrap">{one.expiresAt}</span>,
          one.approvedBy ?? '–',
          one.uses,
          one.reason,
        ])}
      />
      {listed.more}
      {excepted.length > 0 && (
        <>
          <h3 class="subtitle">Workloads that exceptions allow</h3>
          <Table
            caption="Workloads that exceptions allow"
            isWide
            head={['Workload', 'Violations', 'Exceptions']}
            rows={allowed.shown.map(({ namespace, kind, name, violations, exceptions: applied }) => [
              <>
                <span class="kind">{kind}</span> {namespace}/{name}
              </>,
              violations.map(({ check, reason, detail }) => `${check}: ${detail || reason}`).join('; '),
              applied.map((one) => `${one.name} until ${one.expiresAt}`).join(', '),
            ])}
          />
          {allowed.more}
        </>
      )}
    </Section>
  );
}

function Exemptions({ data: { exemptions, uses } }: { readonly data: ReportData }) {
  const { shown, more } = useLimit(exemptions, MAX_NAMESPACES, 'exemptions');
  const counted = uses
    ? `Uses have been counted by ${count(uses.replicas, 'replica')} since ${uses.since}.`
    : 'Uses are unknown because no replica publishes counts.';
  return (
    <Section title="Exemptions" note={`Objects that the policies do not apply to. ${counted}`}>
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
