/** Runs a generator to its end without yielding to other work. Returns its result. */
export function finishSteps<T>(steps: Iterator<unknown, T>): T {
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
  }
}
