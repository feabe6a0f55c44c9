/** A value, or why there is none. */
export type Found<T> = { readonly value: T } | { readonly error: string };
