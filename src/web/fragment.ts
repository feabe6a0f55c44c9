/**
 * Creates the functions that read and write the state of a page in its URL fragment. Fields without a value are absent
 * from the fragment.
 */
export function createFragment<const Field extends string>(fields: readonly Field[]) {
  type State = Readonly<Partial<Record<Field, string>>>;
  return {
    /** Reads a fragment such as `#namespace=shop&check=runAsNonRoot`. */
    parse(fragment: string): State {
      const parameters = new URLSearchParams(fragment.slice(1));
      const entries = fields.flatMap((field) => {
        const value = parameters.get(field);
        return value ? [[field, value] as const] : [];
      });
      return Object.fromEntries(entries) as State;
    },
    /** Returns a URL fragment, including the leading `#`. */
    format(state: State): string {
      const parameters = new URLSearchParams();
      for (const field of fields) if (state[field]) parameters.set(field, state[field]);
      return `#${parameters.toString()}`;
    },
  };
}
