/** Heat map of namespaces and levels. It shows the number of workloads that each level would deny. */
import { useMemo, useState } from 'preact/hooks';
import { type Level, LEVELS } from '../policy/pss/policy.ts';
import type { ReportNamespace } from './report-data.ts';
import { Chip, ScrollRegion, Section, useLimit } from './ui.tsx';

/** Number of namespaces shown initially. */
const MAX_ROWS = 100;

const VERDICTS: Readonly<
  Record<ReportNamespace['verdict'], readonly [text: string, tone: 'ok' | 'bad' | 'warn' | 'plain']>
> = {
  clean: ['no violations', 'ok'],
  restart: ['to restart', 'plain'],
  deniedNow: ['denied now', 'bad'],
  violating: ['violating', 'bad'],
  inconclusive: ['inconclusive', 'warn'],
  exempt: ['exempt', 'plain'],
};

export function HeatMap({ namespaces }: { readonly namespaces: readonly ReportNamespace[] }) {
  const [filter, setFilter] = useState('');
  const sorted = useMemo(() => namespaces.toSorted(compareNamespaces), [namespaces]);
  const found = filter === '' ? sorted : sorted.filter(({ name }) => name.includes(filter));
  const { shown, more } = useLimit(found, MAX_ROWS, 'namespaces');
  return (
    <Section
      title="Namespaces by level"
      note="Each number is the count of workloads that the level would deny. The outlined level applies now, the underlined level with enforcement."
    >
      <input
        type="search"
        class="filter"
        placeholder="Filter by name"
        aria-label="Filter namespaces by name"
        value={filter}
        onInput={({ currentTarget }) => setFilter(currentTarget.value)}
      />
      <ScrollRegion label="Namespaces by level">
        <table class="heat-map">
          <thead>
            <tr>
              <th scope="col">Namespace</th>
              {LEVELS.map((level) => (
                <th scope="col">{level}</th>
              ))}
              <th scope="col">Verdict</th>
            </tr>
          </thead>
          <tbody>
            {shown.map((namespace) => (
              <NamespaceRow key={namespace.name} namespace={namespace} />
            ))}
          </tbody>
        </table>
      </ScrollRegion>
      {found.length === 0 && <p class="empty">No namespaces.</p>}
      {more}
    </Section>
  );
}

const WEIGHTS: Readonly<Record<ReportNamespace['verdict'], number>> = {
  ...{ deniedNow: 1e12, violating: 1e12, inconclusive: 1e11 },
  ...{ restart: 0, clean: 0, exempt: 0 },
};

/** Sorts namespaces by the number of denied workloads, in descending order. */
function compareNamespaces(a: ReportNamespace, b: ReportNamespace): number {
  const weight = ({ verdict, workloads, denied }: ReportNamespace): number =>
    WEIGHTS[verdict] + workloads.length * 1e6 + (denied?.restricted ?? 0);
  return weight(b) - weight(a) || (a.name < b.name ? -1 : 1);
}

function NamespaceRow({ namespace }: { readonly namespace: ReportNamespace }) {
  const { name, denied, verdict } = namespace;
  const [text, tone] = VERDICTS[verdict];
  return (
    <tr>
      <th scope="row">{name}</th>
      {LEVELS.map((level) => (
        <td class={cellClass(level, namespace)}>{denied === undefined ? '?' : denied[level]}</td>
      ))}
      <td>
        <Chip tone={tone}>{text}</Chip>
      </td>
    </tr>
  );
}

/** Returns the class for a number. The color scale is logarithmic, with the steps 1, 2 to 4, 5 to 14, and 15 or more. */
function cellClass(level: Level, { denied, current, planned }: ReportNamespace): string {
  const number = denied?.[level];
  const heat = number === undefined ? 'unknown' : `heat-${Math.min(4, Math.ceil(Math.log(number + 1)))}`;
  return `${heat}${level === current ? ' current' : ''}${level === planned ? ' planned' : ''}`;
}
