import type { ExplainedObject, Explanation } from './types.ts';

/** For programs: everything that is known. */
export function dataOf({ objects, assumptions }: Explanation): unknown {
  return { objects: objects.map(dataOfObject), assumptions };
}

function dataOfObject({ mode, decision, sccs, ...object }: ExplainedObject): unknown {
  const { warnings, facts } = decision;
  return {
    ...object,
    ...mode,
    allowed: decision.allowed,
    ...(facts ? { subjectType: facts.subjectType } : {}),
    ...(decision.allowed ? {} : { message: decision.status.message }),
    warnings,
    sccs,
  };
}
