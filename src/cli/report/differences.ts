/** Compares clusters with a reference cluster. */
import { listSettings } from '../../config/setting-paths.ts';
import { compareBytes } from '../../kube/text.ts';
import type { FleetDifference } from '../../web/fleet-data.ts';
import type { ReportData } from '../../web/report-data.ts';

/** The compared properties of a cluster: values by name. A kind is absent if it was not read or not evaluated. */
export type Traits = Readonly<Partial<Record<DifferenceKind, ReadonlyMap<string, string> | undefined>>>;

type DifferenceKind = FleetDifference['kind'];

/** The value of a property that only one of two clusters has. Levels of namespaces that only one has are not compared. */
const ABSENT: Readonly<Record<DifferenceKind, string>> = {
  setting: 'not set',
  level: '',
  exemption: 'none',
  grant: 'none',
  exception: 'none',
  check: 'passed',
};

const KINDS = Object.keys(ABSENT) as DifferenceKind[];

/** Returns the compared properties of a cluster. */
export function findTraits(report: ReportData): Traits {
  const { spec, rollout, namespaces, exemptions, exceptions, unread } = report;
  const { clusterName: _name, ...settings } = spec ?? {};
  const evaluated = namespaces.filter(({ verdict }) => verdict !== 'inconclusive');
  const denied = evaluated.flatMap(({ workloads }) => workloads.filter(({ verdict }) => verdict !== 'restart'));
  const isExemption = ({ kind }: (typeof exemptions)[number]): boolean => kind !== 'grant' && kind !== 'exception';
  return {
    setting:
      spec &&
      new Map(
        listSettings(settings).map(({ path, value }) => [
          `spec.${path.join('.')}`,
          typeof value === 'string' ? value : JSON.stringify(value),
        ]),
      ),
    level: new Map([
      ['default', rollout.default],
      ...evaluated.map(({ name, current }) => [`namespace ${name}`, current] as const),
    ]),
    exemption: new Map(
      exemptions
        .filter(isExemption)
        .map(({ kind, name, policy, source }) => [`${kind} ${name} from ${policy}`, source]),
    ),
    grant: new Map(
      exemptions
        .filter(({ kind }) => kind === 'grant')
        .map(({ name, scc = '', namespace }) => [
          `SCC ${scc} to ${name}${namespace === undefined ? '' : ` in namespace ${namespace}`}`,
          'granted',
        ]),
    ),
    exception: unread.includes('PodSecurityException')
      ? undefined
      : new Map(
          exceptions.map(({ namespace, name, state, expiresAt, specHash = 'invalid' }) => [
            `${namespace}/${name}`,
            `${state} until ${expiresAt}, spec ${specHash.slice(0, 12)}`,
          ]),
        ),
    check:
      evaluated.length === 0
        ? undefined
        : new Map(denied.flatMap(({ violations }) => violations.map(({ check }) => [check, 'violated'] as const))),
  };
}

interface Compared {
  readonly name: string;
  readonly traits: Traits;
}

/**
 * Returns the differences of all clusters from the reference, and a note for each kind that could not be compared. Of
 * the checks, it returns those that only the other cluster violates.
 */
export function compareClusters(
  reference: Compared,
  others: readonly Compared[],
): { readonly differences: readonly FleetDifference[]; readonly notes: readonly string[] } {
  const differences = new Map<string, FleetDifference & { readonly clusters: string[] }>();
  const notes: string[] = [];
  for (const kind of KINDS) {
    const expected = reference.traits[kind];
    for (const { name: cluster, traits } of others) {
      const actual = traits[kind];
      if (expected && actual) {
        for (const difference of compareTraits(kind, expected, actual)) {
          const key = JSON.stringify(difference);
          const known = differences.get(key);
          if (known) known.clusters.push(cluster);
          else differences.set(key, { ...difference, clusters: [cluster] });
        }
      } else
        notes.push(
          `The ${kind}s of ${expected ? cluster : reference.name} are not compared, because they are not known.`,
        );
    }
  }
  const rank = ({ kind }: FleetDifference): number => KINDS.indexOf(kind);
  return {
    differences: [...differences.values()].toSorted(
      (a, b) => rank(a) - rank(b) || b.clusters.length - a.clusters.length || compareBytes(a.name, b.name),
    ),
    notes: [...new Set(notes)],
  };
}

function compareTraits(
  kind: DifferenceKind,
  expected: ReadonlyMap<string, string>,
  actual: ReadonlyMap<string, string>,
): readonly Omit<FleetDifference, 'clusters'>[] {
  const names =
    kind === 'level'
      ? [...actual.keys()].filter((name) => expected.has(name))
      : kind === 'check'
        ? actual.keys()
        : new Set([...expected.keys(), ...actual.keys()]);
  return [...names].flatMap((name) => {
    const values = { reference: expected.get(name) ?? ABSENT[kind], value: actual.get(name) ?? ABSENT[kind] };
    return values.reference === values.value ? [] : [{ kind, name, ...values }];
  });
}
