/** Finds violations that are new or fixed since an earlier report. */
import { readSource } from '../../config/files.ts';
import { isObject } from '../../kube/types.ts';
import { UserError } from '../../kube/user-error.ts';
import type { DeniedWorkload, ReportComparison, ReportData } from '../../web/report-data.ts';

type ComparedReport = Pick<ReportData, 'source' | 'time' | 'namespaces'>;

/** Reads a report that `-o json` wrote. Rejects with a UserError if the file does not contain a report. */
export async function readReport(file: string): Promise<ComparedReport> {
  const { text } = await readSource(file);
  try {
    const report: unknown = JSON.parse(text.replace(/^\ufeff/, ''));
    if (!isObject(report) || typeof report['source'] !== 'string' || typeof report['time'] !== 'string') {
      throw new TypeError('source and time must be strings');
    }
    const read = report as unknown as ComparedReport;
    // Throws a TypeError if the lists have an unexpected form.
    listViolations(read, new Set());
    return read;
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    throw new UserError(`${file} is not the output of portcullis report -o json: ${message}`, { cause: error });
  }
}

/** Compares the violations of denied workloads. Namespaces whose evaluation failed in either report are skipped. */
export function compareReports(before: ComparedReport, after: ComparedReport): ReportComparison {
  const inconclusive = [before, after].flatMap(({ namespaces }) =>
    namespaces.filter(({ verdict }) => verdict === 'inconclusive').map(({ name }) => name),
  );
  const skipped = new Set(inconclusive);
  const [old, current] = [listViolations(before, skipped), listViolations(after, skipped)];
  const added = [...current].filter(([key]) => !old.has(key));
  return {
    source: before.source,
    time: before.time,
    added: groupByWorkload(added),
    fixed: groupByWorkload([...old].filter(([key]) => !current.has(key))),
    unchanged: current.size - added.length,
    skipped: [...skipped].sort(),
  };
}

type Violation = Omit<DeniedWorkload, 'checks'> & { readonly namespace: string; readonly check: string };

/** Returns the violations of denied workloads by namespace, kind, name and check. */
function listViolations({ namespaces }: ComparedReport, skipped: ReadonlySet<string>): ReadonlyMap<string, Violation> {
  return new Map(
    namespaces
      .filter(({ name }) => !skipped.has(name))
      .flatMap(({ name: namespace, workloads }) =>
        workloads
          .filter(({ verdict }) => verdict !== 'restart')
          .flatMap(({ kind, name, violations }) => violations.map(({ check }) => ({ namespace, kind, name, check }))),
      )
      .map((value) => [Object.values(value).join('/'), value]),
  );
}

function groupByWorkload(violations: readonly (readonly [key: string, Violation])[]): ReportComparison['added'] {
  const groups = Map.groupBy(violations, ([, { namespace, kind, name }]) => [namespace, kind, name].join('/'));
  return [...groups.values()].flatMap((group) =>
    group.slice(0, 1).map(([, { namespace, kind, name }]) => {
      return { namespace, kind, name, checks: group.map(([, { check }]) => check) };
    }),
  );
}
