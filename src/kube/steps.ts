/** Runs steps to their end without yielding. Returns their result. */
export function finishSteps<T>(steps: Iterator<unknown, T>): T {
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
  }
}
