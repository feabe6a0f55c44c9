/** Heat map of namespaces and levels. It shows the number of workloads that each level would deny. */
import { type Level, LEVELS } from '../policy/pss/index.ts';
import type { ReportNamespace } from './report-data.ts';
import { formatView, type View } from './report-view.ts';
import { Chip, heatClass, Section, Table } from './ui.tsx';

/** Number of namespaces shown initially. */
const MAX_ROWS = 25;

export const VERDICTS: Readonly<
  Record<ReportNamespace['verdict'], readonly [text: string, tone: 'ok' | 'bad' | 'warn' | 'plain']>
> = {
  deniedNow: ['denied now', 'bad'],
  violating: ['violating', 'bad'],
  restart: ['to restart', 'plain'],
  inconclusive: ['inconclusive', 'warn'],
  clean: ['no violations', 'ok'],
  exempt: ['exempt', 'plain'],
};

interface HeatMapProps {
  readonly namespaces: readonly ReportNamespace[];
  readonly view: View;
}

export function HeatMap({ namespaces, view }: HeatMapProps) {
  const rows = namespaces.toSorted(compareNamespaces).map((namespace) => {
    const [text, tone] = VERDICTS[namespace.verdict];
    return [
      <span id={rowId(namespace.name)} tabIndex={-1}>
        {namespace.name}
      </span>,
      ...LEVELS.map((level) => <td class={cellClass(level, namespace)}>{cellContent(level, namespace, view)}</td>),
      <Chip tone={tone}>{text}</Chip>,
    ];
  });
  return (
    <Section
      title="Namespaces by level"
      id="namespaces"
      note="Each number counts the workloads that the level would deny, and links to them. The outlined level applies now, and the underlined level applies under enforcement."
    >
      <Table
        caption="Namespaces by level"
        kind="heat-map"
        head={['Namespace', ...LEVELS, 'Verdict']}
        rows={rows}
        limit={[MAX_ROWS, 'namespaces', view.at?.startsWith(rowId('')) ?? false]}
        empty="No namespaces."
      />
    </Section>
  );
}

/** Returns the ID of a namespace's row. */
export function rowId(namespace: string): string {
  return `namespace/${namespace}`;
}

function cellContent(level: Level, { name, denied }: ReportNamespace, view: View) {
  if (denied === undefined) return '?';
  const number = countDenied(level, denied);
  if (level === 'privileged' || number === 0) return number;
  const label = `${number} in namespace ${name} denied by ${level}`;
  return (
    <a href={formatView({ ...view, namespace: name, level, at: 'workloads' })} aria-label={label}>
      {number}
    </a>
  );
}

const WEIGHTS: Readonly<Record<ReportNamespace['verdict'], number>> = {
  deniedNow: 1e12,
  violating: 1e12,
  inconclusive: 1e11,
  restart: 0,
  clean: 0,
  exempt: 0,
};

/** Compares namespaces by verdict and then by the number of denied workloads, in descending order. */
function compareNamespaces(a: ReportNamespace, b: ReportNamespace): number {
  const weight = ({ verdict, workloads, denied }: ReportNamespace): number =>
    WEIGHTS[verdict] + workloads.length * 1e6 + (denied?.restricted.length ?? 0);
  return weight(b) - weight(a) || (a.name < b.name ? -1 : 1);
}

function countDenied(level: Level, denied: NonNullable<ReportNamespace['denied']>): number {
  return level === 'privileged' ? 0 : denied[level].length;
}

function cellClass(level: Level, { denied, current, planned }: ReportNamespace): string {
  const heat = heatClass(denied && countDenied(level, denied));
  return `${heat}${level === current ? ' current' : ''}${level === planned ? ' planned' : ''}`;
}
