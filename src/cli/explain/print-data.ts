import type { ExplainedObject, Explanation } from './types.ts';

/** For programs: everything that is known. */
export function dataOf({ objects, assumptions }: Explanation): unknown {
  return { objects: objects.map(dataOfObject), assumptions };
}

function dataOfObject({ mode, refusal, decision, sccs, ...object }: ExplainedObject): unknown {
  const { warnings, facts } = decision;
  const message = refusal ?? (decision.allowed ? undefined : decision.status.message);
  return {
    ...object,
    ...mode,
    allowed: refusal === undefined && decision.allowed,
    ...(facts ? { subjectType: facts.subjectType } : {}),
    ...(message === undefined ? {} : { message }),
    warnings,
    sccs,
  };
}
