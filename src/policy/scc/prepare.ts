import { type SccFields, decodeScc } from './decode/scc.ts';
import { GROUPS } from './strategies/groups.ts';
import { RUN_AS_USER } from './strategies/run-as-user.ts';
import { SE_LINUX_CONTEXT } from './strategies/se-linux-context.ts';
import { printFieldError } from '../../kube/field-error.ts';
import { scoreOf } from './score.ts';
import { auditKey, deniedText } from './texts.ts';

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
function needsOf(scc: SccFields, problem: string | undefined): Needs {
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

/** An SCC as decisions use it. At hand lies what is asked of every SCC; `fields` are read of those that are tried. */
export interface PreparedScc {
  readonly name: string;
  readonly users: readonly string[];
  readonly groups: readonly string[];
  /** True if there are users or groups. */
  readonly namesSubjects: boolean;
  readonly fields: SccFields;
  /** The higher, the laxer. */
  readonly score: number;
  readonly needs: Needs;
  /** The key of what the audit log says of it. */
  readonly auditKey: string;
  /** What is said where it may not be used. */
  readonly deniedText: string;
}

const prepared = new WeakMap<object, PreparedScc>();

/** What an SCC amounts to; remembered for as long as the object lives, which must not change. */
export function prepareScc(scc: unknown): PreparedScc {
  if (typeof scc !== 'object' || scc === null) return prepare(scc);
  let known = prepared.get(scc);
  if (known === undefined) prepared.set(scc, (known = prepare(scc)));
  return known;
}

function prepare(scc: unknown): PreparedScc {
  const { fields, error } = decodeScc(scc);
  const { name, users, groups } = fields;
  return {
    name,
    users,
    groups,
    namesSubjects: users.length > 0 || groups.length > 0,
    fields,
    score: scoreOf(fields),
    needs: needsOf(fields, error && printFieldError(error)),
    auditKey: auditKey(name),
    deniedText: deniedText(name),
  };
}
