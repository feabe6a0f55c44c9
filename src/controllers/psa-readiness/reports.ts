import type { Cluster } from '../../cluster/port.ts';
import { deepEqual } from '../../kube/equal.ts';
import { ApiError } from '../../kube/status.ts';
import { REPORT_NAME, reportOf, type NamespaceEvaluation } from '../../policy/rollout/readiness.ts';

/** One report for each namespace that violates, where the cluster serves reports. */
export interface Reports {
  /** The namespace has to be looked at; where nothing is to be done that costs nothing. */
  want(name: string): void;
  /** Writes some of what is to be written; true if more is to come. */
  write(cluster: Cluster, current: Current): Promise<boolean>;
  /** Reports may be served by now. */
  lookAgain(): void;
}

interface Current {
  readonly fieldManager: string;
  /** What is known of a namespace now. */
  find(name: string): NamespaceEvaluation | undefined;
  readonly seconds: number;
}

const BATCH = 20;

/** Makes the keeper of reports, which remembers what it has written. */
export function createReports(): Reports {
  const wanted = new Set<string>();
  const written = new Map<string, NamespaceEvaluation>();
  let isServed = true;

  const keep = async (name: string, cluster: Cluster, current: Current): Promise<void> => {
    const found = current.find(name);
    if (found?.verdict === 'violating') {
      if (deepEqual(written.get(name)?.workloads, found.workloads)) return;
      const { fieldManager, seconds } = current;
      await cluster.apply('Report', reportOf(found, { seconds }), { fieldManager, force: true });
      written.set(name, found);
      return;
    }
    // What could not be judged stays as it was.
    if (found?.verdict === 'inconclusive') return;
    await cluster.remove('Report', REPORT_NAME, name);
    written.delete(name);
  };
  return {
    want: (name) => void wanted.add(name),
    lookAgain: () => void (isServed = true),
    async write(cluster, current) {
      if (!isServed) wanted.clear();
      for (const name of [...wanted].slice(0, BATCH)) {
        try {
          await keep(name, cluster, current);
        } catch (error) {
          if (!isRefused(error)) throw error;
          written.delete(name);
          if (isUnserved(error)) isServed = false;
        }
        wanted.delete(name);
        if (!isServed) wanted.clear();
      }
      return wanted.size > 0;
    },
  };
}

function isRefused(error: unknown): error is ApiError {
  return error instanceof ApiError && (error.status.code === 404 || error.status.code === 403);
}

/** An object that is missing is named. Who may not write reports does without. */
function isUnserved({ status }: ApiError): boolean {
  return status.code === 403 || (status.details?.name ?? '') === '';
}
