/** A value that changes over time. Readers take the current value at each use and may subscribe to changes. */
export interface Observable<T> {
  readonly value: T;
  /** Calls the listener after each change, not with the current value. Returns a function that ends the subscription. */
  subscribe(listener: (value: T) => void): () => void;
}

/** An observable and the means to change it. */
export interface ObservableValue<T> extends Observable<T> {
  /** Replaces the value and calls the listeners. The same value again (`Object.is`) is not a change. */
  set(value: T): void;
}

/**
 * Creates an observable value. An error thrown by a listener is passed to `onError` and does not affect the other
 * listeners or the caller of `set`.
 */
export function createObservable<T>(initial: T, onError: (error: unknown) => void = () => {}): ObservableValue<T> {
  let current = initial;
  const listeners = new Set<(value: T) => void>();
  return {
    get value() {
      return current;
    },
    set(value) {
      if (Object.is(value, current)) return;
      current = value;
      for (const listener of [...listeners]) {
        try {
          listener(value);
        } catch (error) {
          onError(error);
        }
      }
    },
    subscribe(listener) {
      // A wrapper makes each subscription distinct, even if one listener subscribes twice.
      const own = (value: T): void => listener(value);
      listeners.add(own);
      return () => void listeners.delete(own);
    },
  };
}

/** Derives an observable: its value is selected from the source, and listeners are called only if the selection changes. */
export function select<T, U>(source: Observable<T>, project: (value: T) => U): Observable<U> {
  return {
    get value() {
      return project(source.value);
    },
    subscribe(listener) {
      let last = project(source.value);
      return source.subscribe((value) => {
        const next = project(value);
        if (Object.is(next, last)) return;
        last = next;
        listener(next);
      });
    },
  };
}
