/** A value now, or later. What is known now is passed on without waiting, so that most reviews are answered at once. */
export type Later<T> = T | Promise<T>;

/** Goes on with the value as soon as it is there. */
export function andThen<T, U>(value: Later<T>, next: (value: T) => Later<U>): Later<U> {
  return value instanceof Promise ? value.then(next) : next(value);
}
