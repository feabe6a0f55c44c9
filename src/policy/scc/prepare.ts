import { printFieldError } from '../../kube/field-error.ts';
import { decodeScc, type SccFields } from './decode/scc.ts';
import { needsOf, type Needs } from './needs.ts';
import { scoreOf } from './score.ts';
import { auditKey, deniedText } from './texts.ts';

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
