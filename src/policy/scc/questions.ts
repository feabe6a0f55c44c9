import type { CanUse, SccDecision, Subject } from './types.ts';

/** May the subject use the SCC in the namespace? */
export interface AccessQuestion {
  readonly subject: Subject;
  readonly sccName: string;
  readonly namespaceName: string;
}

/** The answer to a question; `undefined` as long as nobody has asked. */
export type KnownAccess = (question: AccessQuestion) => boolean | undefined;

/** A decision that holds, or what it depends on: at least one question, each once. */
export type Step = { readonly decision: SccDecision } | { readonly questions: readonly AccessQuestion[] };

/**
 * Decides on what is known of access, for authorizers that have to be asked one question at a time. What is not known is
 * taken for a yes at first: so the decision comes to the first SCC that fits, and only whether that one may be used has to
 * be asked, or nothing fits and all has to be asked, since a refusal tells of every SCC whether it may be used.
 */
export function decideOn(decide: (canUse: CanUse) => SccDecision, known: KnownAccess): Step {
  const guessed = new Map<string, AccessQuestion>();
  const decision = decide((subject, sccName, namespaceName) => {
    const question = { subject, sccName, namespaceName };
    const answer = known(question);
    if (answer === undefined) guessed.set(keyOf(question), question);
    return answer ?? true;
  });
  const open = openQuestions(decision, [...guessed.values()]);
  return open.length === 0 ? { decision } : { questions: open };
}

/** Warnings compare SCCs: where there are some, what they say has to be known as well. */
function openQuestions(decision: SccDecision, guessed: readonly AccessQuestion[]): readonly AccessQuestion[] {
  if (!decision.allowed) return guessed;
  const aboutChosen = guessed.filter(({ sccName }) => sccName === decision.facts?.scc);
  return aboutChosen.length === 0 && decision.warnings.length > 0 ? guessed : aboutChosen;
}

/** The same text for the same question, whoever asks. */
export function keyOf({ subject, sccName, namespaceName }: AccessQuestion): string {
  const { username, groups, uid = '', extra = {} } = subject;
  return JSON.stringify([username, uid, groups, extra, sccName, namespaceName]);
}
