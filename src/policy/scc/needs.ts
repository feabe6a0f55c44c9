import type { SccFields } from './decode/scc.ts';
import { GROUPS } from './strategies/groups.ts';
import { RUN_AS_USER } from './strategies/run-as-user.ts';
import { SE_LINUX_CONTEXT } from './strategies/se-linux-context.ts';

/** What an SCC takes from the namespace of the pod, and why it works in none. */
export interface Needs {
  readonly uidRange: boolean;
  readonly seLinuxLevel: boolean;
  readonly fsGroup: boolean;
  readonly supplementalGroups: boolean;
  /** A strategy of an unknown type, or one that lacks options which no namespace fills in. */
  readonly defect: string | undefined;
}

/** `problem` is a field of a wrong type, as a message. */
export function needsOf(scc: SccFields, problem: string | undefined): Needs {
  const { runAsUser, seLinuxContext, fsGroup, supplementalGroups } = scc;
  const needs = {
    uidRange:
      runAsUser.type === 'MustRunAsRange' && runAsUser.uidRangeMin === undefined && runAsUser.uidRangeMax === undefined,
    seLinuxLevel: seLinuxContext.type === 'MustRunAs' && (seLinuxContext.seLinuxOptions?.level ?? '') === '',
    fsGroup: fsGroup.type === 'MustRunAs' && fsGroup.ranges.length === 0,
    supplementalGroups: supplementalGroups.type === 'MustRunAs' && supplementalGroups.ranges.length === 0,
  };
  const defect = problem ?? findDefect(scc, needs);
  return defect === undefined ? shared(needs) : { ...needs, defect };
}

const known = new Map<string, Needs>();

/** Equal needs are the same object: they are asked of every SCC, and there are only a few. */
function shared(needs: Omit<Needs, 'defect'>): Needs {
  const key = Object.values(needs).join();
  let same = known.get(key);
  if (same === undefined) known.set(key, (same = { ...needs, defect: undefined }));
  return same;
}

function findDefect(scc: SccFields, needs: Omit<Needs, 'defect'>): string | undefined {
  return (
    (needs.uidRange ? undefined : defectOf(RUN_AS_USER, scc.runAsUser, 'RunAsUser')) ??
    (needs.seLinuxLevel ? undefined : defectOf(SE_LINUX_CONTEXT, scc.seLinuxContext, 'SELinuxContext')) ??
    (needs.fsGroup ? undefined : defectOf(GROUPS, scc.fsGroup, 'FSGroup')) ??
    (needs.supplementalGroups ? undefined : defectOf(GROUPS, scc.supplementalGroups, 'SupplementalGroups'))
  );
}

function defectOf<Options extends { readonly type: string }>(
  strategies: ReadonlyMap<string, { defect(options: Options): string | undefined }>,
  options: Options,
  name: string,
): string | undefined {
  const strategy = strategies.get(options.type);
  return strategy ? strategy.defect(options) : `Unrecognized ${name} strategy type ${options.type}`;
}
