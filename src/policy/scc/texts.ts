import { printFieldError, type FieldError } from '../../kube/field-error.ts';
import { quote } from '../../kube/quote.ts';

/** Said of an SCC that neither the requester nor the service account of the pod may use. */
export function deniedText(sccName: string): string {
  return `provider ${quote(sccName)}: Forbidden: not usable by user or serviceaccount`;
}

/** One thing that an SCC does not allow; paths that begin with a dot are relative to the SCC. */
export function printError(sccName: string, error: FieldError): string {
  const text = printFieldError(error);
  return isRelative(error) ? `provider ${sccName}: ${text}` : text;
}

function isRelative({ path }: FieldError): boolean {
  return path.startsWith('.');
}

/** What is said of one SCC: the errors, and a text for each. */
export interface Said {
  readonly errors: readonly FieldError[];
  texts(): readonly string[];
}

const MAX_COMPARED = 16;

/**
 * What is said of several SCCs, equal texts once. Texts in which the SCC is named can only be equal to others of the same
 * SCC; a few of these are compared with each other, which costs less than to hash them.
 */
export function distinctTexts(said: readonly Said[]): readonly string[] {
  const distinct: string[] = [];
  const seen = new Set<string>();
  for (const { errors, texts } of said) {
    const own = texts();
    for (let index = 0; index < own.length; index++) {
      const text = own[index] ?? '';
      const error = errors[index];
      const isNamed = error === undefined || isRelative(error);
      if (isNamed && own.length <= MAX_COMPARED ? own.indexOf(text) < index : seen.has(text)) continue;
      if (!isNamed || own.length > MAX_COMPARED) seen.add(text);
      distinct.push(text);
    }
  }
  return distinct;
}

/** Several texts as one, as Kubernetes aggregates errors: in brackets if more than one. */
export function aggregate(texts: readonly string[]): string {
  if (texts.length === 0) return '<nil>';
  return texts.length === 1 ? (texts[0] ?? '') : `[${texts.join(', ')}]`;
}

/** Several texts as one, as Go prints a list. */
export function printList(texts: readonly string[]): string {
  return `[${texts.join(' ')}]`;
}
