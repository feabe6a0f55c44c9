/** The report on a cluster, based on data in the page or on live data from the page's server. */
import './style.css';
import { type ComponentChildren, render } from 'preact';
import { useEffect, useMemo, useState } from 'preact/hooks';
import { printLevel } from '../policy/psa/index.ts';
import type { RolloutStep } from '../policy/rollout/index.ts';
import type { SccDenial } from '../policy/scc/index.ts';
import { HeatMap, rowId, VERDICTS } from './heat-map.tsx';
import type { ReportData, ReportNamespace, ReportScc, ReportWorkload } from './report-data.ts';
import { formatView, groupByCause, listCheckSteps, parseView, selectReport, toCsv, type View } from './report-view.ts';
import {
  Chip,
  CopyableCommand,
  count,
  download,
  Header,
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

/** State of the page's connection to its server. */
interface Live {
  readonly status: string;
  readonly isConnected: boolean;
}

/** Shows the report, and updates it with events from the server. */
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

function Report({ data: all, live }: ReportProps) {
  const { source, time, version, settings, rollout, assumptions } = all;
  const [view, setView] = useFragment(parseView, formatView);
  const data = useMemo(() => selectReport(all, view), [all, view]);
  return (
    <>
      <Header title={live ? 'Portcullis dashboard' : 'Portcullis report'}>
        {live && statusChip(live)}
        <p class="meta">
          {source} · {time} · v{version}
        </p>
      </Header>
      <main class="report">
        <FilterForm all={all} data={data} view={view} onView={setView} />
        <Tiles data={data} />
        <Section title="Enforcement rollout">
          {!rollout.isInstalled && <p class="note">Portcullis is not installed in this cluster.</p>}
          <RolloutDiagram steps={rollout.steps} />
          <Rows rows={rollout.status} />
          <details>
            <summary>Fields of the interface that OpenShift defines</summary>
            <Rows rows={rollout.interface} />
          </details>
        </Section>
        <Comparison data={data} />
        <Checks namespaces={data.namespaces} fixes={data.fixes} view={view} />
        <HeatMap namespaces={data.namespaces} view={view} />
        <DeniedWorkloads namespaces={data.namespaces} view={view} />
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

/** Shows titles and values. */
function Rows({ rows }: { readonly rows: readonly (readonly [title: string, text: string])[] }) {
  return (
    <dl class="facts">
      {rows.map(([title, text]) => (
        <>
          <dt>{title}</dt>
          <dd>{text}</dd>
        </>
      ))}
    </dl>
  );
}

interface FilterProps {
  readonly all: ReportData;
  /** The part of the report that the view selects. */
  readonly data: ReportData;
  readonly view: View;
  onView(view: View): void;
}

function FilterForm({ all, data, view, onView: replaceView }: FilterProps) {
  const onView = (next: View): void => replaceView({ ...next, at: '' });
  const labels = useMemo(
    () => [
      ...new Set(
        all.namespaces.flatMap((namespace) => Object.entries(namespace.labels).map((label) => label.join('='))),
      ),
    ],
    [all],
  );
  const selects = [
    ['verdict', 'all', Object.entries(VERDICTS).map(([verdict, [text]]) => [verdict, text] as const)],
    ['check', 'all', Object.keys(all.fixes).map((id) => [id, id] as const)],
    ['level', 'applied, planned', LEVEL_OPTIONS],
  ] as const;
  const name = `portcullis-${all.time.slice(0, 10)}`;
  return (
    <form class="filters" role="search" aria-label="Filter" onSubmit={(event) => event.preventDefault()}>
      {(['namespace', 'label'] as const).map((field) => (
        <label>
          {FIELD_TITLES[field]}{' '}
          <input
            type="search"
            name={field}
            list={`${field}-values`}
            placeholder={field === 'label' ? 'team=shop' : 'shop'}
            value={view[field] ?? ''}
            onInput={({ currentTarget: { value } }) => onView({ ...view, [field]: value })}
          />
          <datalist id={`${field}-values`}>
            {(field === 'label' ? labels : all.namespaces.map((namespace) => namespace.name)).map((value) => (
              <option value={value} />
            ))}
          </datalist>
        </label>
      ))}
      {selects.map(([field, none, options]) => (
        <Select
          title={FIELD_TITLES[field]}
          name={field}
          value={view[field]}
          none={none}
          options={options}
          onSelect={(value) => onView({ ...view, [field]: value })}
        />
      ))}
      <button type="button" onClick={() => onView({})}>
        Show all
      </button>
      <button type="button" onClick={() => download(`${name}.csv`, 'text/csv', toCsv(data.namespaces))}>
        CSV
      </button>
      <button type="button" onClick={() => download(`${name}.json`, 'application/json', JSON.stringify(all, null, 2))}>
        JSON
      </button>
      <span class="note" role="status">
        {data === all ? '' : `${data.namespaces.length} of ${count(all.namespaces.length, 'namespace')}`}
      </span>
    </form>
  );
}

const FIELD_TITLES = {
  namespace: 'Namespace',
  label: 'Labels',
  verdict: 'Verdict',
  check: 'Check',
  level: 'Level',
} as const;

const LEVEL_OPTIONS = [
  ['baseline', 'baseline'],
  ['restricted', 'restricted'],
] as const;

function Comparison({ data: { comparison } }: { readonly data: ReportData }) {
  if (comparison === undefined) return null;
  const { source, time, added, fixed, unchanged, skipped } = comparison;
  const rows = [
    ...added.map((violation) => ({ ...violation, isNew: true })),
    ...fixed.map((violation) => ({ ...violation, isNew: false })),
  ];
  const omitted = skipped.length === 0 ? '' : ` Not compared because an evaluation failed: ${skipped.join(', ')}.`;
  return (
    <Section
      title="Changes"
      note={`Changes since the report from ${source} at ${time}. ${count(unchanged, 'violation')} did not change.${omitted}`}
    >
      <Table
        caption="Changes"
        kind="wide"
        head={['Workload', 'Change', 'Checks']}
        rows={rows.map(({ namespace, kind, name, checks, isNew }) => [
          workloadName({ namespace, kind, name }),
          <Chip tone={isNew ? 'bad' : 'ok'}>{isNew ? 'new' : 'fixed'}</Chip>,
          checks.join(', '),
        ])}
        limit={[MAX_NAMESPACES, 'workloads']}
        empty="There are no new or fixed violations."
      />
    </Section>
  );
}

interface ChecksProps extends Pick<ReportData, 'namespaces' | 'fixes'> {
  readonly view: View;
}

function Checks({ namespaces, fixes, view }: ChecksProps) {
  const steps = useMemo(() => listCheckSteps(namespaces), [namespaces]);
  if (steps.length === 0) return null;
  return (
    <Section
      title="By check"
      note="Fix the checks in this order: each fix admits the most additional workloads. Admitted: denied workloads that pass once this check and those above it are fixed."
    >
      <Table
        caption="By check"
        kind="wide"
        isSortable={false}
        head={['Check', 'Workloads', 'Admitted', 'Fix']}
        rows={steps.map(({ check, workloads, admitted }) => [
          <a href={formatView({ ...view, check, at: 'workloads' })}>{check}</a>,
          countedList(workloads.map(workloadName), 'workload'),
          admitted.toLocaleString('en'),
          fixes[check] ?? '',
        ])}
      />
    </Section>
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
      {data.sccs.length > 0 && (
        <Tile title="Denied by SCCs" value={data.sccDenials.length} isBad note={count(data.sccs.length, 'SCC')} />
      )}
      <Tile title="Exemptions" value={data.exemptions.length} note={count(summary.exempt, 'namespace')} />
    </dl>
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
const MAX_NAMESPACES = 25;

interface DeniedProps {
  readonly namespaces: readonly ReportNamespace[];
  readonly view: View;
}

function DeniedWorkloads({ namespaces, view }: DeniedProps) {
  const listed = namespaces
    .filter(({ workloads, error }) => workloads.length > 0 || error !== undefined)
    .sort((a, b) => countDeniedNow(b) - countDeniedNow(a) || b.workloads.length - a.workloads.length);
  const { shown, more } = useLimit(listed, MAX_NAMESPACES, 'namespaces');
  return (
    <Section
      title="Workloads denied by Pod Security"
      id="workloads"
      note={
        view.level === undefined
          ? 'Workloads that are denied now, would be denied by the planned level, or must be restarted.'
          : `Workloads that the ${view.level} level denies.`
      }
    >
      {listed.length === 0 && <p class="empty">No workload is or would be denied.</p>}
      {shown.map((namespace, index) => (
        <DeniedNamespace key={namespace.name} namespace={namespace} isOpen={index < 3} view={view} />
      ))}
      {more}
    </Section>
  );
}

function countDeniedNow({ workloads }: ReportNamespace): number {
  return workloads.filter(({ verdict }) => verdict === 'deniedNow').length;
}

interface DeniedNamespaceProps {
  readonly namespace: ReportNamespace;
  readonly isOpen: boolean;
  readonly view: View;
}

function DeniedNamespace({ namespace, isOpen, view }: DeniedNamespaceProps) {
  const { name, planned: level, plannedVersion: version = 'latest', workloads, error, steps } = namespace;
  const current = printLevel({ level: namespace.current, version: namespace.currentVersion });
  const planned = level === undefined ? 'unknown' : printLevel({ level, version });
  const chips = [
    ...(error === undefined ? [] : [<Chip tone="warn">inconclusive</Chip>]),
    ...Object.entries(VERDICT_CHIPS).flatMap(([verdict, [text, tone]]) => {
      const number = workloads.filter((workload) => workload.verdict === verdict).length;
      return number === 0 ? [] : [<Chip tone={tone}>{`${number} ${text}`}</Chip>];
    }),
  ];
  return (
    <details class="card" open={isOpen}>
      <summary>
        <strong>{name}</strong>{' '}
        <Chip tone="plain">{current === planned ? current : `${current}, planned ${planned}`}</Chip>
        {chips.map((chip) => [' ', chip])}
      </summary>
      <a class="back" href={formatView({ ...view, namespace: '', level: '', at: rowId(name) })}>
        Back to the row of {name}
      </a>
      {error !== undefined && <p>{error}</p>}
      {groupByCause(workloads).map((group) => (
        <Cause workloads={group} />
      ))}
      {steps.map(({ text, command }) => (
        <p class="next">
          <strong>Next:</strong> {step(text, command)}
        </p>
      ))}
    </details>
  );
}

/** Shows workloads that have the same verdict and violate the same checks. Lists their fixes only once. */
function Cause({ workloads }: { readonly workloads: readonly ReportWorkload[] }) {
  const { shown, more } = useLimit(workloads, MAX_NAMESPACES, 'workloads');
  const [first] = workloads;
  if (first === undefined) return null;
  const [text, tone] = VERDICT_CHIPS[first.verdict];
  return (
    <div class="cause">
      <h3>
        {count(workloads.length, 'workload')} <Chip tone={tone}>{text}</Chip>
      </h3>
      {first.verdict === 'restart' ? (
        <p class="note">New pods comply.</p>
      ) : (
        <ul class="plain">
          {uniqueChecks(first).map(({ check, fix }) => (
            <li>
              <strong>{check}</strong>: {fix}
            </li>
          ))}
        </ul>
      )}
      {shown.map((workload) => (
        <DeniedWorkload key={`${workload.kind}/${workload.name}`} workload={workload} isOpen={workloads.length === 1} />
      ))}
      {more}
    </div>
  );
}

/** Returns the distinct violated checks, because a workload may have several templates that violate the same check. */
function uniqueChecks({ violations }: ReportWorkload): ReportWorkload['violations'] {
  return violations.filter(({ check }, index) => violations.findIndex((other) => other.check === check) === index);
}

interface WorkloadProps {
  readonly workload: ReportWorkload;
  readonly isOpen: boolean;
}

function DeniedWorkload({ workload: { kind, name, pods, violations, patch }, isOpen }: WorkloadProps) {
  return (
    <details class="workload" open={isOpen}>
      <summary>
        <span class="kind">{kind}</span> {name}
        {pods > 0 && kind !== 'Pod' && <span class="note"> {count(pods, 'running pod')}</span>}
      </summary>
      <ul class="plain">
        {violations.map(({ check, reason, detail, fields }) => (
          <li>
            {detail || reason || check}
            {fields.length > 0 && <div class="note">{fields.join(', ')}</div>}
          </li>
        ))}
      </ul>
      {patch && (
        <>
          <CopyableCommand text={patch.command} />
          {patch.notes.map((note) => (
            <p class="note">Verify: {note}</p>
          ))}
        </>
      )}
    </details>
  );
}

function SccUsage({ data: { sccs, sccDenials } }: { readonly data: ReportData }) {
  const used = sccs.filter(({ pods, workloads, grants }) => pods + workloads + grants.length > 1);
  const denials = [...Map.groupBy(sccDenials, ({ mode, reason }) => `${mode} ${reason}`).values()];
  return (
    <Section
      title="Security context constraints"
      note="Pods: pods that the SCC admitted. Workloads: workloads whose pods it would admit now."
    >
      <Table
        caption="SCCs"
        head={['SCC', 'Priority', 'Pods', 'Workloads', 'Granted to']}
        rows={used.map((scc) => [scc.name, scc.priority, scc.pods, scc.workloads, printGrants(scc)])}
        empty="The cluster has no SCCs, or none is used."
      />
      {sccDenials.length > 0 && (
        <>
          <h3 class="subtitle">Workloads denied by SCCs</h3>
          <Table
            caption="Workloads that SCC admission denies"
            kind="wide"
            head={['Reason', 'Mode', 'Workloads and fixes']}
            rows={denials.map((group) => [
              group[0]?.reason,
              <Chip tone={group[0]?.mode === 'enforce' ? 'bad' : 'warn'}>{group[0]?.mode}</Chip>,
              <SccDenials denials={group} />,
            ])}
            limit={[MAX_NAMESPACES, 'reasons']}
          />
        </>
      )}
    </Section>
  );
}

/** Shows workloads that are denied for the same reason. */
function SccDenials({ denials }: { readonly denials: readonly SccDenial[] }) {
  const { shown, more } = useLimit(denials, 5, 'workloads');
  return (
    <>
      {shown.map((denial) => (
        <details open={denials.length === 1}>
          <summary>{workloadName(denial)}</summary>
          <Fixes fixes={denial.fixes} />
        </details>
      ))}
      {more}
    </>
  );
}

/** Returns an instruction, followed by its command if there is one. */
function step(text: string, command?: string): ComponentChildren {
  return command === undefined ? text : [text, ': ', <CopyableCommand text={command} />];
}

function Fixes({ fixes }: Pick<SccDenial, 'fixes'>) {
  return (
    <ol class="fixes">
      {fixes.map(({ text, command, consequence }) => (
        <li>
          {step(text, command)}
          {consequence !== undefined && <div class="note">{consequence}</div>}
        </li>
      ))}
    </ol>
  );
}

function printGrants({ grants }: ReportScc): ComponentChildren {
  const items = grants.map(
    ({ subject, namespace, through }) => `${subject}${namespace === undefined ? '' : ` in ${namespace}`}: ${through}`,
  );
  if (items.length < 2) return items[0] ?? 'no grants';
  return countedList(items, 'grant', ': portcullis scc who-can');
}

/** Maximum number of items in a list inside a table. */
const MAX_ITEMS = 200;

/** Returns a list that is collapsed to the number of its items. `hint` follows the number of omitted items. */
function countedList(items: readonly ComponentChildren[], noun: string, hint = '') {
  const rest = items.length - MAX_ITEMS;
  return (
    <details>
      <summary class="nowrap">{count(items.length, noun)}</summary>
      <ul class="plain">
        {items.slice(0, MAX_ITEMS).map((item) => (
          <li>{item}</li>
        ))}
        {rest > 0 && <li>{`and ${count(rest, `more ${noun}`)}${hint}`}</li>}
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
        kind="wide"
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

/** Shows the exceptions, and the workloads that are allowed only because of them. */
function Exceptions({ data: { exceptions, namespaces } }: { readonly data: ReportData }) {
  const excepted = namespaces.flatMap(({ name: namespace, excepted: workloads }) =>
    workloads.map((workload) => ({ ...workload, namespace })),
  );
  if (exceptions.length === 0) return null;
  return (
    <Section
      title="Exceptions"
      note="PodSecurityExceptions, each of which allows a service account's pods to violate individual checks for a limited time."
    >
      <Table
        caption="Exceptions"
        kind="wide"
        head={['Exception', 'Service account', 'State', 'Until', 'Approved by', 'Uses', 'Reason']}
        rows={exceptions.map(({ namespace, name, serviceAccount, state, problem, ...approval }) => [
          `${namespace}/${name}`,
          serviceAccount,
          <>
            <Chip tone={STATES[state] ?? 'plain'}>{state}</Chip>
            {problem !== undefined && <div class="note">{problem}</div>}
          </>,
          <span class="nowrap">{approval.expiresAt}</span>,
          approval.approvedBy ?? '–',
          approval.uses,
          approval.reason,
        ])}
        limit={[MAX_NAMESPACES, 'exceptions']}
      />
      {excepted.length > 0 && (
        <>
          <h3 class="subtitle">Workloads that exceptions allow</h3>
          <Table
            caption="Workloads that exceptions allow"
            kind="wide"
            head={['Workload', 'Violations', 'Exceptions']}
            rows={excepted.map(({ namespace, kind, name, violations, exceptions: applied }) => [
              workloadName({ namespace, kind, name }),
              violations.map(({ check, reason, detail }) => `${check}: ${detail || reason}`).join('; '),
              applied.map((exception) => `${exception.name} until ${exception.expiresAt}`).join(', '),
            ])}
            limit={[MAX_NAMESPACES, 'workloads']}
          />
        </>
      )}
    </Section>
  );
}

function Exemptions({ data: { exemptions, uses } }: { readonly data: ReportData }) {
  const counted = uses
    ? `Uses have been counted by ${count(uses.replicas, 'replica')} since ${uses.since}.`
    : 'Uses are unknown because no replica publishes counts.';
  return (
    <Section title="Exemptions" note={`Objects that the policies do not apply to. ${counted}`}>
      <Table
        caption="Exemptions"
        kind="wide"
        head={['Name', 'Kind', 'Policy', 'Source', 'Since', 'Pods', 'Uses']}
        rows={exemptions.map(({ name, kind, policy, source, scc, namespace, since, pods, uses: used }) => [
          `${scc === undefined ? '' : `${scc}: `}${name}`,
          kind,
          <span class="nowrap">{policy}</span>,
          `${source}${namespace === undefined ? '' : `, in namespace ${namespace}`}`,
          <span class="nowrap">{since ?? '–'}</span>,
          pods ?? '–',
          used ?? '–',
        ])}
        limit={[MAX_NAMESPACES, 'exemptions']}
        empty="There are no exemptions."
      />
    </Section>
  );
}

const STEP_STATES: Readonly<Record<RolloutStep['state'], string>> = {
  done: 'done',
  current: 'current step',
  waiting: 'not reached',
};

/** Shows the enforcement rollout as a diagram with a circle for each step. */
function RolloutDiagram({ steps }: { readonly steps: readonly RolloutStep[] }) {
  return (
    <ol class="diagram">
      {steps.map(({ name, state, detail }, index) => (
        <li class={state} aria-current={state === 'current' ? 'step' : undefined}>
          <span class="symbol" aria-hidden="true">
            {state === 'done' ? '✓' : index + 1}
          </span>
          <strong>
            {name}
            <span class="hidden">, {STEP_STATES[state]}</span>
          </strong>
          <span class="detail">{detail}</span>
        </li>
      ))}
    </ol>
  );
}

openDetailsForPrint();
const root = document.getElementById('app');
const data = await readData<ReportData>();
if (location.search !== '') history.replaceState(null, '', `/${location.hash}`);
if (root) render(data ? <Report data={data} /> : <LiveReport />, root);
